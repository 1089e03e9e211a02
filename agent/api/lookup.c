/* Look-ups of the registry's nodes: from the cache, after a wait, or as a long poll. */
#include "agent/api/poll.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/api/published.h"
#include "agent/base/allocate.h"
#include "lib/base/clock.h"
#include "lib/base/limits.h"
#include "lib/base/path.h"
#include "lib/http/field.h"
#include "lib/record/select.h"

/*
 * Lookups: resolve, list, records, endpoints, stat, find. A hit is one search in the cache and one
 * response that exists already; any other lookup waits in a struct lookup for its answer, or for a
 * change of it (a long poll).
 */

/* How many searches of TCP clients may be under way. */
enum { REMOTE_FINDS = 8 };

/* With a rendering: it is that of a hit. */
enum { AGE_OF_HIT = -1 };

/* A lookup that could not be answered at once: it loads, or it waits for a change. */
struct lookup {
	struct cache_wait wait;
	struct api *api;
	struct cache *cache; /* of the path */
	struct http_request *request;
	struct timer timer; /* of the read that it waits for */
	double started;
	struct cache_query query;
	char *path;                  /* of the query */
	struct cache_filter *filter; /* of the query */
	bool local;
	bool waits;      /* cache_enter() */
	bool confirming; /* the answer was there, and waited for a sign of life of the server */
	struct api_poll poll; /* while it is under way, wait->unlike is the answer of the client */
};

static const char *const sources[] = { "HIT", "MISS", "STALE" };
enum source { HIT, MISS, STALE };

/* ---- answering ---- */

void api_release_rendering(void *rendering)
{
	http_response_free(rendering);
}

static int status_of(const struct cache_answer *answer)
{
	return answer->err ? err_http_status(answer->err->code) : 200;
}

static const char *type_of(const struct cache_query *query)
{
	return query->filter && query->filter->text ? "text/plain; charset=utf-8"
						    : "application/json";
}

/* Seconds, rounded up: an answer is never older than its Age. */
static long age_of(const struct cache *cache, const struct cache_answer *answer, enum source source)
{
	int64_t now_ms = clock_monotonic_ms();
	return source == STALE ? (long)((cache_answer_age_ms(cache, answer, now_ms) + 999) / 1000)
			       : 0;
}

static struct http_response *body_response(const struct http_request *request,
	const struct cache_query *query, const struct cache_answer *answer)
{
	return answer->err ? api_problem_response(request, 0, answer->err)
			   : http_response_create_borrowed(type_of(query), answer->body,
				     answer->len, cache_body_release, cache_body_hold(answer));
}

static struct http_response *make_response(const struct cache *cache,
	const struct http_request *request, const struct cache_query *query,
	const struct cache_answer *answer, enum source source)
{
	struct http_response *response = body_response(request, query, answer);
	char age[24];
	snprintf(age, sizeof(age), "%ld", age_of(cache, answer, source));
	http_response_etag(response, answer->etag);
	http_response_header(response, "Age", age);
	http_response_header(response, "X-Cache", sources[source]);
	http_response_header(response, "Cache-Control", "no-cache");
	http_response_header(response, "Vary", "Accept");
	api_say_filter(response, query->filter ? query->filter->attributes : NULL);
	return response;
}

static void count(struct api *api, enum source source)
{
	metrics_series_add(source == HIT ? api->hits
			: source == MISS ? api->misses
					 : api->stale,
		1);
}

/*
 * The response of a hit, or of a stale answer of this age, is kept with the answer: the next one
 * makes nothing anew.
 */
static struct http_response *kept_response(const struct cache *cache,
	const struct http_request *request, const struct cache_query *query,
	struct cache_answer *answer, enum source source)
{
	long age = source == HIT ? AGE_OF_HIT : age_of(cache, answer, source);
	if (!answer->rendering || answer->rendering_age != age) {
		http_response_free(answer->rendering);
		answer->rendering = http_response_pack(
			make_response(cache, request, query, answer, source));
		answer->rendering_age = age;
	}
	return answer->rendering;
}

static void answer_with(struct api *api, struct cache *cache, struct http_request *request,
	const struct cache_query *query, struct cache_answer *answer, enum source source,
	double started)
{
	bool keeps = source != MISS;
	struct http_response *response = keeps
		? kept_response(cache, request, query, answer, source)
		: make_response(cache, request, query, answer, source);
	count(api, source);
	metrics_series_observe(api->durations, clock_monotonic_s() - started);
	if (request->prefer && source != STALE && api_shares(api, request)) {
		api_share_lookup(api, cache, request, query, answer);
	}
	http_answer(request, status_of(answer), response);
	if (!keeps) {
		http_response_free(response);
	}
}

/* `source` if the answer is confirmed, counted from when the lookup came. */
static enum source source_if_confirmed(const struct cache *cache, const struct cache_query *query,
	const struct cache_answer *answer, enum source source)
{
	return cache_answer_confirmed(cache, answer, query->max_age_ms, query->now_ms) ? source
										       : STALE;
}

/* ---- lookups that take a while ---- */

/*
 * The answer that a lookup has waited for. An answer that was there already and waited for a sign
 * of life is a hit, unless it waited for a read as well, for so long that `confirm` is over.
 */
static enum source source_after_wait(const struct lookup *lookup, const struct cache_answer *answer)
{
	const struct cache *cache = lookup->cache;
	bool hits = lookup->confirming &&
		cache_answer_confirmed(cache, answer, -1, clock_monotonic_ms());
	return source_if_confirmed(cache, &lookup->query, answer, hits ? HIT : MISS);
}

/* Searches of TCP clients: one registry that is slow must not take those of another. */
static size_t *remote_finds(struct api *api, const struct cache *cache)
{
	return cache == api->cache ? &api->remote_finds : &api->further_finds;
}

static void stop_waiting(struct lookup *lookup)
{
	if (lookup->waits) {
		cache_leave(lookup->cache);
		lookup->waits = false;
	}
}

static void end(struct lookup *lookup)
{
	struct api *api = lookup->api;
	cache_cancel(&lookup->wait);
	stop_waiting(lookup);
	timer_stop(&lookup->timer);
	api_poll_end(&lookup->poll);
	*remote_finds(api, lookup->cache) -= !lookup->local && lookup->query.kind == CACHE_FIND;
	free(lookup->path);
	free(lookup->filter);
	free(lookup);
}

static void on_closed(void *context)
{
	end(context);
}

static void fail(struct lookup *lookup, const struct err *err)
{
	/* An answer without room now may find room later. */
	int status = err->code == BERTH_LIMIT_EXCEEDED ? 503 : 0;
	metrics_series_add(lookup->api->errors, 1);
	api_problem(lookup->request, status, err);
	end(lookup);
}

/* The end of a long poll, which says that it was one. Its duration says nothing about the agent. */
static void answer_poll(struct lookup *lookup, struct cache_answer *answer, enum source source)
{
	struct http_request *request = lookup->request;
	struct http_response *response = make_response(
		lookup->cache, request, &lookup->query, answer, source);
	api_poll_applied(request, response);
	count(lookup->api, source);
	http_answer(request, status_of(answer), response);
	http_response_free(response);
	end(lookup);
}

/* When a poll's time ends, the answer is the same as before, but its age may be another. */
static void on_poll_over(struct api_poll *poll)
{
	struct lookup *lookup = LIST_ITEM(poll, struct lookup, poll);
	struct cache *cache = lookup->cache;
	struct cache_answer *answer = cache_known(cache, &lookup->query, clock_monotonic_ms());
	if (!answer) {
		struct err err = ERR_INIT;
		err_set(&err, BERTH_TIMEOUT, "the registry has not answered");
		fail(lookup, &err);
		return;
	}
	lookup->query.now_ms = clock_monotonic_ms();
	answer_poll(lookup, answer, source_if_confirmed(cache, &lookup->query, answer, HIT));
}

/* It counts as a watcher from now on. False: it has failed, and is gone. */
static bool begin_poll(struct lookup *lookup)
{
	struct err err = ERR_INIT;
	if (api_poll_begin(&lookup->poll, lookup->api, lookup->request, on_poll_over, &err)) {
		fail(lookup, &err);
		return false;
	}
	http_end_search(lookup->request);
	stop_waiting(lookup);
	timer_stop(&lookup->timer);
	return true;
}

/* The client has this answer and waits for the next. */
static void poll(struct lookup *lookup, const char *etag)
{
	struct err err = ERR_INIT;
	if (!lookup->poll.api && !begin_poll(lookup)) {
		return;
	}
	strcpy(lookup->wait.unlike, etag);
	if (lookup->query.refresh) { /* the first answer was read for it */
		lookup->query.refresh = false;
		lookup->query.max_age_ms = -1;
	}
	struct cache_answer *answer;
	if (cache_ask(lookup->cache, &lookup->query, &lookup->wait, &answer, &err) !=
		CACHE_WAITING) {
		fail(lookup, &err);
	}
}

static void on_answer(void *context, struct cache_answer *answer, const struct err *err)
{
	struct lookup *lookup = context;
	struct api *api = lookup->api;
	if (!answer) {
		fail(lookup, err);
	} else if (api_poll_wanted(lookup->request, answer->etag)) {
		poll(lookup, answer->etag);
	} else if (lookup->poll.api) {
		answer_poll(lookup, answer,
			source_if_confirmed(lookup->cache, &lookup->query, answer, MISS));
	} else {
		answer_with(api, lookup->cache, lookup->request, &lookup->query, answer,
			source_after_wait(lookup, answer), lookup->started);
		end(lookup);
	}
}

/* The read that a lookup waits for takes too long. */
static void give_up(struct lookup *lookup)
{
	struct api *api = lookup->api;
	enum registry_state state = cache_registry_state(lookup->cache);
	struct cache_answer *answer = cache_known(
		lookup->cache, &lookup->query, clock_monotonic_ms());
	if (answer) {
		answer_with(api, lookup->cache, lookup->request, &lookup->query, answer,
			source_after_wait(lookup, answer), lookup->started);
		end(lookup);
		return;
	}
	struct err err = ERR_INIT;
	if (state == REGISTRY_CONNECTED) {
		err_set(&err, BERTH_TIMEOUT, "%s could not be read within %lld ms",
			lookup->query.path, (long long)api->options.lookup_timeout_ms);
	} else {
		err_set(&err, BERTH_REGISTRY_UNAVAILABLE, "the registry is %s, and %s is not known",
			registry_state_name(state), lookup->query.path);
	}
	fail(lookup, &err);
}

/* A client with a wait of its own waits for the first answer, too, while the registry answers. */
static void on_timeout(void *context)
{
	struct lookup *lookup = context;
	struct api *api = lookup->api;
	struct cache *cache = lookup->cache;
	int64_t now_ms = clock_monotonic_ms();
	bool is_read = cache_registry_state(cache) == REGISTRY_CONNECTED &&
		cache_heard_age_ms(cache, now_ms) < api->options.lookup_timeout_ms;
	if (is_read && http_wait_seconds(lookup->request->prefer) > 0 &&
		!cache_known(cache, &lookup->query, now_ms)) {
		(void)begin_poll(lookup);
	} else {
		give_up(lookup);
	}
}

/* The texts of a query are on the handler's stack: the lookup takes copies. */
static void keep_query(struct lookup *lookup, const struct cache_query *query)
{
	lookup->query = *query;
	lookup->query.path = lookup->path = allocate_text(query->path);
	lookup->query.filter = lookup->filter = cache_filter_copy(query->filter);
}

static struct lookup *lookup_create(struct api *api, struct cache *cache,
	struct http_request *request, const struct cache_query *query, double started)
{
	struct lookup *lookup = allocate_zeroed(1, sizeof(*lookup));
	lookup->api = api;
	lookup->cache = cache;
	lookup->request = request;
	lookup->local = request->local;
	lookup->started = started;
	lookup->wait.on_answer = on_answer;
	lookup->wait.context = lookup;
	keep_query(lookup, query);
	*remote_finds(api, cache) += !request->local && query->kind == CACHE_FIND;
	timer_init(&lookup->timer, api->loop, "look-up", on_timeout, lookup);
	if (query->kind != CACHE_FIND) { /* a search takes the time that its walk takes */
		timer_start(&lookup->timer, api->options.lookup_timeout_ms);
	}
	http_on_closed(request, on_closed, lookup);
	return lookup;
}

static void ask(struct api *api, struct cache *cache, struct http_request *request,
	const struct cache_query *query, double started)
{
	struct err err = ERR_INIT;
	if (path_check(query->path, strlen(query->path), &err)) {
		metrics_series_add(api->errors, 1);
		api_problem(request, 0, &err);
		return;
	}
	struct lookup *lookup = lookup_create(api, cache, request, query, started);
	struct cache_answer *answer;
	enum cache_verdict verdict = cache_ask(cache, &lookup->query, &lookup->wait, &answer, &err);
	lookup->waits = verdict == CACHE_WAITING && cache_enter(cache, &err);
	if (verdict == CACHE_UNAVAILABLE || (verdict == CACHE_WAITING && !lookup->waits)) {
		fail(lookup, &err);
	} else if (verdict == CACHE_WAITING) {
		lookup->confirming = cache_is_confirming(&lookup->wait);
	} else if (api_poll_wanted(request, answer->etag)) {
		poll(lookup, answer->etag);
	} else {
		answer_with(api, cache, request, query, answer,
			source_if_confirmed(cache, query, answer, HIT), started);
		end(lookup);
	}
}

/* The hot path: one search, one response that exists already. */
static void look_up(struct api *api, struct http_request *request, struct cache_query *query)
{
	double started = clock_monotonic_s();
	query->now_ms = (int64_t)(started * 1e3);
	query->refresh = false;
	query->max_age_ms = -1;
	if (request->cache_control) {
		long max_age_s = http_max_age_seconds(request->cache_control);
		query->refresh = http_has_token(request->cache_control, "no-cache");
		/* A read that began before the request does not satisfy it. */
		query->max_age_ms = query->refresh ? 0 : max_age_s < 0 ? -1 : max_age_s * 1000;
	}
	/* A listener that shows a part of the registry shows nothing of further paths. */
	if (query->filter && query->filter->near && api->options.failover_count > 0 &&
		!request->listener) {
		api_ask_further(api, request, query);
		return;
	}
	struct cache *cache = cache_at(api->cache, query->path);
	struct cache_answer *answer = cache_find(cache, query);
	if (answer && !api_poll_wanted(request, answer->etag)) {
		answer_with(api, cache, request, query, answer, HIT, started);
	} else {
		ask(api, cache, request, query, started);
	}
}

/* ---- the requests ---- */

static void look_up_json(struct api *api, struct http_request *request, const char *rest,
	enum cache_answer_kind kind)
{
	char room[SELECT_BYTES];
	struct err err = ERR_INIT;
	struct cache_filter filter = { .outside = api_published_externally(api, request),
		.attributes = api_attributes(request, room, &err) };
	if (err.code) {
		api_bad_request(request, err.msg);
	} else if (!http_accepts(request->accept, "application/json", true)) {
		api_not_acceptable(request, "this is application/json");
	} else {
		look_up(api, request,
			&(struct cache_query){ .path = rest - 1,
				.kind = kind,
				.filter = filter.outside || filter.attributes ? &filter : NULL });
	}
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
	struct cache_filter filter;
	struct api_filter_room room;
	struct err err = ERR_INIT;
	if (!api_read_filter(api, request, &filter, &room, &err)) {
		api_bad_request(request, err.msg);
		return;
	}
	bool json = http_accepts(request->accept, "application/json", true);
	filter.text = http_accepts(request->accept, "text/plain", !json) &&
		!http_accepts(request->accept, "application/json", false);
	if (!json && !filter.text) {
		api_not_acceptable(request, "this is application/json or text/plain");
		return;
	}
	look_up(api, request,
		&(struct cache_query){
			.path = rest - 1, .kind = CACHE_ENDPOINTS, .filter = &filter });
}

void api_targets(struct api *api, struct http_request *request, const char *rest)
{
	struct cache_filter filter;
	struct api_filter_room room;
	struct err err = ERR_INIT;
	if (!api_read_filter(api, request, &filter, &room, &err)) {
		api_bad_request(request, err.msg);
	} else if (!http_accepts(request->accept, "application/json", true)) {
		api_not_acceptable(request, "this is application/json");
	} else {
		look_up(api, request,
			&(struct cache_query){
				.path = rest - 1, .kind = CACHE_TARGETS, .filter = &filter });
	}
}

/* A client with its share of the searches may still join a search that is under way. */
static bool may_search(struct api *api, struct http_request *request, const char *under)
{
	struct cache *cache = cache_at(api->cache, under);
	struct cache_stats stats;
	cache_get_stats(cache, &stats);
	return request->local ? http_search(request, stats.searches, CACHE_MAX_SEARCHES)
			      : http_search(request, *remote_finds(api, cache), REMOTE_FINDS);
}

void api_find(struct api *api, struct http_request *request, const char *rest)
{
	(void)rest;
	char under[LIMIT_PATH_BYTES + 1];
	char texts[5][LIMIT_API_BYTES + 1];
	char room[SELECT_BYTES];
	struct err err = ERR_INIT;
	const char *path = api_parameter(request, "under", under, sizeof(under), &err);
	struct cache_filter filter = {
		.api = api_parameter(request, "api", texts[0], LIMIT_API_BYTES + 1, &err),
		.protocol = api_parameter(
			request, "protocol", texts[1], LIMIT_PROTOCOL_BYTES + 1, &err),
		.type = api_parameter(request, "type", texts[2], LIMIT_API_BYTES + 1, &err),
		.id = api_parameter(request, "id", texts[3], LIMIT_API_BYTES + 1, &err),
		.persistence = api_parameter(
			request, "persistence", texts[4], LIMIT_PROTOCOL_BYTES + 1, &err),
		.attributes = api_attributes(request, room, &err),
	};
	if (err.code) {
		api_bad_request(request, err.msg);
	} else if (!http_accepts(request->accept, "application/json", true)) {
		api_not_acceptable(request, "this is application/json");
	} else {
		path = path ? path : "/";
		look_up(api, request,
			&(struct cache_query){ .path = path,
				.kind = CACHE_FIND,
				.filter = &filter,
				.joins = !may_search(api, request, path) });
	}
}
