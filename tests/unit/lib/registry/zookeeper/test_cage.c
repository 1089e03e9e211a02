/* LINK: lib/registry/zookeeper/worker/cage.o lib/sandbox/sandbox.o $(SECCOMP_LIBS) */
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

#include "lib/base/array.h"
#include "lib/registry/zookeeper/worker/cage.h"
#include "tests/support/deeds.h"

#ifdef BERTH_SANDBOX

#include <seccomp.h>

static int listener;
static char servers[64] = "127.0.0.1:2181";

static const char *certificates; /* for enter() */

static void enter(void)
{
	char words[SANDBOX_WORDS_BYTES];
	zk_worker_cage(certificates, servers, words);
}

static int outcome_with(const char *names, int (*deed)(void))
{
	certificates = names;
	return deed_outcome(enter, deed);
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
	cr_assert_eq(
		outcome_with("/dev/null,", deed_open_a_file), kernel_has_landlock() ? EACCES : 0);
	cr_assert_eq(outcome_with("/etc/passwd,", deed_open_a_file), 0);
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
		char words[SANDBOX_WORDS_BYTES];
		answer_landlock_calls(create, restrict_self);
		zk_worker_cage("/etc/passwd,", servers, words);
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
	static const struct deed deeds[] = {
		{ "open", deed_open_a_file },
		{ "open for writing", deed_open_for_writing },
		{ "execve", deed_execute },
		{ "fork", deed_fork_a_process },
		{ "unix socket", deed_make_unix_socket },
		{ "udp socket", deed_make_udp_socket },
		{ "listen", deed_listen_on_tcp },
		{ "executable memory", deed_make_code },
		{ "setuid", deed_become_root },
		{ "kill", deed_signal_the_parent },
		{ "mptcp socket", deed_make_mptcp_socket },
		{ "F_SETSIG", deed_set_signal_of_a_descriptor },
		{ "F_SETOWN", deed_set_owner_of_a_descriptor },
		{ "O_ASYNC", deed_have_a_descriptor_signal },
		{ "MSG_FASTOPEN", deed_connect_by_sending },
	};
	for (size_t i = 0; i < ARRAY_LEN(deeds); i++) {
		cr_expect_eq(outcome_of(deeds[i].does), EPERM, "%s: %s", deeds[i].name,
			strerror(outcome_of(deeds[i].does)));
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
	return malloc(SIZE_MAX / 2 < (size_t)1 << 31 ? SIZE_MAX / 2 : (size_t)1 << 32) ? 0 : -1;
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
		char words[SANDBOX_WORDS_BYTES];
		scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ALLOW);
		if (!filter || seccomp_rule_add(filter, SCMP_ACT_ERRNO(EINVAL), SYS_seccomp, 0) ||
			seccomp_rule_add(filter, SCMP_ACT_ERRNO(EINVAL), SYS_prctl, 1,
				SCMP_A0(SCMP_CMP_EQ, PR_SET_SECCOMP)) ||
			seccomp_load(filter)) {
			_exit(99);
		}
		zk_worker_cage("", servers, words);
		if (strncmp(words, "no seccomp, ", 12) != 0) {
			_exit(98);
		}
		_exit(deed_signal_the_parent() < 0 ? errno : 0);
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
	char words[SANDBOX_WORDS_BYTES] = "";
	cr_assert_eq(pipe(ends), 0);
	pid_t pid = fork();
	if (pid == 0) {
		zk_worker_cage("", servers, words);
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
	char text[SANDBOX_WORDS_BYTES];
	zk_worker_cage("", "", text);
	cr_assert_str_eq(text, "none: built without sandbox");
}

#endif
