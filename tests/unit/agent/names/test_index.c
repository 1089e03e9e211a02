/* The index from what records say to their paths. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "agent/names/index.h"
#include "agent/names/internal.h"
#include "tests/support/cache_stage.h"
#include "tests/support/memory_backend.h"
#include "tests/support/staged.h"

enum { MANY = 3000 };

struct stage {
	struct cache_stage cache;
	struct names_index *index;
	int ready;
};

static void on_ready(void *context)
{
	struct stage *stage = context;
	stage->ready++;
}

static struct stage *open_stage(struct stage *stage)
{
	cache_stage_open(&stage->cache,
		&(struct cache_options){ .resync_ms = 600000, .max_size_bytes = 64 << 20 });
	stage->index = names_index_create(stage->cache.loop, stage->cache.cache, on_ready, stage);
	return stage;
}

static void close_stage(struct stage *stage)
{
	names_index_destroy(stage->index);
	names_index_destroy(NULL);
	cache_stage_close(&stage->cache);
}

#define STAGED(name)                                                                               \
	STAGED_TEST(names_index, name, struct stage *, stage,                                      \
		open_stage(&(struct stage){ .ready = 0 }), close_stage)

static void put(struct stage *stage, const char *path, const char *ip)
{
	char data[200];
	snprintf(data, sizeof(data), "{\"type\":\"JSONServiceRecord\",\"yarn:ip\":\"%s\"}", ip);
	memory_put(stage->cache.registry, path, data);
}

/* The cache holds MANY records below /s, with an address each, or all with one. */
static void put_many(struct stage *stage, bool one_address)
{
	struct cache_outcome outcome;
	memory_put(stage->cache.registry, "/s", "");
	for (int i = 0; i < MANY; i++) {
		char path[32];
		char ip[32];
		snprintf(path, sizeof(path), "/s/n%04d", i);
		snprintf(ip, sizeof(ip), "10.0.%d.%d", i / 250, i % 250);
		put(stage, path, one_address ? "10.9.9.9" : ip);
	}
	cache_stage_ask(&stage->cache, &outcome, "/s", CACHE_RECORDS, "", false);
	for (int i = 0; i < 1000 && outcome.calls == 0; i++) {
		cache_stage_turn(&stage->cache);
	}
	cr_assert_eq(outcome.calls, 1);
}

struct found {
	char text[256];
	size_t count;
};

static void visit(void *context, const char *path, const void *record)
{
	struct found *found = context;
	cr_assert_not_null(record);
	size_t len = strlen(found->text);
	snprintf(found->text + len, sizeof(found->text) - len, "%s ", path);
	found->count++;
}

static bool find(struct stage *stage, const char *ip, struct found *found)
{
	struct names_address address;
	*found = (struct found){ .count = 0 };
	cr_assert(names_read_address(&address, ip));
	return names_index_find(stage->index, names_address_key(&address), visit, found);
}

/* Asks until there is an answer; returns after how many iterations of the loop that was. */
static int find_at_last(struct stage *stage, const char *ip, struct found *found)
{
	int turns = 0;
	stage->ready = 0;
	while (!find(stage, ip, found)) {
		cr_assert_eq(stage->ready, 0, "it was not ready");
		cr_assert_lt(turns, 10000);
		for (; stage->ready == 0 && turns < 10000; turns++) {
			ev_run(stage->cache.loop, EVRUN_NOWAIT);
		}
		stage->ready = 0;
	}
	return turns;
}

static size_t cache_bytes(struct stage *stage)
{
	struct cache_stats stats;
	cache_get_stats(stage->cache.cache, &stats);
	return stats.bytes;
}

STAGED(many_records_are_taken_in_over_many_iterations_and_then_found_at_once)
{
	struct found found;
	put_many(stage, false);
	int turns = find_at_last(stage, "10.0.4.7", &found);
	cr_expect_geq(turns, 10, "%d", turns);
	cr_expect_str_eq(found.text, "/s/n1007 ");
	for (int i = 0; i < MANY; i += 97) {
		char ip[32];
		char expected[32];
		snprintf(ip, sizeof(ip), "10.0.%d.%d", i / 250, i % 250);
		snprintf(expected, sizeof(expected), "/s/n%04d ", i);
		cr_assert(find(stage, ip, &found));
		cr_expect_str_eq(found.text, expected);
	}
	cr_assert(find(stage, "10.1.0.0", &found));
	cr_expect_eq(found.count, 0);
}

STAGED(it_follows_records_that_come_change_and_go)
{
	struct found found;
	struct cache_outcome outcome;
	cr_assert(find(stage, "10.0.0.1", &found), "an empty cache has few records");
	cr_expect_eq(found.count, 0);
	put(stage, "/a", "10.0.0.1");
	put(stage, "/b", "10.0.0.1");
	memory_put(stage->cache.registry, "/c", "10.0.0.1");
	cache_stage_look(&stage->cache, &outcome, "/a", CACHE_RESOLVE);
	cache_stage_look(&stage->cache, &outcome, "/b", CACHE_RESOLVE);
	cache_stage_look(&stage->cache, &outcome, "/c", CACHE_RESOLVE);
	cr_assert(find(stage, "10.0.0.1", &found));
	cr_expect_str_eq(found.text, "/a /b ");
	put(stage, "/a", "10.0.0.2");
	memory_remove(stage->cache.registry, "/b");
	cache_stage_turn(&stage->cache);
	cr_assert(find(stage, "10.0.0.1", &found));
	cr_expect_eq(found.count, 0);
	cr_assert(find(stage, "10.0.0.2", &found));
	cr_expect_str_eq(found.text, "/a ");
	put(stage, "/b", "10.0.0.2");
	memory_put(stage->cache.registry, "/a", "no record");
	cache_stage_turn(&stage->cache);
	cr_assert(find(stage, "10.0.0.2", &found));
	cr_expect_str_eq(found.text, "/b ");
}

STAGED(records_that_change_while_it_takes_others_in_are_found_as_they_are)
{
	struct found found;
	put_many(stage, false);
	cr_assert_not(find(stage, "10.0.0.0", &found));
	for (int i = 0; i < 3; i++) {
		ev_run(stage->cache.loop, EVRUN_NOWAIT);
	}
	for (int i = 0; i < MANY; i += 100) {
		char path[32];
		snprintf(path, sizeof(path), "/s/n%04d", i);
		put(stage, path, "10.7.7.7");
	}
	cache_stage_turn(&stage->cache);
	find_at_last(stage, "10.7.7.7", &found);
	cr_expect_eq(found.count, MANY / 100);
	cr_assert(find(stage, "10.0.0.0", &found));
	cr_expect_eq(found.count, 0);
	cr_assert(find(stage, "10.0.0.1", &found));
	cr_expect_str_eq(found.text, "/s/n0001 ");
}

STAGED(its_memory_counts_in_the_cache_and_comes_back)
{
	struct found found;
	put_many(stage, false);
	size_t without = cache_bytes(stage);
	find_at_last(stage, "10.0.0.1", &found);
	size_t with = cache_bytes(stage);
	cr_expect_gt(with, without + MANY * 100);
	for (int i = 0; i < MANY; i++) {
		char path[32];
		snprintf(path, sizeof(path), "/s/n%04d", i);
		put(stage, path, "");
	}
	for (int i = 0; i < 100; i++) {
		cache_stage_turn(&stage->cache);
	}
	find_at_last(stage, "10.0.0.1", &found);
	cr_expect_eq(found.count, 0);
	names_index_destroy(stage->index);
	stage->index = NULL;
	size_t before = cache_bytes(stage);
	stage->index = names_index_create(stage->cache.loop, stage->cache.cache, on_ready, stage);
	cr_expect_lt(before, without, "the records have no addresses any more");
	find_at_last(stage, "10.0.0.1", &found);
	cr_expect_lt(cache_bytes(stage), before + 100 * 1024, "records without keys take nothing");
}
