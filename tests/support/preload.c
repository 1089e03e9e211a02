/*
 * A library that a test preloads into a real program, for what no real machine does on demand:
 *
 *   BERTH_CLOCK=FILE       the wall clock is off by the seconds in FILE, a 64-bit number
 *   BERTH_SUSPENDED=FILE   the machine was suspended for the seconds in FILE, a 64-bit number
 *   BERTH_BROKEN=FOLDER    while the file FOLDER/broken exists, writes below FOLDER fail with EIO
 *   BERTH_HANGS=FIFO       while FIFO is there and nobody has it open, fsync() waits for that
 *   BERTH_KILL=NAME=PATH   the program is killed when a process of it is about to put a file NAME
 *                          in place and PATH exists
 *   BERTH_SWAP=PATH=OTHER  when PATH was made by bind() or mkdir(), the owner of its directory
 *                          moves PATH away and OTHER into its place at once
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
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define NEXT(type, name) ((type)dlsym(RTLD_NEXT, name))

/* ---- the clocks ---- */

struct offset {
	const char *name;
	const int64_t *shared;
	bool tried;
};

static int64_t offset_s(struct offset *offset)
{
	const char *file = getenv(offset->name);
	if (!offset->tried && file) {
		int fd = open(file, O_RDONLY | O_CLOEXEC);
		void *map = fd < 0
			? MAP_FAILED
			: mmap(NULL, sizeof(*offset->shared), PROT_READ, MAP_SHARED, fd, 0);
		offset->shared = map == MAP_FAILED ? NULL : map;
		if (fd >= 0) {
			close(fd);
		}
	}
	offset->tried = true;
	return offset->shared ? *(const volatile int64_t *)offset->shared : 0;
}

int clock_gettime(clockid_t clock, struct timespec *now)
{
	static struct offset wall = { .name = "BERTH_CLOCK" };
	static struct offset suspended = { .name = "BERTH_SUSPENDED" };
	static int (*next)(clockid_t, struct timespec *);
	next = next ? next : NEXT(int (*)(clockid_t, struct timespec *), "clock_gettime");
	int rc = next(clock, now);
	if (rc == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
		now->tv_sec += offset_s(&wall) + offset_s(&suspended);
	} else if (rc == 0 && clock == CLOCK_BOOTTIME) {
		now->tv_sec += offset_s(&suspended);
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

/* ---- the disk ---- */

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
	const char *fifo = getenv("BERTH_HANGS");
	int gate = fifo ? open(fifo, O_RDONLY | O_CLOEXEC) : -1;
	if (gate >= 0) {
		close(gate);
	}
	return next(fd);
}

/* ---- the end ---- */

static pid_t program; /* not a child that only works for it */

__attribute__((constructor)) static void note_program(void)
{
	program = getpid();
}

static void maybe_die(const char *target)
{
	const char *when = getenv("BERTH_KILL");
	const char *path = when ? strchr(when, '=') : NULL;
	const char *name = strrchr(target, '/');
	name = name ? name + 1 : target;
	if (path && strlen(name) == (size_t)(path - when) &&
		strncmp(name, when, strlen(name)) == 0 && access(path + 1, F_OK) == 0) {
		kill(program, SIGKILL);
		kill(getpid(), SIGKILL);
	}
}

int rename(const char *from, const char *to)
{
	static int (*next)(const char *, const char *);
	next = next ? next : NEXT(int (*)(const char *, const char *), "rename");
	maybe_die(to);
	return next(from, to);
}

/* ---- an attacker ---- */

/* As the owner of the directory, with the rights of that user alone. */
static void swap(const char *path, const char *other, const char *folder)
{
	char away[4096];
	struct stat status;
	int at = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (at >= 0 && fstat(at, &status) == 0 &&
		setresuid(status.st_uid, status.st_uid, status.st_uid) == 0) {
		snprintf(away, sizeof(away), "%s.away", path);
		rename(path, away);
		rename(other, path);
	}
	_exit(0);
}

static void maybe_swap(const char *path)
{
	const char *what = getenv("BERTH_SWAP");
	const char *other = what ? strchr(what, '=') : NULL;
	char folder[4096];
	if (!other || strlen(path) != (size_t)(other - what) ||
		strncmp(path, what, strlen(path)) != 0) {
		return;
	}
	snprintf(folder, sizeof(folder), "%s", path);
	*strrchr(folder, '/') = '\0';
	pid_t child = fork();
	if (child == 0) {
		swap(path, other + 1, folder);
	}
	waitpid(child, NULL, 0);
}

int bind(int fd, const struct sockaddr *address, socklen_t len)
{
	static int (*next)(int, const struct sockaddr *, socklen_t);
	next = next ? next : NEXT(int (*)(int, const struct sockaddr *, socklen_t), "bind");
	int rc = next(fd, address, len);
	if (rc == 0 && address->sa_family == AF_UNIX) {
		maybe_swap(((const struct sockaddr_un *)address)->sun_path);
	}
	return rc;
}

int mkdir(const char *path, mode_t mode)
{
	static int (*next)(const char *, mode_t);
	next = next ? next : NEXT(int (*)(const char *, mode_t), "mkdir");
	int rc = next(path, mode);
	if (rc == 0) {
		maybe_swap(path);
	}
	return rc;
}
