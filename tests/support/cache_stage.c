#include "tests/support/cache_stage.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/cache/parts.h"
#include "lib/base/clock.h"
#include "tests/support/memory_backend.h"

static void on_state(void *context, enum registry_state state, const char *why)
{
	(void)why;
	struct cache_stage *stage = context;
	if (stage->cache) {
		cache_on_registry_state(stage->cache, state);
	}
}

void cache_stage_turn(struct cache_stage *stage)
{
	int quiet = 0; /* turns in which nothing waits */
	for (int i = 0; i < 20 && quiet < 4; i++) {
		registry_dispatch(stage->registry, stage->now_ms);
		ev_run(stage->loop, EVRUN_NOWAIT);
		quiet = memory_tasks(stage->registry) ? 0 : quiet + 1;
	}
}

static void release_rendering(void *rendering)
{
	(void)rendering;
}

void cache_stage_open_at(
	struct cache_stage *stage, const char *url, const struct cache_options *given)
{
	struct cache_options options = *given;
	if (!options.release_rendering) {
		options.release_rendering = release_rendering;
	}
	options.max_size_bytes = options.max_size_bytes ? options.max_size_bytes : 1024 * 1024;
	*stage = (struct cache_stage){ .loop = ev_loop_new(EVFLAG_AUTO), .now_ms = 1 };
	struct registry_options registry_options = {
		.url = url, .on_state = on_state, .context = stage
	};
	stage->registry = memory_open("cache", &registry_options);
	stage->cache = cache_create(stage->loop, stage->registry, &options);
	memory_set_state(stage->registry, REGISTRY_CONNECTED);
	cache_stage_turn(stage);
}

void cache_stage_open(struct cache_stage *stage, const struct cache_options *given)
{
	cache_stage_open_at(stage, "dir:/here", given);
}

static void check(bool holds, const char *what)
{
	if (!holds) {
		fprintf(stderr, "the cache is empty, and yet: %s\n", what);
		abort();
	}
}

#define CHECK(condition) check(condition, #condition)

void cache_stage_check_accounts(struct cache *cache)
{
	size_t buckets = cache->table.bucket_count * sizeof(*cache->table.buckets);
	cache_warm_set(&cache->follow, NULL, 0);
	cache->table.max_bytes = 0;
	for (int i = 0; i < 10000 && (cache->table.node_count > 0 || cache->turn.dirty); i++) {
		cache->table.unpinned = true;
		cache->turn.worked = 0;
		cache_flush(cache);
	}
	CHECK(cache->table.node_count == 0);
	CHECK(list_empty(&cache->table.order) && list_empty(&cache->table.pinned));
	CHECK(cache->table.bytes == sizeof(*cache) + buckets);
	CHECK(cache->store.entry_count == 0);
	CHECK(cache->store.unconfirmed == 0);
	CHECK(list_empty(&cache->store.queue) && list_empty(&cache->store.doubted));
	CHECK(cache->follow.wide == 0 && cache->follow.stale == 0);
	CHECK(list_empty(&cache->follow.due));
	CHECK(list_empty(&cache->heard.waits));
	CHECK(cache->searches.walks == 0 && cache->searches.asked == 0);
	CHECK(list_empty(&cache->searches.queue) && list_empty(&cache->searches.observed));
	CHECK(list_empty(&cache->answers.builds));
}

/* A test that ends in the middle of something has nothing to account for. */
static bool is_in_use(const struct cache *cache)
{
	bool used = !list_empty(&cache->follow.observers) || !list_empty(&cache->heard.waits);
	for (struct cache_node *node = cache_node_next(&cache->table, NULL); node && !used;
		node = cache_node_next(&cache->table, node)) {
		used = cache_answers_waited(node);
	}
	return used;
}

void cache_stage_close(struct cache_stage *stage)
{
	if (stage->cache) {
		cache_warm_set(&stage->cache->follow, NULL, 0);
		if (!is_in_use(stage->cache)) {
			cache_stage_check_accounts(stage->cache);
		}
	}
	cache_destroy(stage->cache);
	stage->cache = NULL;
	registry_close(stage->registry);
	if (!stage->shares_loop && ev_run(stage->loop, EVRUN_NOWAIT)) {
		fprintf(stderr, "the cache has ended, and something goes on\n");
		abort();
	}
	ev_loop_destroy(stage->loop);
}

static struct cache_query query_of(const char *path, enum cache_answer_kind kind)
{
	return (struct cache_query){
		.path = path, .kind = kind, .max_age_ms = -1, .now_ms = clock_monotonic_ms()
	};
}

static const struct registry_value *value_of(
	const struct cache_stage *stage, const char *path, enum cache_kind kind)
{
	const struct cache_node *node = cache_node_find(&stage->cache->table, path, strlen(path));
	const struct cache_entry *entry = node ? node->entries[kind] : NULL;
	return entry ? entry->value : NULL;
}

const struct registry_value *cache_stage_data(const struct cache_stage *stage, const char *path)
{
	return value_of(stage, path, CACHE_DATA);
}

const struct registry_value *cache_stage_list(const struct cache_stage *stage, const char *path)
{
	return value_of(stage, path, CACHE_CHILDREN);
}

struct cache_answer *cache_stage_find(struct cache_stage *stage, const char *path)
{
	struct cache_query query = query_of(path, CACHE_RESOLVE);
	return cache_find(stage->cache, &query);
}

static void keep_err(struct cache_outcome *outcome, const struct err *err)
{
	outcome->code = err ? err->code : 0;
	snprintf(outcome->why, sizeof(outcome->why), "%s", err ? err->msg : "");
}

static void keep(struct cache_outcome *outcome, const struct cache_answer *answer)
{
	keep_err(outcome, answer->err);
	int64_t now_ms = clock_monotonic_ms();
	outcome->live = answer->live;
	outcome->confirmed = cache_answer_confirmed(outcome->stage->cache, answer, -1, now_ms);
	outcome->age_ms = cache_answer_age_ms(outcome->stage->cache, answer, now_ms);
	strcpy(outcome->etag, answer->etag);
	snprintf(outcome->text, sizeof(outcome->text), "%s", answer->body);
}

static void on_answer(void *context, struct cache_answer *answer, const struct err *err)
{
	struct cache_outcome *outcome = context;
	outcome->calls++;
	keep_err(outcome, err);
	if (answer) {
		keep(outcome, answer);
	}
}

enum cache_verdict cache_stage_ask_query(struct cache_stage *stage, struct cache_outcome *outcome,
	const struct cache_query *query, const char *unlike)
{
	*outcome = (struct cache_outcome){ .wait = { .on_answer = on_answer, .context = outcome },
		.stage = stage };
	strcpy(outcome->wait.unlike, unlike);
	struct cache_answer *answer;
	struct err err = ERR_INIT;
	enum cache_verdict verdict = cache_ask(stage->cache, query, &outcome->wait, &answer, &err);
	if (verdict == CACHE_READY) {
		keep(outcome, answer);
	}
	if (verdict == CACHE_UNAVAILABLE) {
		keep_err(outcome, &err);
	}
	return verdict;
}

enum cache_verdict cache_stage_ask(struct cache_stage *stage, struct cache_outcome *outcome,
	const char *path, enum cache_answer_kind kind, const char *unlike, bool refresh)
{
	struct cache_filter any = { .text = false };
	struct cache_query query = query_of(path, kind);
	query.filter = kind == CACHE_ENDPOINTS ? &any : NULL;
	query.refresh = refresh;
	return cache_stage_ask_query(stage, outcome, &query, unlike);
}

static void wait_for(struct cache_stage *stage, struct cache_outcome *outcome, const char *path)
{
	cache_stage_turn(stage);
	if (outcome->calls != 1) {
		fprintf(stderr, "%d answers for %s\n", outcome->calls, path);
		abort();
	}
}

int cache_stage_look(struct cache_stage *stage, struct cache_outcome *outcome, const char *path,
	enum cache_answer_kind kind)
{
	if (cache_stage_ask(stage, outcome, path, kind, "", false) == CACHE_WAITING) {
		wait_for(stage, outcome, path);
	}
	return outcome->code;
}

int cache_stage_look_filtered(struct cache_stage *stage, struct cache_outcome *outcome,
	const char *path, enum cache_answer_kind kind, const struct cache_filter *filter)
{
	struct cache_query query = query_of(path, kind);
	query.filter = filter;
	if (cache_stage_ask_query(stage, outcome, &query, "") == CACHE_WAITING) {
		wait_for(stage, outcome, path);
	}
	return outcome->code;
}

const char *cache_stage_record(const char *description)
{
	static char text[256];
	snprintf(text, sizeof(text),
		"{\"type\":\"JSONServiceRecord\",\"description\":\"%s\","
		"\"external\":[{\"api\":\"http://a\",\"addressType\":\"uri\",\"protocol\":\"REST\","
		"\"addresses\":[{\"uri\":\"http://%s\"}]}]}",
		description, description);
	return text;
}
