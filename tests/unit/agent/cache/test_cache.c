/* Lookups: hits and misses, long polls, absence, and what outlasts the registry. */

#include <criterion/criterion.h>

#include <stdio.h>
#include <string.h>

#include "agent/cache/parts.h"
#include "tests/support/cache_stage.h"
#include "tests/support/memory_backend.h"
#include "tests/support/staged.h"
#include "tests/support/watch_count.h"

static struct cache_stage *open_stage(struct cache_stage *stage)
{
	cache_stage_open(stage, &(struct cache_options){ .resync_ms = 600000 });
	return stage;
}

#define STAGED(name)                                                                               \
	STAGED_TEST(cache, name, struct cache_stage *, stage,                                      \
		open_stage(&(struct cache_stage){ 0 }), cache_stage_close)

STAGED(a_second_lookup_is_a_hit_without_a_read)
{
	struct cache_outcome outcome;
	memory_put(stage->registry, "/a", cache_stage_record("one"));
	cr_assert_eq(
		cache_stage_ask(stage, &outcome, "/a", CACHE_RESOLVE, "", false), CACHE_WAITING);
	cache_stage_turn(stage);
	cr_assert_str_eq(outcome.text, cache_stage_record("one"));
	struct cache_stats before;
	cache_get_stats(stage->cache, &before);
	cr_assert_not_null(cache_stage_find(stage, "/a"));
	cr_assert_eq(cache_stage_ask(stage, &outcome, "/a", CACHE_RESOLVE, "", false), CACHE_READY);
	cr_assert(outcome.live);
	struct cache_stats after;
	cache_get_stats(stage->cache, &after);
	cr_assert_eq(after.loads, before.loads);
}

STAGED(many_who_ask_at_once_cost_one_read)
{
	struct cache_outcome outcomes[50];
	memory_put(stage->registry, "/a", cache_stage_record("one"));
	for (int i = 0; i < 50; i++) {
		cr_assert_eq(cache_stage_ask(stage, &outcomes[i], "/a", CACHE_RESOLVE, "", false),
			CACHE_WAITING);
	}
	cache_stage_turn(stage);
	struct cache_stats stats;
	cache_get_stats(stage->cache, &stats);
	cr_assert_eq(stats.loads, 1);
	for (int i = 0; i < 50; i++) {
		cr_assert_eq(outcomes[i].calls, 1);
	}
}

STAGED(errors_have_the_names_of_the_contract_and_do_not_harm_each_other)
{
	struct cache_outcome outcome;
	memory_put(stage->registry, "/empty", "");
	memory_put(stage->registry, "/bad", "{\"type\":\"JSONServiceRecord\"");
	cr_assert_eq(
		cache_stage_look(stage, &outcome, "/none", CACHE_RESOLVE), BERTH_PATH_NOT_FOUND);
	cr_assert_eq(cache_stage_look(stage, &outcome, "/empty", CACHE_RESOLVE), BERTH_NO_RECORD);
	cr_assert_eq(
		cache_stage_look(stage, &outcome, "/bad", CACHE_RESOLVE), BERTH_INVALID_RECORD);
	cr_assert_eq(cache_stage_look(stage, &outcome, "/", CACHE_LIST), 0);
	cr_assert_str_eq(outcome.text, "[\"/bad\",\"/empty\"]\n");
}

STAGED(absence_is_known_and_ends_when_somebody_writes)
{
	struct cache_outcome outcome;
	cache_stage_look(stage, &outcome, "/a", CACHE_RESOLVE);
	cr_assert_not_null(cache_stage_find(stage, "/a"));
	memory_put(stage->registry, "/a", cache_stage_record("one"));
	cache_stage_turn(stage);
	cr_assert_eq(cache_stage_look(stage, &outcome, "/a", CACHE_RESOLVE), 0);
}

STAGED(records_and_endpoints_follow_their_children)
{
	struct cache_outcome outcome;
	memory_put(stage->registry, "/s", "");
	memory_put(stage->registry, "/s/a", cache_stage_record("one"));
	memory_put(stage->registry, "/s/b", "");
	cr_assert_eq(cache_stage_look(stage, &outcome, "/s", CACHE_RECORDS), 0);
	cr_assert_not_null(strstr(outcome.text, "\"/s/a\":{"));
	cr_assert_null(strstr(outcome.text, "/s/b"));
	cr_assert_eq(cache_stage_look(stage, &outcome, "/s", CACHE_ENDPOINTS), 0);
	cr_assert_not_null(strstr(outcome.text, "http://one"));
	memory_put(stage->registry, "/s/a", cache_stage_record("two"));
	memory_put(stage->registry, "/s/b", cache_stage_record("three"));
	cache_stage_turn(stage);
	cache_stage_look(stage, &outcome, "/s", CACHE_ENDPOINTS);
	cr_assert_not_null(strstr(outcome.text, "http://two"));
	cr_assert_not_null(strstr(outcome.text, "http://three"));
	cr_assert_null(strstr(outcome.text, "http://one"));
}

STAGED(a_long_poll_wakes_with_the_next_different_answer)
{
	struct cache_outcome outcome;
	memory_put(stage->registry, "/a", cache_stage_record("one"));
	cache_stage_look(stage, &outcome, "/a", CACHE_RESOLVE);
	char etag[CACHE_ETAG_BYTES];
	strcpy(etag, outcome.etag);
	cr_assert_eq(
		cache_stage_ask(stage, &outcome, "/a", CACHE_RESOLVE, etag, false), CACHE_WAITING);
	memory_put(stage->registry, "/a", cache_stage_record("one"));
	cache_stage_turn(stage);
	cr_assert_eq(outcome.calls, 0, "the same record written again is the same answer");
	memory_put(stage->registry, "/a", cache_stage_record("two"));
	cache_stage_turn(stage);
	cr_assert_eq(outcome.calls, 1);
	cr_assert_str_eq(outcome.text, cache_stage_record("two"));
}

STAGED(away_known_answers_are_stale_and_unknown_ones_unavailable)
{
	struct cache_outcome outcome;
	memory_put(stage->registry, "/a", cache_stage_record("one"));
	cache_stage_look(stage, &outcome, "/a", CACHE_RESOLVE);
	memory_set_state(stage->registry, REGISTRY_AWAY);
	cache_stage_turn(stage);
	cr_assert_null(cache_stage_find(stage, "/a"));
	cr_assert_eq(cache_stage_ask(stage, &outcome, "/a", CACHE_RESOLVE, "", false), CACHE_READY);
	cr_assert_not(outcome.live);
	cr_assert_str_eq(outcome.text, cache_stage_record("one"));
	cr_assert_eq(cache_stage_ask(stage, &outcome, "/b", CACHE_RESOLVE, "", false),
		CACHE_UNAVAILABLE);
	cr_assert_eq(outcome.code, BERTH_REGISTRY_UNAVAILABLE);
	memory_put(stage->registry, "/a", cache_stage_record("two"));
	memory_set_state(stage->registry, REGISTRY_CONNECTED);
	cache_stage_turn(stage);
	cr_assert_eq(cache_stage_look(stage, &outcome, "/a", CACHE_RESOLVE), 0);
	cr_assert(outcome.live);
	cr_assert_str_eq(outcome.text, cache_stage_record("two"));
}

static void time_out(void *context, const struct registry_task *task, struct err *err)
{
	(void)context;
	(void)task;
	err_set(err, BERTH_TIMEOUT, "no answer");
}

static void lack_memory(void *context, const struct registry_task *task, struct err *err)
{
	(void)context;
	(void)task;
	err_set(err, BERTH_FAILED, "no memory to list");
}

static void check_read_in_vain(struct cache_stage *stage, memory_interfere *fail)
{
	struct cache_outcome outcome;
	memory_put(stage->registry, "/t", "");
	memory_put(stage->registry, "/t/a", cache_stage_record("one"));
	cache_stage_look(stage, &outcome, "/t/a", CACHE_RESOLVE);
	cache_stage_look(stage, &outcome, "/t", CACHE_RECORDS);
	memory_on_task(stage->registry, fail, NULL);
	cr_assert_eq(
		cache_stage_ask(stage, &outcome, "/t/a", CACHE_RESOLVE, "", true), CACHE_WAITING);
	cache_stage_turn(stage);
	cr_assert_eq(outcome.calls, 1, "who waits is not left waiting");
	cr_assert_not(outcome.live);
	cr_assert_str_eq(outcome.text, cache_stage_record("one"));
	cr_assert_eq(cache_stage_ask(stage, &outcome, "/t", CACHE_RECORDS, "", false), CACHE_READY);
	cr_assert_not(outcome.live, "what is made of it is stale too");

	memory_on_task(stage->registry, NULL, NULL);
	registry_dispatch(stage->registry, registry_deadline_ms(stage->registry));
	cache_stage_turn(stage);
	cr_assert_eq(
		cache_stage_ask(stage, &outcome, "/t/a", CACHE_RESOLVE, "", false), CACHE_READY);
	cr_assert(outcome.live);
}

STAGED(a_read_without_answer_leaves_what_was_known_as_stale_and_is_tried_again_soon)
{
	check_read_in_vain(stage, time_out);
}

STAGED(a_read_that_fails_leaves_what_was_known_as_stale_and_is_tried_again_soon)
{
	check_read_in_vain(stage, lack_memory);
}

/* The cache's answers for a list during the registry's first and second read. */
struct reads {
	struct cache_stage *stage;
	int count;
	struct cache_outcome outcomes[2];
};

static void ask_while_reading(void *context, const struct registry_task *task, struct err *err)
{
	(void)err;
	struct reads *reads = context;
	if (task->operation == REGISTRY_OP_CHILDREN && reads->count < 2) {
		struct cache_outcome *outcome = &reads->outcomes[reads->count++];
		cr_assert_eq(
			cache_stage_ask(reads->stage, outcome, task->path, CACHE_LIST, "", false),
			CACHE_READY);
	}
}

STAGED(an_empty_list_right_after_a_reconnect_is_not_believed_at_once)
{
	struct cache_outcome outcome;
	struct reads reads = { .stage = stage };
	memory_put(stage->registry, "/s", "");
	memory_put(stage->registry, "/s/a", cache_stage_record("one"));
	memory_put(stage->registry, "/s/b", cache_stage_record("two"));
	cache_stage_look(stage, &outcome, "/s", CACHE_LIST);
	memory_set_state(stage->registry, REGISTRY_AWAY);
	cache_stage_turn(stage);
	memory_remove(stage->registry, "/s/a");
	memory_remove(stage->registry, "/s/b");
	memory_on_task(stage->registry, ask_while_reading, &reads);
	memory_set_state(stage->registry, REGISTRY_CONNECTED);
	outcome.live = false;
	for (int i = 0; i < 10 && !outcome.live; i++) {
		cache_stage_turn(stage);
		ev_invoke(stage->loop, &stage->cache->store.doubt.timer,
			EV_TIMER); /* its time comes */
		cache_stage_turn(stage);
		cache_stage_ask(stage, &outcome, "/s", CACHE_LIST, "", false);
	}
	cr_assert(outcome.live);
	cr_assert_str_eq(outcome.text, "[]\n");
	cr_assert_eq(reads.count, 2, "it was read again before it was believed");
	for (int i = 0; i < 2; i++) {
		cr_assert_not(reads.outcomes[i].live);
		cr_assert_str_eq(reads.outcomes[i].text, "[\"/s/a\",\"/s/b\"]\n");
	}
}

STAGED(a_refresh_does_not_doubt_an_empty_list_any_longer)
{
	struct cache_outcome outcome;
	memory_put(stage->registry, "/s", "");
	memory_put(stage->registry, "/s/a", cache_stage_record("one"));
	cache_stage_look(stage, &outcome, "/s", CACHE_LIST);
	memory_set_state(stage->registry, REGISTRY_AWAY);
	cache_stage_turn(stage);
	memory_remove(stage->registry, "/s/a");
	memory_set_state(stage->registry, REGISTRY_CONNECTED);
	cache_stage_turn(stage);
	cr_assert_eq(cache_stage_ask(stage, &outcome, "/s", CACHE_LIST, "", false), CACHE_READY);
	cr_assert_not(outcome.live);
	cr_assert_eq(cache_stage_ask(stage, &outcome, "/s", CACHE_LIST, "", true), CACHE_WAITING);
	cache_stage_turn(stage);
	cr_assert_eq(outcome.calls, 1);
	cr_assert(outcome.live);
	cr_assert_str_eq(outcome.text, "[]\n");
}

Test(cache, the_least_recently_used_give_way_and_return_their_watches)
{
	struct cache_stage stage;
	struct cache_outcome outcome;
	enum { LIMIT = 128 * 1024 };
	cache_stage_open(
		&stage, &(struct cache_options){ .resync_ms = 600000, .max_size_bytes = LIMIT });
	for (int i = 0; i < 500; i++) {
		char path[32];
		snprintf(path, sizeof(path), "/n%d", i);
		memory_put(stage.registry, path, cache_stage_record(path));
		cr_assert_eq(cache_stage_look(&stage, &outcome, path, CACHE_RESOLVE), 0);
	}
	struct cache_stats stats;
	cache_get_stats(stage.cache, &stats);
	cr_assert_leq(stats.bytes, LIMIT);
	cr_assert_geq(stats.bytes, LIMIT * 9 / 10);
	cr_assert_gt(stats.evictions, 0);
	cr_assert_eq(watch_count(stage.registry), stats.entries);
	cr_assert_null(cache_stage_find(&stage, "/n0"));
	cr_assert_not_null(cache_stage_find(&stage, "/n499"));
	cache_stage_close(&stage);
}
