/*
 * The kernel's table of TCP sockets, from which an upgrade and a drain know what is open: no text
 * crashes its reader, and reading it in pieces, as from a file, gives the same as in one. And a
 * process's line of state: the name in it, which its program chose, changes no field behind it.
 */
#include <assert.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/base/tcp_ports.h"
#include "agent/command/orphans.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static char directory[64];
static char file[96];

static void remove_directory(void)
{
	unlink(file);
	rmdir(directory);
}

static void write_file(const uint8_t *data, size_t len)
{
	if (!*directory) {
		snprintf(directory, sizeof(directory), "/dev/shm/fuzz-proc-XXXXXX");
		assert(mkdtemp(directory));
		snprintf(file, sizeof(file), "%s/tcp", directory);
		atexit(remove_directory);
	}
	int fd = open(file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	assert(fd >= 0 && write(fd, data, len) == (ssize_t)len);
	close(fd);
}

static void read_stat(const char *text)
{
	char *named = NULL;
	/* A name that ends like a line of state without an environment. */
	assert(asprintf(&named, "1 () S 1 1 1 0 0) %s", text) > 0);
	const char *behind = strrchr(text, ')');
	if (behind) {
		assert(command_orphans_stat_has_environment(named) ==
			command_orphans_stat_has_environment(text));
	}
	free(named);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	static struct tcp_ports whole;
	static struct tcp_ports read;
	struct err err = ERR_INIT;
	char *text = strndup((const char *)data, len);
	assert(text);
	read_stat(text);
	memset(&whole, 0, sizeof(whole));
	memset(&read, 0, sizeof(read));
	tcp_ports_add_text(&whole, text);
	write_file(data, len);
	if (len == 0) {
		unlink(file);
		assert(tcp_ports_read(&read, directory, &err) == err.code && err.code);
		free(text);
		return 0;
	}
	assert(tcp_ports_read(&read, directory, &err) == 0);
	/* A file's last line counts only when it is whole, and its lines may hold a NUL. */
	size_t text_len = strlen(text);
	if (text_len == len && len > 0 && text[len - 1] == '\n') {
		assert(memcmp(&whole, &read, sizeof(whole)) == 0);
	}
	free(text);
	return 0;
}
