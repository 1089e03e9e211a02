#include "lib/sandbox/sandbox.h"

#include "lib/base/array.h"
#include "lib/base/text.h"

#ifdef BERTH_SANDBOX

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/landlock.h>
#include <malloc.h>
#include <netinet/in.h>
#include <sched.h>
#include <seccomp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

/*
 * Newer than the headers of old systems, and asked of the kernel at run time: ports since its
 * fourth version of landlock, signals and abstract Unix sockets since the sixth.
 */
enum { PORTS_SINCE = 4, SCOPES_SINCE = 6, RULE_PORT = 2, LAST_CAPABILITY = 63 };
#define ACCESS_BIND UINT64_C(1)
#define ACCESS_CONNECT UINT64_C(2)
#define SCOPE_ABSTRACT_SOCKETS UINT64_C(1)
#define SCOPE_SIGNALS UINT64_C(2)

struct rules {
	uint64_t files;
	uint64_t ports;
	uint64_t scopes;
};

struct port_rule {
	uint64_t allowed;
	uint64_t port;
};

/* ---- files, ports, signals ---- */

static void allow_reading(int ruleset, const char *path)
{
	struct landlock_path_beneath_attr rule = {
		.allowed_access = LANDLOCK_ACCESS_FS_READ_FILE,
		.parent_fd = open(path, O_PATH | O_CLOEXEC),
	};
	if (rule.parent_fd >= 0) {
		syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &rule, 0);
		close(rule.parent_fd);
	}
}

static void allow_serving(int ruleset, int tree_fd)
{
	const struct landlock_path_beneath_attr rule = {
		.allowed_access = LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR |
			LANDLOCK_ACCESS_FS_MAKE_DIR | LANDLOCK_ACCESS_FS_MAKE_SOCK |
			LANDLOCK_ACCESS_FS_REMOVE_FILE,
		.parent_fd = tree_fd,
	};
	syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &rule, 0);
}

static void allow_connecting(int ruleset, unsigned port)
{
	const struct port_rule rule = { .allowed = ACCESS_CONNECT, .port = port };
	syscall(SYS_landlock_add_rule, ruleset, RULE_PORT, &rule, 0);
}

/* Files by all kinds of access that landlock's first version knows. */
static bool restrict_access(const struct sandbox_profile *profile, int version)
{
	struct rules rules = { .files = (LANDLOCK_ACCESS_FS_MAKE_SYM << 1) - 1 };
	size_t size = sizeof(rules.files);
	if (version >= PORTS_SINCE) {
		rules.ports = ACCESS_BIND |
			(profile->rights & SANDBOX_ANY_PORT ? 0 : ACCESS_CONNECT);
		size = offsetof(struct rules, scopes);
	}
	if (version >= SCOPES_SINCE) {
		rules.scopes = SCOPE_ABSTRACT_SOCKETS | SCOPE_SIGNALS;
		size = sizeof(rules);
	}
	int ruleset = (int)syscall(SYS_landlock_create_ruleset, &rules, size, 0);
	if (ruleset < 0) {
		return false;
	}
	for (size_t i = 0; profile->files && profile->files[i]; i++) {
		allow_reading(ruleset, profile->files[i]);
	}
	if (profile->rights & SANDBOX_SERVE_TREE) {
		allow_serving(ruleset, profile->tree_fd);
	}
	for (size_t i = 0; rules.ports && i < profile->port_count; i++) {
		allow_connecting(ruleset, profile->ports[i]);
	}
	bool done = syscall(SYS_landlock_restrict_self, ruleset, 0) == 0;
	close(ruleset);
	return done;
}

/* ---- privileges ---- */

/* To read what a container's users hide, and to give them their directory. */
static uint32_t kept_capabilities(unsigned rights)
{
	return rights & SANDBOX_SERVE_TREE ? 1U << CAP_CHOWN | 1U << CAP_DAC_READ_SEARCH : 0;
}

static bool drop_capabilities(unsigned rights)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct left[_LINUX_CAPABILITY_U32S_3] = { { 0 } };
	struct __user_cap_data_struct had[_LINUX_CAPABILITY_U32S_3] = { { 0 } };
	(void)syscall(SYS_capget, &header, had);
	left[0].effective = had[0].effective & kept_capabilities(rights);
	left[0].permitted = left[0].effective;
	for (int capability = 0; capability <= LAST_CAPABILITY; capability++) {
		/* Without CAP_SETPCAP this fails, and there is nothing to be regained either. */
		(void)prctl(PR_CAPBSET_DROP, capability, 0, 0, 0);
	}
	return syscall(SYS_capset, &header, left) == 0;
}

static bool limit_memory(unsigned mib)
{
#ifdef M_ARENA_MAX
	/* Each arena of glibc reserves 64 MiB of addresses. */
	mallopt(M_ARENA_MAX, 2);
#endif
	struct rlimit limit = { .rlim_cur = (rlim_t)mib << 20, .rlim_max = (rlim_t)mib << 20 };
	return setrlimit(RLIMIT_AS, &limit) == 0;
}

/* ---- system calls ---- */

/* Of libc, and of programs that read and write sockets. */
static const int common_calls[] = {
	/* descriptors that are there */
	SCMP_SYS(read), SCMP_SYS(readv), SCMP_SYS(write), SCMP_SYS(writev), SCMP_SYS(recv),
	SCMP_SYS(recvfrom), SCMP_SYS(recvmsg), SCMP_SYS(shutdown), SCMP_SYS(getsockopt),
	SCMP_SYS(setsockopt), SCMP_SYS(getsockname), SCMP_SYS(getpeername), SCMP_SYS(poll),
	SCMP_SYS(ppoll), SCMP_SYS(ppoll_time64), SCMP_SYS(select), SCMP_SYS(_newselect),
	SCMP_SYS(pselect6), SCMP_SYS(pselect6_time64), SCMP_SYS(close), SCMP_SYS(pipe),
	SCMP_SYS(pipe2), SCMP_SYS(eventfd2), SCMP_SYS(fstat), SCMP_SYS(fstat64), SCMP_SYS(lseek),
	SCMP_SYS(_llseek),
	/* memory */
	SCMP_SYS(brk), SCMP_SYS(munmap), SCMP_SYS(mremap), SCMP_SYS(madvise),
	/* signals, and the end */
	SCMP_SYS(rt_sigprocmask), SCMP_SYS(rt_sigaction), SCMP_SYS(rt_sigreturn),
	SCMP_SYS(sigaltstack), SCMP_SYS(restart_syscall), SCMP_SYS(gettid), SCMP_SYS(getpid),
	SCMP_SYS(exit), SCMP_SYS(exit_group), SCMP_SYS(futex), SCMP_SYS(futex_time64),
	/* time and chance */
	SCMP_SYS(clock_gettime), SCMP_SYS(clock_gettime64), SCMP_SYS(gettimeofday),
	SCMP_SYS(clock_nanosleep), SCMP_SYS(clock_nanosleep_time64), SCMP_SYS(nanosleep),
	SCMP_SYS(getrandom),
	/* identity: ZooKeeper's client logs it, OpenSSL asks for it */
	SCMP_SYS(uname), SCMP_SYS(getuid), SCMP_SYS(geteuid), SCMP_SYS(getgid), SCMP_SYS(getegid),
	SCMP_SYS(getuid32), SCMP_SYS(geteuid32), SCMP_SYS(getgid32), SCMP_SYS(getegid32)
};

static const int thread_calls[] = { SCMP_SYS(set_robust_list), SCMP_SYS(rseq),
	SCMP_SYS(sched_yield), SCMP_SYS(sched_getaffinity), SCMP_SYS(membarrier) };

static const int server_calls[] = { SCMP_SYS(accept4), SCMP_SYS(epoll_ctl), SCMP_SYS(epoll_wait),
	SCMP_SYS(epoll_pwait), SCMP_SYS(timerfd_settime), SCMP_SYS(timerfd_settime64) };

#if defined(SYS_socketcall) && defined(SYS_socket) && defined(__GLIBC__)
/*
 * For sockets libc makes one system call here, whose arguments lie in memory, where no filter sees
 * them. These take the place of libc's functions, for the libraries of the program too, and make
 * the calls whose arguments the filter judges.
 */
#pragma GCC visibility push(default)
int socket(int family, int type, int protocol)
{
	return (int)syscall(SYS_socket, family, type, protocol);
}

ssize_t send(int fd, const void *bytes, size_t len, int flags)
{
	return syscall(SYS_sendto, fd, bytes, len, flags, NULL, 0);
}

ssize_t sendto(int fd, const void *bytes, size_t len, int flags, __CONST_SOCKADDR_ARG address,
	socklen_t address_len)
{
	return syscall(SYS_sendto, fd, bytes, len, flags, address.__sockaddr__, address_len);
}

ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
	return syscall(SYS_sendmsg, fd, message, flags);
}
#pragma GCC visibility pop
#endif

/* A call that this architecture does not have needs no rule. */
static bool add(scmp_filter_ctx filter, uint32_t action, int call, unsigned count,
	const struct scmp_arg_cmp *arguments)
{
	int rc = seccomp_rule_add_array(filter, action, call, count, arguments);
	return rc == 0 || rc == -EDOM;
}

static bool allow(scmp_filter_ctx filter, const int *calls, size_t count)
{
	bool done = true;
	for (size_t i = 0; done && i < count; i++) {
		done = add(filter, SCMP_ACT_ALLOW, calls[i], 0, NULL);
	}
	return done;
}
#define ALLOW(filter, calls) allow(filter, calls, ARRAY_LEN(calls))

static bool allow_if(scmp_filter_ctx filter, int call, struct scmp_arg_cmp condition)
{
	return add(filter, SCMP_ACT_ALLOW, call, 1, &condition);
}

/*
 * The protocol by its number or by the default of the type: MPTCP and SCTP are streams, too. The
 * number is 0 where there is no other one.
 */
static bool allow_streams(scmp_filter_ctx filter, uint64_t family, uint64_t number)
{
	const uint64_t protocols[] = { 0, number };
	bool done = true;
	for (size_t i = 0; done && i < (number ? 2 : 1); i++) {
		const struct scmp_arg_cmp stream[] = { SCMP_A0_64(SCMP_CMP_EQ, family),
			SCMP_A1_64(SCMP_CMP_MASKED_EQ, 0xf, SOCK_STREAM),
			SCMP_A2_64(SCMP_CMP_EQ, protocols[i]) };
		done = add(filter, SCMP_ACT_ALLOW, SCMP_SYS(socket), 3, stream);
	}
	return done;
}

static bool allow_connections(scmp_filter_ctx filter, unsigned rights)
{
	bool tcp = rights & SANDBOX_CONNECT_TCP;
	bool unix_sockets = rights & SANDBOX_CONNECT_UNIX;
	return (!tcp ||
		       (allow_streams(filter, AF_INET, IPPROTO_TCP) &&
			       allow_streams(filter, AF_INET6, IPPROTO_TCP))) &&
		(!unix_sockets || allow_streams(filter, AF_UNIX, 0)) &&
		((!tcp && !unix_sockets) ||
			add(filter, SCMP_ACT_ALLOW, SCMP_SYS(connect), 0, NULL));
}

/* With MSG_FASTOPEN sending connects too, to ports that landlock would refuse. */
static bool allow_sending(scmp_filter_ctx filter)
{
	return allow_if(filter, SCMP_SYS(send), SCMP_A3_64(SCMP_CMP_MASKED_EQ, MSG_FASTOPEN, 0)) &&
		allow_if(filter, SCMP_SYS(sendto),
			SCMP_A3_64(SCMP_CMP_MASKED_EQ, MSG_FASTOPEN, 0)) &&
		allow_if(
			filter, SCMP_SYS(sendmsg), SCMP_A2_64(SCMP_CMP_MASKED_EQ, MSG_FASTOPEN, 0));
}

/* Others let the kernel signal any process of the same user when a descriptor gets ready. */
static bool allow_flags(scmp_filter_ctx filter, int call)
{
	static const uint64_t commands[] = { F_GETFL, F_GETFD, F_SETFD };
	bool done = true;
	for (size_t i = 0; done && i < ARRAY_LEN(commands); i++) {
		done = allow_if(filter, call, SCMP_A1_64(SCMP_CMP_EQ, commands[i]));
	}
	const struct scmp_arg_cmp set[] = { SCMP_A1_64(SCMP_CMP_EQ, F_SETFL),
		SCMP_A2_64(SCMP_CMP_MASKED_EQ, O_ASYNC, 0) };
	return done && add(filter, SCMP_ACT_ALLOW, call, 2, set);
}

/* clone3's flags lie in memory, where no filter sees them: libc takes clone. */
static bool allow_threads(scmp_filter_ctx filter)
{
	return ALLOW(filter, thread_calls) &&
		allow_if(filter, SCMP_SYS(clone),
			SCMP_A0_64(SCMP_CMP_MASKED_EQ, CLONE_THREAD, CLONE_THREAD)) &&
		add(filter, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3), 0, NULL) &&
		allow_if(filter, SCMP_SYS(prctl), SCMP_A0_64(SCMP_CMP_EQ, PR_SET_NAME));
}

static bool allow_data_memory(scmp_filter_ctx filter)
{
	const struct scmp_arg_cmp not_executable = SCMP_A2_64(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0);
	return allow_if(filter, SCMP_SYS(mmap), not_executable) &&
		allow_if(filter, SCMP_SYS(mmap2), not_executable) &&
		allow_if(filter, SCMP_SYS(mprotect), not_executable);
}

/* Landlock says which files. */
static bool allow_reading_files(scmp_filter_ctx filter)
{
	const uint64_t writing = O_ACCMODE | O_CREAT | O_TRUNC;
	return allow_if(filter, SCMP_SYS(openat),
		       SCMP_A2_64(SCMP_CMP_MASKED_EQ, writing, O_RDONLY)) &&
		allow_if(filter, SCMP_SYS(open),
			SCMP_A1_64(SCMP_CMP_MASKED_EQ, writing, O_RDONLY)) &&
		add(filter, SCMP_ACT_ALLOW, SCMP_SYS(newfstatat), 0, NULL) &&
		add(filter, SCMP_ACT_ALLOW, SCMP_SYS(stat), 0, NULL) &&
		add(filter, SCMP_ACT_ALLOW, SCMP_SYS(stat64), 0, NULL) &&
		add(filter, SCMP_ACT_ALLOW, SCMP_SYS(fstatat64), 0, NULL) &&
		add(filter, SCMP_ACT_ALLOW, SCMP_SYS(statx), 0, NULL);
}

/* Landlock says below what. */
static bool allow_serving_tree(scmp_filter_ctx filter)
{
	static const int calls[] = { SCMP_SYS(openat), SCMP_SYS(openat2), SCMP_SYS(open),
		SCMP_SYS(newfstatat), SCMP_SYS(fstatat64), SCMP_SYS(stat), SCMP_SYS(stat64),
		SCMP_SYS(statx), SCMP_SYS(fstatfs), SCMP_SYS(fstatfs64), SCMP_SYS(getdents64),
		SCMP_SYS(mkdirat), SCMP_SYS(unlinkat), SCMP_SYS(fchown), SCMP_SYS(fchown32),
		SCMP_SYS(bind), SCMP_SYS(listen), SCMP_SYS(umask), SCMP_SYS(inotify_init1),
		SCMP_SYS(inotify_add_watch), SCMP_SYS(inotify_rm_watch) };
	return ALLOW(filter, calls) && allow_streams(filter, AF_UNIX, 0) &&
		allow_if(filter, SCMP_SYS(fcntl), SCMP_A1_64(SCMP_CMP_EQ, F_OFD_GETLK)) &&
		allow_if(filter, SCMP_SYS(fcntl64), SCMP_A1_64(SCMP_CMP_EQ, F_OFD_GETLK));
}

static bool fill(scmp_filter_ctx filter, unsigned rights)
{
	return ALLOW(filter, common_calls) && allow_connections(filter, rights) &&
		allow_sending(filter) && allow_flags(filter, SCMP_SYS(fcntl)) &&
		allow_flags(filter, SCMP_SYS(fcntl64)) && allow_data_memory(filter) &&
		/* to end by abort() */
		allow_if(filter, SCMP_SYS(tgkill), SCMP_A0_64(SCMP_CMP_EQ, (uint64_t)getpid())) &&
		(!(rights & SANDBOX_ACCEPT) || ALLOW(filter, server_calls)) &&
		(!(rights & SANDBOX_THREADS) || allow_threads(filter)) &&
		(!(rights & SANDBOX_READ_FILES) || allow_reading_files(filter)) &&
		(!(rights & SANDBOX_SERVE_TREE) || allow_serving_tree(filter)) &&
		(!(rights & SANDBOX_WATCH_PROCESSES) ||
			add(filter, SCMP_ACT_ALLOW, SCMP_SYS(pidfd_open), 0, NULL));
}

/*
 * Without memory libseccomp (2.5.4) may loop for ever in seccomp_load(). Then the program ends, and
 * the agent starts it again. The time is the processor's: making a filter takes some ms of it.
 */
static void bound_processor_time(bool bounded)
{
	const struct itimerval limit = { .it_value = { .tv_usec = 500000 } };
	sigset_t ending;
	sigemptyset(&ending);
	sigaddset(&ending, SIGPROF);
	if (bounded) {
		setitimer(ITIMER_PROF, &limit, NULL);
	}
	/* Behind the filter a timer cannot be stopped: its signal stays blocked. */
	sigprocmask(bounded ? SIG_UNBLOCK : SIG_BLOCK, &ending, NULL);
}

static bool filter_calls(unsigned rights)
{
	bound_processor_time(true);
	scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ERRNO(EPERM));
	bool done = filter && fill(filter, rights) && seccomp_load(filter) == 0;
	if (filter) {
		seccomp_release(filter);
	}
	bound_processor_time(false);
	return done;
}

void sandbox_enter(const struct sandbox_profile *profile, char out[SANDBOX_WORDS_BYTES])
{
	bool no_new_privileges = prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0;
	int version = (int)syscall(
		SYS_landlock_create_ruleset, NULL, (size_t)0, LANDLOCK_CREATE_RULESET_VERSION);
	bool landlock = no_new_privileges && restrict_access(profile, version);
	bool capabilities = drop_capabilities(profile->rights);
	bool memory = limit_memory(profile->memory_mib);
	bool calls = no_new_privileges && filter_calls(profile->rights);
	const char *ports = profile->rights & SANDBOX_ANY_PORT ? "all ports"
		: profile->port_count                          ? "ports of the servers"
							       : "no ports";
	text_printf(out, SANDBOX_WORDS_BYTES, "%s, %s, %s, %s, %s, %s",
		calls ? "seccomp" : "no seccomp", landlock ? "landlock" : "no landlock",
		landlock && version >= PORTS_SINCE ? ports : "all ports",
		calls || (landlock && version >= SCOPES_SINCE) ? "no signals" : "signals",
		capabilities ? "no capabilities" : "capabilities kept",
		memory ? "memory bounded" : "memory not bounded");
}

#else

void sandbox_enter(const struct sandbox_profile *profile, char out[SANDBOX_WORDS_BYTES])
{
	(void)profile;
	text_printf(out, SANDBOX_WORDS_BYTES, "none: built without sandbox");
}

#endif
