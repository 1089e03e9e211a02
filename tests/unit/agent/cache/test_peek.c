/* Single paths and all records, without a read: what names are made of. */

#include <criterion/criterion.h>

#include <stdio.h>
#include <string.h>

#include "agent/cache/internal.h"
#include "lib/base/clock.h"
#include "lib/base/hash.h"
#include "tests/support/cache_stage.h"
#include "tests/support/memory_backend.h"
#include "tests/support/staged.h"

enum { CONFIRM_MS = 10000 };

static struct cache_stage *open_stage(struct cache_stage *stage)
{
	cache_stage_open(
		stage, &(struct cache_options){ .resync_ms = 600000, .confirm_ms = CONFIRM_MS });
	memory_put(stage->registry, "/s", "");
	memory_put(stage->registry, "/s/a", cache_stage_record("one"));
	memory_put(stage->registry, "/s/b", "host:1");
	memory_put(stage->registry, "/s/bad", "{\"type\":\"JSONServiceRecord\"");
	return stage;
}

/* /s has a record, text and a malformed record below it, of which nothing is read yet. */
#define STAGED(name)                                                                               \
	STAGED_TEST(cache_peek, name, struct cache_stage *, stage,                                 \
		open_stage(&(struct cache_stage){ 0 }), cache_stage_close)

static struct cache_peek peek_at(struct cache_stage *stage, const char *path, int64_t now_ms)
{
	struct cache_peek peek;
	cache_peek(stage->cache, path, now_ms, &peek);
	return peek;
}

static struct cache_peek peek(struct cache_stage *stage, const char *path)
{
	return peek_at(stage, path, clock_monotonic_ms());
}

static void look(struct cache_stage *stage, const char *path, enum cache_answer_kind kind)
{
	struct cache_outcome outcome;
	cache_stage_look(stage, &outcome, path, kind);
}

STAGED(a_path_that_was_never_read_is_unknown_and_stays_unread)
{
	struct cache_outcome outcome;
	struct cache_peek seen = peek(stage, "/s/a");
	cr_assert_eq(seen.presence, CACHE_PRESENCE_UNKNOWN);
	cr_assert_null(seen.data);
	cr_assert_not(seen.children_known);
	cr_assert_eq(memory_tasks(stage->registry), 0);
	cr_assert_eq(
		cache_stage_ask(stage, &outcome, "/s/a", CACHE_RESOLVE, "", false), CACHE_WAITING);
	cr_assert_eq(peek(stage, "/s/a").presence, CACHE_PRESENCE_UNKNOWN, "nor while it is read");
	cache_stage_turn(stage);
	cr_assert_eq(peek(stage, "/s/a").presence, CACHE_PRESENCE_RECORD);
}

STAGED(a_record_is_told_from_other_nodes_and_from_absence)
{
	look(stage, "/s/a", CACHE_RESOLVE);
	look(stage, "/s/b", CACHE_RESOLVE);
	look(stage, "/s/bad", CACHE_RESOLVE);
	look(stage, "/none", CACHE_RESOLVE);
	struct cache_peek record = peek(stage, "/s/a");
	cr_assert_eq(record.presence, CACHE_PRESENCE_RECORD);
	cr_assert_str_eq(record.data, cache_stage_record("one"));
	cr_assert_eq(record.len, strlen(record.data));
	cr_assert_eq(peek(stage, "/s/b").presence, CACHE_PRESENCE_NODE);
	cr_assert_null(peek(stage, "/s/b").data);
	cr_assert_eq(peek(stage, "/s/bad").presence, CACHE_PRESENCE_NODE);
	cr_assert_eq(peek(stage, "/none").presence, CACHE_PRESENCE_ABSENT);
	cr_assert_null(peek(stage, "/none").data);
}

STAGED(the_children_of_a_path_are_known_when_they_were_listed)
{
	struct cache_outcome outcome;
	look(stage, "/s", CACHE_RESOLVE);
	cr_assert_not(peek(stage, "/s").children_known);
	cr_assert_eq(cache_stage_ask(stage, &outcome, "/s", CACHE_LIST, "", false), CACHE_WAITING);
	cr_assert_not(peek(stage, "/s").children_known);
	cache_stage_turn(stage);
	struct cache_peek seen = peek(stage, "/s");
	cr_assert(seen.children_known);
	cr_assert_eq(seen.children_count, 3);
	cr_assert_str_eq(seen.children[0], "/s/a");
	cr_assert_str_eq(seen.children[2], "/s/bad");
	look(stage, "/s/a", CACHE_LIST);
	cr_assert(peek(stage, "/s/a").children_known);
	cr_assert_eq(peek(stage, "/s/a").children_count, 0);
}

STAGED(a_known_state_is_confirmed_while_the_server_was_heard_lately)
{
	int64_t now_ms = clock_monotonic_ms() + 60000;
	look(stage, "/s/a", CACHE_RESOLVE);
	memory_set_heard_ms(stage->registry, now_ms - CONFIRM_MS);
	cr_assert(peek_at(stage, "/s/a", now_ms).truth.confirmed);
	cr_assert_eq(peek_at(stage, "/s/a", now_ms).truth.age_ms, CONFIRM_MS);
	cr_assert_not(peek_at(stage, "/s/a", now_ms + 1).truth.confirmed);
}

static void time_out(void *context, const struct registry_task *task, struct err *err)
{
	if (task->operation == *(const enum registry_operation *)context) {
		err_set(err, BERTH_TIMEOUT, "no answer");
	}
}

static void check_doubt_of(struct cache_stage *stage, enum registry_operation operation)
{
	struct cache_outcome outcome;
	look(stage, "/s", CACHE_STAT);
	cr_assert(peek(stage, "/s").truth.confirmed);
	uint64_t generation = cache_generation(stage->cache);
	cache_stage_ask(stage, &outcome, "/s", CACHE_STAT, "", true);
	cache_stage_turn(stage);
	cr_assert_eq(cache_generation(stage->cache), generation, "it was read again as it was");
	memory_on_task(stage->registry, time_out, &operation);
	cache_stage_ask(stage, &outcome, "/s", CACHE_STAT, "", true);
	cache_stage_turn(stage);
	cr_assert_not(peek(stage, "/s").truth.confirmed);
	cr_assert_neq(cache_generation(stage->cache), generation);
	memory_on_task(stage->registry, NULL, NULL);
}

STAGED(a_path_whose_data_could_not_be_read_is_not_confirmed)
{
	check_doubt_of(stage, REGISTRY_OP_GET);
}

STAGED(a_path_whose_children_could_not_be_read_is_not_confirmed)
{
	check_doubt_of(stage, REGISTRY_OP_CHILDREN);
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
