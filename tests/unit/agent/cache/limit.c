/* The limits of the cache: its charges, its eviction, and the resync of its paths. */

#include <criterion/criterion.h>

#include <stdio.h>
#include <string.h>

#include "agent/cache/parts.h"
#include "lib/base/array.h"
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

STAGED(without_a_period_nothing_is_read_again, 0)
{
	struct reads reads = { 0 };
	load(stage, 0);
	memory_on_task(stage->registry, count_reads, &reads);
	pass_seconds(stage, 3);
	cr_assert_eq(reads.all, 0);
}

/* ---- what the metrics say ---- */

struct follower {
	const struct cache *cache;
	double change_time_s;
	int events;
};
