/* The request of an http check, and how it judges an answer that has come as far as this. */
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <stdlib.h>
#include <string.h>

#include "agent/check/http.h"
#include "lib/base/array.h"
#include "tests/support/check_support.h"

/* The request, for the caller to free. */
static char *request_of(const struct config_check *config)
{
	struct buffer request;
	struct check_socket_exchange exchange;
	buffer_init(&request, CHECK_HTTP_REQUEST_BYTES);
	cr_assert(check_http_exchange(config, &request, &exchange));
	char *text = strndup(exchange.send, exchange.send_len);
	exchange.judge.destroy(exchange.judge.context);
	buffer_finish(&request);
	return text;
}

Test(check_http, a_header_of_the_configuration_takes_the_place_of_ours)
{
	char agent[] = "User-Agent", probe[] = "probe/1", token[] = "X-Token", value[] = "a b";
	struct config_name_value headers[] = { { token, value }, { agent, probe } };
	char host[] = "www.example.org";
	struct config_check config = check_support_config(CONFIG_CHECK_HTTP);
	config.headers = headers;
	config.header_count = 2;
	config.host = host;
	char *request = request_of(&config);
	cr_expect_str_eq(request,
		"GET / HTTP/1.1\r\nHost: www.example.org\r\nAccept: */*\r\nX-Token: a b\r\n"
		"User-Agent: probe/1\r\nConnection: close\r\n\r\n");
	free(request);
}

struct host_case {
	char target_host[24];
	char target_port[8];
	char host[32]; /* as the request names it */
};

ParameterizedTestParameters(check_http, the_host_is_that_of_the_target)
{
	static struct host_case cases[] = {
		{ "10.9.8.7", "8080", "10.9.8.7:8080" },
		{ "10.9.8.7", "80", "10.9.8.7" },
		{ "www.example.org", "80", "www.example.org" },
		{ "::1", "8080", "[::1]:8080" },
		{ "::1", "80", "[::1]" },
		{ "/run/web.sock", "", "localhost" },
	};
	return cr_make_param_array(struct host_case, cases, ARRAY_LEN(cases));
}

ParameterizedTest(struct host_case *its, check_http, the_host_is_that_of_the_target)
{
	struct config_check config = check_support_config(CONFIG_CHECK_HTTP);
	config.target_host = its->target_host;
	config.target_port = its->target_port;
	char expected[80];
	snprintf(expected, sizeof(expected), "\r\nHost: %s\r\nUser-Agent: berth\r\n", its->host);
	char *request = request_of(&config);
	cr_expect_not_null(strstr(request, expected), "%s", request);
	free(request);
}

/* ---- answers ---- */

/* Whether this much of an answer, in pieces of a size, is enough. */
static bool judge_pieces(const struct config_check *config, const char *answer, size_t len,
	size_t piece, bool complete, struct check_result *result)
{
	struct buffer request;
	struct check_socket_exchange exchange;
	buffer_init(&request, CHECK_HTTP_REQUEST_BYTES);
	cr_assert(check_http_exchange(config, &request, &exchange));
	*result = (struct check_result){ .verdict = CHECK_FAILING };
	bool enough = false;
	for (size_t at = 0; !enough && at < len; at += piece) {
		size_t next = len - at < piece ? len - at : piece;
		/* A copy without room around it: a sanitizer reports whoever reads more. */
		char *copy = malloc(next);
		memcpy(copy, answer + at, next);
		enough = exchange.judge.take(exchange.judge.context, copy, next, false, result);
		free(copy);
	}
	enough = enough ||
		(complete && exchange.judge.take(exchange.judge.context, "", 0, true, result));
	exchange.judge.destroy(exchange.judge.context);
	buffer_finish(&request);
	return enough;
}

/* The pieces make no difference. */
static bool judge(const struct config_check *config, const char *answer, size_t len, bool complete,
	struct check_result *result)
{
	struct check_result other;
	bool enough = judge_pieces(config, answer, len, len + 1, complete, result);
	cr_expect_eq(judge_pieces(config, answer, len, 1, complete, &other), enough);
	cr_expect_str_eq(other.detail, result->detail);
	return enough;
}

struct answer_case {
	char text[112];
	bool complete;
	bool enough;
	int verdict;
	char detail[80];
	char output[48];
	bool cut;
};

static void expect_answer(const struct config_check *config, const struct answer_case *its)
{
	struct check_result result;
	bool enough = judge(config, its->text, strlen(its->text), its->complete, &result);
	cr_expect_eq(enough, its->enough, "%s", its->text);
	if (enough) {
		cr_expect_str_eq(check_verdict_name(result.verdict),
			check_verdict_name(its->verdict), "%s: %s", its->text, result.detail);
		cr_expect_str_eq(result.detail, its->detail);
		cr_expect_str_eq(result.output, its->output);
		cr_expect_eq(result.output_cut, its->cut);
	}
}

/* The output that people see of a check is the status line. */
ParameterizedTestParameters(check_http, the_status_line_decides_as_soon_as_it_is_there)
{
	static struct answer_case cases[] = {
		{ "", .enough = false },
		{ "", true, true, CHECK_FAILING, "the server closed without an answer", "", false },
		{ "HTTP/1.1 200 OK", .enough = false },
		{ "HTTP/1.1 200 OK", true, true, CHECK_FAILING, "the answer has no status line",
			"HTTP/1.1 200 OK", true },
		{ "HTTP/1.1 200 OK\n", false, true, CHECK_PASSING, "status 200", "HTTP/1.1 200 OK",
			false },
		{ "HTTP/1.1 503 No\r\nX: y", false, true, CHECK_FAILING, "status 503",
			"HTTP/1.1 503 No", false },
		{ "\n", false, true, CHECK_FAILING, "the answer is not HTTP/1", "", false },
		{ "\r\n", false, true, CHECK_FAILING, "the answer is not HTTP/1", "", false },
		{ "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n", .enough = false },
		{ "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n", true, true, CHECK_FAILING,
			"the server closed after an interim answer", "HTTP/1.1 103 Early Hints",
			false },
		{ "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nA: b\r\n\r\n"
		  "HTTP/1.1 200 OK\r\n",
			false, true, CHECK_PASSING, "status 200", "HTTP/1.1 200 OK", false },
		{ "HTTP/1.1 100 Continue\r\n\r\nSMTP\r\n", false, true, CHECK_FAILING,
			"no status: its first line is not a status line", "SMTP", false },
		{ "HTTP/1.1 101 Switching Protocols\r\n", false, true, CHECK_FAILING,
			"no status: it switches to another protocol without a request",
			"HTTP/1.1 101 Switching Protocols", false },
	};
	return cr_make_param_array(struct answer_case, cases, ARRAY_LEN(cases));
}

ParameterizedTest(
	struct answer_case *its, check_http, the_status_line_decides_as_soon_as_it_is_there)
{
	struct config_check config = check_support_config(CONFIG_CHECK_HTTP);
	expect_answer(&config, its);
}

#define HEAD "HTTP/1.1 200 OK\r\n"

/* A server may keep the connection open behind its answer. */
ParameterizedTestParameters(check_http, a_body_is_matched_when_it_is_whole)
{
	static struct answer_case cases[] = {
		{ HEAD, .enough = false },
		{ HEAD "Content-Length: 6\r\n\r\nUP, no", false, true, CHECK_PASSING, "status 200",
			"UP, no", false },
		{ HEAD "Content-Length: 6\r\n\r\nUP", .enough = false },
		{ HEAD "Content-Length: 6\r\n\r\nUP", true, true, CHECK_PASSING, "status 200", "UP",
			false },
		{ HEAD "Content-Length: 2\r\n\r\nno", false, true, CHECK_FAILING,
			"status 200, body does not match: UP", "no", false },
		{ "HTTP/1.1 500 No\r\n", false, true, CHECK_FAILING, "status 500",
			"HTTP/1.1 500 No", false },
	};
	return cr_make_param_array(struct answer_case, cases, ARRAY_LEN(cases));
}

static struct config_check matching(char *pattern)
{
	struct config_check config = check_support_config(CONFIG_CHECK_HTTP);
	config.match = pattern;
	return config;
}

ParameterizedTest(struct answer_case *its, check_http, a_body_is_matched_when_it_is_whole)
{
	char pattern[] = "UP";
	struct config_check config = matching(pattern);
	expect_answer(&config, its);
}

Test(check_http, a_body_in_a_broken_form_is_failing)
{
	static const char answer[] = HEAD "Transfer-Encoding: chunked\r\n\r\nUP\r\n";
	static const char begin[] = "status 200, but: ";
	char pattern[] = "UP";
	struct config_check config = matching(pattern);
	struct check_result result;
	cr_expect(judge(&config, answer, strlen(answer), false, &result));
	cr_expect_eq(result.verdict, CHECK_FAILING);
	cr_expect_eq(strncmp(result.detail, begin, strlen(begin)), 0, "%s", result.detail);
	cr_expect_gt(strlen(result.detail), strlen(begin));
}

/* Its answer names the length of a body that does not come. */
Test(check_http, head_is_answered_without_a_body)
{
	static const char answer[] = HEAD "Content-Length: 4\r\n\r\n";
	char method[] = "HEAD", pattern[] = "DOWN";
	struct config_check config = matching(pattern);
	struct check_result result;
	config.match_invert = true;
	cr_expect_not(judge(&config, answer, strlen(answer), false, &result));
	config.method = method;
	cr_expect(judge(&config, answer, strlen(answer), false, &result));
	cr_expect_eq(result.verdict, CHECK_PASSING);
}

/* In two parts, so that the first one leaves less room for the second. */
Test(check_http, a_pattern_sees_the_first_64_kibibytes_of_a_body)
{
	enum { SECOND = 0x10100 };
	static const char head[] = HEAD "Transfer-Encoding: chunked\r\n\r\n2\r\n.\n\r\n10100\r\n";
	static char answer[sizeof(head) - 1 + SECOND];
	char *body = answer + sizeof(head) - 1;
	char seen[] = "UP$", unseen[] = "DOWN";
	struct config_check config = matching(seen);
	struct check_result result;
	memcpy(answer, head, sizeof(head) - 1);
	memset(body, '.', SECOND);
	memcpy(body + CHECK_HTTP_BODY_BYTES - 2 - 2, "UPDOWN", 6);
	cr_expect(judge(&config, answer, sizeof(answer), true, &result));
	cr_expect_str_eq(result.detail, "status 200");
	config.match = unseen;
	cr_expect(judge(&config, answer, sizeof(answer), true, &result));
	cr_expect_str_eq(result.detail, "status 200, body does not match: DOWN");
}
