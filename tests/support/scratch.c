#include "tests/support/scratch.h"

#include <stdio.h>
#include <stdlib.h>
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
