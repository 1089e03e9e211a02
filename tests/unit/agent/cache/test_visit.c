/* For names: whether anything has changed, and all records that are known, without a read. */

#include <criterion/criterion.h>

#include <stdio.h>
#include <string.h>

#include "agent/cache/internal.h"
#include "lib/base/hash.h"
#include "tests/support/cache_stage.h"
#include "tests/support/memory_backend.h"
#include "tests/support/staged.h"

static struct cache_stage *open_stage(struct cache_stage *stage)
{
	cache_stage_open(stage, &(struct cache_options){ .resync_ms = 600000 });
	memory_put(stage->registry, "/s", "");
	memory_put(stage->registry, "/s/a", cache_stage_record("one"));
	memory_put(stage->registry, "/s/b", "host:1");
	memory_put(stage->registry, "/s/bad", "{\"type\":\"JSONServiceRecord\"");
	return stage;
}

/* /s has a record, text and a malformed record below it, of which nothing is read yet. */
#define STAGED(name)                                                                               \
	STAGED_TEST(cache_visit, name, struct cache_stage *, stage,                                \
		open_stage(&(struct cache_stage){ 0 }), cache_stage_close)

static void look(struct cache_stage *stage, const char *path, enum cache_answer_kind kind)
{
	struct cache_outcome outcome;
	cache_stage_look(stage, &outcome, path, kind);
}

static void time_out(void *context, const struct registry_task *task, struct err *err)
{
	if (task->operation == *(const enum registry_operation *)context) {
		err_set(err, BERTH_TIMEOUT, "no answer");
	}
}

static void check_generation(struct cache_stage *stage, enum registry_operation operation)
{
	struct cache_outcome outcome;
	look(stage, "/s", CACHE_STAT);
	uint64_t generation = cache_generation(stage->cache);
	cache_stage_ask(stage, &outcome, "/s", CACHE_STAT, "", true);
	cache_stage_turn(stage);
	cr_assert_eq(cache_generation(stage->cache), generation, "it was read again as it was");
	memory_on_task(stage->registry, time_out, &operation);
	cache_stage_ask(stage, &outcome, "/s", CACHE_STAT, "", true);
	cache_stage_turn(stage);
	cr_assert_neq(cache_generation(stage->cache), generation);
	memory_on_task(stage->registry, NULL, NULL);
}

STAGED(data_that_could_not_be_read_again_are_another_generation)
{
	check_generation(stage, REGISTRY_OP_GET);
}

STAGED(a_list_that_could_not_be_read_again_is_another_generation)
{
	check_generation(stage, REGISTRY_OP_CHILDREN);
}

/* ---- all records ---- */

enum { MOST = 300 };

struct visits {
	size_t count;
	size_t of[MOST];
};

static void visit(void *context, const struct cache_record *record)
{
	struct visits *visits = context;
	char expected[32];
	int number = -1;
	sscanf(record->path, "/n%d", &number);
	cr_assert(number >= 0 && number < MOST, "%s", record->path);
	snprintf(expected, sizeof(expected), "/n%d", number);
	cr_assert_str_eq(record->data, cache_stage_record(expected));
	cr_assert_eq(record->len, strlen(record->data));
	visits->of[number]++;
	visits->count++;
}

STAGED(each_record_that_is_known_is_visited_once)
{
	struct visits visits = { 0 };
	struct cache_outcome outcome;
	look(stage, "/s", CACHE_LIST);
	look(stage, "/s/b", CACHE_RESOLVE);
	look(stage, "/s/bad", CACHE_RESOLVE);
	look(stage, "/none", CACHE_RESOLVE);
	cache_visit_records(stage->cache, visit, &visits);
	cr_assert_eq(visits.count, 0);
	for (int i = 0; i < MOST; i++) {
		char path[32];
		snprintf(path, sizeof(path), "/n%d", i);
		memory_put(stage->registry, path, cache_stage_record(path));
		look(stage, path, CACHE_RESOLVE);
	}
	cr_assert_eq(
		cache_stage_ask(stage, &outcome, "/s/a", CACHE_RESOLVE, "", false), CACHE_WAITING);
	cache_visit_records(stage->cache, visit, &visits);
	cr_assert_eq(visits.count, MOST, "and none that is being read");
	for (int i = 0; i < MOST; i++) {
		cr_assert_eq(visits.of[i], 1);
	}
	cache_cancel(&outcome.wait);
}

/* A path that has this place in the cache's table. */
static void find_path_at(const struct cache *cache, size_t bucket, char path[32])
{
	uint64_t hash = 0;
	int i = 0;
	do {
		snprintf(path, 32, "/n%d", i++);
		hash = hash_bytes(cache->hash_seed, path, strlen(path));
		hash ^= hash >> 32;
	} while ((hash & (cache->bucket_count - 1)) != bucket);
}

static void count_record(void *context, const struct cache_record *record)
{
	(void)record;
	++*(size_t *)context;
}

STAGED(the_records_at_both_ends_of_the_table_are_visited)
{
	struct cache *cache = stage->cache;
	const size_t ends[] = { 0, cache->bucket_count - 1 };
	size_t visits = 0;
	for (size_t i = 0; i < 2; i++) {
		char path[32];
		find_path_at(cache, ends[i], path);
		memory_put(stage->registry, path, cache_stage_record("one"));
		look(stage, path, CACHE_RESOLVE);
		cr_assert_str_eq(cache->buckets[ends[i]]->path, path);
	}
	cache_visit_records(cache, count_record, &visits);
	cr_assert_eq(visits, 2);
}
