/* Whole runs of tcp and http checks against servers of every kind. */
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <sys/un.h>

#include "agent/check/http.h"
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
	return cr_make_param_array(struct body_case, cases, ARRAY_LEN(cases));
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

/* No callback comes, but the result is complete. */
Test(check_net, a_request_that_is_too_long_cannot_be_sent)
{
	static char path[CHECK_HTTP_REQUEST_BYTES];
	memset(path, '/', sizeof(path) - 1);
	config = check_support_config(CONFIG_CHECK_HTTP);
	config.target_path = path;
	struct check_run_callbacks callbacks = { on_result, on_gone, NULL };
	cr_assert_null(check_probe_start(loop, &config, NULL, &linger, NULL, &callbacks, &result));
	cr_expect_eq(result.verdict, CHECK_COULD_NOT_RUN);
	cr_expect_str_eq(result.detail, "the request is longer than 16384 bytes");
	cr_expect_gt(result.started, 0);
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

Test(check_net, a_run_that_is_given_up_leaves_nothing)
{
	const struct check_run_callbacks callbacks = { on_result, on_gone, NULL };
	config = check_support_config(CONFIG_CHECK_TCP);
	serve(SAYS_NOTHING, "");
	config.target_port = port;
	int descriptors = descriptors_count();
	struct check_probe *probe = check_probe_start(
		loop, &config, NULL, &linger, NULL, &callbacks, &result);
	cr_assert_not_null(probe);
	ev_invoke_pending(loop); /* the check begins to connect */
	cr_expect_gt(descriptors_count(), descriptors);
	check_probe_abandon(probe);
	cr_expect_eq(descriptors_count(), descriptors);
	for (int i = 0; i < 5; i++) {
		ev_run(loop, EVRUN_NOWAIT);
	}
	cr_expect_not(gone);
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
