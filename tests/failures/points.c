/* See points.h. */
#include "tests/failures/points.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <link.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <netdb.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/base/array.h"

#define PUBLIC __attribute__((visibility("default")))

enum kind {
	ALLOC,
	OPEN,
	READ,
	WRITE,
	CLOSE,
	FSYNC,
	RENAME,
	MKDIR,
	UNLINK,
	STAT,
	READDIR,
	LOCK,
	CHMOD,
	SOCKET,
	BIND,
	LISTEN,
	CONNECT,
	ACCEPT,
	SEND,
	RECEIVE,
	OPTION,
	PIPE,
	SPAWN,
	FORK,
	EXEC,
	WAIT,
	EPOLL,
	EPOLL_WAIT,
	POLL,
	INOTIFY,
	EVENT_FD,
	MAP,
	RANDOM,
	LOOKUP,
	LIMIT,
	KINDS
};

static const char names[KINDS][POINTS_NAME_BYTES] = {
	[ALLOC] = "alloc",
	[OPEN] = "open",
	[READ] = "read",
	[WRITE] = "write",
	[CLOSE] = "close",
	[FSYNC] = "fsync",
	[RENAME] = "rename",
	[MKDIR] = "mkdir",
	[UNLINK] = "unlink",
	[STAT] = "stat",
	[READDIR] = "readdir",
	[LOCK] = "lock",
	[CHMOD] = "chmod",
	[SOCKET] = "socket",
	[BIND] = "bind",
	[LISTEN] = "listen",
	[CONNECT] = "connect",
	[ACCEPT] = "accept",
	[SEND] = "send",
	[RECEIVE] = "receive",
	[OPTION] = "sockopt",
	[PIPE] = "pipe",
	[SPAWN] = "spawn",
	[FORK] = "fork",
	[EXEC] = "exec",
	[WAIT] = "wait",
	[EPOLL] = "epoll",
	[EPOLL_WAIT] = "epoll_wait",
	[POLL] = "poll",
	[INOTIFY] = "inotify",
	[EVENT_FD] = "eventfd",
	[MAP] = "mmap",
	[RANDOM] = "random",
	[LOOKUP] = "lookup",
	[LIMIT] = "limit",
};

static struct points_page *page;
static bool counting;
static bool one_thread; /* calls of the others pass on, and are not counted */
static __thread bool is_that_thread __attribute__((tls_model("initial-exec")));
static pid_t (*real_vfork)(void);

/* ---- the page ---- */

static void name_kinds(void)
{
	memcpy(page->names, names, sizeof(names));
}

/* The first call loads a library, which is not one of the program's own allocations. */
static void begin_counting(void)
{
	void *frame;
	backtrace(&frame, 1);
	counting = true;
}

struct points_page *points_page_create(const char *program)
{
	page = mmap(NULL, sizeof(*page), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (page == MAP_FAILED) {
		abort();
	}
	page->kind = POINTS_NONE;
	snprintf(page->program, sizeof(page->program), "%s", program);
	name_kinds();
	one_thread = true;
	is_that_thread = true;
	begin_counting();
	return page;
}

__attribute__((constructor)) static void begin(void)
{
	*(void **)&real_vfork = dlsym(RTLD_NEXT, "vfork");
	const char *path = getenv(POINTS_VARIABLE);
	int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
	if (fd < 0) {
		return;
	}
	void *mapped = mmap(NULL, sizeof(*page), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (mapped == MAP_FAILED) {
		return;
	}
	page = mapped;
	name_kinds();
	if (strcmp(program_invocation_short_name, page->program) == 0) {
		page->live = 0; /* exec() forgets what there was */
		begin_counting();
	}
}

static void describe_frames(void)
{
	void *addresses[POINTS_FRAMES_MAX + 2];
	int count = backtrace(addresses, POINTS_FRAMES_MAX + 2);
	uint32_t used = 0;
	for (int i = 2; i < count; i++) {
		Dl_info info;
		if (!dladdr(addresses[i], &info) || !info.dli_fname) {
			continue;
		}
		const char *module = strrchr(info.dli_fname, '/');
		snprintf(page->frames[used++], POINTS_PLACE_BYTES, "%s+%#lx",
			module ? module + 1 : info.dli_fname,
			(unsigned long)((char *)addresses[i] - (char *)info.dli_fbase) - 1);
	}
	page->frame_count = used;
}

/* ---- stacks ---- */

static uint32_t hash_stack(void)
{
	enum { DEPTH = 48, OURS = 1 };
	void *addresses[DEPTH];
	int count = backtrace(addresses, DEPTH);
	uint32_t hash = 2166136261U;
	for (int i = OURS; i < count; i++) {
		struct dl_find_object module;
		uintptr_t place = (uintptr_t)addresses[i];
		if (_dl_find_object(addresses[i], &module) == 0) {
			place -= (uintptr_t)module.dlfo_link_map->l_addr;
		}
		hash = (hash ^ (uint32_t)place) * 16777619U;
	}
	return hash ? hash : 1;
}

static struct points_call *note(enum kind kind, uint32_t stack)
{
	uint32_t at = __atomic_fetch_add(&page->call_count, 1, __ATOMIC_RELAXED);
	if (at >= POINTS_CALLS_MAX) {
		return NULL;
	}
	page->calls[at] = (struct points_call){ .stack = stack, .kind = (uint16_t)kind };
	return &page->calls[at];
}

/* ---- a fork without memory ---- */

#define ALLOW(call)                                                                                \
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_##call, 0, 1),                                     \
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)

/* Memory, a line on stderr, and abort(): nothing that the parent or others see. */
static void confine(void)
{
	static struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		ALLOW(brk),
		ALLOW(mmap),
		ALLOW(munmap),
		ALLOW(mremap),
		ALLOW(mprotect),
		ALLOW(madvise),
		ALLOW(clock_gettime),
		ALLOW(getpid),
		ALLOW(gettid),
		ALLOW(tgkill),
		ALLOW(rt_sigprocmask),
		ALLOW(rt_sigaction),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_write, 0, 3),
		/* the lower half of a number that has no upper half */
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, STDERR_FILENO, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
	};
	struct sock_fprog program = { ARRAY_LEN(filter), filter };
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
		prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) < 0) {
		_exit(1);
	}
}

static void begin_probe(int said)
{
	counting = false; /* the page is the parent's too */
	prctl(PR_SET_DUMPABLE, 0);
	struct rlimit seconds = { 1, 2 };
	syscall(SYS_prlimit64, 0, RLIMIT_CPU, &seconds, NULL);
	syscall(SYS_dup3, said, STDERR_FILENO, 0);
	confine();
}

static enum points_outcome judge_probe(int status, int said)
{
	bool aborted = WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
	return aborted && syscall(SYS_lseek, said, 0, SEEK_END) > 0 ? POINTS_ENDS : POINTS_GOES_ON;
}

/* True in the fork. Its end sends no signal, and no waitpid() of the program's own sees it. */
static bool begins_probe(struct points_call *call)
{
	int error = errno;
	int said = (int)syscall(SYS_memfd_create, "said", MFD_CLOEXEC);
	pid_t child = (pid_t)syscall(SYS_clone, 0, NULL, NULL, NULL, 0);
	if (child == 0) {
		begin_probe(said);
		errno = ENOMEM;
		return true;
	}
	int status = 0;
	while (child > 0 && syscall(SYS_wait4, child, &status, __WCLONE, NULL) < 0 &&
		errno == EINTR) {
	}
	call->outcome = (uint16_t)(child > 0 ? judge_probe(status, said) : POINTS_GOES_ON);
	syscall(SYS_close, said);
	errno = error;
	return false;
}

/* ---- the calls ---- */

/* Whether this call is the one; then errno says why it fails. */
static bool is_due(enum kind kind, uint32_t stack)
{
	return page->kind == (uint32_t)kind && !page->fired &&
		(page->stack == 0 || page->stack == stack) &&
		__atomic_add_fetch(&page->seen, 1, __ATOMIC_RELAXED) == page->number;
}

static __attribute__((noinline)) bool fails(enum kind kind)
{
	if (!counting || (one_thread && !is_that_thread)) {
		return false;
	}
	__atomic_add_fetch(&page->counts[kind], 1, __ATOMIC_RELAXED);
	bool told_apart = page->tracing ||
		(page->kind == (uint32_t)kind && page->stack != 0 && !page->fired);
	uint32_t stack = told_apart ? hash_stack() : 0;
	struct points_call *call = page->tracing ? note(kind, stack) : NULL;
	if (call && page->probing && kind == ALLOC && begins_probe(call)) {
		return true;
	}
	if (!is_due(kind, stack)) {
		return false;
	}
	page->fired = 1;
	describe_frames();
	errno = page->error;
	return page->error != POINTS_SHORT;
}

/* ---- allocations ---- */

/* A sanitizer's own take precedence over libc's. */
extern void *__interceptor_malloc(size_t size) __attribute__((weak));
extern void *__interceptor_calloc(size_t count, size_t size) __attribute__((weak));
extern void *__interceptor_realloc(void *old, size_t size) __attribute__((weak));
extern void __interceptor_free(void *memory) __attribute__((weak));
extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *old, size_t size);
extern void __libc_free(void *memory);

/* The loader keeps what it allocates. */
PUBLIC const char *__lsan_default_suppressions(void)
{
	return "leak:dl_open_worker_begin\n";
}

PUBLIC const char *__lsan_default_options(void)
{
	return "print_suppressions=0";
}

static void *counted(void *memory)
{
	if (memory && counting) {
		__atomic_add_fetch(&page->live, 1, __ATOMIC_RELAXED);
	}
	return memory;
}

PUBLIC void *malloc(size_t size)
{
	if (fails(ALLOC)) {
		return NULL;
	}
	return counted(__interceptor_malloc ? __interceptor_malloc(size) : __libc_malloc(size));
}

PUBLIC void *calloc(size_t count, size_t size)
{
	if (fails(ALLOC)) {
		return NULL;
	}
	return counted(__interceptor_calloc ? __interceptor_calloc(count, size)
					    : __libc_calloc(count, size));
}

PUBLIC void *realloc(void *old, size_t size)
{
	if (fails(ALLOC)) {
		return NULL;
	}
	void *memory = __interceptor_realloc ? __interceptor_realloc(old, size)
					     : __libc_realloc(old, size);
	return old ? memory : counted(memory);
}

PUBLIC void free(void *memory)
{
	if (memory && counting) {
		__atomic_sub_fetch(&page->live, 1, __ATOMIC_RELAXED);
	}
	if (__interceptor_free) {
		__interceptor_free(memory);
	} else {
		__libc_free(memory);
	}
}

/* For a coverage build: it writes its counts when the program has ended. */
PUBLIC void points_stop(void)
{
	counting = false;
}

/* ---- system calls ---- */

#define REAL(name)                                                                                 \
	static __typeof__(name) *real;                                                             \
	if (!real) {                                                                               \
		*(void **)&real = dlsym(RTLD_NEXT, #name);                                         \
	}

#define FAILING(kind, type, bad, name, parameters, arguments)                                      \
	PUBLIC type name parameters                                                                \
	{                                                                                          \
		REAL(name)                                                                         \
		return fails(kind) ? (bad) : real arguments;                                       \
	}

enum { EVENTS_MAX = 1024 };
static bool is_event_fd[EVENTS_MAX];

/* An eventfd: the kernel has no reason to refuse one. */
static bool is_event(int fd)
{
	return fd >= 0 && fd < EVENTS_MAX && is_event_fd[fd];
}

static void note_event(int fd, bool event)
{
	if (fd >= 0 && fd < EVENTS_MAX) {
		is_event_fd[fd] = event;
	}
}

/* Half of what was asked for, but not nothing. */
static size_t less(size_t count)
{
	return count > 1 ? count / 2 : count;
}

#define TRANSFER(kind, skip, name, parameters, arguments, count)                                   \
	PUBLIC ssize_t name parameters                                                             \
	{                                                                                          \
		REAL(name)                                                                         \
		if (skip) {                                                                        \
			return real arguments;                                                     \
		}                                                                                  \
		uint32_t fired = page ? page->fired : 0;                                           \
		if (fails(kind)) {                                                                 \
			return -1;                                                                 \
		}                                                                                  \
		if (counting && page->fired != fired && page->error == POINTS_SHORT) {             \
			count = less(count);                                                       \
		}                                                                                  \
		return real arguments;                                                             \
	}

#define OPENING(name, parameters, last, arguments)                                                 \
	PUBLIC int name parameters                                                                 \
	{                                                                                          \
		REAL(name)                                                                         \
		mode_t mode = 0;                                                                   \
		if (last & (O_CREAT | O_TMPFILE)) {                                                \
			va_list rest;                                                              \
			va_start(rest, last);                                                      \
			mode = va_arg(rest, mode_t);                                               \
			va_end(rest);                                                              \
		}                                                                                  \
		return fails(OPEN) ? -1 : real arguments;                                          \
	}

extern int __poll_chk(struct pollfd *fds, nfds_t count, int timeout_ms, size_t room);
extern ssize_t __read_chk(int fd, void *bytes, size_t count, size_t room);
extern int __open_2(const char *path, int flags);
extern int __openat_2(int folder, const char *path, int flags);

OPENING(open, (const char *path, int flags, ...), flags, (path, flags, mode))
OPENING(openat, (int folder, const char *path, int flags, ...), flags, (folder, path, flags, mode))
FAILING(OPEN, int, -1, __open_2, (const char *path, int flags), (path, flags))
FAILING(OPEN, int, -1, __openat_2, (int folder, const char *path, int flags), (folder, path, flags))
FAILING(OPEN, FILE *, NULL, fopen, (const char *path, const char *mode), (path, mode))
FAILING(OPEN, DIR *, NULL, opendir, (const char *path), (path))
FAILING(OPEN, DIR *, NULL, fdopendir, (int fd), (fd))
FAILING(OPEN, int, -1, memfd_create, (const char *name, unsigned flags), (name, flags))
FAILING(READDIR, struct dirent *, NULL, readdir, (DIR * folder), (folder))

TRANSFER(READ, is_event(fd), read, (int fd, void *bytes, size_t count), (fd, bytes, count), count)
TRANSFER(WRITE, is_event(fd), write, (int fd, const void *bytes, size_t count), (fd, bytes, count),
	count)
TRANSFER(READ, false, pread, (int fd, void *bytes, size_t count, off_t at), (fd, bytes, count, at),
	count)
TRANSFER(READ, false, __read_chk, (int fd, void *bytes, size_t count, size_t room),
	(fd, bytes, count, room), count)
TRANSFER(WRITE, false, pwrite, (int fd, const void *bytes, size_t count, off_t at),
	(fd, bytes, count, at), count)
TRANSFER(SEND, false, send, (int fd, const void *bytes, size_t count, int flags),
	(fd, bytes, count, flags), count)
TRANSFER(RECEIVE, false, recv, (int fd, void *bytes, size_t count, int flags),
	(fd, bytes, count, flags), count)
FAILING(SEND, ssize_t, -1, sendmsg, (int fd, const struct msghdr *message, int flags),
	(fd, message, flags))
FAILING(RECEIVE, ssize_t, -1, recvmsg, (int fd, struct msghdr *message, int flags),
	(fd, message, flags))

FAILING(FSYNC, int, -1, fsync, (int fd), (fd))
FAILING(RENAME, int, -1, rename, (const char *from, const char *to), (from, to))
FAILING(RENAME, int, -1, renameat, (int a, const char *from, int b, const char *to),
	(a, from, b, to))
FAILING(RENAME, int, -1, renameat2,
	(int a, const char *from, int b, const char *to, unsigned flags), (a, from, b, to, flags))
FAILING(MKDIR, int, -1, mkdir, (const char *path, mode_t mode), (path, mode))
FAILING(MKDIR, int, -1, mkdirat, (int folder, const char *path, mode_t mode), (folder, path, mode))
FAILING(UNLINK, int, -1, unlink, (const char *path), (path))
FAILING(UNLINK, int, -1, unlinkat, (int folder, const char *path, int flags), (folder, path, flags))
FAILING(STAT, int, -1, stat, (const char *path, struct stat *status), (path, status))
FAILING(STAT, int, -1, lstat, (const char *path, struct stat *status), (path, status))
FAILING(STAT, int, -1, fstat, (int fd, struct stat *status), (fd, status))
FAILING(STAT, int, -1, fstatat, (int folder, const char *path, struct stat *status, int flags),
	(folder, path, status, flags))
FAILING(STAT, int, -1, statx,
	(int folder, const char *path, int flags, unsigned mask, struct statx *status),
	(folder, path, flags, mask, status))
FAILING(STAT, int, -1, fstatvfs, (int fd, struct statvfs *status), (fd, status))
FAILING(STAT, off_t, -1, lseek, (int fd, off_t at, int from), (fd, at, from))
FAILING(LOCK, int, -1, flock, (int fd, int operation), (fd, operation))
FAILING(CHMOD, int, -1, chmod, (const char *path, mode_t mode), (path, mode))
FAILING(CHMOD, int, -1, fchmod, (int fd, mode_t mode), (fd, mode))
FAILING(CHMOD, int, -1, chown, (const char *path, uid_t user, gid_t group), (path, user, group))
FAILING(CHMOD, int, -1, fchownat, (int fd, const char *path, uid_t user, gid_t group, int flags),
	(fd, path, user, group, flags))
FAILING(CHMOD, int, -1, fchown, (int fd, uid_t user, gid_t group), (fd, user, group))
FAILING(CHMOD, int, -1, futimens, (int fd, const struct timespec times[2]), (fd, times))

FAILING(SOCKET, int, -1, socket, (int domain, int type, int protocol), (domain, type, protocol))
FAILING(SOCKET, int, -1, socketpair, (int domain, int type, int protocol, int fds[2]),
	(domain, type, protocol, fds))
FAILING(BIND, int, -1, bind, (int fd, const struct sockaddr *address, socklen_t len),
	(fd, address, len))
FAILING(LISTEN, int, -1, listen, (int fd, int backlog), (fd, backlog))
FAILING(CONNECT, int, -1, connect, (int fd, const struct sockaddr *address, socklen_t len),
	(fd, address, len))
FAILING(ACCEPT, int, -1, accept4, (int fd, struct sockaddr *address, socklen_t *len, int flags),
	(fd, address, len, flags))
FAILING(OPTION, int, -1, setsockopt,
	(int fd, int level, int name, const void *value, socklen_t len),
	(fd, level, name, value, len))
FAILING(OPTION, int, -1, getsockopt, (int fd, int level, int name, void *value, socklen_t *len),
	(fd, level, name, value, len))
FAILING(OPTION, int, -1, getsockname, (int fd, struct sockaddr *address, socklen_t *len),
	(fd, address, len))
FAILING(OPTION, int, -1, getpeername, (int fd, struct sockaddr *address, socklen_t *len),
	(fd, address, len))

FAILING(PIPE, int, -1, pipe2, (int fds[2], int flags), (fds, flags))
FAILING(PIPE, int, -1, dup2, (int from, int to), (from, to))
FAILING(FORK, pid_t, -1, fork, (void), ())
FAILING(EXEC, int, -1, execv, (const char *path, char *const argv[]), (path, argv))
FAILING(EXEC, int, -1, execvpe, (const char *file, char *const argv[], char *const envp[]),
	(file, argv, envp))
FAILING(EPOLL, int, -1, epoll_create1, (int flags), (flags))
FAILING(EPOLL, int, -1, epoll_ctl, (int fd, int operation, int other, struct epoll_event *event),
	(fd, operation, other, event))
FAILING(EPOLL_WAIT, int, -1, epoll_wait,
	(int fd, struct epoll_event *events, int max, int timeout_ms),
	(fd, events, max, timeout_ms))
FAILING(POLL, int, -1, poll, (struct pollfd * fds, nfds_t count, int timeout_ms),
	(fds, count, timeout_ms))
FAILING(POLL, int, -1, __poll_chk, (struct pollfd * fds, nfds_t count, int timeout_ms, size_t room),
	(fds, count, timeout_ms, room))
FAILING(INOTIFY, int, -1, inotify_init1, (int flags), (flags))
FAILING(INOTIFY, int, -1, inotify_add_watch, (int fd, const char *path, uint32_t mask),
	(fd, path, mask))
FAILING(EVENT_FD, int, -1, timerfd_create, (int clock, int flags), (clock, flags))
FAILING(EVENT_FD, int, -1, signalfd, (int fd, const sigset_t *mask, int flags), (fd, mask, flags))
FAILING(MAP, void *, MAP_FAILED, mmap,
	(void *at, size_t len, int protection, int flags, int fd, off_t from),
	(at, len, protection, flags, fd, from))
FAILING(RANDOM, ssize_t, -1, getrandom, (void *bytes, size_t len, unsigned flags),
	(bytes, len, flags))
FAILING(LOOKUP, int, -1, getifaddrs, (struct ifaddrs * *addresses), (addresses))
FAILING(LIMIT, int, -1, getrlimit, (__rlimit_resource_t resource, struct rlimit *limit),
	(resource, limit))
FAILING(LIMIT, int, -1, setrlimit, (__rlimit_resource_t resource, const struct rlimit *limit),
	(resource, limit))

#if __SIZEOF_POINTER__ == 4
/* By these names with sizes and times of 64 bits. */
extern ssize_t __sendmsg64(int fd, const struct msghdr *message, int flags);
extern ssize_t __recvmsg64(int fd, struct msghdr *message, int flags);
extern int __stat64_time64(const char *path, struct stat *status);
extern int __lstat64_time64(const char *path, struct stat *status);
extern int __fstat64_time64(int fd, struct stat *status);
extern int __fstatat64_time64(int folder, const char *path, struct stat *status, int flags);
OPENING(open64, (const char *path, int flags, ...), flags, (path, flags, mode))
OPENING(openat64, (int folder, const char *path, int flags, ...), flags,
	(folder, path, flags, mode))
FAILING(SEND, ssize_t, -1, __sendmsg64, (int fd, const struct msghdr *message, int flags),
	(fd, message, flags))
FAILING(RECEIVE, ssize_t, -1, __recvmsg64, (int fd, struct msghdr *message, int flags),
	(fd, message, flags))
FAILING(STAT, int, -1, __stat64_time64, (const char *path, struct stat *status), (path, status))
FAILING(STAT, int, -1, __lstat64_time64, (const char *path, struct stat *status), (path, status))
FAILING(STAT, int, -1, __fstat64_time64, (int fd, struct stat *status), (fd, status))
FAILING(STAT, int, -1, __fstatat64_time64,
	(int folder, const char *path, struct stat *status, int flags),
	(folder, path, status, flags))
FAILING(STAT, int, -1, fstatvfs64, (int fd, struct statvfs64 *status), (fd, status))
#endif

/* ---- calls that fail in their own way ---- */

/* The kernel frees the descriptor even when it reports an error. */
PUBLIC int close(int fd)
{
	REAL(close)
	note_event(fd, false);
	if (!fails(CLOSE)) {
		return real(fd);
	}
	int error = errno;
	real(fd);
	errno = error;
	return -1;
}

/* The child returns through this frame before the parent does: it has to be gone by then. */
PUBLIC pid_t vfork(void)
{
	return fails(FORK) ? -1 : real_vfork();
}

PUBLIC int eventfd(unsigned value, int flags)
{
	REAL(eventfd)
	int fd = fails(EVENT_FD) ? -1 : real(value, flags);
	note_event(fd, true);
	return fd;
}

/* A call that does not wait is never interrupted. */
PUBLIC pid_t waitpid(pid_t pid, int *status, int options)
{
	REAL(waitpid)
	return !(options & WNOHANG) && fails(WAIT) ? -1 : real(pid, status, options);
}

/* posix_spawn() returns its error. */
PUBLIC int posix_spawn(pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions,
	const posix_spawnattr_t *attributes, char *const argv[], char *const envp[])
{
	REAL(posix_spawn)
	return fails(SPAWN) ? errno : real(pid, path, actions, attributes, argv, envp);
}

PUBLIC int getaddrinfo(const char *host, const char *service, const struct addrinfo *hints,
	struct addrinfo **ret_found)
{
	REAL(getaddrinfo)
	return fails(LOOKUP) ? EAI_AGAIN : real(host, service, hints, ret_found);
}

/* Locks are calls that fail; what else fcntl() does is not. */
PUBLIC int fcntl(int fd, int command, ...)
{
	REAL(fcntl)
	va_list rest;
	va_start(rest, command);
	void *argument = va_arg(rest, void *);
	va_end(rest);
	bool lock = command == F_SETLK || command == F_SETLKW || command == F_OFD_SETLK ||
		command == F_OFD_SETLKW || command == F_OFD_GETLK || command == F_GETLK;
	if (lock || command == F_DUPFD_CLOEXEC) {
		if (fails(lock ? LOCK : PIPE)) {
			return -1;
		}
	}
	return real(fd, command, argument);
}
