#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <netinet/in.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/check/http.h"
#include "agent/check/probe.h"
#include "tests/support/check_support.h"
#include "tests/support/descriptors.h"
#include "tests/support/scratch.h"

/* How a server treats each connection. */
enum manner {
	ANSWERS,
	ANSWERS_WHAT_IT_IS_SENT,
	SAYS_NOTHING,
	RESETS,
	CLOSES,
	ONE_BYTE_A_TIME, /* ten bytes a second, of a long line */
	FOR_EVER         /* more than anybody should read */
};

static struct ev_loop *loop;
static struct config_check config;
static char port[8];
static pid_t server;
static struct check_result result;
static bool gone;

static void on_result(void *context, const struct check_result *said)
{
	(void)context;
	result = *said;
}

static void on_gone(void *context)
{
	(void)context;
	gone = true;
}

/* Takes a port that no other process can get, and does not listen on it. */
static int bind_somewhere(void)
{
	struct sockaddr_in address = { .sin_family = AF_INET,
		.sin_addr = { htonl(INADDR_LOOPBACK) } };
	socklen_t len = sizeof(address);
	int bound = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	cr_assert_eq(bind(bound, (struct sockaddr *)&address, len), 0);
	cr_assert_eq(getsockname(bound, (struct sockaddr *)&address, &len), 0);
	snprintf(port, sizeof(port), "%d", ntohs(address.sin_port));
	return bound;
}

static int listen_somewhere(void)
{
	int listener = bind_somewhere();
	cr_assert_eq(listen(listener, 8), 0);
	return listener;
}

static void say(int connection, const char *text, size_t len)
{
	if (send(connection, text, len, MSG_NOSIGNAL) < 0) {
		_exit(0);
	}
}

static void treat(int connection, enum manner manner, const char *text)
{
	static char request[65536];
	struct linger at_once = { 1, 0 };
	switch (manner) {
	case ANSWERS:
		/* Reads first: closing with unread data would be a reset. */
		(void)!read(connection, request, sizeof(request));
		say(connection, text, strlen(text));
		break;
	case ANSWERS_WHAT_IT_IS_SENT:
		say(connection, request, (size_t)read(connection, request, sizeof(request)));
		break;
	case SAYS_NOTHING:
		pause();
		break;
	case RESETS:
		setsockopt(connection, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
		break;
	case CLOSES:
		(void)!read(connection, request, sizeof(request));
		break;
	case ONE_BYTE_A_TIME:
		for (;;) {
			say(connection, "H", 1);
			usleep(100000);
		}
	case FOR_EVER:
		memset(request, 'x', sizeof(request));
		for (;;) {
			say(connection, request, sizeof(request));
		}
	}
}

static void serve(enum manner manner, const char *text)
{
	int listener = listen_somewhere();
	server = fork();
	if (server == 0) {
		for (;;) {
			int connection = accept(listener, NULL, NULL);
			treat(connection, manner, text);
			close(connection);
		}
	}
	close(listener);
}

static void start(void)
{
	loop = ev_default_loop(0);
}

static void end_server(void)
{
	siginfo_t unused;
	/* Unless it has ended by itself: another process may have its number by now. */
	if (waitid(P_PID, (id_t)server, &unused, WEXITED | WNOHANG | WNOWAIT) == 0) {
		kill(server, SIGKILL);
	}
	cr_expect(check_support_run_until_childless());
}

static void finish(void)
{
	if (server > 0) {
		end_server();
	}
}

TestSuite(check_net, .init = start, .fini = finish);

static void run(enum config_check_type type)
{
	char send[] = "ping", expect[] = "pong";
	if (!*config.target_port) {
		config.target_port = port;
	}
	config.type = type;
	if (type == CONFIG_CHECK_TCP && config.expect_len == 0 && config.send_len == 4) {
		config.send = send;
		config.expect = expect;
		config.expect_len = 4;
	}
	struct check_run_callbacks callbacks = { on_result, on_gone, NULL };
	int descriptors = descriptors_count();
	long memory = check_support_resident_bytes();
	gone = false;
	cr_assert_not_null(check_probe_start(loop, &config, NULL, &callbacks, &result));
	cr_assert(check_support_run_until_true(&gone));
	cr_expect_eq(descriptors_count(), descriptors, "a descriptor is left");
	cr_expect_lt(check_support_resident_bytes() - memory, 8L << 20);
}

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
	return cr_make_param_array(struct server_case, cases, sizeof(cases) / sizeof(cases[0]));
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
	return cr_make_param_array(struct server_case, cases, sizeof(cases) / sizeof(cases[0]));
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

ParameterizedTestParameters(check_net, an_http_body_is_matched)
{
	static struct body_case cases[] = {
		{ "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nUP\n", "^UP$", false, false,
			CHECK_PASSING, "status 200" },
		{ "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nUP\n", "^up$", false, false,
			CHECK_FAILING, "status 200, body does not match: ^up$" },
		{ "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nUP\n", "^up$", false, true,
			CHECK_PASSING, "status 200" },
		{ "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nDOWN\n", "DOWN", true, false,
			CHECK_FAILING, "status 200, body matches: DOWN" },
		{ "HTTP/1.1 200 OK\r\nX: UP\r\n\r\nto the end: UP", "UP$", false, false,
			CHECK_PASSING, "status 200" },
		{ "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
		  "1\r\nU\r\n1\r\nP\r\n0\r\n\r\n",
			"^UP$", false, false, CHECK_PASSING, "status 200" },
		{ "HTTP/1.1 500 No\r\nContent-Length: 2\r\n\r\nUP", "UP", false, false,
			CHECK_FAILING, "status 500" },
		{ "HTTP/1.1 200 OK\r\nX: UP\r\nContent-Length: 0\r\n\r\n", "UP", false, false,
			CHECK_FAILING, "status 200, body does not match: UP" },
	};
	return cr_make_param_array(struct body_case, cases, sizeof(cases) / sizeof(cases[0]));
}

ParameterizedTest(struct body_case *its, check_net, an_http_body_is_matched)
{
	config = check_support_config(CONFIG_CHECK_HTTP);
	config.match = its->match;
	config.match_invert = its->invert;
	config.match_ignore_case = its->ignore_case;
	serve(ANSWERS, its->text);
	run(CONFIG_CHECK_HTTP);
	cr_expect_str_eq(check_verdict_name(result.verdict), check_verdict_name(its->verdict),
		"%s: %s", its->text, result.detail);
	cr_expect_str_eq(result.detail, its->detail);
}

Test(check_net, an_http_request_has_the_headers_that_were_asked_for)
{
	char agent[] = "User-Agent", probe[] = "probe/1", token[] = "X-Token", value[] = "a b";
	struct config_name_value headers[] = { { agent, probe }, { token, value } };
	char host[] = "www.example.org";
	struct buffer request;
	struct check_socket_exchange exchange;
	config = check_support_config(CONFIG_CHECK_HTTP);
	config.headers = headers;
	config.header_count = 2;
	config.host = host;
	buffer_init(&request, CHECK_HTTP_REQUEST_BYTES);
	cr_assert(check_http_exchange(&config, &request, &exchange));
	cr_expect_str_eq(buffer_text(&request),
		"GET / HTTP/1.1\r\nHost: www.example.org\r\nAccept: */*\r\nUser-Agent: probe/1\r\n"
		"X-Token: a b\r\nConnection: close\r\n\r\n");
	buffer_finish(&request);
}

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

Test(check_net, a_reset_is_failing)
{
	config = check_support_config(CONFIG_CHECK_HTTP);
	serve(RESETS, "");
	run(CONFIG_CHECK_HTTP);
	cr_expect_eq(result.verdict, CHECK_FAILING);
	cr_expect_not_null(strstr(result.detail, "Connection reset"), "%s", result.detail);
}

Test(check_net, connecting_is_enough_when_nothing_is_expected)
{
	config = check_support_config(CONFIG_CHECK_TCP);
	serve(SAYS_NOTHING, "");
	run(CONFIG_CHECK_TCP);
	cr_expect_eq(result.verdict, CHECK_PASSING);
	cr_expect_str_eq(result.detail, "connected");
}

Test(check_net, a_closed_port_is_failing)
{
	config = check_support_config(CONFIG_CHECK_TCP);
	int bound = bind_somewhere();
	run(CONFIG_CHECK_TCP);
	cr_expect_eq(result.verdict, CHECK_FAILING);
	cr_expect_str_eq(result.detail, "cannot connect: Connection refused");
	close(bound);
}

Test(check_net, a_full_backlog_times_out_as_a_missing_connection)
{
	config = check_support_config(CONFIG_CHECK_TCP);
	config.timeout_ms = 300;
	int listener = listen_somewhere();
	listen(listener, 0);
	int clients[4];
	struct sockaddr_in address = { .sin_family = AF_INET,
		.sin_addr = { htonl(INADDR_LOOPBACK) },
		.sin_port = htons((uint16_t)atoi(port)) };
	for (int i = 0; i < 4; i++) {
		clients[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
		(void)!connect(clients[i], (struct sockaddr *)&address, sizeof(address));
	}
	run(CONFIG_CHECK_TCP);
	cr_expect_eq(result.verdict, CHECK_TIMED_OUT);
	cr_expect_str_eq(result.detail, "no connection within 0.3s");
	for (int i = 0; i < 4; i++) {
		close(clients[i]);
	}
	close(listener);
}

Test(check_net, localhost_needs_no_resolver)
{
	char localhost[] = "localhost";
	config = check_support_config(CONFIG_CHECK_TCP);
	config.target_host = localhost;
	serve(SAYS_NOTHING, "");
	run(CONFIG_CHECK_TCP);
	cr_expect_str_eq(result.detail, "connected");
}

/*
 * The machine's own name is in /etc/hosts wherever tests run; no resolver knows an invalid one (RFC
 * 6761).
 */
Test(check_net, an_unknown_name_is_failing_and_leaves_no_resolver)
{
	char name[] = "no-such-host.invalid";
	config = check_support_config(CONFIG_CHECK_TCP);
	config.target_host = name;
	snprintf(port, sizeof(port), "1");
	run(CONFIG_CHECK_TCP);
	cr_expect_not(check_verdict_good(result.verdict));
	cr_expect(strstr(result.detail, "address"), "%s", result.detail);
	cr_expect(check_support_run_until_childless());
}

Test(check_net, an_abandoned_lookup_leaves_nothing)
{
	char name[] = "no-such-host.invalid";
	config = check_support_config(CONFIG_CHECK_TCP);
	config.target_host = name;
	char any[] = "1";
	config.target_port = any;
	cr_assert(check_support_run_until_childless());
	int descriptors = descriptors_count();
	struct check_run_callbacks callbacks = { on_result, on_gone, NULL };
	struct check_probe *probe = check_probe_start(loop, &config, NULL, &callbacks, &result);
	cr_assert_not_null(probe);
	check_probe_abandon(probe);
	cr_expect(check_support_run_until_childless());
	cr_expect_not(gone);
	cr_expect_eq(descriptors_count(), descriptors);
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
	cr_assert_not_null(check_probe_start(loop, &config, NULL, &callbacks, &result));
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
	config.warn_time_ms = 100; /* three bytes take at least two tenths of a second */
	serve(ONE_BYTE_A_TIME, "");
	run(CONFIG_CHECK_TCP);
	cr_expect_eq(result.verdict, CHECK_WARNING);
	cr_expect_str_eq(result.detail, "slower than 0.1s");
}
