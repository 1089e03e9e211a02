#include "agent/api/internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/limits.h"
#include "agent/base/allocate.h"
#include "agent/base/log.h"
#include "lib/base/clock.h"

enum {
	/* A reader that is further behind is brought up to date by a snapshot. */
	QUEUE_BYTES = 64 * 1024,
	/* What all streams may hold together before a new snapshot, or one more record, has to wait. */
	ROOM_BYTES = 64 * 1024 * 1024,
	PATIENCE_HEARTBEATS = 2, /* while others wait for room, no reader may take longer */
	FRAME_BYTES = 256 * 1024 * 1024
};

enum framing { RECORDIO, NDJSON, EVENT_STREAM };

static const char *const media_types[] = { "application/recordio", "application/x-ndjson",
	"text/event-stream" };

/*
 * One event stream.
 *
 *   LOADING -- all is known --> behind (events are not kept) -- drained, and there is room: SUBSCRIBED, RESYNC --> following
 *                                  ^--------------------------- too much is unread ------------------------------'
 */
struct api_stream {
	struct cache_observer observer;
	struct api *api;
	struct http_request *request;
	struct api_stream *next; /* by their next heartbeat */
	struct api_stream *prev;
	struct list reader;  /* on api->readers while there is something in the queue */
	struct list waiting; /* on api->waiting while its snapshot waits for room */
	ev_timer timeout;    /* of loading */
	struct buffer queue;
	size_t read; /* of the queue */
	size_t held; /* what api->held counts of it */
	size_t queue_limit;
	double unread_since;
	uint64_t id;
	uint64_t sequence;
	double due;
	enum framing framing;
	bool local;
	bool following;
	bool behind;
	bool broken; /* ends without another event */
};

/* ---- the list of heartbeats ---- */

static void unlink_stream(struct api_stream *stream)
{
	struct api *api = stream->api;
	*(stream->prev ? &stream->prev->next : &api->streams_first) = stream->next;
	*(stream->next ? &stream->next->prev : &api->streams_last) = stream->prev;
}

static void append_stream(struct api_stream *stream)
{
	struct api *api = stream->api;
	stream->due = ev_now(api->loop) + (double)api->options.heartbeat_interval_ms / 1000.;
	stream->next = NULL;
	stream->prev = api->streams_last;
	*(api->streams_last ? &api->streams_last->next : &api->streams_first) = stream;
	api->streams_last = stream;
}

static void schedule_heartbeat(struct api *api)
{
	ev_timer_stop(api->loop, &api->heartbeat);
	if (api->streams_first) {
		double wait = api->streams_first->due - ev_now(api->loop);
		ev_timer_set(&api->heartbeat, wait > 0.01 ? wait : 0.01, 0.);
		ev_timer_start(api->loop, &api->heartbeat);
	}
}

/* ---- what all streams hold ---- */

static bool has_room(const struct api *api)
{
	return api->held < ROOM_BYTES;
}

static void wait_for_room(struct api_stream *stream)
{
	struct api *api = stream->api;
	list_remove(&stream->waiting);
	list_append(&api->waiting, &stream->waiting);
	if (!ev_is_active(&api->room)) {
		ev_timer_again(api->loop, &api->room);
	}
}

/* To be called when the queue has changed. */
static void account(struct api_stream *stream)
{
	struct api *api = stream->api;
	api->held = api->held - stream->held + stream->queue.len;
	stream->held = stream->queue.len;
	if (stream->held == 0) {
		list_remove(&stream->reader);
	} else if (list_empty(&stream->reader)) {
		stream->unread_since = ev_now(api->loop);
		list_append(&api->readers, &stream->reader);
	}
	if (!list_empty(&api->waiting) && has_room(api)) {
		struct api_stream *first = LIST_ITEM(api->waiting.next, struct api_stream, waiting);
		list_remove(&first->waiting);
		http_stream_wake(first->request);
	}
}

static void empty_queue(struct api_stream *stream)
{
	buffer_finish(&stream->queue);
	stream->read = 0;
	stream->queue_limit = QUEUE_BYTES;
	account(stream);
}

static void break_off(struct api_stream *stream)
{
	stream->broken = true;
	empty_queue(stream);
	http_stream_end(stream->request);
}

/* Those who read make room by themselves. Those who do not, or a byte now and then, must not keep the others waiting. */
static void on_room(struct ev_loop *loop, ev_timer *timer, int events)
{
	(void)events;
	struct api *api = timer->data;
	double patience_s = PATIENCE_HEARTBEATS * (double)api->options.heartbeat_interval_ms / 1000.;
	if (list_empty(&api->waiting)) {
		ev_timer_stop(loop, timer);
		return;
	}
	while (!list_empty(&api->readers)) {
		struct api_stream *stream = LIST_ITEM(api->readers.next, struct api_stream, reader);
		double since_s = ev_now(loop) - stream->unread_since;
		if (since_s < patience_s) {
			break;
		}
		log_warn("api",
			"a stream of %s has left %zu bytes unread for %.0f s, and is broken off to make room",
			cache_observed_path(&stream->observer), stream->held - stream->read,
			since_s);
		break_off(stream);
	}
}

/* ---- frames ---- */

static void append_frame(struct api_stream *stream, const char *type, const struct buffer *json)
{
	switch (stream->framing) {
	case RECORDIO:
		buffer_printf(&stream->queue, "%zu\n", json->len);
		break;
	case EVENT_STREAM:
		buffer_printf(&stream->queue, "event: %s\nid: %llu\ndata: ", type,
			(unsigned long long)stream->sequence);
		break;
	case NDJSON:
		break;
	}
	buffer_append(&stream->queue, json->data, json->len);
	if (stream->framing != RECORDIO) {
		buffer_append_text(&stream->queue, stream->framing == NDJSON ? "\n" : "\n\n");
	}
}

static void begin_event(struct api_stream *stream, const char *type, struct buffer *json)
{
	buffer_init(json, FRAME_BYTES);
	buffer_printf(json, "{\"type\":\"%s\",\"sequence\":%llu,\"time\":%.6f", type,
		(unsigned long long)++stream->sequence, clock_wall_s());
}

static void end_event(struct api_stream *stream, const char *type, struct buffer *json)
{
	buffer_append_text(json, "}");
	if (stream->read > stream->queue.len / 2) {
		buffer_consume(&stream->queue, stream->read);
		stream->read = 0;
	}
	append_frame(stream, type, json);
	bool failed = json->failed || stream->queue.failed;
	buffer_finish(json);
	if (failed) { /* half a frame must not be read */
		log_warn("api", "a stream of %s ends: an event is too large",
			cache_observed_path(&stream->observer));
		break_off(stream);
		return;
	}
	account(stream);
	http_stream_wake(stream->request);
}

static void emit_snapshot(struct api_stream *stream)
{
	struct buffer json;
	const char *type = stream->sequence == 0 ? "SUBSCRIBED" : "RESYNC";
	begin_event(stream, type, &json);
	if (stream->sequence == 1) {
		buffer_printf(&json, ",\"heartbeat_interval_seconds\":%g,\"stream_id\":\"%llx\"",
			(double)stream->api->options.heartbeat_interval_ms / 1000.,
			(unsigned long long)stream->id);
	}
	buffer_append_text(&json, ",\"snapshot\":");
	cache_write_snapshot(&stream->observer, &json);
	stream->queue_limit = QUEUE_BYTES + json.len;
	end_event(stream, type, &json);
}

static void emit(struct api_stream *stream, const char *type, const char *path, const char *record)
{
	struct buffer json;
	begin_event(stream, type, &json);
	if (path) {
		buffer_printf(&json, ",\"path\":\"%s\"", path);
	}
	if (record) {
		buffer_printf(&json, ",\"record\":%s", record);
	}
	end_event(stream, type, &json);
}

/* ---- from the cache ---- */

static void on_event(void *context, enum cache_event event, const char *path, const char *record)
{
	static const char *const names[] = { "UPDATED", "DELETED", "STALE", "FRESH" };
	struct api_stream *stream = context;
	if (stream->broken || stream->behind) {
		return;
	}
	if (stream->queue.len - stream->read > stream->queue_limit || !has_room(stream->api)) {
		stream->behind = true;
		http_stream_wake(stream->request);
		return;
	}
	emit(stream, names[event], path, record);
	double since = cache_change_time_s(stream->api->cache);
	if (path && since > 0) {
		metrics_observe(
			stream->api->metrics, METRIC_PROPAGATION, "", clock_monotonic_s() - since);
	}
}

static size_t on_read(void *context, char *buffer, size_t size)
{
	struct api_stream *stream = context;
	if (stream->queue.len == 0 && stream->behind) {
		if (!has_room(stream->api)) {
			wait_for_room(stream);
			return 0;
		}
		stream->behind = false;
		emit_snapshot(stream);
		if (stream->observer.stale && !stream->broken) {
			emit(stream, "STALE", NULL, NULL);
		}
	}
	size_t left = stream->queue.len - stream->read;
	size_t len = left < size ? left : size;
	memcpy(buffer, buffer_text(&stream->queue) + stream->read, len);
	stream->read += len;
	if (stream->read == stream->queue.len) {
		empty_queue(stream); /* an idle stream holds no memory for events */
	}
	return len;
}

static void on_closed(void *context)
{
	struct api_stream *stream = context;
	struct api *api = stream->api;
	cache_unobserve(&stream->observer);
	ev_timer_stop(api->loop, &stream->timeout);
	if (stream->following) {
		unlink_stream(stream);
	}
	api_watcher_end(api, stream->local);
	list_remove(&stream->waiting);
	empty_queue(stream);
	free(stream);
}

static void on_ready(void *context)
{
	struct api_stream *stream = context;
	struct api *api = stream->api;
	ev_timer_stop(api->loop, &stream->timeout);
	stream->following = true;
	append_stream(stream);
	if (!ev_is_active(&api->heartbeat)) {
		schedule_heartbeat(api);
	}
	struct http_stream_callbacks callbacks = { on_read, on_closed, stream };
	stream->behind = true;
	http_stream(stream->request, media_types[stream->framing], &callbacks);
}

/* ---- time ---- */

static void on_heartbeat(struct ev_loop *loop, ev_timer *timer, int events)
{
	(void)events;
	struct api *api = timer->data;
	double now = ev_now(loop);
	while (api->streams_first && api->streams_first->due <= now) {
		struct api_stream *stream = api->streams_first;
		unlink_stream(stream);
		append_stream(stream);
		/* Who has something to read knows that we live. */
		if (stream->queue.len == 0 && !stream->behind && !stream->broken) {
			emit(stream, "HEARTBEAT", NULL, NULL);
		}
	}
	schedule_heartbeat(api);
}

static void on_timeout(struct ev_loop *loop, ev_timer *timer, int events)
{
	(void)loop;
	(void)events;
	struct api_stream *stream = timer->data;
	struct err err = ERR_INIT;
	err_set(&err, BERTH_REGISTRY_UNAVAILABLE, "the registry is %s, and not all of this is known",
		registry_state_name(registry_state(stream->api->registry)));
	struct http_request *request = stream->request;
	on_closed(stream);
	api_problem(request, 0, &err);
}

/* A stream that has begun can only be broken off; its client will ask again, and be told. */
static void on_refused(void *context, const struct err *err)
{
	struct api_stream *stream = context;
	struct http_request *request = stream->request;
	if (stream->following) {
		break_off(stream);
	} else {
		on_closed(stream);
		api_problem(request, 503, err);
	}
}

/* ---- opening ---- */

static int choose_framing(const char *accept)
{
	for (int framing = RECORDIO; framing <= EVENT_STREAM; framing++) {
		if (http_accepts(accept, media_types[framing], false)) {
			return framing;
		}
	}
	return http_accepts(accept, media_types[RECORDIO], true)        ? RECORDIO
		: http_accepts(accept, media_types[EVENT_STREAM], true) ? EVENT_STREAM
									: -1;
}

static int read_recursive(const struct http_request *request, bool *ret_recursive, struct err *err)
{
	char text[8];
	int found = http_parameter(request, "recursive", text, sizeof(text), err);
	if (found <= 0 || !*text) {
		return found < 0 ? found : 0;
	}
	bool yes = strcmp(text, "yes") == 0 || strcmp(text, "true") == 0 || strcmp(text, "1") == 0;
	bool no = strcmp(text, "no") == 0 || strcmp(text, "false") == 0 || strcmp(text, "0") == 0;
	*ret_recursive = yes;
	return yes || no
		? 0
		: err_set(err, BERTH_FAILED, "query parameter recursive: must be yes or no");
}

static void open_stream(struct api *api, struct http_request *request, const char *path,
	enum framing framing, bool recursive)
{
	struct api_stream *stream = allocate_zeroed(1, sizeof(*stream));
	stream->api = api;
	stream->request = request;
	stream->local = request->local;
	stream->framing = framing;
	stream->id = ++api->next_stream;
	buffer_init(&stream->queue, FRAME_BYTES);
	list_init(&stream->reader);
	list_init(&stream->waiting);
	stream->observer.scope = recursive ? CACHE_TREE : CACHE_SELF;
	stream->observer.on_ready = on_ready;
	stream->observer.on_event = on_event;
	stream->observer.on_refused = on_refused;
	stream->observer.context = stream;
	ev_timer_init(
		&stream->timeout, on_timeout, (double)api->options.lookup_timeout_ms / 1000., 0.);
	stream->timeout.data = stream;
	ev_timer_start(api->loop, &stream->timeout);
	http_on_closed(request, on_closed, stream);
	cache_observe(api->cache, path, &stream->observer);
}

void api_watch(struct api *api, struct http_request *request, const char *rest)
{
	char path[LIMIT_PATH_BYTES + 1];
	bool recursive = false;
	struct err err = ERR_INIT;
	int framing = choose_framing(request->accept);
	if (framing < 0) {
		api_not_acceptable(request,
			"this is application/recordio, application/x-ndjson or text/event-stream");
	} else if (api_path(rest, path, sizeof(path), &err)) {
		api_problem(request, 0, &err);
	} else if (read_recursive(request, &recursive, &err)) {
		api_bad_request(request, err.msg);
	} else if (request->method == HTTP_HEAD) {
		struct http_response *response = http_response_create(media_types[framing], "", 0);
		http_answer(request, 200, response);
		http_response_free(response);
	} else if (api_watcher_begin(api, request, &err)) {
		api_problem(request, 503, &err);
	} else {
		open_stream(api, request, path, (enum framing)framing, recursive);
	}
}

void api_watch_init(struct api *api)
{
	ev_timer_init(&api->heartbeat, on_heartbeat, 0., 0.);
	api->heartbeat.data = api;
	ev_timer_init(&api->room, on_room, 0., 1.);
	api->room.data = api;
	list_init(&api->readers);
	list_init(&api->waiting);
}

void api_watch_finish(struct api *api)
{
	ev_timer_stop(api->loop, &api->heartbeat);
	ev_timer_stop(api->loop, &api->room);
}
