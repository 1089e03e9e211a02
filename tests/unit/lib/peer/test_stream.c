/* One event stream from an agent, which the test is: it connects, flows, breaks and comes back. */
#include "lib/base/array.h"
#include "lib/peer/stream.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/peer/client.h"
#include "tests/support/descriptors.h"
#include "tests/support/scratch.h"
#include "tests/support/shifted_clock.h"
#include "tests/support/staged.h"

#define HEAD "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
#define SUBSCRIBED "{\"type\":\"SUBSCRIBED\",\"heartbeat_interval_seconds\":2}"
#define HEARTBEAT "{\"type\":\"HEARTBEAT\"}"

enum { BEGIN_MS = 1000000000, FRAME_BYTES = 4096 };

/* ---- the kernel ---- */

static uint32_t chance;  /* what it draws */
static bool no_chance;   /* it draws nothing */
static int recv_error;   /* of the next call; 0: none */
static char endless[64]; /* comes again and again; "": nothing */
static int reads;

ssize_t getrandom(void *bytes, size_t len, unsigned flags)
{
	(void)flags;
	if (no_chance) {
		errno = EAGAIN;
		return -1;
	}
	memset(bytes, 0, len);
	memcpy(bytes, &chance, len < sizeof(chance) ? len : sizeof(chance));
	return (ssize_t)len;
}

ssize_t recv(int fd, void *bytes, size_t len, int flags)
{
	reads++;
	if (recv_error) {
		errno = recv_error;
		recv_error = 0;
		return -1;
	}
	if (*endless) {
		memcpy(bytes, endless, strlen(endless));
		return (ssize_t)strlen(endless);
	}
	return recvfrom(fd, bytes, len, flags, NULL, NULL);
}

/* ---- the stage ---- */

struct stage {
	struct scratch_listener listener;
	struct client_stream *stream;
	int epoll_fd;
	int agent; /* its end of the connection; -1: none */
	char request[512];
	char events[512];
	int64_t now_ms;
	int descriptors;
};

static void take(void *context, json_t *event)
{
	struct stage *stage = context;
	size_t len = strlen(stage->events);
	const char *more = json_string_value(json_object_get(event, "n"));
	snprintf(stage->events + len, sizeof(stage->events) - len, "%s%s ",
		json_string_value(json_object_get(event, "type")), more ? more : "");
	json_decref(event);
}

static void open_stream(struct stage *stage, const char *target)
{
	struct err err = ERR_INIT;
	client_stream_free(stage->stream);
	cr_assert_eq(client_stream_create(&stage->stream, stage->listener.address.sun_path, target,
			     stage->epoll_fd, take, stage, &err),
		0);
	stage->now_ms = client_stream_due_ms(stage->stream) + BEGIN_MS;
}

static struct stage *begin(struct stage *stage)
{
	stage->descriptors = descriptors_count();
	scratch_listen(&stage->listener);
	stage->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	stage->agent = -1;
	open_stream(stage, "/v1/watch/s?x=1");
	return stage;
}

static void hang_up(struct stage *stage)
{
	if (stage->agent >= 0) {
		close(stage->agent);
		stage->agent = -1;
	}
}

static void end(struct stage *stage)
{
	client_stream_free(stage->stream);
	client_stream_free(NULL);
	hang_up(stage);
	close(stage->epoll_fd);
	scratch_listen_end(&stage->listener);
	cr_expect_eq(descriptors_count(), stage->descriptors);
}

#define STREAM_TEST(name)                                                                          \
	STAGED_TEST(peer_stream, name, struct stage *, stage,                                      \
		begin(&(struct stage){ .agent = -1 }), end)

static void dispatch(struct stage *stage)
{
	client_stream_dispatch(stage->stream, stage->now_ms);
}

/* The events since the last call. */
static const char *events(struct stage *stage)
{
	static char text[sizeof(stage->events)];
	memcpy(text, stage->events, sizeof(text));
	stage->events[0] = '\0';
	return text;
}

static void say(const struct stage *stage, const char *bytes)
{
	size_t len = strlen(bytes);
	cr_assert_eq(sendto(stage->agent, bytes, len, MSG_NOSIGNAL, NULL, 0), (ssize_t)len);
}

/* A chunk with these bytes. */
static void say_chunk(const struct stage *stage, const char *bytes)
{
	char text[FRAME_BYTES];
	snprintf(text, sizeof(text), "%zx\r\n%s\r\n", strlen(bytes), bytes);
	say(stage, text);
}

static void tell(struct stage *stage, const char *event)
{
	char text[FRAME_BYTES];
	snprintf(text, sizeof(text), "%zu\n%s", strlen(event), event);
	say_chunk(stage, text);
	dispatch(stage);
}

/* The stream asks for its events, and the agent takes the connection. */
static void connect_stream(struct stage *stage)
{
	int64_t due_ms = client_stream_due_ms(stage->stream);
	stage->now_ms = due_ms > stage->now_ms ? due_ms : stage->now_ms;
	dispatch(stage);
	hang_up(stage);
	stage->agent = accept4(stage->listener.fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	cr_assert_geq(stage->agent, 0);
	/* With a request that nobody has read the connection would be reset at its end. */
	ssize_t len = recvfrom(
		stage->agent, stage->request, sizeof(stage->request) - 1, 0, NULL, NULL);
	stage->request[len > 0 ? len : 0] = '\0';
}

static void flow(struct stage *stage)
{
	connect_stream(stage);
	say(stage, HEAD);
	tell(stage, SUBSCRIBED);
}

static int code(const struct stage *stage)
{
	return client_stream_trouble(stage->stream)->code;
}

static void expect_trouble(struct stage *stage, int expected, const char *text)
{
	const struct err *trouble = client_stream_trouble(stage->stream);
	cr_expect_eq(trouble->code, expected, "%s", text);
	cr_expect(strstr(trouble->msg, text), "%s", trouble->msg);
}

static int64_t due_in(const struct stage *stage)
{
	return client_stream_due_ms(stage->stream) - stage->now_ms;
}

/* ---- the pause ---- */

Test(peer_stream, the_pause_doubles_up_to_a_bound)
{
	static const int64_t pauses_ms[] = { 100, 100, 200, 400, 800, 1600, 3200, 6400, 12800,
		15000, 15000 };
	for (unsigned i = 0; i < ARRAY_LEN(pauses_ms); i++) {
		cr_expect_eq(client_backoff_ms(i, 0), pauses_ms[i] / 2, "%u", i);
		cr_expect_eq(client_backoff_ms(i, 1), pauses_ms[i], "%u", i);
		cr_expect_eq(client_backoff_ms(i, 0.5), pauses_ms[i] * 3 / 4, "%u", i);
	}
	cr_expect_eq(client_backoff_ms(1000000, 1), 15000);
}

/* ---- a stream that flows ---- */

STREAM_TEST(the_agent_says_how_long_it_may_be_silent)
{
	static const struct {
		const char *interval;
		int64_t silence_ms;
	} rows[] = { { "2", 10000 }, { "0.5", 2500 }, { "86399", 431995000 } };
	connect_stream(stage);
	say(stage, HEAD);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		char event[128];
		snprintf(event, sizeof(event),
			"{\"type\":\"SUBSCRIBED\",\"heartbeat_interval_seconds\":%s}",
			rows[i].interval);
		stage->now_ms += 1000;
		tell(stage, event);
		cr_expect_eq(due_in(stage), rows[i].silence_ms, "%s", rows[i].interval);
	}
	/* An interval that makes no sense changes nothing. */
	tell(stage, "{\"type\":\"SUBSCRIBED\",\"heartbeat_interval_seconds\":0}");
	cr_expect_eq(due_in(stage), 431995000);
	tell(stage, "{\"type\":\"SUBSCRIBED\",\"heartbeat_interval_seconds\":86400}");
	cr_expect_eq(due_in(stage), 431995000);
	stage->now_ms += 5;
	dispatch(stage);
	cr_expect_eq(due_in(stage), 431995000 - 5, "nothing was heard");
	tell(stage, HEARTBEAT);
	cr_expect_eq(due_in(stage), 431995000);
}

/* ---- trouble ---- */

STREAM_TEST(its_owner_may_find_it_broken)
{
	struct err err = ERR_INIT;
	err_set(&err, BERTH_INVALID_RECORD, "odd");
	client_stream_break(stage->stream, &err, stage->now_ms);
	cr_expect_str_eq(events(stage), "", "there is no connection yet");
	expect_trouble(stage, BERTH_AGENT_UNAVAILABLE, "not yet subscribed");
	flow(stage);
	events(stage);
	client_stream_break(stage->stream, &err, stage->now_ms);
	cr_expect_str_eq(events(stage), "LOST ");
	expect_trouble(stage, BERTH_INVALID_RECORD, "odd");
	client_stream_break(stage->stream, &err, stage->now_ms);
	cr_expect_eq(due_in(stage), 50, "it is broken already");
}

STREAM_TEST(an_error_of_the_agent_is_the_trouble)
{
	connect_stream(stage);
	say(stage,
		"HTTP/1.1 404 Not Found\r\nContent-Length: 41\r\n\r\n{\"title\":\"PathNotFound\",");
	dispatch(stage);
	expect_trouble(stage, BERTH_AGENT_UNAVAILABLE, "not yet subscribed");
	say(stage, "\"detail\":\"no /s\"}");
	dispatch(stage);
	expect_trouble(stage, BERTH_PATH_NOT_FOUND, "no /s");
	cr_expect_str_eq(events(stage), "LOST ");
}

STREAM_TEST(bytes_that_are_no_events_break_the_stream)
{
	static const struct {
		const char *bytes;
		const char *trouble;
	} rows[] = {
		{ "x", "has no length" },
		{ "\n{}", "has no length" },
		{ "2x{}", "has no length" },
		{ "0000000002{}", "has no length" },
		{ "0000000002\n{}", "has no length" },
		{ "134217729\n", "has no length" },
		{ "2\n{}", "is not an event" },
		{ "2\n[]", "is not an event" },
		{ "3\nabc", "is not an event" },
		{ "10\n{\"type\":1}", "is not an event" },
	};
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		flow(stage);
		cr_expect_eq(code(stage), 0);
		say_chunk(stage, rows[i].bytes);
		dispatch(stage);
		expect_trouble(stage, BERTH_FAILED, rows[i].trouble);
	}
	/* These may still become events. */
	static const char *const parts[] = { "0", "000000002", "134217728\n", "134217728\n{" };
	for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
		flow(stage);
		say_chunk(stage, parts[i]);
		dispatch(stage);
		cr_expect_eq(code(stage), 0, "%s", parts[i]);
		hang_up(stage);
		dispatch(stage);
	}
	flow(stage);
	events(stage);
	say_chunk(stage, "000000020\n" HEARTBEAT "000000012\n{\"type\":\"A\"}");
	dispatch(stage);
	cr_expect_str_eq(events(stage), "A ");
	/* Nothing of an old connection is left for a new one. */
	say_chunk(stage, "20\n{\"type\":");
	dispatch(stage);
	hang_up(stage);
	dispatch(stage);
	flow(stage);
	cr_expect_str_eq(events(stage), "LOST RESYNC ");
}

/* ---- connecting ---- */

STREAM_TEST(a_request_has_a_bound)
{
	static const char around[] =
		"GET  HTTP/1.1\r\nHost: berth\r\nAccept: application/recordio\r\n\r\n";
	char target[4096];
	memset(target, 't', sizeof(target));
	target[4096 - strlen(around)] = '\0';
	open_stream(stage, target);
	dispatch(stage);
	expect_trouble(stage, BERTH_LIMIT_EXCEEDED, "the request is too long");
	target[4095 - strlen(around)] = '\0';
	open_stream(stage, target);
	events(stage);
	dispatch(stage);
	cr_expect_str_eq(events(stage), "");
}
