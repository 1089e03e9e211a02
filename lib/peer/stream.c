#include "lib/base/random_bytes.h"
#include "lib/peer/stream.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/peer/client.h"
#include "lib/http/reader.h"
#include "lib/base/json_wide.h"
#include "lib/base/clock.h"

enum {
	READ_BYTES = 16 * 1024, /* of stack, which a process keeps */
	READS_AT_ONCE = 64,     /* so that one stream does not keep its thread for itself */
	FIRST_BACKOFF_MS = 100,
	SUBSCRIBE_TIMEOUT_MS = 10000,
	MISSED_HEARTBEATS = 5,
	LENGTH_DIGITS = 9
};

/*
 *   NEW --SUBSCRIBED--> FLOWING --trouble--> LOST --SUBSCRIBED--> FLOWING
 *     '--trouble--> NEVER --SUBSCRIBED--> FLOWING
 *
 * Trouble is reported when a state ends with it, not at each further attempt to connect.
 */
enum flow { NEW, NEVER, FLOWING, LOST };

struct client_stream {
	const char *socket_path;
	int epoll_fd;
	client_emit_take *emit;
	void *context;

	int fd; /* -1 while waiting */
	int64_t asked_ms;
	struct http_reader reader;
	struct buffer body;
	enum flow flow;
	bool said_stale; /* with the snapshot; the agent's own event follows */
	unsigned failures;
	int64_t silence_ms; /* how long the stream may say nothing */
	int64_t due_ms;     /* when to connect, or to give up */
	const struct err *trouble;
	struct err *own_trouble; /* its memory; NULL while a text of all streams will do */
	char target[];
};

static const struct err no_trouble;
static const struct err not_yet = { BERTH_AGENT_UNAVAILABLE, "not yet subscribed" };
static const struct err nameless = { BERTH_AGENT_UNAVAILABLE,
	"the event stream broke, and there is no memory for the reason" };

int64_t client_backoff_ms(unsigned failures, double unit)
{
	int64_t pause_ms = FIRST_BACKOFF_MS;
	for (unsigned i = 1; i < failures && pause_ms < CLIENT_BACKOFF_MAX_MS; i++) {
		pause_ms *= 2;
	}
	if (pause_ms > CLIENT_BACKOFF_MAX_MS) {
		pause_ms = CLIENT_BACKOFF_MAX_MS;
	}
	int64_t half_ms = pause_ms / 2;
	return half_ms + (int64_t)(unit * (double)(pause_ms - half_ms));
}

static double random_unit(void)
{
	uint32_t number;
	(void)random_bytes(&number, sizeof(number));
	return (double)number / ((double)UINT32_MAX + 1);
}

int client_stream_create(struct client_stream **ret_stream, const char *socket_path,
	const char *target, int epoll_fd, client_emit_take *emit, void *context, struct err *err)
{
	struct client_stream *stream = calloc(1, sizeof(*stream) + strlen(target) + 1);
	if (!stream) {
		return err_set(err, BERTH_FAILED, "out of memory");
	}
	strcpy(stream->target, target);
	stream->socket_path = socket_path;
	stream->epoll_fd = epoll_fd;
	stream->emit = emit;
	stream->context = context;
	stream->fd = -1;
	http_reader_init(&stream->reader, HTTP_ANSWER);
	buffer_init(&stream->body, CLIENT_BODY_BYTES);
	stream->due_ms = clock_monotonic_ms();
	stream->trouble = &not_yet;
	*ret_stream = stream;
	return 0;
}

static void disconnect(struct client_stream *stream)
{
	if (stream->fd >= 0) {
		close(stream->fd);
		stream->fd = -1;
	}
}

void client_stream_free(struct client_stream *stream)
{
	if (!stream) {
		return;
	}
	disconnect(stream);
	http_reader_finish(&stream->reader);
	buffer_finish(&stream->body);
	free(stream->own_trouble);
	free(stream);
}

int64_t client_stream_asked_ms(const struct client_stream *stream)
{
	return stream->asked_ms;
}

int64_t client_stream_due_ms(const struct client_stream *stream)
{
	return stream->due_ms;
}

const struct err *client_stream_trouble(const struct client_stream *stream)
{
	return stream->trouble;
}

/* Most streams flow, and need no memory for this. NULL: nothing is the matter. */
static void set_trouble(struct client_stream *stream, const struct err *err)
{
	if (!err) {
		free(stream->own_trouble);
		stream->own_trouble = NULL;
		stream->trouble = &no_trouble;
		return;
	}
	if (!stream->own_trouble) {
		stream->own_trouble = malloc(sizeof(*stream->own_trouble));
	}
	if (stream->own_trouble) {
		*stream->own_trouble = *err;
	}
	stream->trouble = stream->own_trouble ? stream->own_trouble : &nameless;
}

/* The stream is broken, as `err` says: reports it once, and tries again later. */
static void fail(struct client_stream *stream, const struct err *err, int64_t now_ms)
{
	disconnect(stream);
	set_trouble(stream, err);
	stream->failures++;
	stream->due_ms = now_ms + client_backoff_ms(stream->failures, random_unit());
	bool reported = stream->flow == NEVER || stream->flow == LOST;
	if (!reported) {
		stream->flow = stream->flow == FLOWING ? LOST : NEVER;
		stream->emit(stream->context, json_pack("{s:s}", "type", "LOST"));
	}
}

void client_stream_break(struct client_stream *stream, const struct err *err, int64_t now_ms)
{
	if (stream->fd >= 0) {
		fail(stream, err, now_ms);
	}
}

/* ---- connecting ---- */

static int subscribe(struct client_stream *stream, struct err *err)
{
	char request[4096];
	int len = snprintf(request, sizeof(request),
		"GET %s HTTP/1.1\r\nHost: berth\r\nAccept: application/recordio\r\n\r\n",
		stream->target);
	if (len < 0 || (size_t)len >= sizeof(request)) {
		return err_set(err, BERTH_LIMIT_EXCEEDED, "the request is too long");
	}
	/* A new socket has room for it all. */
	ssize_t sent = send(stream->fd, request, (size_t)len, MSG_NOSIGNAL);
	struct epoll_event event = { .events = EPOLLIN };
	if (sent != len || epoll_ctl(stream->epoll_fd, EPOLL_CTL_ADD, stream->fd, &event) != 0) {
		return err_set_errno(err, BERTH_AGENT_UNAVAILABLE, errno, "cannot subscribe at %s",
			stream->socket_path);
	}
	return 0;
}

static void connect_now(struct client_stream *stream, int64_t now_ms)
{
	struct err err = ERR_INIT;
	stream->fd = client_connect(stream->socket_path, now_ms, &err);
	http_reader_restart(&stream->reader);
	buffer_clear(&stream->body);
	stream->silence_ms = SUBSCRIBE_TIMEOUT_MS;
	stream->asked_ms = now_ms;
	stream->due_ms = now_ms + stream->silence_ms;
	if (stream->fd < 0 || subscribe(stream, &err) != 0) {
		fail(stream, &err, now_ms);
	}
}

/* ---- events ---- */

static void begin_flow(struct client_stream *stream, json_t *event)
{
	double interval_s = json_number_value(json_object_get(event, "heartbeat_interval_seconds"));
	if (interval_s > 0 && interval_s < 86400) {
		stream->silence_ms = (int64_t)(interval_s * 1000 * MISSED_HEARTBEATS);
	}
	if (stream->flow == FLOWING || stream->flow == LOST) {
		json_object_set_new(event, "type", json_string("RESYNC"));
	}
	stream->flow = FLOWING;
	stream->failures = 0;
	set_trouble(stream, NULL);
}

/* The agent reads all that the stream covers for the first time. */
static void note_loading(struct client_stream *stream, const json_t *event)
{
	struct err err = ERR_INIT;
	err_set(&err, BERTH_TIMEOUT, "the agent loads it: %lld nodes and lists so far",
		(long long)json_integer_value(json_object_get(event, "loading")));
	set_trouble(stream, &err);
}

/*
 * The agent says STALE behind a snapshot that is not confirmed, perhaps in the next packet: nobody
 * may take the snapshot for true meanwhile.
 */
static void emit_snapshot_take(struct client_stream *stream, json_t *event)
{
	stream->said_stale = json_is_true(json_object_get(event, "stale"));
	json_t *stale = stream->said_stale
		? json_pack("{s:s, s:O?}", "type", "STALE", "time", json_object_get(event, "time"))
		: NULL;
	stream->emit(stream->context, event);
	if (stream->said_stale) {
		stream->emit(stream->context, stale); /* NULL without memory */
	}
}

static void take_event(struct client_stream *stream, json_t *event)
{
	const char *type = json_string_value(json_object_get(event, "type"));
	bool heartbeat = strcmp(type, "HEARTBEAT") == 0;
	bool snapshot = json_object_get(event, "snapshot") != NULL;
	bool again = strcmp(type, "STALE") == 0 && stream->said_stale;
	stream->said_stale = false;
	if (heartbeat && json_object_get(event, "loading")) {
		note_loading(stream, event);
	}
	if (strcmp(type, "SUBSCRIBED") == 0) {
		/* May replace the type, and what `type` points to with it. */
		begin_flow(stream, event);
	}
	if (heartbeat || again || stream->flow != FLOWING) {
		json_decref(event);
	} else if (snapshot) {
		emit_snapshot_take(stream, event);
	} else {
		stream->emit(stream->context, event);
	}
}

/*
 * Reads one frame (decimal length, newline, JSON) at `*at`. 1: done, 0: not complete yet, or a
 * negative code.
 */
static int take_frame(struct client_stream *stream, size_t *at, struct err *err)
{
	const char *frame = stream->body.data + *at;
	size_t len = stream->body.len - *at;
	size_t digits = 0;
	size_t size = 0;
	while (digits < len && frame[digits] >= '0' && frame[digits] <= '9' &&
		digits <= LENGTH_DIGITS) {
		size = size * 10 + (size_t)(frame[digits++] - '0');
	}
	if (digits == len && digits <= LENGTH_DIGITS) {
		return 0;
	}
	if (digits == 0 || digits > LENGTH_DIGITS || frame[digits] != '\n' ||
		size > CLIENT_BODY_BYTES / 2) {
		return err_set(err, BERTH_FAILED, "a frame of the event stream has no length");
	}
	if (len - digits - 1 < size) {
		return 0;
	}
	json_t *event = json_wide_loadb(frame + digits + 1, size, 0, NULL);
	if (!json_is_string(json_object_get(event, "type"))) {
		json_decref(event);
		return err_set(err, BERTH_FAILED, "a frame of the event stream is not an event");
	}
	take_event(stream, event);
	*at += digits + 1 + size;
	return 1;
}

static int take_frames(struct client_stream *stream, struct err *err)
{
	size_t at = 0;
	int taken = 1;
	while (taken > 0 && at < stream->body.len) {
		taken = take_frame(stream, &at, err);
	}
	if (at > 0 && at == stream->body.len) {
		/* A snapshot may have been large, and a silent stream needs no memory. */
		buffer_finish(&stream->body);
	} else {
		buffer_consume(&stream->body, at);
	}
	return taken < 0 ? taken : 0;
}

/* ---- reading ---- */

static int take_bytes(struct client_stream *stream, const char *bytes, size_t len, struct err *err)
{
	size_t used;
	int code = http_reader_feed(&stream->reader, bytes, len, &stream->body, &used, err);
	if (code != 0 || !http_reader_has_head(&stream->reader)) {
		return code;
	}
	bool over = stream->reader.state == HTTP_READER_DONE;
	if (stream->reader.status != 200) {
		return over ? client_problem(stream->reader.status, &stream->body, err) : 0;
	}
	if (client_check_filter(stream->target, &stream->reader, err)) {
		return err->code;
	}
	code = take_frames(stream, err);
	if (code == 0 && over) {
		code = err_set(err, BERTH_AGENT_UNAVAILABLE, "the agent ended the event stream");
	}
	return code;
}

/* Reads what there is. 1: something came, 0: nothing, or a negative code. */
static int read_some(struct client_stream *stream, struct err *err)
{
	char bytes[READ_BYTES];
	int heard = 0;
	for (int i = 0; i < READS_AT_ONCE; i++) {
		ssize_t got = recv(stream->fd, bytes, sizeof(bytes), 0);
		if (got > 0) {
			int code = take_bytes(stream, bytes, (size_t)got, err);
			if (code != 0) {
				return code;
			}
			heard = 1;
		} else if (got == 0) {
			return err_set(
				err, BERTH_AGENT_UNAVAILABLE, "the agent closed the event stream");
		} else if (errno == EAGAIN) {
			break;
		} else if (errno != EINTR) {
			return err_set_errno(
				err, BERTH_AGENT_UNAVAILABLE, errno, "the event stream broke");
		}
	}
	return heard;
}

void client_stream_dispatch(struct client_stream *stream, int64_t now_ms)
{
	if (stream->fd < 0) {
		if (now_ms >= stream->due_ms) {
			connect_now(stream, now_ms);
		}
		return;
	}
	struct err err = ERR_INIT;
	int heard = read_some(stream, &err);
	if (heard < 0) {
		fail(stream, &err, now_ms);
	} else if (heard > 0) {
		stream->due_ms = now_ms + stream->silence_ms;
	} else if (now_ms >= stream->due_ms) {
		err_set(&err, BERTH_AGENT_UNAVAILABLE, "the agent fell silent");
		fail(stream, &err, now_ms);
	}
}
