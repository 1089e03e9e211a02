/*
 * Descriptors of simulated processes: they are the kernel's, and the simulation remembers whose
 * they are. Nothing is forced to the disk, which only costs time.
 */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
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
static int highest = -1; /* that was ever owned */

static int own(long fd)
{
	if (fd >= 0 && fd < MOST_FILES) {
		owners[fd] = process_current();
		highest = fd > highest ? (int)fd : highest;
	}
	return (int)fd;
}

static void disown(int fd)
{
	if (fd >= 0 && fd < MOST_FILES) {
		owners[fd] = NULL;
	}
	process_acts();
}

/* ---- for the simulation ---- */

static void close_those(const struct process *process, bool on_exec)
{
	for (int fd = 0; fd <= highest; fd++) {
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
	for (int fd = 0; fd <= highest; fd++) {
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
	disown(fd);
	return (int)syscall(SYS_close, fd);
}

int closedir(DIR *folder)
{
	static int (*original)(DIR * folder);
	if (!original) {
		*(void **)&original = dlsym(RTLD_NEXT, "closedir");
	}
	disown(dirfd(folder));
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

ssize_t send(int fd, const void *data, size_t len, int flags)
{
	process_acts();
	return syscall(SYS_sendto, fd, data, len, flags, NULL, 0);
}

ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
	process_acts();
	return syscall(SYS_sendmsg, fd, message, flags);
}

int shutdown(int fd, int how)
{
	process_acts();
	return (int)syscall(SYS_shutdown, fd, how);
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

/* ---- what all of them share ---- */

/* The machine's addresses are the same everywhere, and no question for the kernel. */
int getifaddrs(struct ifaddrs **ret_list)
{
	static struct sockaddr_in address = { .sin_family = AF_INET };
	static struct ifaddrs only = {
		.ifa_name = (char *)(uintptr_t) "eth0",
		.ifa_flags = IFF_UP | IFF_RUNNING,
		.ifa_addr = (struct sockaddr *)&address,
	};
	address.sin_addr.s_addr = htonl(0x0a090807);
	*ret_list = &only;
	return 0;
}

void freeifaddrs(struct ifaddrs *list)
{
	(void)list;
}

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
