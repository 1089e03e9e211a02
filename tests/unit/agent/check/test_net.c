/* Whole runs of tcp and http checks against servers of every kind. */
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <dlfcn.h>
#include <netdb.h>
#include <sys/un.h>

#include "lib/base/array.h"
#include "tests/support/scratch.h"
#include "tests/unit/agent/check/net_stage.h"

TestSuite(check_net, .init = start, .fini = finish);

struct server_case {
	enum manner manner;
	char text[96];
	int verdict;
	char detail[64];
};

ParameterizedTestParameters(check_net, an_http_answer_is_judged_by_its_status_line)
{
	static struct server_case cases[] = {
		{ ANSWERS, "HTTP/1.1 200 OK\r\n\r\n", CHECK_PASSING, "status 200" },
		{ ANSWERS, "HTTP/1.0 204\r\n\r\n", CHECK_PASSING, "status 204" },
		{ ANSWERS, "HTTP/1.1 299 Odd\n", CHECK_PASSING, "status 299" },
		{ ANSWERS, "HTTP/1.1 302 Found\r\nLocation: /ok\r\n\r\n", CHECK_FAILING,
			"status 302" },
		{ ANSWERS, "HTTP/1.1 503 No\r\n\r\n", CHECK_FAILING, "status 503" },
		{ ANSWERS, "HTTP/2 200\r\n\r\n", CHECK_FAILING, "the answer is not HTTP/1" },
		{ ANSWERS, "HTTP/1.1 2000\r\n\r\n", CHECK_FAILING, "the answer is not HTTP/1" },
		{ ANSWERS, "HTTP/1.1 2x0 OK\r\n\r\n", CHECK_FAILING, "the answer is not HTTP/1" },
		{ ANSWERS, "\r\nHTTP/1.1 200 OK\r\n", CHECK_FAILING, "the answer is not HTTP/1" },
		{ ANSWERS, "220 mail ready\r\n", CHECK_FAILING, "the answer is not HTTP/1" },
		{ ANSWERS, "\377\376\001\r\n", CHECK_FAILING, "the answer is not HTTP/1" },
		{ ANSWERS, "HTTP/1.1 200 OK", CHECK_FAILING, "the answer has no status line" },
		{ CLOSES, "", CHECK_FAILING, "the server closed without an answer" },
		{ FOR_EVER, "", CHECK_FAILING, "the answer has no status line" },
		{ SAYS_NOTHING, "", CHECK_TIMED_OUT, "no answer within 0.5s" },
		{ ONE_BYTE_A_TIME, "", CHECK_TIMED_OUT, "no answer within 0.5s" },
	};
	return cr_make_param_array(struct server_case, cases, ARRAY_LEN(cases));
}

static bool expects_timeout(const struct server_case *its)
{
	return its->verdict == CHECK_TIMED_OUT;
}

static void expect_case(const struct server_case *its)
{
	cr_expect_str_eq(check_verdict_name(result.verdict), check_verdict_name(its->verdict),
		"%s: %s", its->text, result.detail);
	cr_expect_str_eq(result.detail, its->detail);
}

ParameterizedTest(struct server_case *its, check_net, an_http_answer_is_judged_by_its_status_line)
{
	config = check_support_config(CONFIG_CHECK_HTTP);
	if (expects_timeout(its)) {
		config.timeout_ms = 500;
	}
	serve(its->manner, its->text);
	run(CONFIG_CHECK_HTTP);
	expect_case(its);
}

ParameterizedTestParameters(check_net, a_tcp_answer_is_searched_for_what_is_expected)
{
	static struct server_case cases[] = {
		{ ANSWERS, "well, pong then", CHECK_PASSING,
			"expected bytes found in an answer of 15 bytes" },
		{ ANSWERS, "ping", CHECK_FAILING,
			"expected bytes not found in an answer of 4 bytes" },
		{ ANSWERS_WHAT_IT_IS_SENT, "", CHECK_FAILING,
			"expected bytes not found in an answer of 4 bytes" },
		{ CLOSES, "", CHECK_FAILING, "expected bytes not found in an answer of 0 bytes" },
		{ FOR_EVER, "", CHECK_FAILING,
			"expected bytes not found in an answer of 65536 bytes" },
		{ SAYS_NOTHING, "", CHECK_TIMED_OUT, "no answer within 0.5s" },
		{ ONE_BYTE_A_TIME, "", CHECK_TIMED_OUT, "no answer within 0.5s" },
	};
	return cr_make_param_array(struct server_case, cases, ARRAY_LEN(cases));
}

ParameterizedTest(struct server_case *its, check_net, a_tcp_answer_is_searched_for_what_is_expected)
{
	config = check_support_config(CONFIG_CHECK_TCP);
	config.send_len = 4;
	if (expects_timeout(its)) {
		config.timeout_ms = 500;
	}
	serve(its->manner, its->text);
	run(CONFIG_CHECK_TCP);
	expect_case(its);
}

struct body_case {
	char text[128];
	char match[16];
	bool invert;
	bool ignore_case;
	int verdict;
	char detail[64];
};

Test(check_net, a_unix_socket_is_a_target)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	char folder[SCRATCH_PATH];
	scratch_folder(folder);
	snprintf(address.sun_path, sizeof(address.sun_path), "%s/s", folder);
	int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	cr_assert_eq(bind(listener, (struct sockaddr *)&address, sizeof(address)), 0);
	cr_assert_eq(listen(listener, 8), 0);
	server = fork();
	if (server == 0) {
		int connection = accept(listener, NULL, NULL);
		treat(connection, ANSWERS, "HTTP/1.1 204 No Content\r\n\r\n");
		_exit(0);
	}
	close(listener);
	config = check_support_config(CONFIG_CHECK_HTTP);
	config.target_host = address.sun_path;
	run(CONFIG_CHECK_HTTP);
	cr_expect_str_eq(result.detail, "status 204");
	unlink(address.sun_path);
	run(CONFIG_CHECK_HTTP);
	cr_expect_str_eq(result.detail, "cannot connect: No such file or directory");
	rmdir(folder);
}

Test(check_net, connecting_is_enough_when_nothing_is_expected)
{
	config = check_support_config(CONFIG_CHECK_TCP);
	serve(SAYS_NOTHING, "");
	run(CONFIG_CHECK_TCP);
	cr_expect_eq(result.verdict, CHECK_PASSING);
	cr_expect_str_eq(result.detail, "connected");
}

Test(check_net, the_request_is_what_the_configuration_says)
{
	char method[] = "HEAD", path[] = "/health?deep=1", host[] = "web.example.org";
	struct config_status_range any = { 100, 599 };
	int listener = listen_somewhere();
	config = check_support_config(CONFIG_CHECK_HTTP);
	config.method = method;
	config.target_path = path;
	config.host = host;
	config.expect_status = &any;
	server = fork();
	if (server == 0) {
		char request[1024] = "";
		int connection = accept(listener, NULL, NULL);
		(void)!read(connection, request, sizeof(request) - 1);
		bool right =
			strcmp(request,
				"HEAD /health?deep=1 HTTP/1.1\r\nHost: web.example.org\r\n"
				"User-Agent: berth\r\nAccept: */*\r\nConnection: close\r\n\r\n") ==
			0;
		dprintf(connection, "HTTP/1.1 %d X\r\n\r\n", right ? 222 : 500);
		_exit(0);
	}
	close(listener);
	run(CONFIG_CHECK_HTTP);
	cr_expect_str_eq(result.detail, "status 222");
	cr_expect_str_eq(result.output, "HTTP/1.1 222 X");
}

/*
 * Starts a check whose answer is there, but not read, when its time is over; false when the time
 * was over before it asked.
 */
static bool leave_an_answer_unread(void)
{
	char request[1024], word = 0;
	int listener = listen_somewhere();
	int pair[2];
	cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
	server = fork();
	if (server == 0) {
		close(pair[0]);
		int connection = accept(listener, NULL, NULL);
		(void)!read(connection, request, sizeof(request));
		(void)!write(pair[1], "?", 1);
		(void)!read(pair[1], &word, 1);
		say(connection, "HTTP/1.1 200 OK\r\n\r\n", 19);
		_exit(0);
	}
	close(listener);
	close(pair[1]);
	struct check_run_callbacks callbacks = { on_result, on_gone, NULL };
	gone = false;
	cr_assert_not_null(
		check_probe_start(loop, &config, NULL, &linger, NULL, &callbacks, &result));
	while (!gone && recv(pair[0], &word, 1, MSG_DONTWAIT) != 1) {
		ev_run(loop, EVRUN_NOWAIT);
	}
	if (!gone) {
		siginfo_t ended;
		(void)!write(pair[0], "!", 1);
		waitid(P_PID, (id_t)server, &ended, WEXITED | WNOWAIT);
		usleep((useconds_t)config.timeout_ms * 1000);
	}
	close(pair[0]);
	return !gone;
}

Test(check_net, an_answer_in_time_counts_though_the_agent_stood_still)
{
	config = check_support_config(CONFIG_CHECK_HTTP);
	config.timeout_ms = 300;
	config.target_port = port;
	while (!leave_an_answer_unread()) {
		end_server();
	}
	cr_assert(check_support_run_until_true(&gone));
	cr_expect_str_eq(result.detail, "status 200");
}

Test(check_net, slower_than_asked_is_a_warning)
{
	config = check_support_config(CONFIG_CHECK_TCP);
	char expect[] = "HHH";
	config.expect = expect;
	config.expect_len = 3;
	config.warn_time_ms = 1; /* three bytes take at least two tenths of a second */
	serve(ONE_BYTE_A_TIME, "");
	run(CONFIG_CHECK_TCP);
	cr_expect_eq(result.verdict, CHECK_WARNING);
	cr_expect_str_eq(result.detail, "slower than 0.001s");
}

/* ---- the resolver, in place of the C library's ---- */

/* "localhost" is 127.0.0.1 and then ::1; or two addresses that every machine has. */
static const char *first_address;
static const char *second_address;
static bool nameless; /* no name has an address */

int getaddrinfo(const char *host, const char *service, const struct addrinfo *hints,
	struct addrinfo **found)
{
	int (*real)(const char *, const char *, const struct addrinfo *,
		struct addrinfo **) = dlsym(RTLD_NEXT, "getaddrinfo");
	const char *instead = strcmp(host, "127.0.0.1") == 0 ? first_address : second_address;
	return nameless ? EAI_NONAME : real(instead ? instead : host, service, hints, found);
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

static void check_fails(const char *detail)
{
	run(CONFIG_CHECK_TCP);
	cr_expect_eq(result.verdict, CHECK_FAILING);
	cr_expect_str_eq(result.detail, detail);
}

/* A slow machine needs a longer timeout for the second address. */
Test(check_net, an_address_that_does_not_answer_has_half_of_the_time)
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

Test(check_net, an_address_that_is_not_reachable_is_passed_over)
{
	int listener = listen_somewhere();
	aim_at("255.255.255.255", "127.0.0.1", 30000);
	run(CONFIG_CHECK_TCP);
	cr_expect_str_eq(result.detail, "connected");
	close(listener);
}

Test(check_net, the_problem_is_that_of_the_last_address)
{
	int bound = bind_somewhere();
	aim_at("255.255.255.255", "127.0.0.1", 30000);
	check_fails("cannot connect: Connection refused");
	close(bound);
}

Test(check_net, a_name_without_an_address_is_failing)
{
	nameless = true;
	aim_at("", "", 30000);
	check_fails("cannot find the address of the target: Name or service not known");
}

Test(check_net, an_address_that_is_connected_has_all_the_time)
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

Test(check_net, a_connection_in_time_counts_though_the_agent_stood_still)
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
