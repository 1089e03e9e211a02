/* The life of a connection: requests in pieces and in a row, bodies, refusals. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/base/array.h"
#include "tests/support/http_stage.h"

#define GET "GET / HTTP/1.1\r\nHost: a\r\n\r\n"
#define POST(more) "POST / HTTP/1.1\r\nHost: a\r\n" more "\r\n"
#define CONTINUE "HTTP/1.1 100 Continue\r\n\r\n"

TestSuite(http_connection, .init = http_stage_begin, .fini = http_stage_end);

static bool begins(const char *text, const char *beginning)
{
	return strncmp(text, beginning, strlen(beginning)) == 0;
}

/* ---- requests in a row ---- */

Test(http_connection, reads_a_request_in_any_pieces)
{
	int fd = http_stage_connect();
	for (const char *at = GET; *at; at++) {
		cr_expect_str_eq(http_stage_receive(fd), "");
		http_stage_send_bytes(fd, at, 1);
	}
	cr_expect_str_eq(http_stage_receive(fd), HTTP_STAGE_HELLO);
	cr_expect_str_eq(http_stage_ask(fd, GET GET), HTTP_STAGE_HELLO HTTP_STAGE_HELLO);
	cr_expect_eq(http_stage.requests, 3);
	close(fd);
	http_stage_turn();
	cr_expect_eq(http_connections(http_stage.http), 0);
}

Test(http_connection, answers_in_the_order_of_the_requests)
{
	int fd = http_stage_connect();
	http_stage.handle = http_stage_keep;
	http_stage_send(fd, GET);
	http_stage_send(fd, POST("Content-Length: 4\r\n") "bo");
	http_stage_send(fd, "dy" GET);
	cr_expect_eq(http_stage.requests, 1);
	http_stage.handle = http_stage_hello;
	http_stage_answer(http_stage.request, 200, "first\n");
	cr_expect_str_eq(http_stage_receive(fd),
		HTTP_STAGE_TEXT("6", "first\n") HTTP_STAGE_HELLO HTTP_STAGE_HELLO);
	cr_expect_eq(http_stage.requests, 3);
	close(fd);
}

static void answer_next(int fd)
{
	http_stage_hello(http_stage.request);
	http_stage_turn();
	cr_assert_str_eq(http_stage_receive(fd), HTTP_STAGE_HELLO);
}

Test(http_connection, loses_no_request_of_many)
{
	enum { REQUESTS = 1500 };
	static char text[REQUESTS * sizeof(GET)] = "";
	int fd = http_stage_connect();
	size_t answered = 0;
	http_stage.handle = http_stage_keep;
	for (size_t i = 0; i < REQUESTS; i++) {
		strcpy(&text[i * strlen(GET)], GET);
	}
	for (size_t sent = 0; sent < strlen(text);) {
		size_t part = http_stage_send_bytes(fd, text + sent, strlen(text + sent));
		if (part == 0) { /* the server reads so far ahead, and no further */
			answer_next(fd);
			answered++;
		}
		sent += part;
	}
	while (answered < REQUESTS) {
		answer_next(fd);
		answered++;
	}
	cr_expect_eq(http_stage.requests, REQUESTS);
	cr_expect_eq(http_stage.http->held, 0, "the memory for what came early is given back");
	close(fd);
}

/* A successor gets the connections that have no request under way. */
Test(http_connection, is_idle_between_requests_and_behind_empty_lines)
{
	struct http_kept kept[2];
	int fd = http_stage_connect();
	cr_expect_eq(http_keep(http_stage.http, kept, 2), 1);
	http_stage_send(fd, "\r\n");
	cr_expect_eq(http_keep(http_stage.http, kept, 2), 1);
	http_stage_send(fd, "\r");
	cr_expect_eq(http_keep(http_stage.http, kept, 2), 0);
	http_stage_send(fd, "\n");
	cr_expect_eq(http_keep(http_stage.http, kept, 2), 1);
	http_stage_send(fd, "G");
	cr_expect_eq(http_keep(http_stage.http, kept, 2), 0);
	cr_expect_str_eq(http_stage_ask(fd, &GET[1]), HTTP_STAGE_HELLO);
	cr_expect_eq(http_keep(http_stage.http, kept, 2), 1);
	http_stage.handle = http_stage_keep;
	http_stage_send(fd, GET);
	cr_expect_eq(http_keep(http_stage.http, kept, 2), 0);
	close(fd);
}

/* ---- bodies ---- */

static char body[256 * 1024];

/* Asks with a body of so many bytes. */
static const char *ask_with_body(bool chunked, size_t len)
{
	static char answer[4096];
	char head[256];
	int fd = http_stage_connect();
	snprintf(head, sizeof(head), "POST / HTTP/1.1\r\nHost: a\r\n%s%zu\r\n\r\n%zx%s",
		chunked ? "Transfer-Encoding: chunked\r\nX-Len: " : "Content-Length: ", len, len,
		"\r\n");
	if (!chunked) {
		strstr(head, "\r\n\r\n")[4] = '\0';
	}
	memset(body, 'b', sizeof(body));
	http_stage_send(fd, head);
	http_stage_send_bytes(fd, body, len);
	if (chunked) {
		http_stage_send_bytes(fd, "\r\n0\r\n\r\n", 7);
	}
	snprintf(answer, sizeof(answer), "%s", http_stage_receive(fd));
	close(fd);
	return answer;
}

static size_t body_len;

static void note_body(struct http_request *request)
{
	body_len = request->body_len;
	cr_expect(strspn(request->body, "b") == body_len);
	http_stage_hello(request);
}

Test(http_connection, takes_a_body_of_the_longest_length)
{
	http_stage.handle = note_body;
	for (int i = 0; i < 4; i++) {
		http_stage.wants_body = i < 2;
		cr_expect_str_eq(ask_with_body(i % 2, HTTP_BODY_BYTES), HTTP_STAGE_HELLO);
		cr_expect_eq(body_len, i < 2 ? HTTP_BODY_BYTES : 0);
		const char *answer = ask_with_body(i % 2, HTTP_BODY_BYTES + 1);
		cr_expect(begins(answer, "HTTP/1.1 413 Content Too Large\r\n"), "%d %s", i, answer);
		cr_expect(strstr(answer, "\r\nConnection: close\r\n"));
		cr_expect(strstr(answer, "\"title\":\"LimitExceeded\""));
		cr_expect(strstr(answer, "the request body is too long"));
	}
	cr_expect_eq(http_stage.requests, 4);
	cr_expect_eq(http_requests(http_stage.http), 0);
}

/* The bytes that are thrown away count for one request alone. */
Test(http_connection, throws_each_body_away_that_nobody_wants)
{
	int fd = http_stage_connect();
	http_stage.wants_body = false;
	http_stage.handle = note_body;
	memset(body, 'b', sizeof(body));
	for (int i = 0; i < 3; i++) {
		http_stage_send(fd, POST("Transfer-Encoding: chunked\r\n") "c000\r\n");
		http_stage_send_bytes(fd, body, 0xc000);
		cr_expect_str_eq(http_stage_ask(fd, "\r\n0\r\n\r\n"), HTTP_STAGE_HELLO);
	}
	close(fd);
}

Test(http_connection, asks_for_a_body_that_waits_to_be_asked_for)
{
	int fd = http_stage_connect();
	http_stage.handle = note_body;
	for (int i = 0; i < 2; i++) {
		cr_expect_str_eq(
			http_stage_ask(fd, POST("Content-Length: 4\r\nExpect: 100-Continue\r\n")),
			CONTINUE);
		cr_expect_str_eq(http_stage_ask(fd, "bbbb"), HTTP_STAGE_HELLO);
		cr_expect_eq(body_len, 4);
	}
	/* The client does not wait for the word. */
	http_stage_send(fd, POST("Content-Length: 4\r\nExpect: 100-continue\r\n"));
	http_stage_send(fd, "bbbb");
	cr_expect_str_eq(http_stage_receive(fd), CONTINUE HTTP_STAGE_HELLO);
	/* It comes already. */
	cr_expect_str_eq(
		http_stage_ask(fd, POST("Content-Length: 4\r\nExpect: 100-continue\r\n") "b"), "");
	cr_expect_str_eq(http_stage_ask(fd, "bbb"), HTTP_STAGE_HELLO);
	/* There is none. */
	cr_expect_str_eq(http_stage_ask(fd, POST("Content-Length: 0\r\nExpect: 100-continue\r\n")),
		HTTP_STAGE_HELLO);
	/* The client does not know the word. */
	cr_expect_str_eq(http_stage_ask(fd,
				 "POST / HTTP/1.0\r\nConnection: keep-alive\r\n"
				 "Content-Length: 1\r\nExpect: 100-continue\r\n\r\n"),
		"");
	cr_expect(begins(http_stage_ask(fd, "b"), "HTTP/1.1 200 OK\r\nConnection: keep-alive\r\n"));
	close(fd);
}

Test(http_connection, answers_without_a_body_that_nobody_wants)
{
	int fd = http_stage_connect();
	http_stage.wants_body = false;
	const char *answer = http_stage_ask(
		fd, POST("Content-Length: 4\r\nExpect: 100-continue\r\n"));
	cr_expect(begins(answer, "HTTP/1.1 200 OK\r\nConnection: close\r\n"), "%s", answer);
	cr_expect(http_stage_has_ended(fd));
	cr_expect_eq(http_connections(http_stage.http), 1, "the body may still come");
	http_stage_send(fd, "body" GET);
	cr_expect_eq(http_stage.requests, 1);
	cr_expect(http_stage_has_ended(fd));
	close(fd);
	http_stage_turn();
	cr_expect_eq(http_connections(http_stage.http), 0);
}

/* ---- refusals ---- */

Test(http_connection, refuses_what_it_does_not_know)
{
	static const struct {
		const char *request;
		const char *line;
		const char *detail;
	} cases[] = {
		{ "BREW / HTTP/1.1\r\nHost: a\r\n\r\n", "501 Not Implemented", "no such method" },
		{ POST("Content-Length: 1\r\nContent-Encoding: gzip\r\n"),
			"415 Unsupported Media Type", "a body must not be encoded" },
		{ POST("Transfer-Encoding: chunked\r\nContent-Encoding: br\r\n"),
			"415 Unsupported Media Type", "a body must not be encoded" },
		{ POST("Content-Length: 65537\r\n"), "413 Content Too Large",
			"the request body is too long" },
		{ POST("Content-Length: 1\r\nExpect: 200-ok\r\n"), "417 Expectation Failed",
			"100-continue alone is expected" },
		{ "GET / HTTP/1.1\r\nHost: a\r\nExpect: x\r\n\r\n", "417 Expectation Failed",
			"100-continue alone is expected" },
		{ "GET / HTTP/1.1\r\n\r\n", "400 Bad Request", "Host" },
		{ "GET / HTTP/2.0\r\n\r\n", "505 HTTP Version Not Supported", "" },
	};
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		int fd = http_stage_connect();
		const char *answer = http_stage_ask(fd, cases[i].request);
		cr_expect(begins(answer, "HTTP/1.1 ") && begins(answer + 9, cases[i].line),
			"%s: %s", cases[i].request, answer);
		cr_expect(strstr(answer, "\r\nConnection: close\r\n"));
		cr_expect(strstr(answer, cases[i].detail), "%s: %s", cases[i].request, answer);
		cr_expect(http_stage_has_ended(fd));
		close(fd);
		http_stage_turn();
	}
	cr_expect_eq(http_stage.requests, 0);
	cr_expect_eq(http_requests(http_stage.http), 0);
	cr_expect_eq(http_connections(http_stage.http), 0);
	int fd = http_stage_connect();
	http_stage_send(fd, POST("Content-Length: 1\r\nContent-Encoding: Identity\r\n"));
	cr_expect_str_eq(http_stage_ask(fd, "b"), HTTP_STAGE_HELLO);
	cr_expect_str_eq(http_stage_ask(fd,
				 "GET / HTTP/1.1\r\nHost: a\r\n"
				 "Content-Encoding: gzip\r\n\r\n"),
		HTTP_STAGE_HELLO);
	/* The document says which resource it is about, once that is known. */
	const char *answer = http_stage_ask(fd, "BREW /tea HTTP/1.1\r\nHost: a\r\n\r\n");
	cr_expect(strstr(answer, "\"instance\":\"/tea\""), "%s", answer);
	close(fd);
	fd = http_stage_connect();
	cr_expect_not(strstr(http_stage_ask(fd, "GET /tea HTTP/1.1\r\n\r\n"), "\"instance\""));
	close(fd);
}

Test(http_connection, changes_nothing_when_the_condition_does_not_hold)
{
	static const struct {
		const char *method;
		const char *condition;
		bool holds;
	} cases[] = {
		{ "POST", "If-Match: \"x\"", false },
		{ "PUT", "If-Match: \"x\"", false },
		{ "DELETE", "If-Match: \"x\"", false },
		{ "PUT", "If-None-Match: *", false },
		{ "PUT", "If-Match: *", true },
		{ "PUT", "If-None-Match: \"x\"", true },
		{ "GET", "If-Match: \"x\"", true },
		{ "GET", "If-None-Match: *", true },
		{ "PUT", "X-None: 1", true },
	};
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		char text[256];
		int fd = http_stage_connect();
		size_t before = http_stage.requests;
		snprintf(text, sizeof(text), "%s / HTTP/1.1\r\nHost: a\r\n%s\r\n\r\n" GET,
			cases[i].method, cases[i].condition);
		const char *answer = http_stage_ask(fd, text);
		cr_expect(begins(answer, cases[i].holds ? "HTTP/1.1 200" : "HTTP/1.1 412"), "%s %s",
			cases[i].method, cases[i].condition);
		cr_expect(strstr(answer, HTTP_STAGE_HELLO), "the next request has its answer");
		cr_expect_eq(http_stage.requests, before + 1 + cases[i].holds);
		close(fd);
	}
}

/* The rest of a long request is read, so that the answer is not lost with it. */
Test(http_connection, reads_what_a_refused_client_still_sends)
{
	enum { MUCH = 4 * 1024 * 1024 };
	int fd = http_stage_connect();
	http_stage_send(fd, POST("Content-Length: 1000000000\r\n"));
	for (size_t sent = 0; sent < MUCH; sent += sizeof(body)) {
		cr_assert_eq(http_stage_send_bytes(fd, body, sizeof(body)), sizeof(body));
	}
	cr_expect_eq(http_connections(http_stage.http), 1);
	cr_expect(begins(http_stage_receive(fd), "HTTP/1.1 413 "));
	http_stage_send_bytes(fd, body, sizeof(body));
	cr_expect_eq(http_connections(http_stage.http), 0, "but not without end");
	close(fd);
	fd = http_stage_connect();
	http_stage_send(fd, POST("Content-Length: 1000000000\r\n"));
	shutdown(fd, SHUT_WR);
	http_stage_turn();
	cr_expect(http_stage_has_closed(fd));
	close(fd);
}

/* ---- memory ---- */

Test(http_connection, that_grows_without_room_is_closed)
{
	int waiting = http_stage_connect();
	int fd = http_stage_connect();
	http_stage.handle = http_stage_keep;
	http_stage_send(waiting, GET);
	http_hold(http_stage.request, HTTP_HELD_BYTES);
	http_stage.handle = http_stage_hello;
	cr_expect_str_eq(http_stage_ask(fd, GET), HTTP_STAGE_HELLO, "a small one needs none");
	http_stage_send(fd, POST("Content-Length: 60000\r\n"));
	cr_expect_eq(http_connections(http_stage.http), 2);
	http_stage_send_bytes(fd, body, 60000);
	cr_expect(http_stage_has_closed(fd));
	cr_expect_eq(http_connections(http_stage.http), 1);
	http_hold(http_stage_connection(0) ? &http_stage_connection(0)->request : NULL, 0);
	cr_expect_eq(http_stage.http->held, 0);
	close(fd);
	close(waiting);
}

/* ---- the client goes away ---- */

Test(http_connection, reports_once_that_the_client_has_gone)
{
	int fd = http_stage_connect();
	http_stage.handle = http_stage_keep;
	http_stage_send(fd, GET);
	cr_expect_eq(http_stage.closed, 0);
	close(fd);
	http_stage_turn();
	cr_expect_eq(http_stage.closed, 1);
	cr_expect_eq(http_connections(http_stage.http), 0);
	cr_expect_eq(http_requests(http_stage.http), 0);
}

/* `echo | nc -N` and many a script end their half and read. */
Test(http_connection, answers_a_client_that_has_ended_its_half)
{
	int fd = http_stage_connect();
	http_stage.handle = http_stage_keep;
	http_stage_send(fd, GET);
	shutdown(fd, SHUT_WR);
	http_stage_turn();
	cr_expect_eq(http_stage.closed, 0);
	http_stage_hello(http_stage.request);
	http_stage_turn();
	cr_expect_str_eq(http_stage_receive(fd), HTTP_STAGE_HELLO);
	cr_expect(http_stage_has_ended(fd));
	cr_expect(http_stage_has_closed(fd));
	close(fd);
	fd = http_stage_connect();
	http_stage_send_bytes(fd, GET, strlen(GET) - 2);
	shutdown(fd, SHUT_WR);
	cr_expect(http_stage_has_closed(fd), "half a request is not a request");
	close(fd);
}

static void turn_until_closed(size_t closed)
{
	for (int i = 0; i < 60000 && http_stage.closed < closed; i++) {
		http_stage_turn();
		usleep(1000);
	}
}

Test(http_connection, of_a_remote_client_that_ends_its_half_ends_a_lasting_answer)
{
	http_stage_open_tcp();
	http_stage.handle = http_stage_keep;
	int fd = http_stage_connect_remote();
	http_stage_send(fd, GET);
	while (http_stage.requests < 1) {
		http_stage_turn();
	}
	shutdown(fd, SHUT_WR);
	while (!http_stage_connection(0)->half_closed) {
		http_stage_turn();
	}
	cr_expect_eq(http_stage.closed, 0, "the answer may come soon");
	http_set_lasting(http_stage.request);
	http_stage_turn();
	cr_expect_eq(http_stage.closed, 1);
	close(fd);
	/* The other way round, and a third client that stays. */
	fd = http_stage_connect_remote();
	http_stage_send(fd, GET);
	while (http_stage.requests < 2) {
		http_stage_turn();
	}
	http_set_lasting(http_stage.request);
	http_stage_turn();
	cr_expect_eq(http_stage.closed, 1);
	shutdown(fd, SHUT_WR);
	turn_until_closed(2);
	cr_expect_eq(http_stage.closed, 2);
	close(fd);
}

Test(http_connection, of_a_local_client_lasts_behind_its_half)
{
	int fd = http_stage_connect();
	http_stage.handle = http_stage_keep;
	http_stage_send(fd, GET);
	http_set_lasting(http_stage.request);
	shutdown(fd, SHUT_WR);
	http_stage_turn();
	http_set_lasting(http_stage.request);
	http_stage_turn();
	http_stage_pass(31);
	cr_expect_eq(http_stage.closed, 0);
	/* No event says that it goes now: the sweep looks. */
	close(fd);
	http_stage_pass(31);
	cr_expect_eq(http_stage.closed, 1);
}

/* ---- silence ---- */

/* The server of the stage closes what is silent for a minute; it looks four times a minute. */
static bool survives_silence(int fd)
{
	for (int i = 0; i < 3; i++) {
		http_stage_pass(16);
		cr_assert_not(http_stage_has_closed(fd), "too early");
	}
	http_stage_pass(16);
	http_stage_pass(16);
	bool survives = !http_stage_has_closed(fd);
	close(fd);
	http_stage_turn();
	return survives;
}

Test(http_connection, that_is_silent_is_closed)
{
	int fd = http_stage_connect();
	cr_expect_not(survives_silence(fd), "without a request");
	fd = http_stage_connect();
	http_stage_pass(40);
	http_stage_ask(fd, GET);
	cr_expect_not(survives_silence(fd), "behind a request");
	fd = http_stage_connect();
	http_stage_pass(40);
	http_stage_send(fd, "GET ");
	cr_expect_not(survives_silence(fd), "within a request");
	fd = http_stage_connect();
	http_stage_pass(40);
	http_stage_send(fd, POST("Content-Length: 4\r\n"));
	cr_expect_not(survives_silence(fd), "within a body");
	cr_expect_eq(http_connections(http_stage.http), 0);
}

/* A byte now and then keeps no connection open. */
Test(http_connection, that_dribbles_a_request_is_closed)
{
	int fd = http_stage_connect();
	for (int i = 0; i < 5; i++) {
		http_stage_send_bytes(fd, &GET[i], 1);
		http_stage_pass(16);
	}
	cr_expect(http_stage_has_closed(fd));
	close(fd);
}

static char megabyte[1024 * 1024 + 1];

static void answer_megabyte(struct http_request *request)
{
	memset(megabyte, 'm', sizeof(megabyte) - 1);
	http_stage_answer(request, 200, megabyte);
}

Test(http_connection, that_takes_no_answer_is_closed)
{
	static char piece[300 * 1024];
	int fd = http_stage_connect();
	http_stage.handle = answer_megabyte;
	http_stage_pass(40);
	http_stage_send(fd, GET);
	cr_expect_eq(http_connections(http_stage.http), 1);
	http_stage_pass(40);
	/* It takes some. */
	cr_expect_gt(recv(fd, piece, sizeof(piece), MSG_DONTWAIT), 0);
	http_stage_turn();
	cr_expect_not(survives_silence(fd));
	cr_expect_eq(http_stage.http->held, 0);
}

static size_t read_nothing(void *context, char *buffer, size_t size)
{
	(void)context;
	(void)buffer;
	(void)size;
	return 0;
}

static void stream(struct http_request *request)
{
	http_stream(request, "text/plain", "",
		&(struct http_stream_callbacks){
			.on_read = read_nothing, .on_closed = http_stage_on_closed });
}

static void pin(struct http_request *request)
{
	http_pin(request);
	http_stage_hello(request);
}

Test(http_connection, that_waits_for_the_server_may_be_silent)
{
	int fd = http_stage_connect();
	http_stage.handle = http_stage_keep;
	http_stage_send(fd, GET);
	cr_expect(survives_silence(fd));
	fd = http_stage_connect();
	http_stage.handle = stream;
	http_stage_send(fd, GET);
	cr_expect(survives_silence(fd));
	/* The silence behind a late answer begins with the answer. */
	fd = http_stage_connect();
	http_stage.handle = http_stage_keep;
	http_stage_send(fd, GET);
	http_stage_pass(100);
	http_stage_hello(http_stage.request);
	cr_expect_not(survives_silence(fd));
	fd = http_stage_connect();
	http_stage_send(fd, GET);
	http_stage_pass(50);
	http_stage_pass(50);
	answer_megabyte(http_stage.request);
	cr_expect_not(survives_silence(fd));
}

Test(http_connection, that_is_pinned_may_be_silent_and_its_end_is_reported)
{
	int fd = http_stage_connect();
	http_stage.handle = pin;
	http_stage_ask(fd, GET);
	uint64_t id = http_stage.request->connection;
	http_stage_pass(16);
	http_stage_pass(100);
	cr_expect_str_eq(http_stage_ask(fd, GET), HTTP_STAGE_HELLO);
	cr_expect_eq(http_stage.pinned, 0);
	http_stage_send(fd, "GET "); /* this is not */
	cr_expect_not(survives_silence(fd));
	cr_expect_eq(http_stage.pinned, id);
}

Test(http_connection, whose_client_has_gone_unseen_is_found)
{
	int fd = http_stage_connect();
	http_stage.handle = http_stage_keep;
	http_stage_send(fd, GET GET); /* nothing is read as long as the second one waits */
	close(fd);
	http_stage_turn();
	cr_expect_eq(http_stage.closed, 0);
	http_stage_pass(31);
	cr_expect_eq(http_stage.closed, 1);
}
