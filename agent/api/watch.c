/* Streams of the registry's changes. */
#include <stdlib.h>
#include <string.h>

#include "agent/api/resume.h"
#include "agent/base/allocate.h"
#include "agent/base/log.h"
#include "lib/base/clock.h"
#include "lib/base/path.h"

/* GET /v1/watch: the stream of a path or of a tree, from an observer of the cache. */

enum { AGAIN_MS = 5000 }; /* clients take ten seconds of silence for the end */

struct watch {
	struct api_stream stream; /* first */
	struct cache_observer observer;
	struct timer timeout; /* of loading */
	size_t read;          /* of the observer, when it ran out last */
};

static struct watch *watch_of(const struct api_stream *stream)
{
	return (struct watch *)(uintptr_t)stream;
}

/* ---- the stream's source ---- */

static const char *name(const struct api_stream *stream)
{
	return cache_observed_path(&watch_of(stream)->observer);
}

static bool is_ready(const struct api_stream *stream)
{
	return cache_snapshot_ready(&watch_of(stream)->observer);
}

static void write_snapshot(struct api_stream *stream, struct buffer *out)
{
	cache_write_snapshot(&watch_of(stream)->observer, out);
}

static bool is_stale(const struct api_stream *stream)
{
	return watch_of(stream)->observer.state == CACHE_OBSERVER_STALE;
}

static void on_closed(struct api_stream *stream)
{
	struct watch *watch = watch_of(stream);
	if (api_resume_park(stream)) {
		return;
	}
	cache_unobserve(&watch->observer);
	timer_stop(&watch->timeout);
	api_stream_finish(stream);
	free(watch);
}

static const struct api_stream_source source = { name, is_ready, write_snapshot, is_stale,
	on_closed };

/* ---- from the cache ---- */

static void on_event(void *context, enum cache_event event, const char *path, const char *record)
{
	static const char *const names[] = { "UPDATED", "DELETED", "STALE", "FRESH" };
	struct watch *watch = context;
	struct api *api = watch->stream.api;
	struct buffer members;
	char heard[API_STREAM_HEARD_BYTES];
	if (watch->stream.state != API_STREAM_FOLLOWING &&
		watch->stream.state != API_STREAM_PARKED) {
		return; /* its snapshot is yet to come */
	}
	buffer_init(&members, SIZE_MAX);
	if (path) {
		buffer_printf(&members, "\"path\":\"%s\"", path);
	}
	if (record) {
		buffer_append_text(&members, ",\"record\":");
		buffer_append_text(&members, record);
	}
	api_stream_send(&watch->stream, names[event],
		path ? buffer_text(&members) : api_stream_heard(watch->stream.cache, heard));
	buffer_finish(&members);
	double since = cache_change_time_s(watch->stream.cache);
	if (path && since > 0) {
		metrics_observe(api->metrics, METRIC_PROPAGATION, "", clock_monotonic_s() - since);
	}
}

static void on_ready(void *context)
{
	struct watch *watch = context;
	timer_stop(&watch->timeout);
	api_stream_begin(&watch->stream);
}

/* A stream that has begun can only be broken off; its client asks again, and gets the reason. */
static void on_refused(void *context, const struct err *err)
{
	struct watch *watch = context;
	struct http_request *request = watch->stream.request;
	if (request) {
		log_limited(http_log_rate(request), LOG_LEVEL_WARN, "api", "a stream ends: %s",
			err->msg);
	}
	if (watch->stream.state == API_STREAM_LOADING && !watch->stream.answered) {
		on_closed(&watch->stream);
		api_problem(request, err->code == BERTH_TIMEOUT ? 0 : 503, err);
	} else {
		api_stream_break(&watch->stream);
	}
}

/* A tree of many nodes takes its time; a registry that answers nothing does not get more. */
static void on_timeout(void *context)
{
	struct watch *watch = context;
	enum registry_state state = cache_registry_state(watch->stream.cache);
	struct err err = ERR_INIT;
	if (state == REGISTRY_CONNECTED && watch->observer.read > watch->read) {
		int64_t again_ms = watch->stream.api->options.lookup_timeout_ms;
		watch->read = watch->observer.read;
		timer_start(&watch->timeout, again_ms < AGAIN_MS ? again_ms : AGAIN_MS);
		api_stream_load(&watch->stream, watch->read);
		return;
	}
	if (state == REGISTRY_CONNECTED) {
		err_set(&err, BERTH_TIMEOUT,
			"the registry does not answer, and not all of this is known");
	} else {
		err_set(&err, BERTH_REGISTRY_UNAVAILABLE,
			"the registry is %s, and not all of this is known",
			registry_state_name(state));
	}
	cache_unobserve(&watch->observer);
	on_refused(watch, &err);
}

/* ---- opening ---- */

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

/* True when a stream of the same path goes on where the client was. */
static bool resume(struct api *api, struct http_request *request, const char *path,
	enum api_framing framing, bool recursive, const struct api_resume_point *point)
{
	struct api_stream *stream = api_resume_find(api, point);
	bool is_same = stream && stream->local == request->local &&
		watch_of(stream)->observer.scope == (recursive ? CACHE_TREE : CACHE_SELF) &&
		strcmp(name(stream), path) == 0;
	if (is_same) {
		api_stream_resume(stream, request, framing, point->sequence);
	}
	return is_same;
}

static void open_watch(struct api *api, struct http_request *request, const char *path,
	enum api_framing framing, bool recursive, bool resumes)
{
	struct watch *watch = allocate_zeroed(1, sizeof(*watch));
	api_stream_init(&watch->stream, &source, api, request, framing);
	watch->stream.cache = cache_at(api->cache, path);
	watch->stream.resumes = resumes;
	watch->observer.scope = recursive ? CACHE_TREE : CACHE_SELF;
	watch->observer.on_ready = on_ready;
	watch->observer.on_event = on_event;
	watch->observer.on_refused = on_refused;
	watch->observer.context = watch;
	timer_init(&watch->timeout, api->loop, "watch", on_timeout, watch);
	timer_start(&watch->timeout, api->options.lookup_timeout_ms);
	cache_observe(watch->stream.cache, path, &watch->observer);
}

void api_watch(struct api *api, struct http_request *request, const char *rest)
{
	const char *path = rest - 1;
	bool recursive = false;
	struct api_resume_point point;
	int resumes = 0;
	struct err err = ERR_INIT;
	enum api_framing framing;
	char room[SELECT_BYTES];
	const char *attributes = api_attributes(request, room, &err);
	if (err.code) {
		api_bad_request(request, err.msg);
	} else if (path_check(path, strlen(path), &err)) {
		api_problem(request, 0, &err);
	} else if (read_recursive(request, &recursive, &err)) {
		api_bad_request(request, err.msg);
	} else if (attributes) {
		api_watch_records(api, request, path, recursive, attributes);
	} else if ((resumes = api_resume_read(api, request, &point, &err)) < 0) {
		api_bad_request(request, err.msg);
	} else if (api_stream_admit(api, request, &framing) &&
		(resumes == 0 || !resume(api, request, path, framing, recursive, &point))) {
		open_watch(api, request, path, framing, recursive, resumes > 0);
	}
}
