/* For names: whether anything has changed, and the data of all paths with their changes. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "agent/cache/parts.h"
#include "tests/support/cache_stage.h"
#include "tests/support/memory_backend.h"
#include "tests/support/staged.h"

#define STAGED(name)                                                                               \
	STAGED_TEST(cache_records, name, struct cache_stage *, stage,                              \
		open_stage(&(struct cache_stage){ 0 }), cache_stage_close)

enum { MOST = 300 };

static struct cache_stage *open_stage(struct cache_stage *stage)
{
	cache_stage_open(stage, &(struct cache_options){ .resync_ms = 600000 });
	return stage;
}

static void look(struct cache_stage *stage, const char *path, enum cache_answer_kind kind)
{
	struct cache_outcome outcome;
	cache_stage_look(stage, &outcome, path, kind);
}

static void put_and_look(struct cache_stage *stage, int number)
{
	char path[32];
	snprintf(path, sizeof(path), "/n%d", number);
	memory_put(stage->registry, path, cache_stage_record(path));
	look(stage, path, CACHE_RESOLVE);
}

struct visits {
	size_t count;
	size_t of[MOST];
};

static void visit(void *context, const char *path, bool known)
{
	struct visits *visits = context;
	int number = -1;
	cr_assert(known);
	sscanf(path, "/n%d", &number);
	cr_assert(number >= 0 && number < MOST, "%s", path);
	visits->of[number]++;
	visits->count++;
}

STAGED(each_path_with_data_is_visited_once)
{
	struct visits visits = { 0 };
	struct cache_outcome outcome;
	size_t cursor = 0;
	memory_put(stage->registry, "/s", "");
	memory_put(stage->registry, "/s/a", cache_stage_record("one"));
	look(stage, "/s", CACHE_LIST);
	look(stage, "/none", CACHE_RESOLVE);
	cr_assert_not(cache_visit_paths(stage->cache, &cursor, 10000, visit, &visits));
	cr_assert_eq(visits.count, 0);
	for (int i = 0; i < MOST; i++) {
		put_and_look(stage, i);
	}
	cr_assert_eq(
		cache_stage_ask(stage, &outcome, "/s/a", CACHE_RESOLVE, "", false), CACHE_WAITING);
	cursor = 0;
	cr_assert_not(cache_visit_paths(stage->cache, &cursor, 10000, visit, &visits));
	cr_assert_eq(visits.count, MOST, "and none that is being read");
	for (int i = 0; i < MOST; i++) {
		cr_assert_eq(visits.of[i], 1);
	}
	cache_cancel(&outcome.wait);
}

STAGED(a_visit_in_slices_misses_nothing_that_was_there_though_the_table_grows)
{
	struct visits visits = { 0 };
	size_t cursor = 0;
	for (int i = 0; i < MOST / 3; i++) {
		put_and_look(stage, i);
	}
	size_t buckets = stage->cache->table.bucket_count;
	for (int slice = 0; slice < 5; slice++) {
		size_t before = visits.count;
		cr_assert(cache_visit_paths(stage->cache, &cursor, 20, visit, &visits));
		cr_assert_leq(visits.count - before, 20);
	}
	for (int i = MOST / 3; i < MOST; i++) {
		put_and_look(stage, i);
	}
	cr_assert_gt(stage->cache->table.bucket_count, buckets);
	while (cache_visit_paths(stage->cache, &cursor, 20, visit, &visits)) {
	}
	for (int i = 0; i < MOST / 3; i++) {
		cr_assert_geq(visits.of[i], 1);
	}
}

struct change {
	char path[32];
	bool known;
	int count;
};

static void note(void *context, const char *path, bool known)
{
	struct change *change = context;
	snprintf(change->path, sizeof(change->path), "%s", path);
	change->known = known;
	change->count++;
}

static void expect(struct change *change, int count, bool known)
{
	cr_expect_eq(change->count, count, "%d", change->count);
	cr_expect_eq(change->known, known);
	cr_expect_str_eq(change->path, "/n1");
	change->count = 0;
}

STAGED(each_change_of_data_is_told_and_no_list_and_no_equal_state)
{
	struct change change = { .count = 0 };
	struct cache_outcome outcome;
	struct cache_record record;
	put_and_look(stage, 1);
	cache_on_data(stage->cache, note, &change);
	memory_put(stage->registry, "/n1", "other");
	cache_stage_turn(stage);
	expect(&change, 1, true);
	cr_assert(cache_known_data(stage->cache, "/n1", &record));
	cr_expect_str_eq(record.data, "other");
	cr_expect_str_eq(record.path, "/n1");
	cr_expect_eq(record.len, strlen("other"));
	look(stage, "/", CACHE_LIST);
	cache_stage_ask(stage, &outcome, "/n1", CACHE_STAT, "", true);
	cache_stage_turn(stage);
	cr_expect_eq(change.count, 0);
	memory_remove(stage->registry, "/n1");
	cache_stage_turn(stage);
	expect(&change, 1, false);
	cr_expect_not(cache_known_data(stage->cache, "/n1", &record));
	cr_expect_not(cache_known_data(stage->cache, "/other", &record));
	cache_on_data(stage->cache, NULL, NULL);
	put_and_look(stage, 1);
	cr_expect_eq(change.count, 0);
}

STAGED(a_path_that_is_evicted_is_told_and_what_an_index_takes_makes_others_go)
{
	struct change change = { .count = 0 };
	struct cache_stats stats;
	put_and_look(stage, 1);
	cache_on_data(stage->cache, note, &change);
	cache_reserve(stage->cache, 0, 2 * 1024 * 1024);
	cache_stage_turn(stage);
	expect(&change, 1, false);
	cache_get_stats(stage->cache, &stats);
	cr_expect_eq(stats.paths, 0);
	cr_expect_geq(stats.bytes, 2 * 1024 * 1024);
	cache_reserve(stage->cache, 2 * 1024 * 1024, 0);
	cache_on_data(stage->cache, NULL, NULL);
}
