/* Streams: what a client gets of them at which speed, and how they end. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/support/http_stage.h"
#include "tests/unit/agent/http/window.h"

#define GET "GET / HTTP/1.1\r\nHost: a\r\n\r\n"
#define HEAD(more)                                                                                 \
	"HTTP/1.1 200 OK\r\n" more                                                                 \
	"Content-Type: text/event-stream\r\nCache-Control: no-store\r\nVary: Accept\r\n"
#define CHUNKED "Transfer-Encoding: chunked\r\n\r\n"

TestSuite(http_stream, .init = http_stage_begin, .fini = http_stage_end);

/* The bytes that the source of the stream has for the client. */
static const char *next;
static size_t asked;   /* how often */
static size_t endless; /* bytes that it gives besides, in pieces as large as they may be */
static struct http_request *streaming;

static size_t on_read(void *context, char *buffer, size_t size)
{
	cr_expect_eq(context, &next);
	asked++;
	size_t len = endless < size ? endless : size;
	memset(buffer, 'e', len);
	endless -= len;
	if (len == 0 && next) {
		len = strlen(next);
		memcpy(buffer, next, len);
		next = NULL;
	}
	return len;
}

static void on_closed(void *context)
{
	cr_expect_eq(context, &next);
	http_stage.closed++;
}

static void stream(struct http_request *request)
{
	static const struct http_stream_callbacks callbacks = {
		.on_read = on_read, .on_closed = on_closed, .context = &next
	};
	streaming = request;
	http_stream(request, "text/event-stream", "", &callbacks);
}

static int open_stream(void)
{
	int fd = http_stage_connect();
	http_stage.handle = stream;
	cr_assert_str_eq(http_stage_ask(fd, GET), HEAD("") CHUNKED);
	return fd;
}

static void say(const char *text)
{
	next = text;
	http_stream_wake(streaming);
	http_stage_turn();
}

Test(http_stream, is_chunks_as_they_are_made)
{
	int fd = open_stream();
	say("one\n");
	cr_expect_str_eq(http_stage_receive(fd), "4\r\none\n\r\n");
	say("twenty-six characters here");
	say("three");
	cr_expect_str_eq(
		http_stage_receive(fd), "1a\r\ntwenty-six characters here\r\n5\r\nthree\r\n");
	cr_expect_eq(http_requests(http_stage.http), 1);
	close(fd);
	http_stage_turn();
	cr_expect_eq(http_stage.closed, 1);
	cr_expect_eq(http_requests(http_stage.http), 0);
	cr_expect_eq(http_connections(http_stage.http), 0);
}

Test(http_stream, to_a_client_of_1_0_is_bytes_until_the_end)
{
	int fd = http_stage_connect();
	http_stage.handle = stream;
	next = "begin";
	cr_expect_str_eq(http_stage_ask(fd, "GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"),
		HEAD("Connection: close\r\n") "\r\nbegin");
	say("more");
	cr_expect_str_eq(http_stage_receive(fd), "more");
	http_stream_end(streaming);
	cr_expect(http_stage_has_ended(fd));
	close(fd);
}

Test(http_stream, that_breaks_off_is_closed_once)
{
	int fd = open_stream();
	next = "never";
	http_stream_end(streaming);
	http_stream_wake(streaming);
	cr_expect_eq(http_stage.closed, 0, "later");
	http_stage_turn();
	cr_expect_eq(http_stage.closed, 1);
	cr_expect_str_eq(http_stage_receive(fd), "");
	cr_expect(http_stage_has_ended(fd));
	cr_expect_eq(http_connections(http_stage.http), 0);
	close(fd);
}

/* Reads the chunks of `e` that have come; how many bytes are in them. */
static size_t read_chunks(int fd)
{
	static char bytes[5 * 1024 * 1024];
	size_t len = 0;
	for (ssize_t part = 1; part > 0;) {
		part = recv(fd, bytes + len, sizeof(bytes) - len, MSG_DONTWAIT);
		len += part > 0 ? (size_t)part : 0;
		http_stage_turn();
	}
	size_t sum = 0;
	for (char *at = bytes; at < bytes + len;) {
		char *begin;
		size_t size = strtoul(at, &begin, 16);
		cr_assert_eq(memcmp(begin, "\r\n", 2), 0);
		cr_assert_eq(memcmp(begin + 2 + size, "\r\n", 2), 0);
		cr_assert(size > 0 && begin[2] == 'e' && begin[1 + size] == 'e');
		sum += size;
		at = begin + 2 + size + 2;
	}
	return sum;
}

Test(http_stream, waits_for_a_client_that_reads_slowly)
{
	enum { ALL = 3 * 1024 * 1024 };
	int fd = open_stream();
	endless = ALL;
	say("");
	cr_expect_gt(endless, ALL / 2, "the source keeps what the client does not read");
	size_t left = endless;
	http_stream_wake(streaming);
	http_stage_turn();
	cr_expect_eq(endless, left, "no more without a reader");
	cr_expect_eq(read_chunks(fd), ALL);
	cr_expect_eq(endless, 0);
	close(fd);
}

Test(http_stream, leaves_turns_to_other_clients)
{
	int other = http_stage_connect();
	int fd = open_stream();
	int all = 4 * 1024 * 1024;
	setsockopt(http_stage_connection(1)->io.fd, SOL_SOCKET, SO_SNDBUF, &all, sizeof(all));
	endless = (size_t)all;
	http_stream_wake(streaming);
	http_stage.handle = http_stage_hello;
	/* Both are to be served in the same turns. */
	send(other, GET, strlen(GET), 0);
	while (http_stage.requests < 2) {
		ev_run(http_stage.loop, EVRUN_NOWAIT);
	}
	cr_expect_gt(endless, 0);
	cr_expect_eq(read_chunks(fd), (size_t)all);
	cr_expect_str_eq(http_stage_receive(other), HTTP_STAGE_HELLO);
	close(other);
	close(fd);
}

/* The bytes that the socket did not take are sent first. */
Test(http_stream, loses_nothing_between_pieces)
{
	int fd = open_stream();
	int small = 1;
	setsockopt(http_stage_connection(0)->io.fd, SOL_SOCKET, SO_SNDBUF, &small, sizeof(small));
	endless = 200 * 1024;
	next = "eeee";
	http_stream_wake(streaming);
	http_stage_turn();
	cr_expect_gt(endless, 0);
	cr_expect_eq(read_chunks(fd), 200 * 1024 + 4);
	cr_expect_eq(http_stage.http->held, 0);
	close(fd);
}

Test(http_stream, follows_no_other_request_of_the_client)
{
	int fd = open_stream();
	for (int i = 0; i < 1000; i++) {
		http_stage_send(fd, GET);
	}
	cr_expect_eq(http_stage.http->held, 0, "nothing of it is kept");
	say("one");
	cr_expect_str_eq(http_stage_receive(fd), "3\r\none\r\n");
	cr_expect_eq(http_stage.requests, 1);
	close(fd);
	http_stage_turn();
	cr_expect_eq(http_stage.closed, 1);
}

/* Over a Unix socket a client may end its half and read on. */
Test(http_stream, to_a_local_client_goes_on_behind_its_half)
{
	int fd = open_stream();
	shutdown(fd, SHUT_WR);
	say("one");
	cr_expect_str_eq(http_stage_receive(fd), "3\r\none\r\n");
	cr_expect(http_stage_is_at_rest());
	close(fd);
	http_stage_turn();
	say("two");
	cr_expect_eq(http_stage.closed, 1);
}

Test(http_stream, to_a_remote_client_ends_with_its_half)
{
	http_stage_open_tcp();
	int fd = http_stage_connect_remote();
	http_stage.handle = stream;
	cr_expect_str_eq(http_stage_ask_remote(fd, GET), HEAD("") CHUNKED);
	shutdown(fd, SHUT_WR);
	for (int i = 0; i < 60000 && http_stage.closed == 0; i++) {
		http_stage_turn();
		usleep(1000);
	}
	cr_expect_eq(http_stage.closed, 1);
	close(fd);
}

Test(http_stream, arrives_whole_wherever_it_is_cut)
{
	static const char text[] = "5\r\none, \r\n3\r\ntwo\r\n";
	int fd = open_stream();
	for (size_t taken = 0; taken < sizeof(text); taken++) {
		window = taken;
		say("one, ");
		say("two");
		window = SIZE_MAX;
		http_stage_turn();
		cr_assert_str_eq(http_stage_receive(fd), text, "cut at %zu", taken);
	}
	close(fd);
}
