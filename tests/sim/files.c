/*
 * Descriptors of simulated processes: they are the kernel's, and the simulation remembers whose
 * they are. Nothing is forced to the disk, which only costs time.
 */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "tests/sim/process.h"
#include "tests/sim/sim.h"

enum { MOST_FILES = 1024 };

static const struct process *owners[MOST_FILES];

static int own(long fd)
{
	if (fd >= 0 && fd < MOST_FILES) {
		owners[fd] = process_current();
	}
	return (int)fd;
}

/* ---- for the simulation ---- */

static void close_those(const struct process *process, bool on_exec)
{
	for (int fd = 0; fd < MOST_FILES; fd++) {
		if (owners[fd] != process) {
			continue;
		}
		if (!on_exec || (syscall(SYS_fcntl, fd, F_GETFD) & FD_CLOEXEC)) {
			close(fd);
		}
	}
}

void files_close_all(const struct process *process)
{
	close_those(process, false);
}

void files_close_on_exec(const struct process *process)
{
	close_those(process, true);
}

int files_count(const struct process *process)
{
	int count = 0;
	for (int fd = 0; fd < MOST_FILES; fd++) {
		count += owners[fd] == process;
	}
	return count;
}

/* ---- what the agent calls ---- */

int open(const char *path, int flags, ...)
{
	va_list arguments;
	va_start(arguments, flags);
	unsigned mode = va_arg(arguments, unsigned);
	va_end(arguments);
	return own(syscall(SYS_openat, AT_FDCWD, path, flags, mode));
}

int openat(int folder, const char *path, int flags, ...)
{
	va_list arguments;
	va_start(arguments, flags);
	unsigned mode = va_arg(arguments, unsigned);
	va_end(arguments);
	return own(syscall(SYS_openat, folder, path, flags, mode));
}

int close(int fd)
{
	if (fd >= 0 && fd < MOST_FILES) {
		owners[fd] = NULL;
	}
	return (int)syscall(SYS_close, fd);
}

int closedir(DIR *folder)
{
	static int (*original)(DIR * folder);
	if (!original) {
		*(void **)&original = dlsym(RTLD_NEXT, "closedir");
	}
	int fd = dirfd(folder);
	if (fd >= 0 && fd < MOST_FILES) {
		owners[fd] = NULL;
	}
	return original(folder);
}

int socket(int domain, int type, int protocol)
{
	return own(syscall(SYS_socket, domain, type, protocol));
}

int accept4(int fd, struct sockaddr *restrict address, socklen_t *restrict len, int flags)
{
	return own(syscall(SYS_accept4, fd, address, len, flags));
}

int eventfd(unsigned value, int flags)
{
	return own(syscall(SYS_eventfd2, value, flags));
}

int epoll_create1(int flags)
{
	return own(syscall(SYS_epoll_create1, flags));
}

int memfd_create(const char *name, unsigned flags)
{
	return own(syscall(SYS_memfd_create, name, flags));
}

int pipe2(int fds[2], int flags)
{
	int code = (int)syscall(SYS_pipe2, fds, flags);
	if (code == 0) {
		own(fds[0]);
		own(fds[1]);
	}
	return code;
}

/* libev then looks for jumps of the wall clock by itself. */
int timerfd_create(int clock, int flags)
{
	(void)clock;
	(void)flags;
	errno = ENOSYS;
	return -1;
}

int fsync(int fd)
{
	(void)fd;
	return 0;
}

/* ---- the environment, which all of them share ---- */

int setenv(const char *name, const char *value, int replace)
{
	static int (*original)(const char *name, const char *value, int replace);
	struct process *process = process_pause();
	if (!original) {
		*(void **)&original = dlsym(RTLD_NEXT, "setenv");
	}
	int code = original(name, value, replace);
	process_resume(process);
	return code;
}
