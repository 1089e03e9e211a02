/*
 * A library that a test preloads into a real program, for what no real machine does on demand:
 *
 *   BERTH_CLOCK=FILE       the wall clock is off by the seconds in FILE, a 64-bit number
 *   BERTH_BROKEN=FOLDER    while the file FOLDER/broken exists, writes below FOLDER fail with EIO
 *   BERTH_KILL=NAME=PATH   the process is killed when it is about to put a file NAME in place and
 *                          PATH exists
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define NEXT(type, name) ((type)dlsym(RTLD_NEXT, name))

/* ---- the wall clock -------------------------------------------------------------------------- */

static int64_t offset_s(void)
{
	static const int64_t *shared;
	static bool tried;
	const char *file = getenv("BERTH_CLOCK");
	if (!tried && file) {
		int fd = open(file, O_RDONLY | O_CLOEXEC);
		void *map = fd < 0 ? MAP_FAILED
				   : mmap(NULL, sizeof(*shared), PROT_READ, MAP_SHARED, fd, 0);
		shared = map == MAP_FAILED ? NULL : map;
		if (fd >= 0) {
			close(fd);
		}
	}
	tried = true;
	return shared ? *(const volatile int64_t *)shared : 0;
}

int clock_gettime(clockid_t clock, struct timespec *now)
{
	static int (*next)(clockid_t, struct timespec *);
	next = next ? next : NEXT(int (*)(clockid_t, struct timespec *), "clock_gettime");
	int rc = next(clock, now);
	if (rc == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
		now->tv_sec += offset_s();
	}
	return rc;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone)
{
	struct timespec precise;
	(void)zone;
	int rc = clock_gettime(CLOCK_REALTIME, &precise);
	now->tv_sec = precise.tv_sec;
	now->tv_usec = precise.tv_nsec / 1000;
	return rc;
}

time_t time(time_t *ret_now)
{
	struct timespec now;
	clock_gettime(CLOCK_REALTIME, &now);
	if (ret_now) {
		*ret_now = now.tv_sec;
	}
	return now.tv_sec;
}

/* ---- the disk -------------------------------------------------------------------------------- */

static bool is_broken(int fd)
{
	const char *folder = getenv("BERTH_BROKEN");
	char path[4096];
	char link[64];
	if (!folder) {
		return false;
	}
	int error = errno;
	snprintf(path, sizeof(path), "%s/broken", folder);
	bool broken = access(path, F_OK) == 0;
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	ssize_t len = broken ? readlink(link, path, sizeof(path) - 1) : -1;
	path[len < 0 ? 0 : len] = '\0';
	errno = error;
	return strncmp(path, folder, strlen(folder)) == 0;
}

ssize_t write(int fd, const void *data, size_t len)
{
	static ssize_t (*next)(int, const void *, size_t);
	next = next ? next : NEXT(ssize_t(*)(int, const void *, size_t), "write");
	if (is_broken(fd)) {
		errno = EIO;
		return -1;
	}
	return next(fd, data, len);
}

int fsync(int fd)
{
	static int (*next)(int);
	next = next ? next : NEXT(int (*)(int), "fsync");
	if (is_broken(fd)) {
		errno = EIO;
		return -1;
	}
	return next(fd);
}

/* ---- the end --------------------------------------------------------------------------------- */

static void maybe_die(const char *target)
{
	const char *when = getenv("BERTH_KILL");
	const char *path = when ? strchr(when, '=') : NULL;
	const char *name = strrchr(target, '/');
	name = name ? name + 1 : target;
	if (path && strlen(name) == (size_t)(path - when) &&
		strncmp(name, when, strlen(name)) == 0 && access(path + 1, F_OK) == 0) {
		kill(getpid(), SIGKILL);
	}
}

int renameat(int from_fd, const char *from, int to_fd, const char *to)
{
	static int (*next)(int, const char *, int, const char *);
	next = next ? next : NEXT(int (*)(int, const char *, int, const char *), "renameat");
	maybe_die(to);
	return next(from_fd, from, to_fd, to);
}
