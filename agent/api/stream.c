#include "agent/api/stream.h"
#include "agent/api/poll.h"

#include <assert.h>
#include <string.h>

#include "agent/base/log.h"
#include "lib/base/clock.h"
#include "lib/base/text.h"
#include "lib/http/field.h"

enum {
	QUEUE_BYTES = 64 *
		1024, /* a reader that is further behind is brought up to date by a snapshot */
	ROOM_AGAIN_MS = 1000,
	PATIENCE_HEARTBEATS = 2,      /* while others wait for room, no reader may take longer */
	TURN_BYTES = 4 * 1024 * 1024, /* of snapshots; the first excess ends an iteration */
	FRAME_BYTES = 256 * 1024 * 1024
};

static const char *const media_types[] = { "application/recordio", "application/x-ndjson",
	"text/event-stream" };

/* ---- heartbeats ---- */

static double interval_s(const struct api *api)
{
	return (double)api->options.heartbeat_interval_ms / 1000.;
}

static void schedule_beat(struct api_stream *stream)
{
	struct api *api = stream->api;
	/* Otherwise it is due at once, and on_heartbeat() goes on for ever. */
	assert(api->options.heartbeat_interval_ms > 0);
	stream->due = clock_monotonic_s() + interval_s(api);
	list_remove(&stream->beat);
	list_append(&api->streams, &stream->beat);
}

static void schedule_heartbeat(struct api *api)
{
	timer_stop(&api->heartbeat);
	if (!list_empty(&api->streams)) {
		const struct api_stream *first = LIST_ITEM(
			api->streams.next, struct api_stream, beat);
		int64_t wait_ms = (int64_t)((first->due - clock_monotonic_s()) * 1000.) + 1;
		timer_start(&api->heartbeat, wait_ms > 10 ? wait_ms : 10);
	}
}

static void send_event(
	struct api_stream *stream, const char *type, double time, const char *members);

const char *api_stream_heard(const struct cache *cache, char out[API_STREAM_HEARD_BYTES])
{
	int64_t age_ms = cache_heard_age_ms(cache, clock_monotonic_ms());
	text_printf(out, API_STREAM_HEARD_BYTES, "\"heard_ms\":%lld", (long long)age_ms);
	return age_ms == INT64_MAX ? NULL : out;
}

static void on_heartbeat(void *context)
{
	struct api *api = context;
	char heard[API_STREAM_HEARD_BYTES];
	while (!list_empty(&api->streams)) {
		struct api_stream *stream = LIST_ITEM(api->streams.next, struct api_stream, beat);
		if (stream->due > clock_monotonic_s()) {
			break;
		}
		schedule_beat(stream);
		/* A client with something to read knows that the agent lives. */
		if (stream->queue.len == 0 && stream->state == API_STREAM_FOLLOWING) {
			send_event(stream, "HEARTBEAT", clock_wall_s(),
				api_stream_heard(stream->cache, heard));
		}
	}
	schedule_heartbeat(api);
}

/* ---- the bytes that all streams hold ---- */

static void wait_for_room(struct api_stream *stream)
{
	struct api *api = stream->api;
	if (list_empty(&stream->waiting)) { /* or it keeps its place */
		list_append(&api->waiting, &stream->waiting);
	}
	if (!timer_runs(&api->room)) {
		timer_start(&api->room, ROOM_AGAIN_MS);
	}
}

/*
 * Wakes the first waiting stream with room for its client; the stream keeps its place until its
 * snapshot.
 */
static void serve_waiting(struct api *api)
{
	for (struct list *at = api->waiting.next; at != &api->waiting; at = at->next) {
		struct api_stream *stream = LIST_ITEM(at, struct api_stream, waiting);
		if (http_has_room(stream->request)) {
			http_stream_wake(stream->request);
			return;
		}
	}
}

static void on_more(void *context)
{
	serve_waiting(context);
}

/* Hundreds of large snapshots in one turn would keep all other clients waiting; so would one. */
static bool may_write_snapshot(const struct api_stream *stream)
{
	struct api *api = stream->api;
	unsigned turn = ev_iteration(api->loop);
	if (api->turn != turn) {
		api->turn = turn;
		api->snapshot_bytes = 0;
	}
	bool ready = !stream->source->is_ready || stream->source->is_ready(stream);
	if (!ready || api->snapshot_bytes >= TURN_BYTES) {
		timer_start(&api->more, 0);
		return false;
	}
	return true;
}

/* To be called when the queue has changed. */
static void account(struct api_stream *stream)
{
	struct api *api = stream->api;
	http_hold(stream->request, stream->queue.len);
	if (stream->queue.len == 0) {
		list_remove(&stream->reader);
	} else if (list_empty(&stream->reader)) {
		stream->unread_since = clock_monotonic_s();
		list_append(&api->readers, &stream->reader);
	}
	serve_waiting(api);
}

static void empty_queue(struct api_stream *stream)
{
	buffer_finish(&stream->queue);
	stream->read = 0;
	stream->queue_limit = QUEUE_BYTES;
	account(stream);
}

void api_stream_break(struct api_stream *stream)
{
	stream->state = API_STREAM_ENDING;
	if (!stream->request) {
		return;
	}
	empty_queue(stream);
	http_stream_end(stream->request);
}

/*
 * Clients that read make room by themselves. A client that does not, or takes a byte now and then,
 * must not keep the others waiting.
 */
static void on_room(void *context)
{
	struct api *api = context;
	if (list_empty(&api->waiting)) {
		return;
	}
	timer_start(&api->room, ROOM_AGAIN_MS);
	while (!list_empty(&api->readers)) {
		struct api_stream *stream = LIST_ITEM(api->readers.next, struct api_stream, reader);
		double since_s = clock_monotonic_s() - stream->unread_since;
		if (since_s < PATIENCE_HEARTBEATS * interval_s(api)) {
			break;
		}
		log_limited(http_log_rate(stream->request), LOG_LEVEL_WARN, "api",
			"a stream of %s has left %zu bytes unread for %.0f s, and "
			"is broken off to make room",
			stream->source->name(stream), stream->queue.len - stream->read, since_s);
		api_stream_break(stream);
	}
}

/* ---- frames ---- */

static void append_frame(struct api_stream *stream, const char *type, const struct buffer *json)
{
	switch (stream->framing) {
	case API_RECORDIO:
		buffer_printf(&stream->queue, "%zu\n", json->len);
		break;
	case API_EVENT_STREAM:
		buffer_printf(&stream->queue, "event: %s\nid: %llx-%llx-%llu\ndata: ", type,
			(unsigned long long)stream->api->epoch, (unsigned long long)stream->id,
			(unsigned long long)stream->sequence);
		break;
	case API_NDJSON:
		break;
	}
	buffer_append(&stream->queue, json->data, json->len);
	if (stream->framing != API_RECORDIO) {
		buffer_append_text(&stream->queue, stream->framing == API_NDJSON ? "\n" : "\n\n");
	}
}

static void begin_event(
	struct api_stream *stream, const char *type, double time, struct buffer *json)
{
	buffer_init(json, FRAME_BYTES);
	buffer_printf(json, "{\"type\":\"%s\",\"sequence\":%llu,\"time\":%.6f", type,
		(unsigned long long)++stream->sequence, time);
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
		log_limited(http_log_rate(stream->request), LOG_LEVEL_WARN, "api",
			"a stream of %s ends: an event is too large", stream->source->name(stream));
		api_stream_break(stream);
		return;
	}
	account(stream);
	http_stream_wake(stream->request);
}

static void send_snapshot(struct api_stream *stream)
{
	struct buffer json;
	const char *type = !stream->begun && !stream->resumes ? "SUBSCRIBED" : "RESYNC";
	bool stale = stream->source->is_stale && stream->source->is_stale(stream);
	stream->state = API_STREAM_FOLLOWING;
	begin_event(stream, type, clock_wall_s(), &json);
	recent_restart(&stream->recent, stream->sequence);
	if (!stream->begun) {
		buffer_printf(&json,
			",\"heartbeat_interval_seconds\":%g,\"stream_id\":\"%llx-%llx\"",
			interval_s(stream->api), (unsigned long long)stream->api->epoch,
			(unsigned long long)stream->id);
	}
	stream->begun = true;
	buffer_append_text(&json, stale ? ",\"stale\":true,\"snapshot\":" : ",\"snapshot\":");
	stream->source->write_snapshot(stream, &json);
	stream->queue_limit = QUEUE_BYTES + json.len;
	stream->api->snapshot_bytes += json.len;
	end_event(stream, type, &json);
	if (stale) {
		char heard[API_STREAM_HEARD_BYTES];
		api_stream_send(stream, "STALE", api_stream_heard(stream->cache, heard));
	}
}

void api_stream_resync(struct api_stream *stream)
{
	stream->state = API_STREAM_BEHIND;
	http_stream_wake(stream->request);
}

static void send_event(
	struct api_stream *stream, const char *type, double time, const char *members)
{
	struct buffer json;
	begin_event(stream, type, time, &json);
	if (members) {
		buffer_append_text(&json, ",");
		buffer_append_text(&json, members);
	}
	end_event(stream, type, &json);
}

void api_stream_send(struct api_stream *stream, const char *type, const char *members)
{
	double time = clock_wall_s();
	if (stream->state == API_STREAM_PARKED) {
		recent_add(&stream->recent, ++stream->sequence, time, type, members);
	}
	if (stream->state != API_STREAM_FOLLOWING) {
		return;
	}
	if (stream->queue.len - stream->read > stream->queue_limit ||
		!http_has_room(stream->request)) {
		api_stream_resync(stream);
		return;
	}
	send_event(stream, type, time, members);
	recent_add(&stream->recent, stream->sequence, time, type, members);
}

static size_t on_read(void *context, char *buffer, size_t size)
{
	struct api_stream *stream = context;
	if (stream->queue.len == 0 && stream->state == API_STREAM_BEHIND) {
		if (!http_has_room(stream->request) || !may_write_snapshot(stream)) {
			wait_for_room(stream);
			return 0;
		}
		list_remove(&stream->waiting);
		send_snapshot(stream);
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
	stream->source->on_closed(stream);
}

/* ---- opening and ending ---- */

static int choose_framing(const char *accept)
{
	for (int framing = API_RECORDIO; framing <= API_EVENT_STREAM; framing++) {
		if (http_accepts(accept, media_types[framing], false)) {
			return framing;
		}
	}
	return http_accepts(accept, media_types[API_RECORDIO], true)        ? API_RECORDIO
		: http_accepts(accept, media_types[API_EVENT_STREAM], true) ? API_EVENT_STREAM
									    : -1;
}

bool api_stream_admit(struct api *api, struct http_request *request, enum api_framing *ret_framing)
{
	struct err err = ERR_INIT;
	char room[SELECT_BYTES];
	int framing = choose_framing(request->accept);
	if (framing < 0) {
		api_not_acceptable(request,
			"this is application/recordio, application/x-ndjson or text/event-stream");
		return false;
	}
	if (request->method == HTTP_HEAD) {
		/* A stream has no length, and as the answer to a GET no entity tag. */
		struct http_response *response = http_response_create(NULL, "", 0);
		http_response_header(response, "Content-Type", media_types[framing]);
		http_response_header(response, "Cache-Control", "no-store");
		http_response_header(response, "Vary", "Accept");
		api_say_filter(response, api_attributes(request, room, &err));
		http_answer(request, 200, response);
		http_response_free(response);
		return false;
	}
	if (api_watcher_begin(api, request, &err)) {
		api_problem(request, 503, &err);
		return false;
	}
	*ret_framing = (enum api_framing)framing;
	return true;
}

void api_stream_init(struct api_stream *stream, const struct api_stream_source *source,
	struct api *api, struct http_request *request, enum api_framing framing)
{
	stream->source = source;
	stream->api = api;
	stream->cache = api->cache;
	stream->request = request;
	stream->local = request->local;
	stream->framing = framing;
	stream->id = ++api->next_stream;
	buffer_init(&stream->queue, FRAME_BYTES);
	recent_init(&stream->recent, &api->recent_bytes);
	list_init(&stream->parked);
	list_init(&stream->beat);
	list_init(&stream->reader);
	list_init(&stream->waiting);
	http_on_closed(request, on_closed, stream);
}

static void begin_answer(struct api_stream *stream)
{
	struct http_stream_callbacks callbacks = { on_read, on_closed, stream };
	struct api *api = stream->api;
	char room[SELECT_BYTES];
	struct err ignored = ERR_INIT;
	const char *attributes = api_attributes(stream->request, room, &ignored);
	struct buffer fields;
	stream->answered = true;
	schedule_beat(stream);
	if (!timer_runs(&api->heartbeat)) {
		schedule_heartbeat(api);
	}
	buffer_init(&fields, SIZE_MAX);
	if (attributes) {
		buffer_append_text(&fields, "X-Filter: ");
		api_write_filter(&fields, attributes);
		buffer_append_text(&fields, "\r\n");
	}
	http_stream(
		stream->request, media_types[stream->framing], buffer_text(&fields), &callbacks);
	buffer_finish(&fields);
}

void api_stream_begin(struct api_stream *stream)
{
	stream->state = API_STREAM_BEHIND;
	if (stream->answered) {
		http_stream_wake(stream->request);
	} else {
		begin_answer(stream);
	}
}

void api_stream_load(struct api_stream *stream, size_t read)
{
	char heard[API_STREAM_HEARD_BYTES];
	char members[2 * API_STREAM_HEARD_BYTES];
	const char *known = api_stream_heard(stream->cache, heard);
	if (!stream->answered) {
		begin_answer(stream);
	}
	if (stream->queue.len == 0) {
		text_printf(members, sizeof(members), "\"loading\":%zu%s%s", read, known ? "," : "",
			known ? known : "");
		send_event(stream, "HEARTBEAT", clock_wall_s(), members);
	}
}

static void leave_client(struct api_stream *stream)
{
	list_remove(&stream->beat);
	list_remove(&stream->waiting);
	if (stream->request) {
		empty_queue(stream);
		stream->request = NULL;
	}
}

void api_stream_park(struct api_stream *stream)
{
	leave_client(stream);
	api_watcher_end(stream->api, stream->local);
	stream->state = API_STREAM_PARKED;
}

void api_stream_resume(struct api_stream *stream, struct http_request *request,
	enum api_framing framing, uint64_t sequence)
{
	struct list missed;
	list_init(&missed);
	list_remove(&stream->parked);
	stream->request = request;
	stream->framing = framing;
	stream->state = API_STREAM_FOLLOWING;
	begin_answer(stream);
	/* Heartbeats had numbers, too: the events get theirs anew, so that none is missing. */
	stream->sequence = sequence;
	list_move_all(&missed, &stream->recent.events);
	while (!list_empty(&missed)) {
		struct recent_event *event = LIST_ITEM(missed.next, struct recent_event, link);
		list_remove(&event->link);
		list_append(&stream->recent.events, &event->link);
		if (event->sequence > sequence && stream->state == API_STREAM_FOLLOWING) {
			send_event(stream, event->type, event->time, event->members);
			event->sequence = stream->sequence;
		}
	}
}

void api_stream_finish(struct api_stream *stream)
{
	bool counts = stream->request != NULL;
	leave_client(stream);
	list_remove(&stream->parked);
	recent_restart(&stream->recent, 0);
	if (counts) {
		api_watcher_end(stream->api, stream->local);
	}
}

void api_streams_init(struct api *api)
{
	timer_init(&api->heartbeat, api->loop, "heartbeat of streams", on_heartbeat, api);
	timer_init(&api->room, api->loop, "room for streams", on_room, api);
	timer_init(&api->more, api->loop, "more snapshots", on_more, api);
	list_init(&api->streams);
	list_init(&api->readers);
	list_init(&api->waiting);
}

void api_streams_finish(struct api *api)
{
	timer_stop(&api->heartbeat);
	timer_stop(&api->room);
	timer_stop(&api->more);
}
