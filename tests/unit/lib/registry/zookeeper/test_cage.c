/*
 * The abilities of a process in the worker's cage. A child of its own tries each deed and reports
 * by its exit status.
 */
#include <criterion/criterion.h>
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/registry/zookeeper/worker/cage.h"

#ifdef BERTH_SANDBOX

#include <seccomp.h>

static int listener;
static char servers[64] = "127.0.0.1:2181";

static int open_a_file(void)
{
	return open("/etc/passwd", O_RDONLY);
}

static int open_for_writing(void)
{
	return open("/tmp/planted", O_WRONLY | O_CREAT, 0600);
}

static int execute(void)
{
	static char *const arguments[] = { "true", NULL };
	return execv("/bin/true", arguments);
}

static int fork_a_process(void)
{
	return fork();
}

static int make_unix_socket(void)
{
	return socket(AF_UNIX, SOCK_STREAM, 0);
}

static int make_udp_socket(void)
{
	return socket(AF_INET, SOCK_DGRAM, 0);
}

static int listen_on_tcp(void)
{
	return listen(socket(AF_INET, SOCK_STREAM, 0), 1);
}

static int make_code(void)
{
	void *code = mmap(
		NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	return code == MAP_FAILED ? -1 : 0;
}

static int become_root(void)
{
	return setuid(0);
}

static int signal_the_parent(void)
{
	return kill(getppid(), 0);
}

static int make_mptcp_socket(void)
{
	return socket(AF_INET, SOCK_STREAM, 262);
}

/* pipe2(O_ASYNC), F_SETOWN and F_SETSIG: the next byte would kill the owner. */
static int set_signal_of_a_descriptor(void)
{
	int ends[2];
	return pipe(ends) < 0 ? 0 : fcntl(ends[0], F_SETSIG, SIGKILL);
}

static int set_owner_of_a_descriptor(void)
{
	int ends[2];
	return pipe(ends) < 0 ? 0 : fcntl(ends[0], F_SETOWN, getppid());
}

static int have_a_descriptor_signal(void)
{
	int ends[2];
	return pipe(ends) < 0 ? 0 : fcntl(ends[0], F_SETFL, O_NONBLOCK | O_ASYNC);
}

static int connect_by_sending(void)
{
	struct sockaddr_in address = { .sin_family = AF_INET };
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	return (int)sendto(fd, "x", 1, MSG_FASTOPEN, (struct sockaddr *)&address, sizeof(address));
}

/* 0: done; otherwise the errno with which it was refused. */
static int outcome_with(const char *certificates, int (*deed)(void))
{
	pid_t pid = fork();
	if (pid == 0) {
		char words[256];
		zk_worker_cage(certificates, servers, words, sizeof(words));
		errno = 0;
		_exit(deed() < 0 ? errno : 0);
	}
	int status = -1;
	waitpid(pid, &status, 0);
	cr_assert(WIFEXITED(status), "killed: %d", status);
	return WEXITSTATUS(status);
}

static int outcome_of(int (*deed)(void))
{
	return outcome_with("", deed);
}

static long landlock_version(void)
{
	return syscall(
		SYS_landlock_create_ruleset, NULL, (size_t)0, LANDLOCK_CREATE_RULESET_VERSION);
}

static bool kernel_has_landlock(void)
{
	return landlock_version() > 0;
}

/* With TLS the system call filter lets files be opened for reading; landlock says which. */
Test(cage, leaves_no_file_but_certificates_where_the_kernel_has_landlock)
{
	cr_assert_eq(outcome_with("/dev/null,", open_a_file), kernel_has_landlock() ? EACCES : 0);
	cr_assert_eq(outcome_with("/etc/passwd,", open_a_file), 0);
}

/* A kernel, made by a filter, that answers these calls so: 0, or -1 with an errno. */
static void answer_landlock_calls(int create, int restrict_self)
{
	scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ALLOW);
	bool made = filter &&
		!seccomp_rule_add(
			filter, SCMP_ACT_ERRNO((unsigned)create), SYS_landlock_create_ruleset, 0) &&
		!seccomp_rule_add(filter, SCMP_ACT_ERRNO(0), SYS_landlock_add_rule, 0) &&
		!seccomp_rule_add(filter, SCMP_ACT_ERRNO((unsigned)restrict_self),
			SYS_landlock_restrict_self, 0) &&
		!seccomp_load(filter);
	seccomp_release(filter);
	if (!made) {
		_exit(99);
	}
}

/* 1 when the worker says that such a kernel has landlock, 0 when it says no. */
static int says_landlock(int create, int restrict_self)
{
	pid_t pid = fork();
	if (pid == 0) {
		char words[256];
		answer_landlock_calls(create, restrict_self);
		zk_worker_cage("/etc/passwd,", servers, words, sizeof(words));
		_exit(strstr(words, ", landlock,") != NULL);
	}
	int status = -1;
	waitpid(pid, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

Test(cage, says_landlock_only_when_the_kernel_took_the_rules)
{
	cr_expect_eq(says_landlock(0, 0), 1);
	cr_expect_eq(says_landlock(0, EPERM), 0);
	cr_expect_eq(says_landlock(ENOSYS, 0), 0);
	cr_expect_eq(says_landlock(EOPNOTSUPP, 0), 0);
}

Test(cage, refuses_files_programs_processes_and_other_sockets)
{
	static const struct {
		const char *name;
		int (*deed)(void);
	} deeds[] = {
		{ "open", open_a_file },
		{ "open for writing", open_for_writing },
		{ "execve", execute },
		{ "fork", fork_a_process },
		{ "unix socket", make_unix_socket },
		{ "udp socket", make_udp_socket },
		{ "listen", listen_on_tcp },
		{ "executable memory", make_code },
		{ "setuid", become_root },
		{ "kill", signal_the_parent },
		{ "mptcp socket", make_mptcp_socket },
		{ "F_SETSIG", set_signal_of_a_descriptor },
		{ "F_SETOWN", set_owner_of_a_descriptor },
		{ "O_ASYNC", have_a_descriptor_signal },
		{ "MSG_FASTOPEN", connect_by_sending },
	};
	for (size_t i = 0; i < sizeof(deeds) / sizeof(deeds[0]); i++) {
		cr_expect_eq(outcome_of(deeds[i].deed), EPERM, "%s: %s", deeds[i].name,
			strerror(outcome_of(deeds[i].deed)));
	}
	cr_assert_eq(access("/tmp/planted", F_OK), -1);
}

static int connect_by_tcp(void)
{
	struct sockaddr_in address;
	socklen_t len = sizeof(address);
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	if (fd < 0 || getsockname(listener, (struct sockaddr *)&address, &len) < 0) {
		return -1;
	}
	return connect(fd, (struct sockaddr *)&address, len);
}

static int set_flags(void)
{
	int ends[2];
	return pipe(ends) < 0 || fcntl(ends[0], F_GETFL) < 0 || fcntl(ends[0], F_GETFD) < 0 ||
			fcntl(ends[0], F_SETFL, O_NONBLOCK) < 0 ||
			fcntl(ends[0], F_SETFD, FD_CLOEXEC) < 0 ||
			socket(AF_INET, SOCK_STREAM, IPPROTO_TCP) < 0
		? -1
		: 0;
}

static void *nothing(void *context)
{
	return context;
}

static int run_a_thread(void)
{
	pthread_t thread;
	errno = pthread_create(&thread, NULL, nothing, NULL);
	return errno ? -1 : pthread_join(thread, NULL);
}

static int allocate_much(void)
{
	return malloc((size_t)4 << 30) ? 0 : -1;
}

Test(cage, leaves_tcp_connections_and_threads)
{
	struct sockaddr_in address = { .sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	cr_assert_eq(bind(listener, (struct sockaddr *)&address, sizeof(address)), 0);
	socklen_t len = sizeof(address);
	cr_assert_eq(listen(listener, 1), 0);
	cr_assert_eq(outcome_of(run_a_thread), 0);
	cr_assert_eq(outcome_of(set_flags), 0);
	/* Where the kernel knows ports, those of the servers alone. */
	cr_assert_eq(outcome_of(connect_by_tcp), landlock_version() >= 4 ? EACCES : 0);
	cr_assert_eq(getsockname(listener, (struct sockaddr *)&address, &len), 0);
	snprintf(servers, sizeof(servers), "::1:2181,127.0.0.1:%u", ntohs(address.sin_port));
	cr_assert_eq(outcome_of(connect_by_tcp), 0);
	close(listener);
}

/* A kernel without filters, made by a filter. */
Test(cage, without_a_filter_landlock_lets_no_signal_out)
{
	pid_t pid = fork();
	if (pid == 0) {
		char words[256];
		scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ALLOW);
		if (!filter || seccomp_rule_add(filter, SCMP_ACT_ERRNO(EINVAL), SYS_seccomp, 0) ||
			seccomp_rule_add(filter, SCMP_ACT_ERRNO(EINVAL), SYS_prctl, 1,
				SCMP_A0(SCMP_CMP_EQ, PR_SET_SECCOMP)) ||
			seccomp_load(filter)) {
			_exit(99);
		}
		zk_worker_cage("", servers, words, sizeof(words));
		if (strncmp(words, "no seccomp, ", 12) != 0) {
			_exit(98);
		}
		_exit(signal_the_parent() < 0 ? errno : 0);
	}
	int status = -1;
	waitpid(pid, &status, 0);
	cr_assert_eq(
		WIFEXITED(status) ? WEXITSTATUS(status) : -1, landlock_version() >= 6 ? EPERM : 0);
}

Test(cage, bounds_memory)
{
	cr_assert_eq(outcome_of(allocate_much), ENOMEM);
}

Test(cage, says_what_is_in_force)
{
	int ends[2];
	char words[256] = "";
	cr_assert_eq(pipe(ends), 0);
	pid_t pid = fork();
	if (pid == 0) {
		zk_worker_cage("", servers, words, sizeof(words));
		_exit(write(ends[1], words, strlen(words)) < 0);
	}
	waitpid(pid, NULL, 0);
	cr_assert_gt(read(ends[0], words, sizeof(words) - 1), 0);
	cr_assert(strncmp(words, "seccomp, ", 9) == 0, "%s", words);
	cr_assert_eq(strstr(words, ", landlock,") != NULL, kernel_has_landlock(), "%s", words);
	cr_assert(strstr(words, "no capabilities, memory bounded"), "%s", words);
}

#else

Test(cage, a_build_without_a_cage_says_so)
{
	char text[128];
	zk_worker_cage("", "", text, sizeof(text));
	cr_assert_str_eq(text, "none: built without sandbox");
}

#endif
