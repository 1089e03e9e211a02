/*
 * A check's connection: the addresses of its target in turn, and a kernel that does what it rarely
 * does. The functions below take the place of the C library's.
 */
#include <dlfcn.h>
#include <errno.h>
#include <netdb.h>
#include <sys/epoll.h>

#include "agent/check/tcp.h"
#include "tests/unit/agent/check/net_stage.h"

/* ---- the kernel and the resolver ---- */

/* So many calls of a kind fail, with this error. */
struct failing {
	int times;
	int error;
};

static struct failing sends, receives, questions, watches;
static size_t send_most; /* bytes that the kernel takes at once; 0: all */
static const char *first_address;
static const char *second_address;
static bool nameless; /* no name has an address */

static bool fails(struct failing *call)
{
	if (call->times == 0) {
		return false;
	}
	call->times--;
	errno = call->error;
	return true;
}

ssize_t send(int file, const void *data, size_t len, int flags)
{
	size_t most = send_most && len > send_most ? send_most : len;
	return fails(&sends) ? -1 : sendto(file, data, most, flags, NULL, 0);
}

ssize_t recv(int file, void *data, size_t size, int flags)
{
	return fails(&receives) ? -1 : recvfrom(file, data, size, flags, NULL, NULL);
}

int getsockopt(int file, int level, int name, void *value, socklen_t *len)
{
	int (*real)(int, int, int, void *, socklen_t *) = dlsym(RTLD_NEXT, "getsockopt");
	int domain = 0;
	socklen_t domain_len = sizeof(domain);
	/* Criterion has a socket of its own. */
	bool ours = real(file, SOL_SOCKET, SO_DOMAIN, &domain, &domain_len) == 0 &&
		domain == AF_INET;
	return ours && fails(&questions) ? -1 : real(file, level, name, value, len);
}

int epoll_ctl(int set, int operation, int file, struct epoll_event *event)
{
	int (*real)(int, int, int, struct epoll_event *) = dlsym(RTLD_NEXT, "epoll_ctl");
	return operation == EPOLL_CTL_ADD && fails(&watches) ? -1
							     : real(set, operation, file, event);
}

/* "localhost" is 127.0.0.1 and then ::1; here it is two addresses that every machine has. */
int getaddrinfo(const char *host, const char *service, const struct addrinfo *hints,
	struct addrinfo **found)
{
	int (*real)(const char *, const char *, const struct addrinfo *,
		struct addrinfo **) = dlsym(RTLD_NEXT, "getaddrinfo");
	bool first = strcmp(host, "127.0.0.1") == 0;
	if (nameless) {
		return EAI_NONAME;
	}
	return real(first ? first_address : second_address, service, hints, found);
}

/* ---- targets ---- */

static struct sockaddr_in address_of(const char *host)
{
	struct sockaddr_in address = { .sin_family = AF_INET,
		.sin_port = htons((uint16_t)atoi(port)) };
	inet_pton(AF_INET, host, &address.sin_addr);
	return address;
}

/* A check of a target with two addresses, which is connected and no more. */
static void aim_at(const char *first, const char *second, int64_t timeout_ms)
{
	static char localhost[] = "localhost";
	first_address = first;
	second_address = second;
	config = check_support_config(CONFIG_CHECK_TCP);
	config.target_host = localhost;
	config.timeout_ms = timeout_ms;
}

enum { CLIENTS = 4 };

/* 127.0.0.1, where connections are left waiting, and 127.0.0.2, where they are not. */
struct black_hole {
	int full;
	int clients[CLIENTS];
	int other;
};

static void dig(struct black_hole *hole)
{
	struct sockaddr_in address;
	do {
		hole->full = listen_somewhere();
		address = address_of("127.0.0.2");
		hole->other = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	} while (bind(hole->other, (struct sockaddr *)&address, sizeof(address)));
	cr_assert_eq(listen(hole->other, 8), 0);
	cr_assert_eq(listen(hole->full, 0), 0);
	address = address_of("127.0.0.1");
	for (int i = 0; i < CLIENTS; i++) {
		hole->clients[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
		(void)!connect(hole->clients[i], (struct sockaddr *)&address, sizeof(address));
	}
}

static void check_passes(void)
{
	run(CONFIG_CHECK_TCP);
	cr_expect_eq(result.verdict, CHECK_PASSING, "%s", result.detail);
}

static void check_fails(const char *detail)
{
	run(CONFIG_CHECK_TCP);
	cr_expect_eq(result.verdict, CHECK_FAILING);
	cr_expect_str_eq(result.detail, detail);
}

TestSuite(check_socket, .init = start, .fini = finish);

/* A slow machine needs a longer timeout for the second address. */
Test(check_socket, an_address_that_does_not_answer_has_half_of_the_time)
{
	struct black_hole hole;
	int64_t timeout_ms = 200;
	dig(&hole);
	do {
		timeout_ms *= 2;
		aim_at("127.0.0.1", "127.0.0.2", timeout_ms);
		run(CONFIG_CHECK_TCP);
	} while (result.verdict == CHECK_TIMED_OUT && timeout_ms < 10000);
	cr_expect_str_eq(result.detail, "connected");
	cr_expect_gt(result.duration_s, 0.45 * (double)timeout_ms / 1000);
}

Test(check_socket, an_address_that_is_not_reachable_is_passed_over)
{
	int listener = listen_somewhere();
	aim_at("255.255.255.255", "127.0.0.1", 30000);
	run(CONFIG_CHECK_TCP);
	cr_expect_str_eq(result.detail, "connected");
	close(listener);
}

Test(check_socket, the_problem_is_that_of_the_last_address)
{
	int bound = bind_somewhere();
	aim_at("255.255.255.255", "127.0.0.1", 30000);
	check_fails("cannot connect: Connection refused");
	close(bound);
}

Test(check_socket, a_name_without_an_address_is_failing)
{
	nameless = true;
	aim_at("", "", 30000);
	check_fails("cannot find the address of the target: Name or service not known");
}

Test(check_socket, an_address_that_is_connected_has_all_the_time)
{
	aim_at("127.0.0.1", "255.255.255.255", 400);
	config.send_len = 4;
	serve(SAYS_NOTHING, "");
	usleep(200000); /* the loop's time is old when the check starts */
	unsigned turns = ev_iteration(loop);
	run(CONFIG_CHECK_TCP);
	cr_expect_str_eq(result.detail, "no answer within 0.4s");
	cr_expect_gt(result.duration_s, 0.39);
	/* A turn each 5 ms is the test's own. */
	cr_expect_lt(ev_iteration(loop) - turns, 400, "the check does not leave the loop alone");
}

Test(check_socket, a_connection_in_time_counts_though_the_agent_stood_still)
{
	struct check_run_callbacks callbacks = { on_result, on_gone, NULL };
	int listener = listen_somewhere();
	aim_at("127.0.0.1", "255.255.255.255", 100);
	config.target_port = port;
	cr_assert_not_null(
		check_probe_start(loop, &config, NULL, &linger, NULL, &callbacks, &result));
	ev_invoke_pending(loop); /* the check begins to connect */
	usleep(110000);
	cr_assert(check_support_run_until_true(&gone));
	cr_expect_str_eq(result.detail, "connected");
	close(listener);
}

/* ---- the kernel ---- */

/* Answers "pong" when it has all four bytes. */
static void serve_ping(void)
{
	int listener = listen_somewhere();
	server = fork();
	if (server == 0) {
		char request[4];
		int connection = accept(listener, NULL, NULL);
		if (recv(connection, request, 4, MSG_WAITALL) == 4 &&
			memcmp(request, "ping", 4) == 0) {
			say(connection, "pong", 4);
		}
		pause();
	}
	close(listener);
}

static void ping(void)
{
	config = check_support_config(CONFIG_CHECK_TCP);
	config.send_len = 4;
	serve_ping();
}

Test(check_socket, a_request_may_leave_in_parts)
{
	ping();
	send_most = 1;
	sends = (struct failing){ 1, EAGAIN };
	check_passes();
}

Test(check_socket, a_call_that_a_signal_interrupts_is_made_again)
{
	ping();
	sends = (struct failing){ 2, EINTR };
	receives = (struct failing){ 2, EINTR };
	check_passes();
}

Test(check_socket, an_answer_that_is_not_there_after_all_is_waited_for)
{
	ping();
	receives = (struct failing){ 2, EAGAIN };
	check_passes();
}

Test(check_socket, one_byte_may_be_sent)
{
	char byte[] = "+";
	config = check_support_config(CONFIG_CHECK_TCP);
	config.send = config.expect = byte;
	config.send_len = config.expect_len = 1;
	serve(ANSWERS_WHAT_IT_IS_SENT, "");
	check_passes();
}

Test(check_socket, a_connection_that_takes_nothing_is_failing)
{
	ping();
	sends = (struct failing){ 1, EPIPE };
	check_fails("cannot send: Broken pipe");
}

Test(check_socket, a_connection_that_is_lost_before_the_answer_is_failing)
{
	ping();
	receives = (struct failing){ 1, ECONNRESET };
	check_fails("connection lost: Connection reset by peer");
}

Test(check_socket, a_connection_that_cannot_be_asked_for_its_error_is_failing)
{
	ping();
	questions = (struct failing){ 1, ENOBUFS };
	check_fails("cannot connect: No buffer space available");
}

Test(check_socket, a_connection_that_cannot_be_watched_is_failing)
{
	ping();
	ev_run(loop, EVRUN_NOWAIT); /* the loop watches its own descriptors first */
	watches = (struct failing){ 1, ENOSPC };
	check_fails("cannot connect: the kernel refuses to watch the connection");
}
