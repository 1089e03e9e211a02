/*
 * Descriptors of simulated processes: those of files and of Internet sockets are the kernel's, and
 * the simulation remembers whose they are; sockets.c has the others. Nothing is forced to the disk,
 * which only costs time.
 */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "agent/base/address_news.h"
#include "agent/base/own_addresses.h"
#include "lib/base/array.h"
#include "tests/sim/process.h"
#include "tests/sim/sim.h"
#include "tests/sim/sockets.h"

enum { MOST_FILES = SOCKETS_FIRST };

/* Memory that a process shares by a file, as long as it is mapped. */
struct mapping {
	struct process *owner; /* NULL: free */
	void *memory;
	size_t bytes;
};

enum { MOST_MAPPINGS = 64 };

static struct mapping mappings[MOST_MAPPINGS];
static struct process *owners[MOST_FILES];
static bool is_inotify[MOST_FILES];
static bool changed;
/* Of a descriptor of the kernel's: which epoll watches it, with which data. */
static struct {
	int epoll; /* 0: none */
	epoll_data_t data;
} watchers[MOST_FILES];
static int highest = -1; /* that was ever owned */

static int own(long fd)
{
	if (fd >= 0 && fd < MOST_FILES) {
		process_count_descriptor(owners[fd], -1);
		process_count_descriptor(process_current(), 1);
		owners[fd] = process_current();
		highest = fd > highest ? (int)fd : highest;
	}
	return (int)fd;
}

static void disown(int fd)
{
	if (fd >= 0 && fd < MOST_FILES) {
		process_count_descriptor(owners[fd], -1);
		owners[fd] = NULL;
		is_inotify[fd] = false;
		watchers[fd].epoll = 0;
	}
	process_acts();
}

/* ---- for the simulation ---- */

int files_own(int fd)
{
	return own(fd);
}

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

static void unmap_those(const struct process *process)
{
	for (struct mapping *at = mappings; at < mappings + MOST_MAPPINGS; at++) {
		if (at->owner == process) {
			at->owner = NULL;
			syscall(SYS_munmap, at->memory, at->bytes);
		}
	}
}

void files_close_all(const struct process *process)
{
	unmap_those(process);
	sockets_close_all(process, false);
	close_those(process, false);
}

void files_close_on_exec(const struct process *process)
{
	unmap_those(process);
	sockets_close_all(process, true);
	close_those(process, true);
}

bool files_is_watched(int inner, int outer, epoll_data_t *ret_data)
{
	if (inner < 0 || inner >= MOST_FILES || watchers[inner].epoll != outer) {
		return false;
	}
	*ret_data = watchers[inner].data;
	return true;
}

void files_change(void)
{
	changed = true;
}

bool files_have_changed(void)
{
	bool was_changed = changed;
	changed = false;
	return was_changed;
}

bool files_have_news(const struct process *process)
{
	for (int fd = 0; fd <= highest; fd++) {
		int bytes = 0;
		if (is_inotify[fd] && owners[fd] == process &&
			syscall(SYS_ioctl, fd, FIONREAD, &bytes) == 0 && bytes > 0) {
			return true;
		}
	}
	return false;
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
	return sockets_has(fd) ? sockets_close(fd) : (int)syscall(SYS_close, fd);
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

ssize_t read(int fd, void *data, size_t size)
{
	return sockets_has(fd) ? sockets_read(fd, data, size) : syscall(SYS_read, fd, data, size);
}

ssize_t write(int fd, const void *data, size_t len)
{
	return sockets_has(fd) ? sockets_write(fd, data, len) : syscall(SYS_write, fd, data, len);
}

int fcntl(int fd, int command, ...)
{
	va_list arguments;
	va_start(arguments, command);
	long argument = va_arg(arguments, long);
	va_end(arguments);
	if (sockets_has(fd)) {
		return sockets_control(fd, command, argument);
	}
	long value = syscall(SYS_fcntl, fd, command, argument);
	return command == F_DUPFD_CLOEXEC ? own(value) : (int)value;
}

/* ---- sockets ---- */

int socket(int domain, int type, int protocol)
{
	return domain == AF_UNIX && (type & SOCK_STREAM)
		? sockets_open((type & SOCK_CLOEXEC) != 0)
		: own(syscall(SYS_socket, domain, type, protocol));
}

int bind(int fd, const struct sockaddr *address, socklen_t len)
{
	return sockets_has(fd) ? sockets_bind(fd, address, len)
			       : (int)syscall(SYS_bind, fd, address, len);
}

int listen(int fd, int backlog)
{
	return sockets_has(fd) ? sockets_listen(fd) : (int)syscall(SYS_listen, fd, backlog);
}

int connect(int fd, const struct sockaddr *address, socklen_t len)
{
	return sockets_has(fd) ? sockets_connect(fd, address)
			       : (int)syscall(SYS_connect, fd, address, len);
}

int accept4(int fd, struct sockaddr *restrict address, socklen_t *restrict len, int flags)
{
	return sockets_has(fd) ? sockets_accept(fd, (flags & SOCK_CLOEXEC) != 0)
			       : own(syscall(SYS_accept4, fd, address, len, flags));
}

ssize_t recv(int fd, void *data, size_t size, int flags)
{
	return sockets_has(fd) ? sockets_read(fd, data, size)
			       : syscall(SYS_recvfrom, fd, data, size, flags, NULL, NULL);
}

ssize_t send(int fd, const void *data, size_t len, int flags)
{
	process_acts();
	return sockets_has(fd) ? sockets_write(fd, data, len)
			       : syscall(SYS_sendto, fd, data, len, flags, NULL, 0);
}

static void pass_descriptors(int fd, const struct msghdr *message)
{
	const struct cmsghdr *part = CMSG_FIRSTHDR(message);
	int descriptor;
	if (part && part->cmsg_level == SOL_SOCKET && part->cmsg_type == SCM_RIGHTS) {
		memcpy(&descriptor, CMSG_DATA(part), sizeof(descriptor));
		sockets_pass(fd, descriptor);
	}
}

static ssize_t send_parts(int fd, const struct msghdr *message)
{
	ssize_t sent = 0;
	pass_descriptors(fd, message);
	for (size_t i = 0; i < message->msg_iovlen; i++) {
		const struct iovec *part = &message->msg_iov[i];
		ssize_t more = sockets_write(fd, part->iov_base, part->iov_len);
		if (more < 0) {
			return sent > 0 ? sent : -1;
		}
		sent += more;
		if ((size_t)more < part->iov_len) {
			break;
		}
	}
	return sent;
}

ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
	process_acts();
	return sockets_has(fd) ? send_parts(fd, message) : syscall(SYS_sendmsg, fd, message, flags);
}

int shutdown(int fd, int how)
{
	process_acts();
	return sockets_has(fd) ? sockets_end_writing(fd) : (int)syscall(SYS_shutdown, fd, how);
}

int getsockopt(int fd, int level, int option, void *restrict value, socklen_t *restrict len)
{
	return sockets_has(fd) ? sockets_get_option(fd, option, value, len)
			       : (int)syscall(SYS_getsockopt, fd, level, option, value, len);
}

int pipe2(int fds[2], int flags)
{
	return sockets_pipe(fds, (flags & O_CLOEXEC) != 0);
}

int eventfd(unsigned value, int flags)
{
	return sockets_counter(value, (flags & EFD_CLOEXEC) != 0);
}

/* ---- other descriptors ---- */

int epoll_ctl(int epoll, int operation, int fd, struct epoll_event *event)
{
	if (!sockets_has(fd)) {
		if (fd >= 0 && fd < MOST_FILES) {
			watchers[fd].epoll = operation == EPOLL_CTL_DEL ? 0 : epoll;
			watchers[fd].data = event ? event->data : (epoll_data_t){ 0 };
		}
		return (int)syscall(SYS_epoll_ctl, epoll, operation, fd, event);
	}
	sockets_watch(epoll, fd, operation == EPOLL_CTL_DEL ? 0 : event->events,
		operation == EPOLL_CTL_DEL ? (epoll_data_t){ 0 } : event->data);
	return 0;
}

int epoll_create1(int flags)
{
	return own(syscall(SYS_epoll_create1, flags));
}

int inotify_init1(int flags)
{
	int fd = own(syscall(SYS_inotify_init1, flags));
	if (fd >= 0 && fd < MOST_FILES) {
		is_inotify[fd] = true;
	}
	return fd;
}

/* A child would take the kernel's time, not the agent's. */
void __wrap_late_close(int fd);
void __wrap_late_close(int fd)
{
	close(fd);
}

/* The agent does the work of such a child alone. */
pid_t __wrap_fork(void);
pid_t __wrap_fork(void)
{
	errno = EAGAIN;
	return -1;
}

/* Calls for which libc has no function; of these one opens a file. */
long __wrap_syscall(long number, ...);
long __wrap_syscall(long number, ...)
{
	va_list arguments;
	long values[6];
	va_start(arguments, number);
	for (size_t i = 0; i < ARRAY_LEN(values); i++) {
		values[i] = va_arg(arguments, long);
	}
	va_end(arguments);
	long result = syscall(
		number, values[0], values[1], values[2], values[3], values[4], values[5]);
	return number == SYS_openat2 ? own(result) : result;
}

int memfd_create(const char *name, unsigned flags)
{
	return own(syscall(SYS_memfd_create, name, flags));
}

void *mmap(void *near, size_t bytes, int protection, int flags, int fd, off_t offset)
{
	void *memory = (void *)syscall(SYS_mmap, near, bytes, protection, flags, fd, offset);
	for (int i = 0; i < MOST_MAPPINGS && process_current() && (flags & MAP_SHARED); i++) {
		if (!mappings[i].owner && memory != MAP_FAILED) {
			mappings[i] = (struct mapping){ process_current(), memory, bytes };
			break;
		}
	}
	return memory;
}

int munmap(void *memory, size_t bytes)
{
	for (struct mapping *at = mappings; at < mappings + MOST_MAPPINGS; at++) {
		if (at->owner && at->memory == memory) {
			at->owner = NULL;
		}
	}
	return (int)syscall(SYS_munmap, memory, bytes);
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

/* The machine's addresses are the same everywhere, never change, and no question for the kernel. */
void __wrap_own_addresses_read(struct own_addresses *ret_addresses);
void __wrap_own_addresses_finish(struct own_addresses *addresses);
void __wrap_address_news_start(struct address_news *news, struct ev_loop *loop);

void __wrap_own_addresses_read(struct own_addresses *ret_addresses)
{
	static struct own_address only = {
		.interface = "eth0", .family = AF_INET, .text = "10.9.8.7", .public = true
	};
	*ret_addresses = (struct own_addresses){ .items = &only, .count = 1 };
}

void __wrap_own_addresses_finish(struct own_addresses *addresses)
{
	*addresses = (struct own_addresses){ 0 };
}

void __wrap_address_news_start(struct address_news *news, struct ev_loop *loop)
{
	(void)news;
	(void)loop;
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
