/*
 * Files and directories for one test, below $TMPDIR: tests/run clears these away, but a test
 * removes its own.
 */
#ifndef TESTS_SUPPORT_SCRATCH_H
#define TESTS_SUPPORT_SCRATCH_H

#include <sys/un.h>

enum { SCRATCH_PATH = 256 };

/* Each makes one, empty and for the owner alone, and fills in its path; they abort on failure. */
void scratch_folder(char path[SCRATCH_PATH]);
/*
 * The same in memory where that is possible, not below $TMPDIR: thousands of fsync() on a disk test
 * nothing more, and other writers to that disk make them slow.
 */
void scratch_memory_folder(char path[SCRATCH_PATH]);
/*
 * The folder takes the place of the build's programs: BERTH_LIBEXECDIR names it, and of these it
 * has berth-looker.
 */
void scratch_programs(const char *folder);
/* Returns a descriptor that reads and writes it. */
int scratch_file(char path[SCRATCH_PATH]);

/* A socket that listens, berth.sock in a folder of its own. */
struct scratch_listener {
	char folder[SCRATCH_PATH];
	struct sockaddr_un address;
	int fd;
};

void scratch_listen(struct scratch_listener *listener);
/* Closes it and removes both. */
void scratch_listen_end(struct scratch_listener *listener);

#endif
