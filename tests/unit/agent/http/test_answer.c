/* Answers as the client gets them: their heads, conditions, and bodies of any size. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/support/http_stage.h"
#include "tests/unit/agent/http/window.h"

#define GET "GET / HTTP/1.1\r\nHost: a\r\n\r\n"

enum { LARGE = 512 * 1024 };

TestSuite(http_answer, .init = http_stage_begin, .fini = http_stage_end);

static int status;

static void answer_status(struct http_request *request)
{
	struct http_response *response = http_response_create("text/plain", "x", 1);
	http_response_header(response, "X-One", "1");
	http_response_header(response, "X-Two", "2");
	http_answer(request, status, response);
	http_response_free(response);
}

/* ---- heads ---- */

Test(http_answer, without_content_says_nothing_of_it)
{
	int fd = http_stage_connect();
	http_stage.handle = answer_status;
	status = 204;
	cr_expect_str_eq(http_stage_ask(fd, GET GET),
		"HTTP/1.1 204 No Content\r\nX-One: 1\r\nX-Two: 2\r\n\r\n"
		"HTTP/1.1 204 No Content\r\nX-One: 1\r\nX-Two: 2\r\n\r\n");
	status = 304;
	cr_expect_str_eq(http_stage_ask(fd, GET),
		"HTTP/1.1 304 Not Modified\r\nX-One: 1\r\nX-Two: 2\r\n\r\n");
	close(fd);
}

Test(http_answer, to_head_is_the_head_of_the_answer_to_get)
{
	int fd = http_stage_connect();
	cr_expect_str_eq(http_stage_ask(fd, "HEAD / HTTP/1.1\r\nHost: a\r\n\r\n" GET),
		HTTP_STAGE_TEXT("6", "") HTTP_STAGE_HELLO);
	close(fd);
}

Test(http_answer, says_whether_the_connection_goes_on)
{
	static const char *const requests[][2] = {
		{ "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", "close" },
		{ "GET / HTTP/1.0\r\n\r\n", "close" },
		{ "GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", "keep-alive" },
	};
	for (size_t i = 0; i < 3; i++) {
		char text[256];
		int fd = http_stage_connect();
		snprintf(text, sizeof(text),
			"HTTP/1.1 200 OK\r\nConnection: %s\r\nContent-Type: text/plain\r\n"
			"Content-Length: 6\r\n\r\nhello\n",
			requests[i][1]);
		cr_expect_str_eq(http_stage_ask(fd, requests[i][0]), text);
		cr_expect_eq(http_stage_has_ended(fd), i < 2);
		cr_expect_eq(http_connections(http_stage.http), i < 2 ? 0 : 1);
		close(fd);
	}
}

/* ---- problems ---- */

static void answer_problem(struct http_request *request)
{
	bool more = strcmp(request->path, "/more") == 0;
	struct http_response *problem = http_response_create_problem(status, "Title",
		more ? "\xff" : "what", more ? "/\xff" : NULL,
		more ? json_pack("{s:i}", "left", 3) : NULL);
	http_answer(request, status, problem);
	http_response_free(problem);
}

Test(http_answer, of_a_problem_is_a_document)
{
	int fd = http_stage_connect();
	http_stage.handle = answer_problem;
	status = 404;
	cr_expect_str_eq(http_stage_ask(fd, GET),
		"HTTP/1.1 404 Not Found\r\nContent-Type: application/problem+json\r\n"
		"Content-Length: 67\r\n\r\n"
		"{\"type\":\"about:blank\",\"title\":\"Title\",\"status\":404,"
		"\"detail\":\"what\"}");
	status = 503;
	const char *answer = http_stage_ask(fd, "GET /more HTTP/1.1\r\nHost: a\r\n\r\n");
	cr_expect(strstr(answer, "\r\nRetry-After: 1\r\n"), "%s", answer);
	cr_expect(strstr(answer,
			  "\"detail\":\"(not UTF-8)\",\"instance\":\"(not UTF-8)\",\"left\":3}"),
		"%s", answer);
	close(fd);
}

/* ---- conditions ---- */

static const char *own_tag = "\"tag\"";

static void answer_tagged(struct http_request *request)
{
	struct http_response *response = http_response_create("text/plain", "body", 4);
	http_response_header(response, "X-One", "1");
	if (own_tag) {
		http_response_etag(response, own_tag);
	}
	http_response_header(response, "X-Two", "2");
	http_answer(request, 200, response);
	http_response_free(response);
}

static const char *ask_if(const char *method, const char *condition)
{
	static char answer[1024];
	char text[1024];
	int fd = http_stage_connect();
	http_stage.handle = answer_tagged;
	snprintf(text, sizeof(text), "%s / HTTP/1.1\r\nHost: a\r\n%s\r\n", method, condition);
	snprintf(answer, sizeof(answer), "%s", http_stage_ask(fd, text));
	close(fd);
	return answer;
}

static int status_if(const char *method, const char *condition)
{
	const char *answer = ask_if(method, condition);
	cr_assert_eq(strncmp(answer, "HTTP/1.1 ", 9), 0);
	return atoi(answer + 9);
}

Test(http_answer, to_what_the_client_has_already_is_304)
{
	cr_expect_str_eq(ask_if("GET", "If-None-Match: \"x\", W/\"tag\"\r\n"),
		"HTTP/1.1 304 Not Modified\r\nX-One: 1\r\nETag: \"tag\"\r\nX-Two: 2\r\n\r\n");
	cr_expect_str_eq(ask_if("GET", "If-None-Match: \"other\"\r\n"),
		"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 4\r\nX-One: 1\r\n"
		"ETag: \"tag\"\r\nX-Two: 2\r\n\r\nbody");
	cr_expect_eq(status_if("HEAD", "If-None-Match: \"tag\"\r\n"), 304);
	cr_expect_eq(status_if("HEAD", "If-None-Match: \"other\"\r\n"), 200);
	cr_expect_eq(status_if("GET", "If-None-Match: *\r\n"), 304);
	cr_expect_eq(status_if("GET", ""), 200);
	cr_expect_eq(status_if("OPTIONS", "If-None-Match: \"tag\"\r\n"), 200);
	own_tag = NULL;
	cr_expect_eq(status_if("GET", "If-None-Match: \"tag\"\r\n"), 200);
	cr_expect_eq(status_if("GET", "If-None-Match: *\r\n"), 200);
}

/* ---- large bodies ---- */

static char *large;
static size_t released;
static struct http_response *shared;

static void release_large(void *context)
{
	cr_expect_eq(context, large);
	released++;
}

static void make_large(size_t len)
{
	large = malloc(len);
	for (size_t i = 0; i < len; i++) {
		large[i] = (char)('a' + i * i % 23);
	}
	shared = http_response_create_borrowed("text/plain", large, len, release_large, large);
}

static void answer_large(struct http_request *request)
{
	http_answer(request, 200, shared);
}

/* Reads so many bytes; how many are as they have to be. */
static size_t read_large(int fd, size_t len)
{
	char head[1024];
	ssize_t got = 0;
	for (char last = 0;
		!(last == '\n' && got > 3 && memcmp(head + got - 4, "\r\n\r\n", 4) == 0); got++) {
		if (recv(fd, &last, 1, MSG_DONTWAIT) != 1) {
			return 0;
		}
		head[got] = last;
	}
	char *body = malloc(len + 1);
	size_t done = 0;
	for (ssize_t part = 1; part > 0 && done < len;) {
		part = recv(fd, body + done, len - done, MSG_DONTWAIT);
		done += part > 0 ? (size_t)part : 0;
		http_stage_turn();
	}
	size_t right = 0;
	while (right < done && body[right] == large[right]) {
		right++;
	}
	free(body);
	return right;
}

Test(http_answer, of_any_size_arrives_whole_and_the_next_one_behind_it)
{
	int first = http_stage_connect();
	int second = http_stage_connect();
	http_stage.handle = answer_large;
	make_large(LARGE);
	size_t held = http_stage.http->held;
	http_stage_send(first, GET GET);
	http_stage_send(second, GET);
	cr_expect_eq(http_stage.requests, 2, "the second request waits for its turn");
	cr_expect_geq(http_stage.http->held, held + LARGE, "what waits is counted");
	cr_expect_lt(http_stage.http->held, held + 2 * LARGE, "for all clients once");
	http_response_free(shared);
	cr_expect_eq(read_large(first, LARGE), LARGE);
	cr_expect_eq(released, 0);
	cr_expect_eq(read_large(first, LARGE), LARGE);
	cr_expect_eq(http_stage.requests, 3);
	cr_expect_eq(released, 0, "the other client has not got it");
	cr_expect_eq(read_large(second, LARGE), LARGE);
	cr_expect_eq(released, 1);
	cr_expect_eq(http_stage.http->held, held);
	http_stage.handle = http_stage_hello;
	cr_expect_str_eq(http_stage_ask(first, GET), HTTP_STAGE_HELLO);
	close(first);
	close(second);
	free(large);
}

static const char *body;

static void answer_body(struct http_request *request)
{
	http_stage_answer(request, 200, body);
}

/* The answer and one behind it, when the kernel takes so many bytes of the first one at first. */
static void cut_answer(size_t taken, const char *answer)
{
	static char twice[8192];
	int fd = http_stage_connect();
	snprintf(twice, sizeof(twice), "%s%s", answer, answer);
	window = taken;
	http_stage_send(fd, GET GET);
	window = 7;
	http_stage_turn();
	window = SIZE_MAX;
	http_stage_turn();
	cr_assert_str_eq(http_stage_receive(fd), twice, "cut at %zu", taken);
	cr_assert_eq(http_requests(http_stage.http), 0);
	close(fd);
	http_stage_turn();
}

Test(http_answer, arrives_whole_wherever_it_is_cut)
{
	static char long_body[3001];
	static char answer[4096];
	http_stage.handle = answer_body;
	memset(long_body, 'b', sizeof(long_body) - 1);
	for (int i = 0; i < 3; i++) {
		body = i == 0 ? "some bytes" : i == 1 ? "1" : long_body;
		snprintf(answer, sizeof(answer), HTTP_STAGE_TEXT("%zu", "%s"), strlen(body), body);
		size_t len = strlen(answer) + HTTP_DATE_BYTES;
		for (size_t taken = 0; taken <= len; taken += 1 + taken / 200 * 50) {
			cut_answer(taken, answer);
		}
	}
}

Test(http_answer, whose_client_goes_away_is_given_back)
{
	int fd = http_stage_connect();
	http_stage.handle = answer_large;
	make_large(LARGE);
	http_stage_send(fd, GET);
	http_response_free(shared);
	cr_expect_eq(released, 0);
	close(fd);
	http_stage_turn();
	cr_expect_eq(released, 1);
	cr_expect_eq(http_connections(http_stage.http), 0);
	cr_expect_eq(http_stage.http->held, 0);
	free(large);
}

/* Bytes of answers that nobody reads, up to what the clients together may hold. */
Test(http_answer, that_is_large_has_to_have_room)
{
	enum { ALL = HTTP_HELD_BYTES };
	int waiting = http_stage_connect();
	int fd = http_stage_connect();
	http_stage.handle = http_stage_keep;
	http_stage_send(waiting, GET);
	struct http_request *waits = http_stage.request;
	http_stage.handle = answer_large;
	make_large(64 * 1024 + 1);
	http_stage_send(fd, GET);
	cr_expect_eq(read_large(fd, 64 * 1024 + 1), 64 * 1024 + 1);
	http_hold(waits, ALL);
	const char *answer = http_stage_ask(fd, GET);
	cr_expect(strstr(answer, "HTTP/1.1 503 "), "%s", answer);
	cr_expect(strstr(answer, "too many answers of this client wait to be read"), "%s", answer);
	http_response_free(shared);
	free(large);
	make_large(64 * 1024); /* the socket takes this at once */
	http_stage_send(fd, GET);
	cr_expect_eq(read_large(fd, 64 * 1024), 64 * 1024);
	http_response_free(shared);
	close(waiting);
	close(fd);
	free(large);
}
