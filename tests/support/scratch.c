#include "tests/support/scratch.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

static void write_template(char path[SCRATCH_PATH])
{
	const char *parent = getenv("TMPDIR");
	int len = snprintf(path, SCRATCH_PATH, "%s/XXXXXX", parent && *parent ? parent : "/tmp");
	if (len >= SCRATCH_PATH) {
		fprintf(stderr, "TMPDIR is too long: %s\n", parent);
		abort();
	}
}

static void make_folder(char path[SCRATCH_PATH])
{
	if (!mkdtemp(path)) {
		perror(path);
		abort();
	}
}

void scratch_programs(const char *folder)
{
	char program[SCRATCH_PATH + 32];
	char link[SCRATCH_PATH + 32];
	const char *programs = getenv("BERTH_LIBEXECDIR");
	snprintf(program, sizeof(program), "%s/berth-looker", programs ? programs : ".");
	snprintf(link, sizeof(link), "%s/berth-looker", folder);
	if (symlink(program, link) != 0) {
		perror(link);
		abort();
	}
	setenv("BERTH_LIBEXECDIR", folder, 1);
}

void scratch_folder(char path[SCRATCH_PATH])
{
	write_template(path);
	make_folder(path);
}

void scratch_memory_folder(char path[SCRATCH_PATH])
{
	if (access("/dev/shm", W_OK) == 0) {
		snprintf(path, SCRATCH_PATH, "/dev/shm/berth-XXXXXX");
	} else {
		write_template(path);
	}
	make_folder(path);
}

int scratch_file(char path[SCRATCH_PATH])
{
	write_template(path);
	int fd = mkstemp(path);
	if (fd < 0) {
		perror(path);
		abort();
	}
	return fd;
}

void scratch_listen(struct scratch_listener *listener)
{
	struct sockaddr_un *address = &listener->address;
	scratch_folder(listener->folder);
	address->sun_family = AF_UNIX;
	snprintf(
		address->sun_path, sizeof(address->sun_path), "%.90s/berth.sock", listener->folder);
	listener->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (bind(listener->fd, (struct sockaddr *)address, sizeof(*address)) != 0 ||
		listen(listener->fd, 8) != 0) {
		perror(address->sun_path);
		abort();
	}
}

void scratch_listen_end(struct scratch_listener *listener)
{
	close(listener->fd);
	unlink(listener->address.sun_path);
	rmdir(listener->folder);
}
