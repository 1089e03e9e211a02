/* LINK: lib/sandbox/sandbox.o $(SECCOMP_LIBS) */
/* The calls that each right of a cage lets through, and those that it refuses without one. */
#include <pthread.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "lib/base/array.h"
#include "tests/unit/lib/sandbox/sandbox_stage.h"

TestSuite(sandbox, .timeout = 60);

#ifdef BERTH_SANDBOX

static int socket_of(int family, int type, int protocol)
{
	return socket(family, type | SOCK_CLOEXEC | SOCK_NONBLOCK, protocol);
}

static int make_tcp(void)
{
	return socket_of(AF_INET, SOCK_STREAM, 0);
}

static int make_tcp_by_number(void)
{
	return socket_of(AF_INET, SOCK_STREAM, IPPROTO_TCP);
}

static int make_tcp6(void)
{
	int fd = socket_of(AF_INET6, SOCK_STREAM, IPPROTO_TCP);
	return fd < 0 && errno == EAFNOSUPPORT ? 0 : fd;
}

static int make_unix(void)
{
	return socket_of(AF_UNIX, SOCK_STREAM, 0);
}

static int make_unix_by_number(void)
{
	return socket_of(AF_UNIX, SOCK_STREAM, AF_UNIX);
}

/* A call that the cage lets through fails for its arguments. */
static int done_unless_refused(long ret)
{
	return ret < 0 && errno == EPERM ? -1 : 0;
}

static int connect_nothing(void)
{
	return done_unless_refused(connect(-1, NULL, 0));
}

static int accept_nothing(void)
{
	return done_unless_refused(accept4(-1, NULL, NULL, 0));
}

static int control_epoll(void)
{
	return done_unless_refused(syscall(SYS_epoll_ctl, -1, 0, 0, NULL));
}

static int wait_by_epoll(void)
{
	return done_unless_refused(syscall(SYS_epoll_pwait, -1, NULL, 0, 0, NULL, 0));
}

static int set_a_timer(void)
{
	return done_unless_refused(syscall(SYS_timerfd_settime, -1, 0, NULL, NULL));
}

static void *return_at_once(void *context)
{
	return context;
}

static int run_a_thread(void)
{
	pthread_t thread;
	errno = pthread_create(&thread, NULL, return_at_once, NULL);
	return errno ? -1 : pthread_join(thread, NULL);
}

static int yield_to_others(void)
{
	return (int)syscall(SYS_sched_yield);
}

static int ask_for_processors(void)
{
	return done_unless_refused(syscall(SYS_sched_getaffinity, 0, 0, NULL));
}

static int name_itself(void)
{
	return prctl(PR_SET_NAME, "caged", 0, 0, 0);
}

static int open_by_path(void)
{
	return open(file, O_RDONLY | O_CLOEXEC);
}

#ifdef SYS_newfstatat
static int look_at_a_file(void)
{
	struct stat stat;
	return (int)syscall(SYS_newfstatat, AT_FDCWD, file, &stat, 0);
}
#endif

static int look_closer(void)
{
	struct statx statx;
	return (int)syscall(SYS_statx, AT_FDCWD, file, 0, STATX_BASIC_STATS, &statx);
}

#ifdef SYS_open
static int open_in_the_old_way(void)
{
	return (int)syscall(SYS_open, file, O_RDONLY, 0);
}

static int look_in_the_old_way(void)
{
	struct stat stat;
	return (int)syscall(SYS_stat, file, &stat);
}
#endif

static const struct {
	const char *name;
	unsigned rights; /* of which one is needed */
	int (*does)(void);
} of_rights[] = {
	{ "tcp", SANDBOX_CONNECT_TCP, make_tcp },
	{ "tcp by number", SANDBOX_CONNECT_TCP, make_tcp_by_number },
	{ "tcp of IPv6", SANDBOX_CONNECT_TCP, make_tcp6 },
	{ "unix", SANDBOX_CONNECT_UNIX, make_unix },
	{ "connect", SANDBOX_CONNECT_TCP | SANDBOX_CONNECT_UNIX, connect_nothing },
	{ "accept", SANDBOX_ACCEPT, accept_nothing },
	{ "epoll_ctl", SANDBOX_ACCEPT, control_epoll },
	{ "epoll_pwait", SANDBOX_ACCEPT, wait_by_epoll },
	{ "timerfd_settime", SANDBOX_ACCEPT, set_a_timer },
	{ "thread", SANDBOX_THREADS, run_a_thread },
	{ "sched_yield", SANDBOX_THREADS, yield_to_others },
	{ "sched_getaffinity", SANDBOX_THREADS, ask_for_processors },
	{ "prctl", SANDBOX_THREADS, name_itself },
	{ "open", SANDBOX_READ_FILES, open_by_path },
#ifdef SYS_newfstatat
	{ "fstatat", SANDBOX_READ_FILES, look_at_a_file },
#endif
	{ "statx", SANDBOX_READ_FILES, look_closer },
#ifdef SYS_open
	{ "open in the old way", SANDBOX_READ_FILES, open_in_the_old_way },
	{ "stat in the old way", SANDBOX_READ_FILES, look_in_the_old_way },
#endif
};

SANDBOX_TEST(sandbox, a_right_lets_its_own_calls_through_and_no_others)
{
	const char *const files[] = { folder, NULL };
	profile.files = files;
	for (size_t i = 0; i < ARRAY_LEN(of_rights); i++) {
		for (unsigned right = 1; right < ALL_RIGHTS; right *= 2) {
			int expected = right & of_rights[i].rights ? 0 : EPERM;
			cr_expect_eq(outcome(right, of_rights[i].does), expected, "%s with %u",
				of_rights[i].name, right);
		}
		cr_expect_eq(outcome(0, of_rights[i].does), EPERM, "%s", of_rights[i].name);
		cr_expect_eq(outcome(ALL_RIGHTS, of_rights[i].does), 0, "%s", of_rights[i].name);
	}
}

static int make_a_file(void)
{
	return open(file, O_RDONLY | O_CREAT | O_CLOEXEC, 0600);
}

static int empty_a_file(void)
{
	return open(file, O_RDONLY | O_TRUNC | O_CLOEXEC);
}

static int write_a_file(void)
{
	return open(file, O_WRONLY | O_CLOEXEC);
}

static int write_and_read_a_file(void)
{
	return open(file, O_RDWR | O_CLOEXEC);
}

#ifdef SYS_open
static int empty_in_the_old_way(void)
{
	return (int)syscall(SYS_open, file, O_RDONLY | O_TRUNC, 0);
}
#endif

static int ask_for_its_name(void)
{
	char name[16];
	return prctl(PR_GET_NAME, name, 0, 0, 0);
}

static int make_code_of_data(void)
{
	void *data = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	return data == MAP_FAILED ? 0 : mprotect(data, 4096, PROT_READ | PROT_EXEC);
}

static int signal_the_parent(void)
{
	return (int)syscall(SYS_tgkill, getppid(), getppid(), 0);
}

static int signal_itself(void)
{
	return (int)syscall(SYS_tgkill, getpid(), syscall(SYS_gettid), 0);
}

static int have_a_kept_descriptor_signal(void)
{
	return fcntl(STDERR_FILENO, F_SETFL, O_ASYNC);
}

static int copy_a_descriptor(void)
{
	return fcntl(STDERR_FILENO, F_DUPFD, 0);
}

static int send_and_connect(void)
{
	return (int)sendto(-1, "x", 1, MSG_FASTOPEN, NULL, 0);
}

static int send_message_and_connect(void)
{
	struct msghdr message = { .msg_iovlen = 0 };
	return (int)sendmsg(-1, &message, MSG_FASTOPEN);
}

static int clone_in_the_new_way(void)
{
	return (int)syscall(SYS_clone3, NULL, (size_t)0);
}

SANDBOX_TEST(sandbox, no_right_lets_these_calls_through)
{
	static const struct deed deeds[] = {
		{ "O_CREAT", make_a_file },
		{ "O_TRUNC", empty_a_file },
		{ "O_WRONLY", write_a_file },
		{ "O_RDWR", write_and_read_a_file },
#ifdef SYS_open
		{ "O_TRUNC in the old way", empty_in_the_old_way },
#endif
		{ "execve", deed_execute },
		{ "fork", deed_fork_a_process },
		{ "udp", deed_make_udp_socket },
		{ "mptcp", deed_make_mptcp_socket },
		{ "a protocol of unix sockets", make_unix_by_number },
		{ "listen", deed_listen_on_tcp },
		{ "code", deed_make_code },
		{ "code of data", make_code_of_data },
		{ "kill", deed_signal_the_parent },
		{ "tgkill", signal_the_parent },
		{ "O_ASYNC", have_a_kept_descriptor_signal },
		{ "F_DUPFD", copy_a_descriptor },
		{ "MSG_FASTOPEN of sendto", send_and_connect },
		{ "MSG_FASTOPEN of sendmsg", send_message_and_connect },
		{ "PR_GET_NAME", ask_for_its_name },
	};
	const char *const files[] = { folder, NULL };
	struct stat stat_of_file;
	profile.files = files;
	for (size_t i = 0; i < ARRAY_LEN(deeds); i++) {
		cr_expect_eq(outcome(ALL_RIGHTS, deeds[i].does), EPERM, "%s", deeds[i].name);
		cr_expect_eq(outcome(0, deeds[i].does), EPERM, "%s", deeds[i].name);
	}
	cr_assert_eq(stat(file, &stat_of_file), 0);
	cr_expect_eq(stat_of_file.st_size, 4);
	/* libc takes clone, whose flags a filter sees. */
	cr_expect_eq(outcome(ALL_RIGHTS, clone_in_the_new_way), ENOSYS);
	cr_expect_eq(outcome(0, clone_in_the_new_way), EPERM);
}

static int use_descriptors(void)
{
	static const int calls[] = { SYS_read, SYS_readv, SYS_write, SYS_writev, SYS_recvfrom,
		SYS_recvmsg, SYS_shutdown, SYS_getsockopt, SYS_setsockopt, SYS_getsockname,
		SYS_getpeername, SYS_close, SYS_pipe2, SYS_eventfd2, SYS_lseek, SYS_munmap,
		SYS_mremap, SYS_madvise, SYS_rt_sigprocmask, SYS_rt_sigaction, SYS_sigaltstack,
		SYS_gettid, SYS_getpid, SYS_clock_gettime, SYS_clock_nanosleep, SYS_nanosleep,
		SYS_getrandom, SYS_uname, SYS_getuid, SYS_geteuid, SYS_getgid, SYS_getegid };
	for (size_t i = 0; i < ARRAY_LEN(calls); i++) {
		errno = 0;
		if (done_unless_refused(syscall(calls[i], -1L, 0L, 0L, 0L, 0L, 0L)) != 0) {
			snprintf(notes->words, sizeof(notes->words), "call %d", calls[i]);
			return -1;
		}
	}
	return 0;
}

static int send_only(void)
{
	struct msghdr message = { .msg_iovlen = 0 };
	int kept = done_unless_refused(sendto(-1, "x", 1, MSG_NOSIGNAL, NULL, 0));
	return kept ? kept : done_unless_refused(sendmsg(-1, &message, MSG_NOSIGNAL));
}

static int set_flags(void)
{
	int flags = fcntl(STDERR_FILENO, F_GETFL);
	return flags < 0 || fcntl(STDERR_FILENO, F_SETFL, flags & ~O_ASYNC) < 0 ||
			fcntl(STDERR_FILENO, F_GETFD) < 0 ||
			fcntl(STDERR_FILENO, F_SETFD, FD_CLOEXEC) < 0
		? -1
		: 0;
}

static int change_data(void)
{
	void *data = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	return data == MAP_FAILED ? -1 : mprotect(data, 4096, PROT_READ | PROT_WRITE);
}

SANDBOX_TEST(sandbox, calls_of_libc_go_through_without_any_right)
{
	static const struct deed deeds[] = {
		{ "descriptors", use_descriptors },
		{ "sending", send_only },
		{ "flags", set_flags },
		{ "data", change_data },
		{ "a signal to itself", signal_itself },
	};
	for (size_t i = 0; i < ARRAY_LEN(deeds); i++) {
		cr_expect_eq(outcome(0, deeds[i].does), 0, "%s: %s", deeds[i].name, notes->words);
	}
}

#else

Test(sandbox, a_build_without_a_cage_says_so)
{
	char words[SANDBOX_WORDS_BYTES];
	sandbox_enter(&(struct sandbox_profile){ .rights = 0 }, words);
	cr_assert_str_eq(words, "none: built without sandbox");
}

#endif
