/*
 * The kernel's table of TCP sockets, from which an upgrade and a drain know what is open: no text
 * crashes its reader, and reading it in pieces, as from a file, gives the same as in one.
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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	static struct tcp_ports whole;
	static struct tcp_ports read;
	struct err err = ERR_INIT;
	char *text = strndup((const char *)data, len);
	assert(text);
	memset(&whole, 0, sizeof(whole));
	memset(&read, 0, sizeof(read));
	tcp_ports_add_text(&whole, text);
	write_file(data, len);
	assert(tcp_ports_read(&read, directory, &err) == 0);
	/* A file's last line counts only when it is whole, and its lines may hold a NUL. */
	size_t text_len = strlen(text);
	if (text_len == len && len > 0 && text[len - 1] == '\n') {
		assert(memcmp(&whole, &read, sizeof(whole)) == 0);
	}
	free(text);
	return 0;
}
