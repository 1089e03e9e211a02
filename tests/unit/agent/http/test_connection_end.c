/* The end of a connection: the client goes away or is silent, or a call fails. */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/base/array.h"
#include "tests/support/failing.h"
#include "tests/support/http_stage.h"

#define GET "GET / HTTP/1.1\r\nHost: a\r\n\r\n"
#define POST(more) "POST / HTTP/1.1\r\nHost: a\r\n" more "\r\n"

TestSuite(http_connection, .init = http_stage_begin, .fini = http_stage_end);

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

/* Without anything to do the server makes no calls for a connection. */
static bool is_quiet(void)
{
	static const char *const kinds[] = { "receive", "send" };
	bool quiet = true;
	for (size_t i = 0; i < 2; i++) {
		failing_arm(kinds[i], 1, EAGAIN);
		http_stage_turn();
		quiet = !failing_disarm() && quiet;
	}
	return quiet;
}

static struct http_request *late;

static void answer_late(void *context)
{
	(void)context;
	http_stage_hello(late);
}

static void wait_for_the_end(struct http_request *request)
{
	late = request;
	http_on_closed(request, answer_late, NULL);
}

Test(http_connection, that_ends_takes_no_answer_any_more)
{
	int fd = http_stage_connect();
	http_stage.handle = wait_for_the_end;
	http_stage_send(fd, GET);
	http_stage_open_again();
	cr_expect_str_eq(http_stage_receive(fd), "");
	cr_expect(http_stage_has_ended(fd));
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
	cr_expect(is_quiet());
	/* No event says that it goes now: the sweep looks. */
	close(fd);
	http_stage_pass(31);
	cr_expect_eq(http_stage.closed, 1);
}

Test(http_connection, that_fails_is_closed_and_others_go_on)
{
	static const struct {
		const char *kind;
		int error;
		bool closed;
	} cases[] = { { "receive", ECONNRESET, true }, { "receive", EAGAIN, false },
		{ "receive", EINTR, false }, { "send", EPIPE, true }, { "send", EAGAIN, false },
		{ "send", EINTR, false } };
	int other = http_stage_connect();
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		int fd = http_stage_connect();
		failing_arm(cases[i].kind, 1, cases[i].error);
		http_stage_send(fd, GET);
		http_stage_turn();
		cr_expect(failing_disarm());
		cr_expect_eq(http_stage_has_closed(fd), cases[i].closed, "%s %d", cases[i].kind,
			cases[i].error);
		cr_expect(cases[i].closed || strcmp(http_stage_receive(fd), HTTP_STAGE_HELLO) == 0);
		close(fd);
	}
	cr_expect_str_eq(http_stage_ask(other, GET), HTTP_STAGE_HELLO);
	close(other);
}

Test(http_connection, that_the_kernel_does_not_watch_is_closed)
{
	int first = http_stage_connect();
	failing_arm("epoll", 1, ENOSPC);
	int fd = http_stage_connect();
	cr_expect(failing_disarm());
	cr_expect(http_stage_has_closed(fd));
	cr_expect_eq(http_stage_logged("cannot accept a connection: "), 1);
	close(fd);
	/* No other is accepted for a moment. */
	fd = http_stage_connect();
	cr_expect_eq(http_connections(http_stage.http), 1);
	http_stage_pass(1);
	cr_expect_str_eq(http_stage_ask(fd, GET), HTTP_STAGE_HELLO);
	cr_expect_str_eq(http_stage_ask(first, GET), HTTP_STAGE_HELLO);
	close(first);
	close(fd);
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
