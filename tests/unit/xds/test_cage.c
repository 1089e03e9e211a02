/*
 * The abilities of a process in the cage of berth-xds. A child of its own tries each deed and
 * reports by its exit status.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <linux/landlock.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/base/array.h"
#include "tests/support/deeds.h"
#include "xds/cage.h"

TestSuite(cage, .timeout = 60);

#ifdef BERTH_SANDBOX

static int listener;
static int poller;
static struct sockaddr_storage address;
static socklen_t address_len;

static void enter(void)
{
	char words[SANDBOX_WORDS_BYTES];
	cage_enter(words);
}

static int make_tcp_socket(void)
{
	return socket(AF_INET, SOCK_STREAM, 0);
}

static int make_unix_datagrams(void)
{
	return socket(AF_UNIX, SOCK_DGRAM, 0);
}

static int listen_at_a_path(void)
{
	return listen(socket(AF_UNIX, SOCK_STREAM, 0), 1);
}

static int run_a_thread(void)
{
	return (int)syscall(SYS_clone, 0x10f00, NULL, NULL, NULL, NULL);
}

static int remove_a_file(void)
{
	return unlink("/tmp/planted");
}

Test(cage, refuses_files_programs_processes_and_other_sockets)
{
	static const struct deed deeds[] = {
		{ "open", deed_open_a_file },
		{ "open for writing", deed_open_for_writing },
		{ "unlink", remove_a_file },
		{ "execve", deed_execute },
		{ "fork", deed_fork_a_process },
		{ "thread", run_a_thread },
		{ "tcp socket", make_tcp_socket },
		{ "udp socket", deed_make_udp_socket },
		{ "mptcp socket", deed_make_mptcp_socket },
		{ "unix datagrams", make_unix_datagrams },
		{ "listen", deed_listen_on_tcp },
		{ "listen at a path", listen_at_a_path },
		{ "executable memory", deed_make_code },
		{ "setuid", deed_become_root },
		{ "kill", deed_signal_the_parent },
		{ "F_SETSIG", deed_set_signal_of_a_descriptor },
		{ "F_SETOWN", deed_set_owner_of_a_descriptor },
		{ "O_ASYNC", deed_have_a_descriptor_signal },
		{ "MSG_FASTOPEN", deed_connect_by_sending },
	};
	for (size_t i = 0; i < ARRAY_LEN(deeds); i++) {
		cr_expect_eq(deed_outcome(enter, deeds[i].does), EPERM, "%s: %s", deeds[i].name,
			strerror(deed_outcome(enter, deeds[i].does)));
	}
}

static void listen_at(int family)
{
	struct sockaddr_in local = { .sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	sa_family_t own = AF_UNIX; /* the kernel chooses a name */
	listener = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	const struct sockaddr *at = family == AF_INET ? (const struct sockaddr *)&local
						      : (const struct sockaddr *)&own;
	cr_assert_eq(
		bind(listener, at, family == AF_INET ? sizeof(local) : (socklen_t)sizeof(own)), 0);
	cr_assert_eq(listen(listener, 8), 0);
	address_len = sizeof(address);
	cr_assert_eq(getsockname(listener, (struct sockaddr *)&address, &address_len), 0);
	poller = epoll_create1(EPOLL_CLOEXEC);
}

/* Waits by epoll, takes the client, and answers it. */
static int serve_a_client(void)
{
	struct epoll_event event = { .events = EPOLLIN };
	if (epoll_ctl(poller, EPOLL_CTL_ADD, listener, &event) != 0 ||
		epoll_wait(poller, &event, 1, 30000) != 1) {
		return -1;
	}
	int client = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	return client < 0 ? -1 : (int)send(client, "x", 1, MSG_NOSIGNAL);
}

static void expect_clients(int family)
{
	char byte = 0;
	listen_at(family);
	int client = socket(family, SOCK_STREAM, 0);
	cr_assert_eq(connect(client, (struct sockaddr *)&address, address_len), 0);
	cr_expect_eq(deed_outcome(enter, serve_a_client), 0);
	cr_expect_eq(recv(client, &byte, 1, 0), 1);
	cr_expect_eq(byte, 'x');
	close(client);
	close(listener);
	close(poller);
}

Test(cage, takes_clients_of_both_kinds)
{
	expect_clients(AF_INET);
	expect_clients(AF_UNIX);
}

static char folder[] = "/tmp/berth-cage-XXXXXX";

static int connect_to_a_path(void)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	return fd < 0 ? -1 : connect(fd, (struct sockaddr *)&address, address_len);
}

Test(cage, connects_to_the_agent)
{
	struct sockaddr_un path = { .sun_family = AF_UNIX };
	cr_assert(mkdtemp(folder));
	snprintf(path.sun_path, sizeof(path.sun_path), "%s/socket", folder);
	listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	cr_assert_eq(bind(listener, (struct sockaddr *)&path, sizeof(path)), 0);
	cr_assert_eq(listen(listener, 8), 0);
	memcpy(&address, &path, sizeof(path));
	address_len = sizeof(path);
	cr_expect_eq(deed_outcome(enter, connect_to_a_path), 0);
	unlink(path.sun_path);
	rmdir(folder);
	close(listener);
}

static int allocate_much(void)
{
	return malloc(SIZE_MAX / 2 < (size_t)1 << 31 ? SIZE_MAX / 2 : (size_t)1 << 32) ? 0 : -1;
}

static int allocate_some(void)
{
	void *memory = malloc((size_t)64 << 20);
	bool done = memory != NULL;
	free(memory);
	return done ? 0 : -1;
}

Test(cage, bounds_memory)
{
	cr_assert_eq(deed_outcome(enter, allocate_much), ENOMEM);
	cr_assert_eq(deed_outcome(enter, allocate_some), 0);
}

/* With a disconnected socket of a client a process could reach any port: where it cannot. */
static int reach_a_port(void)
{
	const struct sockaddr none = { .sa_family = AF_UNSPEC };
	int client = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	return client < 0 || connect(client, &none, sizeof(none)) != 0
		? -1
		: connect(client, (struct sockaddr *)&address, address_len);
}

Test(cage, connects_to_no_port_where_the_kernel_knows_ports)
{
	long version = syscall(
		SYS_landlock_create_ruleset, NULL, (size_t)0, LANDLOCK_CREATE_RULESET_VERSION);
	listen_at(AF_INET);
	int client = socket(AF_INET, SOCK_STREAM, 0);
	cr_assert_eq(connect(client, (struct sockaddr *)&address, address_len), 0);
	struct pollfd came = { .fd = listener, .events = POLLIN };
	cr_assert_eq(poll(&came, 1, 30000), 1);
	cr_expect_eq(deed_outcome(enter, reach_a_port), version >= 4 ? EACCES : 0);
	close(client);
	close(listener);
	close(poller);
}

Test(cage, says_what_is_in_force)
{
	int ends[2];
	char words[SANDBOX_WORDS_BYTES] = "";
	cr_assert_eq(pipe(ends), 0);
	pid_t pid = fork();
	if (pid == 0) {
		cage_enter(words);
		_exit(write(ends[1], words, strlen(words)) < 0);
	}
	waitpid(pid, NULL, 0);
	cr_assert_gt(read(ends[0], words, sizeof(words) - 1), 0);
	cr_assert(strncmp(words, "seccomp, ", 9) == 0, "%s", words);
	cr_assert(strstr(words, "no signals, no capabilities, memory bounded"), "%s", words);
}

#else

Test(cage, a_build_without_a_cage_says_so)
{
	char text[SANDBOX_WORDS_BYTES];
	cage_enter(text);
	cr_assert_str_eq(text, "none: built without sandbox");
}

#endif
