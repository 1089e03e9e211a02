/*
 * GET /v1/set/{path or name}: who serves something, once, as a long poll, or as a stream. Other
 * look-ups that take more than one path are forms of the same; so is a stream of records.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/api/poll.h"
#include "agent/api/question.h"
#include "agent/api/resume.h"
#include "agent/api/stream.h"
#include "agent/base/allocate.h"
#include "agent/cache/written.h"
#include "agent/set/question.h"
#include "lib/base/clock.h"
#include "lib/base/limits.h"
#include "lib/base/path.h"
#include "lib/http/field.h"

enum { LOADING_MS = 5000 /* clients take ten seconds of silence for the end */ };

/* ---- one answer ---- */

struct asked {
	struct api *api;
	struct http_request *request;
	struct set_user user;
	struct timer timer;
	struct api_poll poll;
	enum set_form form;
	bool loaded; /* it was not there at once */
	double started;
};

static void end(struct asked *asked)
{
	set_leave(&asked->user);
	timer_stop(&asked->timer);
	api_poll_end(&asked->poll);
	free(asked);
}

static void on_closed(void *context)
{
	end(context);
}

static void fail(struct asked *asked, const struct err *err)
{
	metrics_series_add(asked->api->errors, 1);
	api_problem(asked->request, err->code == BERTH_LIMIT_EXCEEDED ? 503 : 0, err);
	end(asked);
}

static void release(void *set)
{
	set_release(set);
}

static void write_etag(char out[CACHE_ETAG_BYTES], const struct set *set)
{
	snprintf(out, CACHE_ETAG_BYTES, "\"s-%016llx\"", (unsigned long long)set->version);
}

/* For the next look-up of a reader of the shared map. */
static void share(const struct asked *asked, const struct set_view *view)
{
	char etag[CACHE_ETAG_BYTES];
	const struct set_key *key = &view->set->question->key;
	if (!view->lasts || asked->form != SET_JSON || !api_shares(asked->api, asked->request)) {
		return;
	}
	write_etag(etag, view->set);
	const struct set_text *text = set_text(view->set, SET_JSON);
	const struct shared_item item = { .cache = view->cache,
		.source = key->kind == SET_OF_PATH ? SHARED_OF_CHILDREN : SHARED_OF_ANYTHING,
		.path = key->what,
		.etag = etag,
		.value = text->text,
		.value_len = text->len };
	api_share(asked->api, asked->request, false, &item);
}

static struct http_response *response_of(struct asked *asked, struct set *set, int *ret_status)
{
	static const char json[] = "application/json";
	static const char plain[] = "text/plain; charset=utf-8";
	struct err err = ERR_INIT;
	*ret_status = 200;
	/* There are no targets where there is nothing. */
	if (!set->exists && asked->form != SET_TARGETS) {
		err_set(&err, BERTH_PATH_NOT_FOUND,
			"nothing in the registry has this path or name");
		*ret_status = 404;
		return api_problem_response(asked->request, 0, &err);
	}
	bool lines = asked->form == SET_LINES || asked->form == SET_ENDPOINT_LINES;
	const struct set_text *text = set_text(set, asked->form);
	set_hold(set);
	struct http_response *response = http_response_create_borrowed(
		lines ? plain : json, text->text, text->len, release, set);
	api_say_filter(response, set->question->key.filter.attributes);
	return response;
}

static void answer(struct asked *asked, const struct set_view *view)
{
	struct api *api = asked->api;
	bool stale = view->state == SET_STALE;
	int status;
	char text[CACHE_ETAG_BYTES];
	struct http_response *response = response_of(asked, view->set, &status);
	if (status == 200) {
		share(asked, view);
	}
	write_etag(text, view->set);
	http_response_etag(response, text);
	snprintf(text, sizeof(text), "%lld", (long long)((view->age_ms + 999) / 1000));
	http_response_header(response, "Age", text);
	http_response_header(response, "X-Cache", stale ? "STALE" : asked->loaded ? "MISS" : "HIT");
	http_response_header(response, "Cache-Control", "no-cache");
	http_response_header(response, "Vary", "Accept");
	metrics_series_add(stale ? api->stale : asked->loaded ? api->misses : api->hits, 1);
	if (asked->poll.api) {
		api_poll_applied(asked->request, response);
	} else {
		metrics_series_observe(api->durations, clock_monotonic_s() - asked->started);
	}
	http_answer(asked->request, status, response);
	http_response_free(response);
	end(asked);
}

static void on_poll_over(struct api_poll *poll)
{
	struct asked *asked = LIST_ITEM(poll, struct asked, poll);
	const struct set_view view = set_look(&asked->user, SET_AS_KNOWN);
	answer(asked, &view);
}

/* The client has this set, and waits for another. */
static bool polls(struct asked *asked, const struct set_view *view)
{
	struct err err = ERR_INIT;
	char etag[CACHE_ETAG_BYTES];
	write_etag(etag, view->set);
	if (!api_poll_wanted(asked->request, etag)) {
		return false;
	}
	if (asked->poll.api) {
		return true;
	}
	if (api_poll_begin(&asked->poll, asked->api, asked->request, on_poll_over, &err)) {
		fail(asked, &err);
		return true;
	}
	set_wait_end(&asked->user);
	timer_stop(&asked->timer);
	return true;
}

static void on_news(void *context)
{
	struct asked *asked = context;
	const struct set_view view = set_look(&asked->user, SET_CONFIRMED);
	struct err err = ERR_INIT;
	if (view.state == SET_REFUSED) {
		err = *view.err;
		fail(asked, &err);
	} else if (view.state == SET_LOADING) {
		asked->loaded = true;
		if (!set_wait(&asked->user, &err)) {
			fail(asked, &err);
		}
	} else if (!view.confirming && !polls(asked, &view)) {
		answer(asked, &view);
	}
}

static void on_timeout(void *context)
{
	struct asked *asked = context;
	const struct set_view view = set_look(&asked->user, SET_AS_KNOWN);
	struct err err = ERR_INIT;
	if (view.set) {
		answer(asked, &view);
		return;
	}
	err_set(&err, BERTH_TIMEOUT, "the registry does not answer, and not all of this is known");
	fail(asked, &err);
}

static void ask(struct api *api, struct http_request *request, const struct set_key *key,
	enum set_form form, int64_t heard_since_ms)
{
	struct asked *asked = allocate_zeroed(1, sizeof(*asked));
	asked->api = api;
	asked->request = request;
	asked->form = form;
	asked->started = clock_monotonic_s();
	asked->user.on_news = on_news;
	asked->user.context = asked;
	asked->user.heard_since_ms = heard_since_ms;
	timer_init(&asked->timer, api->loop, "set", on_timeout, asked);
	timer_start(&asked->timer, api->options.lookup_timeout_ms);
	set_follow(api->sets, &asked->user, key);
	http_on_closed(request, on_closed, asked);
	on_news(asked);
}

/* A read that began before the request does not satisfy one that wants a new answer. */
static int64_t since_ms(const struct http_request *request)
{
	const char *control = request->cache_control ? request->cache_control : "";
	long max_age_s = http_max_age_seconds(control);
	int64_t now_ms = clock_monotonic_ms();
	return http_has_token(control, "no-cache") ? now_ms
		: max_age_s < 0                    ? 0
						   : now_ms - max_age_s * 1000;
}

void api_ask_further(struct api *api, struct http_request *request, const struct cache_query *query)
{
	const struct cache_filter *filter = query->filter;
	struct err err = ERR_INIT;
	if (path_check(query->path, strlen(query->path), &err)) {
		metrics_series_add(api->errors, 1);
		api_problem(request, 0, &err);
		return;
	}
	const struct set_key key = { .kind = SET_OF_PATH,
		.what = query->path,
		.filter = { filter->api, filter->protocol, filter->scope, filter->attributes },
		.near = filter->near,
		.further = api->options.failover,
		.further_count = api->options.failover_count,
		.hold_ms = api->options.failover_hold_ms };
	ask(api, request, &key,
		query->kind == CACHE_TARGETS ? SET_TARGETS
			: filter->text       ? SET_ENDPOINT_LINES
					     : SET_ENDPOINTS,
		since_ms(request));
}

/* ---- a stream ---- */

/*
 * Each set is a snapshot, so that a reader that fell behind gets the last one alone. A stream of
 * records, GET /v1/watch with attributes, has their paths and content, and the changes of these.
 */
struct set_stream {
	struct api_stream stream; /* first */
	struct set_user user;
	struct timer timer; /* of loading */
	struct set *shown;  /* that was sent, or is about to be; or NULL */
	bool of_records;
	bool stale;
	char *what;
};

static struct set_stream *stream_of(const struct api_stream *stream)
{
	return (struct set_stream *)(uintptr_t)stream;
}

static const char *name(const struct api_stream *stream)
{
	return stream_of(stream)->what;
}

static void show(struct set_stream *to, struct set *set)
{
	set_hold(set);
	set_release(to->shown);
	to->shown = set;
}

static void write_record(const struct set_record *record, struct buffer *out)
{
	cache_write_line(record->value->data, record->value->data_len, out);
}

static void write_records(const struct set *set, struct buffer *out)
{
	for (size_t i = 0; i < set->count; i++) {
		const struct set_record *record = set->members[i].record;
		buffer_printf(out, "%c\"%s\":", i > 0 ? ',' : '{', record->path);
		write_record(record, out);
	}
	buffer_append_text(out, set->count > 0 ? "}" : "{}");
}

/* `record`: NULL for one that has gone. */
static void send_record(
	struct api_stream *stream, const char *path, const struct set_record *record)
{
	struct buffer members;
	buffer_init(&members, SIZE_MAX);
	buffer_printf(&members, "\"path\":\"%s\"", path);
	if (record) {
		buffer_append_text(&members, ",\"record\":");
		write_record(record, &members);
	}
	api_stream_send(stream, record ? "UPDATED" : "DELETED", buffer_text(&members));
	buffer_finish(&members);
}

static const struct set_record *record_at(const struct set *set, size_t index)
{
	return index < set->count ? set->members[index].record : NULL;
}

/* All have one tier, so that both sets are sorted by path. */
static void send_changes(struct set_stream *to, const struct set *after)
{
	const struct set_record *was = record_at(to->shown, 0);
	const struct set_record *is = record_at(after, 0);
	for (size_t old = 0, new = 0; was || is;) {
		int order = was && is ? strcmp(was->path, is->path) : 0;
		bool stays = was && is && order == 0;
		bool goes = was && (!is || order < 0);
		if (goes) {
			send_record(&to->stream, was->path, NULL);
		} else if (is && !(stays && was->hash == is->hash)) {
			send_record(&to->stream, is->path, is);
		}
		old += goes || stays;
		new += !goes;
		was = record_at(to->shown, old);
		is = record_at(after, new);
	}
}

static void write_snapshot(struct api_stream *stream, struct buffer *out)
{
	const struct set_view view = set_look(&stream_of(stream)->user, SET_AS_KNOWN);
	show(stream_of(stream), view.set);
	if (stream_of(stream)->of_records) {
		write_records(view.set, out);
	} else {
		const struct set_text *text = set_text(view.set, SET_JSON);
		buffer_append(out, text->text, text->len - 1);
	}
}

static bool is_stale(const struct api_stream *stream)
{
	struct set_stream *to = stream_of(stream);
	to->stale = set_look(&to->user, SET_AS_KNOWN).state == SET_STALE;
	return to->stale;
}

static void on_stream_closed(struct api_stream *stream)
{
	struct set_stream *to = stream_of(stream);
	set_leave(&to->user);
	timer_stop(&to->timer);
	api_stream_finish(stream);
	set_release(to->shown);
	free(to->what);
	free(to);
}

static const struct api_stream_source source = { name, NULL, write_snapshot, is_stale,
	on_stream_closed };

/* A stream that has begun can only be broken off; its client asks again, and gets the reason. */
static void refuse(struct set_stream *to, const struct err *err)
{
	struct http_request *request = to->stream.request;
	if (to->stream.state == API_STREAM_LOADING && !to->stream.answered) {
		on_stream_closed(&to->stream);
		api_problem(request, err->code == BERTH_TIMEOUT ? 0 : 503, err);
	} else {
		api_stream_break(&to->stream);
	}
}

static void go_on(struct set_stream *to, const struct set_view *view)
{
	char heard[API_STREAM_HEARD_BYTES];
	bool is_new = view->set->version != to->shown->version;
	if (is_new && !to->of_records) {
		api_stream_resync(&to->stream);
		return;
	}
	if (is_new) {
		send_changes(to, view->set);
		show(to, view->set);
	}
	if ((view->state == SET_STALE) != to->stale) {
		to->stale = !to->stale;
		api_stream_send(&to->stream, to->stale ? "STALE" : "FRESH",
			api_stream_heard(to->stream.cache, heard));
	}
}

static void on_stream_news(void *context)
{
	struct set_stream *to = context;
	const struct set_view view = set_look(&to->user, SET_AS_KNOWN);
	if (view.state == SET_REFUSED) {
		const struct err err = *view.err;
		refuse(to, &err);
	} else if (view.set && to->stream.state == API_STREAM_LOADING) {
		timer_stop(&to->timer);
		api_stream_begin(&to->stream);
	} else if (view.set && to->stream.state == API_STREAM_FOLLOWING) {
		go_on(to, &view);
	}
}

static void on_loading(void *context)
{
	struct set_stream *to = context;
	struct err err = ERR_INIT;
	enum registry_state state = cache_registry_state(to->stream.cache);
	if (state == REGISTRY_CONNECTED) {
		api_stream_load(&to->stream, 0);
		timer_start(&to->timer, LOADING_MS);
		return;
	}
	err_set(&err, BERTH_REGISTRY_UNAVAILABLE,
		"the registry is %s, and not all of this is known", registry_state_name(state));
	refuse(to, &err);
}

static void open_stream(struct api *api, struct http_request *request, const char *rest,
	const struct set_key *key, bool of_records)
{
	struct api_resume_point point;
	enum api_framing framing;
	struct err err = ERR_INIT;
	int resumes = api_resume_read(api, request, &point, &err);
	if (resumes < 0) {
		api_bad_request(request, err.msg);
		return;
	}
	if (!api_stream_admit(api, request, &framing)) {
		return;
	}
	struct set_stream *to = allocate_zeroed(1, sizeof(*to));
	to->what = allocate_text(rest);
	to->of_records = of_records;
	api_stream_init(&to->stream, &source, api, request, framing);
	to->stream.resumes = resumes > 0;
	to->user.on_news = on_stream_news;
	to->user.context = to;
	timer_init(&to->timer, api->loop, "stream of a set", on_loading, to);
	timer_start(&to->timer, LOADING_MS);
	set_follow(api->sets, &to->user, key);
	to->stream.cache = set_look(&to->user, SET_AS_KNOWN).cache;
	on_stream_news(to);
}

void api_set(struct api *api, struct http_request *request, const char *rest)
{
	struct api_set_question question;
	struct err err = ERR_INIT;
	if (!api_read_set_question(api, request, rest, &question, &err)) {
		if (err.code == BERTH_FAILED) {
			api_bad_request(request, err.msg);
		} else {
			api_problem(request, 0, &err);
		}
		return;
	}
	bool json = http_accepts(request->accept, "application/json", true);
	bool text = http_accepts(request->accept, "text/plain", !json) &&
		!http_accepts(request->accept, "application/json", false);
	if (json || text) {
		ask(api, request, &question.key, json ? SET_JSON : SET_LINES, since_ms(request));
	} else {
		open_stream(api, request, rest, &question.key, false);
	}
}

void api_watch_records(struct api *api, struct http_request *request, const char *path,
	bool recursive, const char *attributes)
{
	const struct set_key key = { .kind = recursive ? SET_OF_TREE : SET_OF_NODE,
		.what = path,
		.filter = { .attributes = attributes } };
	open_stream(api, request, path, &key, true);
}

void api_set_sets(struct api *api, struct sets *sets)
{
	api->sets = sets;
}
