#include "agent/api/further.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/allocate.h"
#include "lib/base/buffer.h"
#include "lib/base/clock.h"
#include "lib/base/hash.h"
#include "lib/base/path.h"
#include "lib/render/failover.h"

enum {
	FURTHER_MS = 1000, /* what further paths may take, together */
	BODY_BYTES = 256 << 20
};

/* One of the paths, and its answer. */
struct place {
	char *path;
	bool known; /* there is an answer, which may be an error */
	bool stale;
	bool serving; /* a member is there whose weight is not 0 */
	int64_t age_ms;
	char *items; /* without the brackets around them, and without commas at the ends */
	size_t len;
	struct err err;
};

struct further {
	struct api *api;
	struct http_request *request;
	double started;
	struct cache_query query;
	struct cache_filter *filter; /* of the query */
	struct cache_wait wait;
	struct timer timer; /* of the reads */
	bool waited;
	struct failover failover;
	uint64_t key;
	struct place *places;
	size_t count;
	size_t at; /* the one that is asked */
};

/* ---- the answer ---- */

static void end(struct further *further)
{
	cache_cancel(&further->wait);
	timer_stop(&further->timer);
	for (size_t i = 0; i < further->count; i++) {
		free(further->places[i].path);
		free(further->places[i].items);
	}
	free(further->places);
	free(further->filter);
	free(further);
}

static void on_closed(void *context)
{
	end(context);
}

static void fail(struct further *further, const struct err *err)
{
	metrics_series_add(further->api->errors, 1);
	api_problem(further->request, err->code == BERTH_LIMIT_EXCEEDED ? 503 : 0, err);
	end(further);
}

static size_t decide(struct further *further)
{
	const struct api_options *options = &further->api->options;
	struct failover_path *paths = allocate_zeroed(further->count, sizeof(*paths));
	for (size_t i = 0; i < further->count; i++) {
		const struct place *place = &further->places[i];
		paths[i].confirmed = place->known && !place->stale;
		paths[i].instances = place->serving;
	}
	size_t used = failover_decide(&further->failover, paths, further->count, 1,
		options->failover_hold_ms, further->query.now_ms);
	failover_put(further->api->failovers, further->key, &further->failover);
	free(paths);
	return used;
}

static void write_body(const struct further *further, size_t used, struct buffer *out)
{
	bool text = further->filter->text;
	buffer_append_text(out, text ? "" : "[");
	for (size_t i = 0; i < used; i++) {
		const struct place *place = &further->places[i];
		if (place->len > 0) {
			buffer_append_text(out, !text && out->len > 1 ? "," : "");
			buffer_append(out, place->items, place->len);
		}
	}
	buffer_append_text(out, text ? "" : "]\n");
}

static void write_headers(const struct further *further, size_t used, const struct buffer *body,
	struct http_response *to)
{
	char text[CACHE_ETAG_BYTES];
	bool stale = false;
	int64_t age_ms = 0;
	for (size_t i = 0; i < used; i++) {
		const struct place *place = &further->places[i];
		stale = stale || place->stale;
		age_ms = place->stale && place->age_ms > age_ms ? place->age_ms : age_ms;
	}
	snprintf(text, sizeof(text), "\"f-%016llx\"",
		(unsigned long long)hash_bytes(HASH_INIT, body->data, body->len));
	http_response_etag(to, text);
	snprintf(text, sizeof(text), "%lld", (long long)((age_ms + 999) / 1000));
	http_response_header(to, "Age", text);
	http_response_header(to, "X-Cache", stale ? "STALE" : further->waited ? "MISS" : "HIT");
	http_response_header(to, "Cache-Control", "no-cache");
	http_response_header(to, "Vary", "Accept");
	metrics_series_add(stale          ? further->api->stale
			: further->waited ? further->api->misses
					  : further->api->hits,
		1);
}

static void answer(struct further *further)
{
	const char *type = further->filter->text ? "text/plain; charset=utf-8" : "application/json";
	size_t used = decide(further);
	bool any = false;
	for (size_t i = 0; i < used; i++) {
		any = any || (further->places[i].known && !further->places[i].err.code);
	}
	if (!any) {
		fail(further, &further->places[0].err);
		return;
	}
	struct buffer body;
	buffer_init(&body, BODY_BYTES);
	write_body(further, used, &body);
	struct http_response *response = http_response_create(type, buffer_text(&body), body.len);
	write_headers(further, used, &body, response);
	metrics_series_observe(further->api->durations, clock_monotonic_s() - further->started);
	http_answer(further->request, 200, response);
	http_response_free(response);
	buffer_finish(&body);
	end(further);
}

/* ---- asking one path after the other ---- */

static void keep_items(struct place *place, const struct cache_answer *answer, bool text)
{
	size_t start = 0;
	size_t len = answer->len;
	if (!text) { /* an array, and the end of its line */
		start = 1;
		len -= strlen("[]\n");
	}
	if (len > 0) {
		place->items = allocate_bytes(answer->body + start, len);
		place->len = len;
	}
}

static void take(struct further *further, const struct cache_answer *answer)
{
	struct place *place = &further->places[further->at];
	const struct cache *cache = cache_at(further->api->cache, place->path);
	int64_t now_ms = clock_monotonic_ms();
	place->stale = !cache_answer_confirmed(
		cache, answer, further->query.max_age_ms, further->query.now_ms);
	place->age_ms = cache_answer_age_ms(cache, answer, now_ms);
	if (!answer->err) {
		place->known = true;
		place->serving = answer->serving;
		keep_items(place, answer, further->filter->text);
		return;
	}
	place->err = *answer->err;
	/* Any other error says nothing about what is there. */
	place->known = answer->err->code == BERTH_PATH_NOT_FOUND;
}

static bool is_enough(const struct further *further)
{
	bool found = false;
	for (size_t i = 0; i < further->at; i++) {
		found = found || further->places[i].serving;
	}
	/* The nearest path decides alone while it is not known. */
	return further->at > 0 &&
		(!further->places[0].known || (found && further->at > further->failover.further));
}

static void ask_next(struct further *further);

static void go_on(struct further *further)
{
	if (further->at == 0 && !further->places[0].known && further->places[0].err.code) {
		fail(further, &further->places[0].err);
		return;
	}
	if (further->at == 0) {
		timer_start(&further->timer, FURTHER_MS);
	}
	further->at++;
	ask_next(further);
}

static void on_answer(void *context, struct cache_answer *found, const struct err *err)
{
	struct further *further = context;
	if (found) {
		take(further, found);
	} else {
		further->places[further->at].err = *err;
	}
	go_on(further);
}

/* The nearest path as it is known; further ones without those that have not answered. */
static void on_timeout(void *context)
{
	struct further *further = context;
	struct place *place = &further->places[further->at];
	cache_cancel(&further->wait);
	further->query.path = place->path;
	struct cache_answer *known = cache_known(
		cache_at(further->api->cache, place->path), &further->query, clock_monotonic_ms());
	if (further->at > 0) {
		answer(further);
		return;
	}
	if (known) {
		take(further, known);
	} else {
		err_set(&place->err, BERTH_TIMEOUT, "%s could not be read within %lld ms",
			place->path, (long long)further->api->options.lookup_timeout_ms);
	}
	go_on(further);
}

static void ask_next(struct further *further)
{
	if (further->at == further->count || is_enough(further)) {
		answer(further);
		return;
	}
	struct place *place = &further->places[further->at];
	struct cache_answer *found;
	/* Below its root, the path of a request may be too long. */
	if (path_check(place->path, strlen(place->path), &place->err)) {
		go_on(further);
		return;
	}
	further->query.path = place->path;
	further->filter->rank = (unsigned)further->at;
	switch (cache_ask(cache_at(further->api->cache, place->path), &further->query,
		&further->wait, &found, &place->err)) {
	case CACHE_WAITING:
		further->waited = true;
		return;
	case CACHE_READY:
		take(further, found);
		break;
	case CACHE_UNAVAILABLE:
		break;
	}
	go_on(further);
}

/* ---- the look-up ---- */

static uint64_t key_of(const struct cache_query *query)
{
	const struct cache_filter *filter = query->filter;
	const char *const texts[] = { query->path, filter->api, filter->protocol, filter->scope };
	uint64_t key = HASH_INIT;
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		key = hash_text(key, texts[i] ? texts[i] : "");
		key = hash_bytes(key, "", 1);
	}
	return key;
}

void api_look_up_further(
	struct api *api, struct http_request *request, const struct cache_query *query)
{
	struct further *further = allocate_zeroed(1, sizeof(*further));
	struct err err = ERR_INIT;
	if (path_check(query->path, strlen(query->path), &err)) {
		metrics_series_add(api->errors, 1);
		api_problem(request, 0, &err);
		free(further);
		return;
	}
	further->api = api;
	further->request = request;
	further->started = clock_monotonic_s();
	further->query = *query;
	further->query.filter = further->filter = cache_filter_copy(query->filter);
	further->wait.on_answer = on_answer;
	further->wait.context = further;
	further->key = key_of(query);
	further->failover = failover_get(api->failovers, further->key);
	further->count = api->options.failover_count + 1;
	further->places = allocate_zeroed(further->count, sizeof(*further->places));
	for (size_t i = 0; i < further->count; i++) {
		const char *root = i == 0 ? "" : api->options.failover[i - 1];
		const char *path = i > 0 && strcmp(query->path, "/") == 0 ? "" : query->path;
		further->places[i].path = allocate_format("%s%s", root, path);
	}
	timer_init(&further->timer, api->loop, "look-up", on_timeout, further);
	timer_start(&further->timer, api->options.lookup_timeout_ms);
	http_on_closed(request, on_closed, further);
	ask_next(further);
}
