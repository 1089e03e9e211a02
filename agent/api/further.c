#include "agent/api/further.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/allocate.h"
#include "lib/base/array.h"
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
	bool asked; /* once: a refresh has been asked for */
	bool known; /* there is an answer, which may be an error */
	bool stale;
	bool serving; /* a member is there whose weight is not 0 */
	int64_t age_ms;
	const char *items; /* borrowed until the end of the evaluation */
	size_t len;        /* without the brackets around them, and without commas at the ends */
	struct err err;
};

struct further {
	struct api *api;
	struct http_request *request;
	double started;
	struct cache_query query;
	struct cache_filter *filter; /* of the query */
	struct set_asking asking;
	bool waited;
	bool begun;  /* the nearest path has its answer, or as much of it as will come */
	bool failed; /* it is not known */
	uint64_t key;
	struct place *places;
	size_t count;
};

/* ---- the answer ---- */

static void end(struct further *further)
{
	set_asking_end(&further->asking);
	for (size_t i = 0; i < further->count; i++) {
		free(further->places[i].path);
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
	api_say_filter(to, further->filter);
	metrics_series_add(stale          ? further->api->stale
			: further->waited ? further->api->misses
					  : further->api->hits,
		1);
}

static void answer(struct further *further, size_t used)
{
	const char *type = further->filter->text ? "text/plain; charset=utf-8" : "application/json";
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

/* ---- one path after the other ---- */

static void take(struct further *further, struct place *place, struct cache *cache,
	const struct cache_answer *answer)
{
	place->stale = !cache_answer_confirmed(
		cache, answer, further->query.max_age_ms, further->query.now_ms);
	place->age_ms = cache_answer_age_ms(cache, answer, clock_monotonic_ms());
	if (answer->err) {
		place->err = *answer->err;
		/* Any other error says nothing about what is there. */
		place->known = answer->err->code == BERTH_PATH_NOT_FOUND;
		return;
	}
	size_t brackets = further->filter->text ? 0 : 1;
	place->known = true;
	place->serving = answer->serving;
	place->items = answer->body + brackets;
	place->len = answer->len - (brackets ? strlen("[]\n") : 0);
}

/* False: it is being read. */
static bool read_place(struct further *further, struct place *place, bool known_will_do)
{
	struct set_asking *asking = &further->asking;
	struct cache *cache = cache_at(further->api->cache, place->path);
	struct cache_query query = further->query;
	struct cache_answer *found = NULL;
	bool asked = place->asked;
	*place = (struct place){ .path = place->path, .asked = true };
	/* Below its root, the path of a request may be too long. */
	if (path_check(place->path, strlen(place->path), &place->err)) {
		return true;
	}
	query.path = place->path;
	query.refresh = query.refresh && !asked;
	if (known_will_do) {
		found = set_asking_known(asking, cache, &query);
	} else if (set_asking_read(asking, cache, &query, &found, &place->err) == CACHE_WAITING) {
		further->waited = true;
		return !set_asking_wait(asking, cache, &place->err);
	}
	if (found) {
		take(further, place, cache, found);
	}
	return true;
}

/* The nearest path is read once; when that is over, or takes too long, the known part counts. */
static bool know(void *context, size_t index, struct failover_path *ret_path)
{
	struct further *further = context;
	struct place *place = &further->places[index];
	bool nearest = index == 0;
	further->filter->rank = (unsigned)index;
	if (!read_place(further, place, nearest ? further->begun : further->asking.late)) {
		return false;
	}
	if (nearest && !place->known) { /* it decides alone */
		further->failed = true;
		return false;
	}
	if (nearest && !further->begun) {
		further->begun = true;
		set_asking_be_patient(&further->asking, FURTHER_MS);
	}
	*ret_path = (struct failover_path){ .confirmed = place->known && !place->stale,
		.instances = place->serving };
	return true;
}

static void evaluate(struct further *further)
{
	const struct api_options *options = &further->api->options;
	struct failover failover = failover_get(further->api->failovers, further->key);
	size_t used = failover_walk(&failover, further->count, 1, options->failover_hold_ms,
		further->query.now_ms, know, further);
	struct err *err = &further->places[0].err;
	if (used > 0) {
		failover_put(further->api->failovers, further->key, &failover);
		answer(further, used);
	} else if (further->failed && !err->code) {
		err_set(err, BERTH_TIMEOUT, "%s could not be read within %lld ms",
			further->places[0].path, (long long)options->lookup_timeout_ms);
		fail(further, err);
	} else if (further->failed) {
		fail(further, err);
	}
}

static void on_again(void *context)
{
	struct further *further = context;
	if (further->asking.late && !further->begun) {
		further->begun = true;
		set_asking_be_patient(&further->asking, FURTHER_MS);
	}
	evaluate(further);
}

/* ---- the look-up ---- */

static uint64_t key_of(const struct cache_query *query)
{
	const struct cache_filter *filter = query->filter;
	const char *const texts[] = { query->path, filter->api, filter->protocol, filter->scope,
		filter->attributes };
	uint64_t key = HASH_INIT;
	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
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
	further->key = key_of(query);
	further->count = api->options.failover_count + 1;
	further->places = allocate_zeroed(further->count, sizeof(*further->places));
	for (size_t i = 0; i < further->count; i++) {
		const char *root = i == 0 ? "" : api->options.failover[i - 1];
		const char *path = i > 0 && strcmp(query->path, "/") == 0 ? "" : query->path;
		further->places[i].path = allocate_format("%s%s", root, path);
	}
	set_asking_init(
		&further->asking, &api->askings, api->options.lookup_timeout_ms, on_again, further);
	http_on_closed(request, on_closed, further);
	evaluate(further);
}
