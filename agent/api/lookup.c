#include "agent/api/internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/limits.h"
#include "agent/base/allocate.h"
#include "agent/base/log.h"
#include "lib/base/path.h"
#include "lib/base/clock.h"

/* The responses that are kept with a cached answer, so that a hit makes nothing anew. */
struct front {
	struct http_response *hit;
	struct http_response *stale;
	long stale_age;
};

/* A lookup that could not be answered at once: it loads, or it waits for a change. */
struct lookup {
	struct cache_wait wait;
	struct api *api;
	struct http_request *request;
	ev_timer timer;
	double started;
	enum cache_answer_kind kind;
	bool local;
	bool polls;       /* wait->unlike is the answer that the client has */
	struct list link; /* of those that poll */
	struct cache_filter filter;
	char *filter_texts;
	char path[LIMIT_PATH_BYTES + 1];
};

static const char *const sources[] = { "HIT", "MISS", "STALE" };
enum source { HIT, MISS, STALE };

/* ---- answering ---- */

void api_release_front(void *context)
{
	struct front *front = context;
	http_response_free(front->hit);
	http_response_free(front->stale);
	free(front);
}

static struct front *front_of(struct cache_answer *answer)
{
	if (!answer->front) {
		answer->front = allocate_zeroed(1, sizeof(struct front));
	}
	return answer->front;
}

static int status_of(const struct cache_answer *answer)
{
	return answer->err ? err_http_status(answer->err->code) : 200;
}

static struct http_response *body_response(const struct http_request *request,
	const struct cache_answer *answer, const char *content_type)
{
	return answer->err ? api_problem_response(request, 0, answer->err)
			   : http_response_create_borrowed(content_type, answer->body, answer->len,
				     cache_body_release, cache_body_hold(answer));
}

static struct http_response *make_response(const struct http_request *request,
	const struct cache_answer *answer, enum source source, const char *content_type)
{
	struct http_response *response = body_response(request, answer, content_type);
	char age[24];
	snprintf(age, sizeof(age), "%ld", (long)cache_answer_age_s(answer));
	http_response_etag(response, answer->etag);
	http_response_header(response, "Age", age);
	http_response_header(response, "X-Cache", sources[source]);
	http_response_header(response, "Cache-Control", "no-cache");
	http_response_header(response, "Vary", "Accept");
	return response;
}

static void count(struct api *api, enum source source)
{
	metrics_series_add(source == HIT ? api->hits
			: source == MISS ? api->misses
					 : api->stale,
		1);
}

/* Where the response is kept for this kind of answering; NULL when it has to be made. */
static struct http_response **find_kept(struct cache_answer *answer, enum source source)
{
	struct front *front = front_of(answer);
	if (source == HIT) {
		return &front->hit;
	}
	if (source != STALE) {
		return NULL;
	}
	long age = (long)cache_answer_age_s(answer);
	if (front->stale && front->stale_age != age) {
		http_response_free(front->stale);
		front->stale = NULL;
	}
	front->stale_age = age;
	return &front->stale;
}

static void answer_with(struct api *api, struct http_request *request, struct cache_answer *answer,
	enum source source, bool text, double started)
{
	source = answer->live ? source : STALE;
	const char *content_type = text ? "text/plain; charset=utf-8" : "application/json";
	struct http_response **place = find_kept(answer, source);
	struct http_response *response = place ? *place : NULL;
	if (!response) {
		response = make_response(request, answer, source, content_type);
		if (place) {
			*place = response;
		}
	}
	count(api, source);
	metrics_series_observe(api->durations, clock_monotonic_s() - started);
	http_answer(request, status_of(answer), response);
	if (!place) {
		http_response_free(response);
	}
}

/* ---- lookups that take a while ---- */

static void end(struct lookup *lookup)
{
	cache_cancel(&lookup->wait);
	ev_timer_stop(lookup->api->loop, &lookup->timer);
	if (lookup->polls) {
		api_watcher_end(lookup->api, lookup->local);
		list_remove(&lookup->link);
	}
	free(lookup->filter_texts);
	free(lookup);
}

static void on_closed(void *context)
{
	end(context);
}

static void fail(struct lookup *lookup, const struct err *err)
{
	metrics_series_add(lookup->api->errors, 1);
	api_problem(lookup->request, 0, err);
	end(lookup);
}

/* The end of a long poll, which says that it was one. How long that took says nothing about us. */
static void answer_anew(struct lookup *lookup, struct cache_answer *answer, enum source source)
{
	struct http_request *request = lookup->request;
	char applied[32];
	snprintf(applied, sizeof(applied), "wait=%d", http_wait_seconds(request->prefer));
	struct http_response *response = make_response(request, answer, source,
		lookup->filter.text ? "text/plain; charset=utf-8" : "application/json");
	http_response_header(response, "Preference-Applied", applied);
	count(lookup->api, source);
	http_answer(request, status_of(answer), response);
	http_response_free(response);
}

static bool may_poll(const struct http_request *request, const struct cache_answer *answer)
{
	return request->if_none_match && http_wait_seconds(request->prefer) > 0 &&
		http_tag_matches(request->if_none_match, answer->etag, true);
}

static const struct cache_filter *filter_of(const struct lookup *lookup)
{
	return lookup->kind == CACHE_ENDPOINTS ? &lookup->filter : NULL;
}

/* The client has this answer and waits for the next. */
static void poll(struct lookup *lookup, const char *etag)
{
	struct api *api = lookup->api;
	struct err err = ERR_INIT;
	if (api_watcher_begin(api, lookup->request, &err)) {
		api_problem(lookup->request, 503, &err);
		end(lookup);
		return;
	}
	lookup->polls = true;
	list_append(&api->polls, &lookup->link);
	http_set_lasting(lookup->request);
	strcpy(lookup->wait.unlike, etag);
	ev_timer_stop(api->loop, &lookup->timer);
	ev_timer_set(&lookup->timer, http_wait_seconds(lookup->request->prefer), 0.);
	ev_timer_start(api->loop, &lookup->timer);
	struct cache_answer *answer;
	if (cache_ask(api->cache, lookup->path, lookup->kind, filter_of(lookup), false,
		    &lookup->wait, &answer, &err) != CACHE_WAITING) {
		fail(lookup, &err);
	}
}

static void on_answer(void *context, struct cache_answer *answer, const struct err *err)
{
	struct lookup *lookup = context;
	if (!answer) {
		fail(lookup, err);
	} else if (lookup->polls) {
		answer_anew(lookup, answer, answer->live ? MISS : STALE);
		end(lookup);
	} else if (may_poll(lookup->request, answer)) {
		poll(lookup, answer->etag);
	} else {
		answer_with(lookup->api, lookup->request, answer, MISS, lookup->filter.text,
			lookup->started);
		end(lookup);
	}
}

/* A poll that ran out is answered with what is known now: unchanged, but its age may have. */
static void end_poll(struct lookup *lookup)
{
	struct cache_answer *answer;
	struct err err = ERR_INIT;
	cache_cancel(&lookup->wait);
	lookup->wait.unlike[0] = '\0';
	if (cache_ask(lookup->api->cache, lookup->path, lookup->kind, filter_of(lookup), false,
		    &lookup->wait, &answer, &err) != CACHE_READY) {
		err_set(&err, BERTH_TIMEOUT, "the registry has not answered");
		fail(lookup, &err);
		return;
	}
	answer_anew(lookup, answer, answer->live ? HIT : STALE);
	end(lookup);
}

void api_end_polls(struct api *api)
{
	struct list *next;
	for (struct list *at = api->polls.next; at != &api->polls; at = next) {
		next = at->next;
		end_poll(LIST_ITEM(at, struct lookup, link));
	}
}

static void on_timeout(struct ev_loop *loop, ev_timer *timer, int events)
{
	(void)loop;
	(void)events;
	struct lookup *lookup = timer->data;
	if (lookup->polls) {
		end_poll(lookup);
		return;
	}
	struct err err = ERR_INIT;
	if (registry_state(lookup->api->registry) == REGISTRY_CONNECTED) {
		err_set(&err, BERTH_TIMEOUT, "the registry did not answer within %lld ms",
			(long long)lookup->api->options.lookup_timeout_ms);
	} else {
		err_set(&err, BERTH_REGISTRY_UNAVAILABLE, "the registry is %s, and %s is not known",
			registry_state_name(registry_state(lookup->api->registry)), lookup->path);
	}
	fail(lookup, &err);
}

/* The filter's texts live on the handler's stack. */
static void keep_filter(struct lookup *lookup, const struct cache_filter *filter)
{
	const char *texts[] = { filter->api, filter->protocol, filter->scope };
	const char **places[] = { &lookup->filter.api, &lookup->filter.protocol,
		&lookup->filter.scope };
	size_t len = 0;
	for (size_t i = 0; i < 3; i++) {
		len += texts[i] ? strlen(texts[i]) + 1 : 0;
	}
	lookup->filter.text = filter->text;
	char *at = lookup->filter_texts = allocate_zeroed(len + 1, 1);
	for (size_t i = 0; i < 3; i++) {
		if (texts[i]) {
			*places[i] = at;
			at = stpcpy(at, texts[i]) + 1;
		}
	}
}

static struct lookup *lookup_create(struct api *api, struct http_request *request, const char *path,
	enum cache_answer_kind kind, const struct cache_filter *filter, double started)
{
	struct lookup *lookup = allocate_zeroed(1, sizeof(*lookup));
	lookup->api = api;
	lookup->request = request;
	lookup->local = request->local;
	lookup->kind = kind;
	lookup->started = started;
	lookup->wait.on_answer = on_answer;
	lookup->wait.context = lookup;
	strcpy(lookup->path, path);
	if (filter) {
		keep_filter(lookup, filter);
	}
	ev_timer_init(
		&lookup->timer, on_timeout, (double)api->options.lookup_timeout_ms / 1000., 0.);
	lookup->timer.data = lookup;
	ev_timer_start(api->loop, &lookup->timer);
	http_on_closed(request, on_closed, lookup);
	return lookup;
}

static void ask(struct api *api, struct http_request *request, const char *path,
	enum cache_answer_kind kind, const struct cache_filter *filter, double started)
{
	struct err err = ERR_INIT;
	if (path_check(path, strlen(path), &err) == 0 && strlen(path) > LIMIT_PATH_BYTES) {
		err_set(&err, BERTH_INVALID_PATHNAME, "the path is longer than %d bytes",
			LIMIT_PATH_BYTES);
	}
	if (err.code) {
		metrics_series_add(api->errors, 1);
		api_problem(request, 0, &err);
		return;
	}
	struct lookup *lookup = lookup_create(api, request, path, kind, filter, started);
	bool again = http_has_token(request->cache_control, "no-cache");
	struct cache_answer *answer;
	enum cache_verdict verdict = cache_ask(
		api->cache, path, kind, filter, again, &lookup->wait, &answer, &err);
	if (verdict == CACHE_UNAVAILABLE) {
		fail(lookup, &err);
	} else if (verdict == CACHE_READY && may_poll(request, answer)) {
		poll(lookup, answer->etag);
	} else if (verdict == CACHE_READY) {
		answer_with(api, request, answer, answer->live ? HIT : STALE,
			filter && filter->text, started);
		end(lookup);
	}
}

/* The hot path: one search, one response that exists already. */
static void look_up(struct api *api, struct http_request *request, const char *rest,
	enum cache_answer_kind kind, const struct cache_filter *filter)
{
	double started = clock_monotonic_s();
	const char *path = rest -
		1; /* the registry path begins with the slash that ends the prefix */
	struct cache_answer *answer = request->cache_control &&
			http_has_token(request->cache_control, "no-cache")
		? NULL
		: cache_find(api->cache, path, kind, filter);
	if (answer && !may_poll(request, answer)) {
		answer_with(api, request, answer, HIT, filter && filter->text, started);
	} else {
		ask(api, request, path, kind, filter, started);
	}
}

static void look_up_json(struct api *api, struct http_request *request, const char *rest,
	enum cache_answer_kind kind)
{
	if (!http_accepts(request->accept, "application/json", true)) {
		api_not_acceptable(request, "this is application/json");
		return;
	}
	look_up(api, request, rest, kind, NULL);
}

void api_resolve(struct api *api, struct http_request *request, const char *rest)
{
	look_up_json(api, request, rest, CACHE_RESOLVE);
}

void api_list(struct api *api, struct http_request *request, const char *rest)
{
	look_up_json(api, request, rest, CACHE_LIST);
}

void api_records(struct api *api, struct http_request *request, const char *rest)
{
	look_up_json(api, request, rest, CACHE_RECORDS);
}

void api_stat(struct api *api, struct http_request *request, const char *rest)
{
	look_up_json(api, request, rest, CACHE_STAT);
}

void api_endpoints(struct api *api, struct http_request *request, const char *rest)
{
	char api_text[LIMIT_API_BYTES + 1] = "";
	char protocol[LIMIT_PROTOCOL_BYTES + 1] = "";
	char scope[16] = "";
	struct err err = ERR_INIT;
	if (http_parameter(request, "api", api_text, sizeof(api_text), &err) < 0 ||
		http_parameter(request, "protocol", protocol, sizeof(protocol), &err) < 0 ||
		http_parameter(request, "scope", scope, sizeof(scope), &err) < 0) {
		api_bad_request(request, err.msg);
		return;
	}
	if (*scope && strcmp(scope, "external") != 0 && strcmp(scope, "internal") != 0) {
		api_bad_request(request, "query parameter scope: must be external or internal");
		return;
	}
	bool json = http_accepts(request->accept, "application/json", true);
	struct cache_filter filter = {
		.api = *api_text ? api_text : NULL,
		.protocol = *protocol ? protocol : NULL,
		.scope = *scope ? scope : NULL,
		.text = http_accepts(request->accept, "text/plain", !json) &&
			!http_accepts(request->accept, "application/json", false),
	};
	if (!json && !filter.text) {
		api_not_acceptable(request, "this is application/json or text/plain");
		return;
	}
	look_up(api, request, rest, CACHE_ENDPOINTS, &filter);
}
