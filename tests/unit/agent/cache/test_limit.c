/* The limits of the cache: its charges, its eviction, and the resync of its paths. */

#include <criterion/criterion.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/cache/parts.h"
#include "lib/base/array.h"
#include "lib/base/clock.h"
#include "tests/support/cache_stage.h"
#include "tests/support/memory_backend.h"
#include "tests/support/staged.h"
#include "tests/support/watch_count.h"

enum { LIMIT = 256 * 1024, RECORDS = 400 };

static struct cache_stage *open_stage(struct cache_stage *stage, int64_t resync_ms)
{
	cache_stage_open(
		stage, &(struct cache_options){ .resync_ms = resync_ms, .max_size_bytes = LIMIT });
	return stage;
}

#define STAGED(name, resync_ms)                                                                    \
	STAGED_TEST(cache_limit, name, struct cache_stage *, stage,                                \
		open_stage(&(struct cache_stage){ 0 }, resync_ms), cache_stage_close)

static struct cache_stats stats_of(const struct cache_stage *stage)
{
	struct cache_stats stats;
	cache_get_stats(stage->cache, &stats);
	return stats;
}

static const char *put(struct cache_stage *stage, int number)
{
	static char path[32];
	snprintf(path, sizeof(path), "/n%d", number);
	memory_put(stage->registry, path, cache_stage_record(path));
	return path;
}

static void load(struct cache_stage *stage, int number)
{
	struct cache_outcome outcome;
	cr_assert_eq(cache_stage_look(stage, &outcome, put(stage, number), CACHE_RESOLVE), 0);
}

static bool is_known(const struct cache_stage *stage, const char *path)
{
	return cache_stage_data(stage, path) != NULL;
}

static void set_limit(struct cache_stage *stage, size_t max_size_bytes)
{
	cache_set_options(stage->cache,
		&(struct cache_options){ .resync_ms = 600000, .max_size_bytes = max_size_bytes });
	cache_stage_turn(stage);
}

/* ---- charges ---- */

STAGED(an_evicted_path_leaves_nothing_charged, 600000)
{
	static const enum cache_answer_kind kinds[] = { CACHE_RESOLVE, CACHE_LIST, CACHE_RECORDS,
		CACHE_ENDPOINTS, CACHE_TARGETS, CACHE_STAT, CACHE_FIND };
	static const char *const paths[] = { "/s", "/s/a", "/s/b", "/s/bad", "/none" };
	struct cache_outcome outcome;
	size_t bytes = stats_of(stage).bytes;
	memory_put(stage->registry, "/s", "");
	memory_put(stage->registry, "/s/a", cache_stage_record("one"));
	memory_put(stage->registry, "/s/b", "host:1");
	memory_put(stage->registry, "/s/bad", "{\"type\":\"JSONServiceRecord\"");
	memory_put(stage->registry, "/s/A foreign name", "");
	for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
		for (size_t j = 0; j < ARRAY_LEN(kinds); j++) {
			cache_stage_look(stage, &outcome, paths[i], kinds[j]);
		}
	}
	memory_put(stage->registry, "/s/a", cache_stage_record("another"));
	memory_remove(stage->registry, "/s/b");
	memory_put(stage->registry, "/s/c", cache_stage_record("three"));
	cache_stage_turn(stage);
	cr_assert_eq(cache_stage_look(stage, &outcome, "/s", CACHE_RECORDS), 0);
	cr_assert_gt(stats_of(stage).bytes, bytes + 5000);
	set_limit(stage, 1);
	struct cache_stats stats = stats_of(stage);
	cr_assert_eq(stats.paths, 0);
	cr_assert_eq(stats.entries, 0);
	cr_assert_eq(stats.bytes, bytes, "%zu, not %zu", stats.bytes, bytes);
	cr_assert_eq(watch_count(stage->registry), 0);
	/* There is nothing more to do, although even an empty cache is larger than that. */
	cr_assert_not(timer_runs(&stage->cache->turn.more));
	cr_assert_not(ev_is_active(&stage->cache->turn.end));
}

STAGED(a_record_is_charged_with_its_size_and_little_more, 600000)
{
	enum { LONG = 20000 };
	struct cache_outcome outcome;
	char *record = malloc(LONG + 1);
	memset(record, ' ', LONG);
	memcpy(record, "{\"type\":\"JSONServiceRecord\"}", 28);
	record[LONG] = '\0';
	memory_put(stage->registry, "/a", record);
	free(record);
	size_t before = stats_of(stage).bytes;
	cr_assert_eq(cache_stage_look(stage, &outcome, "/a", CACHE_RESOLVE), 0);
	size_t own = stats_of(stage).bytes - before;
	cr_assert(own >= LONG && own < LONG + 4000, "%zu", own);
	before += own;
	cr_assert_eq(cache_stage_look(stage, &outcome, "/", CACHE_RECORDS), 0);
	size_t body = stats_of(stage).bytes - before;
	cr_assert(body >= LONG && body < LONG + 4000, "%zu", body);
}

STAGED(many_names_are_charged, 600000)
{
	struct cache_outcome outcome;
	size_t before = stats_of(stage).bytes;
	size_t names = 0;
	for (int i = 0; i < RECORDS; i++) {
		names += strlen(put(stage, i)) + 1;
	}
	cr_assert_eq(cache_stage_look(stage, &outcome, "/", CACHE_LIST), 0);
	size_t list = stats_of(stage).bytes - before;
	/* Once in the list, with a pointer each, and once in the answer. */
	cr_assert_geq(list, 2 * names + RECORDS * sizeof(char *));
	cr_assert_leq(list, 3 * names + RECORDS * sizeof(char *) + 4000);
}

STAGED(a_path_is_charged_with_its_name_and_its_watch_with_another, 600000)
{
	enum { LONG = 900, ELEMENT = 50 };
	struct cache_outcome outcome;
	char path[LONG + 1];
	for (int i = 0; i < LONG; i++) {
		path[i] = i % ELEMENT == 0 ? '/' : 'a';
	}
	path[LONG] = '\0';
	size_t before = stats_of(stage).bytes;
	cr_assert_eq(cache_stage_look(stage, &outcome, "/a", CACHE_RESOLVE), BERTH_PATH_NOT_FOUND);
	size_t least = stats_of(stage).bytes - before;
	before += least;
	cr_assert_eq(cache_stage_look(stage, &outcome, path, CACHE_RESOLVE), BERTH_PATH_NOT_FOUND);
	cr_assert_eq(stats_of(stage).bytes - before, least + 2 * (LONG - 2));
}

STAGED(of_many_paths_that_went_a_larger_table_is_left_and_charged_once, 600000)
{
	enum { PATHS = 200 };
	set_limit(stage, (size_t)4 * LIMIT);
	size_t before = stats_of(stage).bytes;
	for (int i = 0; i < PATHS; i++) {
		load(stage, i);
	}
	cr_assert_eq(stats_of(stage).paths, PATHS);
	set_limit(stage, 1);
	cr_assert_eq(stats_of(stage).paths, 0);
	size_t more = stats_of(stage).bytes - before;
	cr_assert_gt(more, 0);
	cr_assert_leq(more, 2 * PATHS * sizeof(void *));
}

/* ---- eviction ---- */

STAGED(a_path_that_was_used_since_stays, 600000)
{
	int count = 0;
	while (stats_of(stage).evictions == 0 && count < 1000) {
		load(stage, count++);
	}
	cr_assert_lt(count, 1000);
	cr_assert(is_known(stage, "/n20"));
	cr_assert_not_null(cache_stage_find(stage, "/n20"));
	for (int i = 0; i < 40; i++) {
		load(stage, count++);
	}
	cr_assert(is_known(stage, "/n20"));
	cr_assert_not(is_known(stage, "/n19"));
	cr_assert_not(is_known(stage, "/n21"));
	for (int i = 0; i < RECORDS; i++) {
		load(stage, count++);
	}
	cr_assert_not(is_known(stage, "/n20"), "it was not used any more");
}

STAGED(an_observed_path_stays_until_nobody_observes_it, 600000)
{
	struct cache_observer observer = { .scope = CACHE_SELF };
	cache_observe(stage->cache, put(stage, 0), &observer);
	cache_stage_turn(stage);
	cr_assert(is_known(stage, "/n0"));
	for (int i = 1; i < RECORDS; i++) {
		load(stage, i);
	}
	cr_assert_gt(stats_of(stage).evictions, 0);
	cr_assert(is_known(stage, "/n0"));
	cr_assert_not(is_known(stage, "/n1"));
	cache_unobserve(&observer);
	set_limit(stage, 1);
	cr_assert_not(is_known(stage, "/n0"));
}

static void count_event(void *context, enum cache_event event, const char *path, const char *record)
{
	(void)path;
	(void)record;
	*(int *)context += event == CACHE_UPDATED;
}

STAGED(an_observed_path_that_is_absent_stays_too, 600000)
{
	int events = 0;
	struct cache_observer observer = {
		.scope = CACHE_SELF, .on_event = count_event, .context = &events
	};
	cache_observe(stage->cache, "/none", &observer);
	cache_stage_turn(stage);
	for (int i = 1; i < RECORDS; i++) {
		load(stage, i);
	}
	cr_assert_gt(stats_of(stage).evictions, 0);
	memory_put(stage->registry, "/none", cache_stage_record("new"));
	cache_stage_turn(stage);
	cr_assert_eq(events, 1);
	cache_unobserve(&observer);
}

static void forbid_list(void *context, const struct registry_task *task, struct err *err)
{
	if (task->operation == REGISTRY_OP_CHILDREN && strcmp(task->path, context) == 0) {
		err_set(err, BERTH_NO_PATH_PERMISSIONS, "not for you");
	}
}

/* The observer follows them, too: a client that looked at them made the cache know them. */
STAGED(paths_in_a_tree_stay_although_no_list_names_them, 600000)
{
	struct cache_observer observer = { .scope = CACHE_TREE };
	struct cache_outcome outcome;
	memory_put(stage->registry, "/s", "");
	memory_put(stage->registry, "/s/a", cache_stage_record("one"));
	memory_put(stage->registry, "/s/b", "");
	memory_put(stage->registry, "/s/b/x", "");
	memory_on_task(stage->registry, forbid_list, (void *)(uintptr_t) "/s");
	cache_observe(stage->cache, "/s", &observer);
	cache_stage_turn(stage);
	cr_assert_eq(cache_stage_look(stage, &outcome, "/s/a", CACHE_RESOLVE), 0);
	cr_assert_eq(cache_stage_look(stage, &outcome, "/s/b", CACHE_LIST), 0);
	for (int i = 0; i < RECORDS; i++) {
		load(stage, i);
	}
	cr_assert_gt(stats_of(stage).evictions, 0);
	cr_assert_not(is_known(stage, "/n0"));
	cr_expect(is_known(stage, "/s/a"));
	cr_expect_not_null(cache_stage_list(stage, "/s/b"));
	cache_unobserve(&observer);
	set_limit(stage, 1);
	cr_expect_not(is_known(stage, "/s/a"));
	cr_expect_null(cache_stage_list(stage, "/s/b"));
	memory_on_task(stage->registry, NULL, NULL);
}

STAGED(a_smaller_limit_holds_at_once, 600000)
{
	for (int i = 0; i < 100; i++) {
		load(stage, i);
	}
	cr_assert_eq(stats_of(stage).evictions, 0);
	set_limit(stage, 64 * 1024);
	struct cache_stats stats = stats_of(stage);
	cr_assert_leq(stats.bytes, 64 * 1024);
	cr_assert_gt(stats.paths, 10);
	cr_assert_eq(stats.paths + stats.evictions, 100);
	cr_assert_eq(watch_count(stage->registry), stats.entries);
}

STAGED(a_cache_that_is_just_full_evicts_nothing, 600000)
{
	for (int i = 0; i < 20; i++) {
		load(stage, i);
	}
	size_t bytes = stats_of(stage).bytes;
	set_limit(stage, bytes);
	cr_assert_eq(stats_of(stage).evictions, 0);
	set_limit(stage, bytes - 1);
	cr_assert_eq(stats_of(stage).evictions, 1);
}

/* Other clients do not wait for it. */
Test(cache_limit, a_large_eviction_takes_several_turns)
{
	enum { PATHS = 3000 };
	struct cache_stage stage;
	struct cache_outcome outcome;
	const struct cache_options options = { .resync_ms = 600000,
		.max_size_bytes = 8 * 1024 * 1024 };
	cache_stage_open(&stage, &options);
	for (int i = 0; i < PATHS; i++) {
		put(&stage, i);
	}
	cr_assert_eq(
		cache_stage_ask(&stage, &outcome, "/", CACHE_RECORDS, "", false), CACHE_WAITING);
	for (int i = 0; i < 100 && outcome.calls == 0; i++) {
		cache_stage_turn(&stage);
	}
	cr_assert_eq(outcome.calls, 1);
	cr_assert_eq(stats_of(&stage).evictions, 0);
	struct cache_options smaller = options;
	smaller.max_size_bytes = 1;
	cache_set_options(stage.cache, &smaller);
	ev_run(stage.loop, EVRUN_NOWAIT);
	cr_assert_gt(stats_of(&stage).paths, 0);
	cr_assert_lt(stats_of(&stage).paths, PATHS);
	cache_stage_turn(&stage);
	cr_assert_eq(stats_of(&stage).paths, 0);
	cache_stage_close(&stage);
}

static void on_refused(void *context, const struct err *err)
{
	cr_assert_eq(err->code, BERTH_LIMIT_EXCEEDED);
	++*(int *)context;
}

STAGED(one_turn_refuses_every_observer_that_does_not_fit, 600000)
{
	int refused = 0;
	struct cache_observer observers[3];
	for (int i = 0; i < 3; i++) {
		observers[i] = (struct cache_observer){
			.scope = CACHE_TREE, .on_refused = on_refused, .context = &refused
		};
		cache_observe(stage->cache, put(stage, i), &observers[i]);
	}
	cache_stage_turn(stage);
	cr_assert_eq(stats_of(stage).paths, 3);
	cache_set_options(
		stage->cache, &(struct cache_options){ .resync_ms = 600000, .max_size_bytes = 1 });
	cache_flush(stage->cache);
	cr_assert_eq(refused, 3);
	cr_assert_eq(stats_of(stage).paths, 0);
}

STAGED(a_path_that_a_tree_saw_come_and_go_is_forgotten, 600000)
{
	struct cache_observer observer = { .scope = CACHE_TREE };
	memory_put(stage->registry, "/s", "");
	cache_observe(stage->cache, "/s", &observer);
	cache_stage_turn(stage);
	size_t paths = stats_of(stage).paths;
	for (int i = 0; i < 20; i++) {
		char path[32];
		snprintf(path, sizeof(path), "/s/n%d", i);
		memory_put(stage->registry, path, "");
		cache_stage_turn(stage);
		cr_assert_eq(stats_of(stage).paths, paths + 1);
		memory_remove(stage->registry, path);
		cache_stage_turn(stage);
	}
	cr_assert_eq(stats_of(stage).paths, paths);
	cache_unobserve(&observer);
}

STAGED(a_path_that_was_looked_up_is_forgotten_when_the_list_lacks_it, 600000)
{
	struct cache_observer observer = { .scope = CACHE_TREE };
	struct cache_outcome outcome;
	memory_put(stage->registry, "/s", "");
	memory_put(stage->registry, "/s/a", cache_stage_record("one"));
	cache_observe(stage->cache, "/s", &observer);
	cache_stage_turn(stage);
	size_t paths = stats_of(stage).paths;
	cr_assert_eq(cache_stage_look(stage, &outcome, "/s/a", CACHE_RESOLVE), 0);
	memory_be_late(stage->registry, "/s");
	memory_remove(stage->registry, "/s/a");
	cache_stage_turn(stage);
	cr_assert_eq(stats_of(stage).paths, paths, "the list still names it");
	memory_answer_late(stage->registry);
	cache_stage_turn(stage);
	cr_assert_eq(stats_of(stage).paths, paths - 1);
	cache_unobserve(&observer);
}

/* ---- resync ---- */

struct reads {
	size_t all;
	size_t first; /* of /n0 */
};

static void count_reads(void *context, const struct registry_task *task, struct err *err)
{
	(void)err;
	struct reads *reads = context;
	reads->all++;
	reads->first += strcmp(task->path, "/n0") == 0;
}

static void pass_seconds(struct cache_stage *stage, int seconds)
{
	for (int i = 0; i < seconds; i++) {
		ev_invoke(stage->loop, &stage->cache->tick.timer, EV_TIMER);
		stage->now_ms += 1000;
		cache_stage_turn(stage);
	}
}

STAGED(everything_is_read_once_in_each_period, 10000)
{
	struct reads reads = { 0 };
	for (int i = 0; i < 50; i++) {
		load(stage, i);
	}
	memory_on_task(stage->registry, count_reads, &reads);
	pass_seconds(stage, 10);
	cr_assert_eq(reads.all, 50);
	cr_assert_eq(reads.first, 1);
	cr_assert_not_null(cache_stage_find(stage, "/n0"), "nothing has changed");
	pass_seconds(stage, 30);
	cr_assert_eq(reads.all, 200);
	cr_assert_eq(reads.first, 4);
}

STAGED(a_period_below_a_second_is_a_second, 300)
{
	struct reads reads = { 0 };
	load(stage, 0);
	memory_on_task(stage->registry, count_reads, &reads);
	pass_seconds(stage, 3);
	cr_assert_eq(reads.first, 3);
}

STAGED(a_period_of_a_millisecond_is_a_second, 1)
{
	struct reads reads = { 0 };
	load(stage, 0);
	memory_on_task(stage->registry, count_reads, &reads);
	pass_seconds(stage, 3);
	cr_assert_eq(reads.first, 3);
}

STAGED(a_cache_without_paths_has_no_tick, 10000)
{
	cache_stage_turn(stage);
	cr_assert_not(timer_runs(&stage->cache->tick));
}

STAGED(few_paths_have_few_ticks, 640000)
{
	struct reads reads = { 0 };
	load(stage, 0);
	int64_t left_ms = timer_left_ms(&stage->cache->tick);
	cr_assert(left_ms > 1000 && left_ms <= 10000, "%lld", (long long)left_ms);
	memory_on_task(stage->registry, count_reads, &reads);
	pass_seconds(stage, 64); /* each tick stands for ten */
	cr_assert_eq(reads.first, 1);
}

STAGED(many_paths_have_a_tick_a_second, 128000)
{
	stage->cache->table.max_bytes = 8 * 1024 * 1024;
	load(stage, 0);
	cr_assert_gt(stage->cache->tick_ms, 1000);
	for (int i = 1; i < 130; i++) {
		load(stage, i);
	}
	cr_assert_leq(timer_left_ms(&stage->cache->tick), 1000);
}

STAGED(a_tick_that_comes_earlier_counts_what_has_passed, 640000)
{
	load(stage, 0);
	struct cache *cache = stage->cache;
	timer_start(&cache->tick, 3000); /* seven of its ten seconds are over */
	cache->follow.stale++;
	cache_turn_wake(&cache->turn);
	cache_stage_turn(stage);
	cr_assert_leq(timer_left_ms(&cache->tick), 1000);
	cr_assert(
		cache->tick_ms >= 8000 && cache->tick_ms < 9000, "%lld", (long long)cache->tick_ms);
	cache->follow.stale--;
}

STAGED(without_a_period_nothing_is_read_again, 0)
{
	struct reads reads = { 0 };
	load(stage, 0);
	memory_on_task(stage->registry, count_reads, &reads);
	pass_seconds(stage, 3);
	cr_assert_eq(reads.all, 0);
}

STAGED(without_a_registry_nothing_is_read_again, 1000)
{
	struct reads reads = { 0 };
	load(stage, 0);
	memory_set_state(stage->registry, REGISTRY_AWAY);
	cache_stage_turn(stage);
	memory_on_task(stage->registry, count_reads, &reads);
	pass_seconds(stage, 3);
	cr_assert_eq(reads.all, 0);
}

/* ---- what the metrics say ---- */

STAGED(the_time_without_a_registry_is_known, 600000)
{
	cr_assert_eq(stats_of(stage).stale_seconds, 0);
	memory_set_state(stage->registry, REGISTRY_AWAY);
	cache_stage_turn(stage);
	stage->cache->away_since_ms -= 5000;
	cr_assert_geq(stats_of(stage).stale_seconds, 5);
	cr_assert_lt(stats_of(stage).stale_seconds, 1000);
	memory_set_state(stage->registry, REGISTRY_LOST);
	cache_stage_turn(stage);
	cr_assert_geq(stats_of(stage).stale_seconds, 5, "it is the same outage");
	memory_set_state(stage->registry, REGISTRY_CONNECTED);
	cache_stage_turn(stage);
	cr_assert_eq(stats_of(stage).stale_seconds, 0);
}

struct follower {
	const struct cache *cache;
	double change_time_s;
	int events;
};

static void on_event(void *context, enum cache_event event, const char *path, const char *record)
{
	(void)event;
	(void)path;
	(void)record;
	struct follower *follower = context;
	follower->events++;
	follower->change_time_s = cache_change_time_s(follower->cache);
}

STAGED(an_event_knows_when_its_change_came, 600000)
{
	struct follower follower = { .cache = stage->cache };
	struct cache_observer observer = { .on_event = on_event, .context = &follower };
	cache_observe(stage->cache, put(stage, 0), &observer);
	cache_stage_turn(stage);
	double before = clock_monotonic_s();
	memory_put(stage->registry, "/n0", cache_stage_record("other"));
	cache_stage_turn(stage);
	cr_assert_eq(follower.events, 1);
	cr_assert_geq(follower.change_time_s, before);
	cr_assert_leq(follower.change_time_s, clock_monotonic_s());
	cr_assert_eq(cache_change_time_s(stage->cache), 0);
	cache_unobserve(&observer);
}
