/* States from the registry: which are news, which are doubted, and what is read at once. */

#include <criterion/criterion.h>

#include <stdio.h>
#include <string.h>

#include "agent/cache/parts.h"
#include "lib/base/clock.h"
#include "lib/registry/internal.h"
#include "tests/support/cache_stage.h"
#include "tests/support/memory_backend.h"
#include "tests/support/shifted_clock.h"
#include "tests/support/staged.h"
#include "tests/support/watch_count.h"

static struct cache_stage *open_stage(struct cache_stage *stage)
{
	cache_stage_open(stage, &(struct cache_options){ .resync_ms = 600000 });
	memory_put(stage->registry, "/s", "");
	memory_put(stage->registry, "/s/a", cache_stage_record("one"));
	memory_put(stage->registry, "/s/b", cache_stage_record("two"));
	memory_put(stage->registry, "/s/A b", "");
	return stage;
}

/* /s has two records below it, and a name that no path can hold. */
#define STAGED(name)                                                                               \
	STAGED_TEST(cache_entry, name, struct cache_stage *, stage,                                \
		open_stage(&(struct cache_stage){ 0 }), cache_stage_close)

static void look(struct cache_stage *stage, struct cache_outcome *outcome, const char *path,
	enum cache_answer_kind kind)
{
	cache_stage_look(stage, outcome, path, kind);
}

/* ---- news ---- */

STAGED(a_name_that_takes_the_place_of_another_is_seen)
{
	struct cache_outcome outcome;
	look(stage, &outcome, "/s", CACHE_LIST);
	memory_remove(stage->registry, "/s/b");
	memory_put(stage->registry, "/s/c", "");
	cache_stage_turn(stage);
	look(stage, &outcome, "/s", CACHE_LIST);
	cr_assert_str_eq(outcome.text, "[\"/s/a\",\"/s/c\"]\n");
	look(stage, &outcome, "/s", CACHE_STAT);
	cr_assert_not_null(strstr(outcome.text, "[\"/s/A%20b\"]"));
	memory_remove(stage->registry, "/s/A b");
	memory_put(stage->registry, "/s/B b", "");
	cache_stage_turn(stage);
	look(stage, &outcome, "/s", CACHE_STAT);
	cr_assert_not_null(strstr(outcome.text, "[\"/s/B%20b\"]"));
	memory_remove(stage->registry, "/s/c");
	memory_put(stage->registry, "/s/C b", "");
	cache_stage_turn(stage);
	look(stage, &outcome, "/s", CACHE_LIST);
	cr_assert_str_eq(outcome.text, "[\"/s/a\"]\n");
}

STAGED(a_list_of_a_path_that_came_holds_its_children)
{
	struct cache_outcome outcome;
	cr_assert_eq(cache_stage_look(stage, &outcome, "/t", CACHE_LIST), BERTH_PATH_NOT_FOUND);
	memory_put(stage->registry, "/t", "");
	memory_put(stage->registry, "/t/a", "");
	cache_stage_turn(stage);
	cr_assert_eq(cache_stage_look(stage, &outcome, "/t", CACHE_LIST), 0);
	cr_assert_str_eq(outcome.text, "[\"/t/a\"]\n");
	memory_remove(stage->registry, "/t/a");
	memory_put(stage->registry, "/t/b", "");
	cache_stage_turn(stage);
	look(stage, &outcome, "/t", CACHE_LIST);
	cr_assert_str_eq(outcome.text, "[\"/t/b\"]\n");
	memory_remove(stage->registry, "/t");
	cache_stage_turn(stage);
	cr_assert_eq(cache_stage_look(stage, &outcome, "/t", CACHE_LIST), BERTH_PATH_NOT_FOUND);
}

STAGED(a_node_that_was_made_anew_with_the_same_data_has_another_stat)
{
	struct cache_outcome before;
	struct cache_outcome outcome;
	look(stage, &before, "/s/a", CACHE_STAT);
	clock_shift_ms += 5 * 1000;
	memory_remove(stage->registry, "/s/a");
	memory_put(stage->registry, "/s/a", cache_stage_record("one"));
	cache_stage_turn(stage);
	look(stage, &outcome, "/s/a", CACHE_STAT);
	cr_assert_str_neq(outcome.text, before.text);
	look(stage, &outcome, "/s/a", CACHE_RESOLVE);
	cr_assert_str_eq(outcome.text, cache_stage_record("one"));
}

/* ---- doubt ---- */

static void reconnect(struct cache_stage *stage, const char *gone, const char *gone_too)
{
	memory_set_state(stage->registry, REGISTRY_AWAY);
	cache_stage_turn(stage);
	memory_remove(stage->registry, gone);
	memory_remove(stage->registry, gone_too);
	memory_set_state(stage->registry, REGISTRY_CONNECTED);
	cache_stage_turn(stage);
	stage->now_ms += 60000; /* the registry's core does not read everything at once */
	cache_stage_turn(stage);
}

static void end_doubt(struct cache_stage *stage)
{
	ev_invoke(stage->loop, &stage->cache->store.doubt.timer, EV_TIMER); /* its time comes */
	cache_stage_turn(stage);
}

static void check_doubted(
	struct cache_stage *stage, const char *path, enum cache_answer_kind kind, int code)
{
	struct cache_outcome before;
	struct cache_outcome outcome;
	cr_assert_eq(cache_stage_look(stage, &before, path, kind), 0);
	reconnect(stage, "/s/a", "/s/A b");
	cr_assert_eq(cache_stage_ask(stage, &outcome, path, kind, "", false), CACHE_READY);
	cr_assert_not(outcome.live);
	cr_assert_str_eq(outcome.text, before.text);
	end_doubt(stage);
	cr_assert_eq(cache_stage_look(stage, &outcome, path, kind), code);
	cr_assert(outcome.live);
}

STAGED(a_record_that_is_gone_after_a_reconnect_is_doubted)
{
	check_doubted(stage, "/s/a", CACHE_RESOLVE, BERTH_PATH_NOT_FOUND);
}

STAGED(a_path_that_a_doubted_list_lacks_is_doubted_with_it)
{
	struct cache_outcome outcome;
	memory_remove(stage->registry, "/s/b");
	cr_assert_eq(cache_stage_look(stage, &outcome, "/s", CACHE_LIST), 0);
	check_doubted(stage, "/s/a", CACHE_RESOLVE, BERTH_PATH_NOT_FOUND);
	cr_assert_eq(cache_stage_look(stage, &outcome, "/s", CACHE_LIST), 0);
	cr_assert_str_eq(outcome.text, "[]\n");
}

static void restore(struct cache_stage *stage, const char *path)
{
	const struct registry_result value = { .data = "" };
	struct cache_node *node = cache_node_get(&stage->cache->table, path);
	cache_entry_restore(cache_entry_get(&stage->cache->store, node, CACHE_DATA), &value,
		clock_monotonic_ms());
}

STAGED(a_saved_node_that_is_gone_is_doubted)
{
	struct cache_outcome outcome;
	restore(stage, "/none");
	cache_stage_turn(stage);
	cr_assert_eq(
		cache_stage_ask(stage, &outcome, "/none", CACHE_RESOLVE, "", false), CACHE_READY);
	cr_assert_eq(outcome.code, BERTH_NO_RECORD);
	cr_assert_not(outcome.live);
	end_doubt(stage);
	cr_assert_eq(
		cache_stage_look(stage, &outcome, "/none", CACHE_RESOLVE), BERTH_PATH_NOT_FOUND);
}

STAGED(a_list_that_lost_a_foreign_name_too_is_doubted)
{
	memory_remove(stage->registry, "/s/b");
	check_doubted(stage, "/s", CACHE_LIST, 0);
}

STAGED(a_list_that_lost_one_of_two_names_is_believed)
{
	struct cache_outcome outcome;
	look(stage, &outcome, "/s", CACHE_LIST);
	reconnect(stage, "/s/a", "/s/A b");
	cr_assert_eq(cache_stage_ask(stage, &outcome, "/s", CACHE_LIST, "", false), CACHE_READY);
	cr_assert(outcome.live);
	cr_assert_str_eq(outcome.text, "[\"/s/b\"]\n");
}

STAGED(an_empty_list_and_an_absent_node_are_not_doubted)
{
	static const enum cache_answer_kind kinds[] = { CACHE_LIST, CACHE_RESOLVE };
	static const char *const paths[] = { "/s/b", "/none" };
	struct cache_outcome outcome;
	for (size_t i = 0; i < 2; i++) {
		look(stage, &outcome, paths[i], kinds[i]);
	}
	reconnect(stage, "/s/a", "/s/A b");
	for (size_t i = 0; i < 2; i++) {
		cr_assert_eq(cache_stage_ask(stage, &outcome, paths[i], kinds[i], "", false),
			CACHE_READY);
		cr_assert(outcome.live, "%s", paths[i]);
	}
}

STAGED(a_record_that_goes_while_the_registry_is_there_is_not_doubted)
{
	struct cache_outcome outcome;
	look(stage, &outcome, "/s/a", CACHE_RESOLVE);
	memory_remove(stage->registry, "/s/a");
	cache_stage_turn(stage);
	cr_assert_eq(
		cache_stage_ask(stage, &outcome, "/s/a", CACHE_RESOLVE, "", false), CACHE_READY);
	cr_assert_eq(outcome.code, BERTH_PATH_NOT_FOUND);
	cr_assert(outcome.live);
}

/* ---- reads without an answer ---- */

static void fail_with(void *context, const struct registry_task *task, struct err *err)
{
	(void)task;
	err_set(err, *(const int *)context, "as the test wants");
}

STAGED(a_lookup_of_an_unknown_path_waits_until_the_registry_answers)
{
	struct cache_outcome outcome;
	int code = BERTH_TIMEOUT;
	memory_on_task(stage->registry, fail_with, &code);
	cr_assert_eq(
		cache_stage_ask(stage, &outcome, "/s/a", CACHE_RESOLVE, "", false), CACHE_WAITING);
	cache_stage_turn(stage);
	cr_assert_eq(outcome.calls, 0);
	memory_on_task(stage->registry, NULL, NULL);
	registry_dispatch(stage->registry, registry_deadline_ms(stage->registry));
	cache_stage_turn(stage);
	cr_assert_eq(outcome.calls, 1);
	cr_assert_eq(outcome.code, 0);
	cr_assert(outcome.live);
}

STAGED(a_value_whose_change_could_not_be_read_is_stale)
{
	struct cache_outcome outcome;
	int code = BERTH_TIMEOUT;
	look(stage, &outcome, "/s/a", CACHE_RESOLVE);
	memory_on_task(stage->registry, fail_with, &code);
	memory_put(stage->registry, "/s/a", cache_stage_record("new"));
	cache_stage_turn(stage);
	cr_assert_null(cache_stage_find(stage, "/s/a"));
	cr_assert_eq(
		cache_stage_ask(stage, &outcome, "/s/a", CACHE_RESOLVE, "", false), CACHE_READY);
	cr_assert_not(outcome.live);
	cr_assert_str_eq(outcome.text, cache_stage_record("one"));
}

STAGED(a_first_read_that_fails_is_an_answer)
{
	struct cache_outcome outcome;
	int code = BERTH_FAILED;
	memory_on_task(stage->registry, fail_with, &code);
	cr_assert_eq(cache_stage_look(stage, &outcome, "/s/a", CACHE_RESOLVE), BERTH_FAILED);
}

static void count_event(void *context, enum cache_event event, const char *path, const char *record)
{
	(void)path;
	(void)record;
	*(int *)context += event == CACHE_UPDATED;
}

STAGED(the_same_reason_is_no_news)
{
	int updates = 0;
	int code = BERTH_INVALID_RECORD;
	struct cache_outcome outcome;
	struct cache_observer observer = { .on_event = count_event, .context = &updates };
	cache_observe(stage->cache, "/s/a", &observer);
	cache_stage_turn(stage);
	memory_on_task(stage->registry, fail_with, &code);
	for (int i = 0; i < 3; i++) {
		cache_stage_ask(stage, &outcome, "/s/a", CACHE_RESOLVE, "", true);
		cache_stage_turn(stage);
		cr_assert_eq(outcome.code, BERTH_INVALID_RECORD);
		cr_assert_eq(updates, 1);
	}
	cache_unobserve(&observer);
}

/* ---- reads at once ---- */

static const char *numbered(int number)
{
	static char path[32];
	snprintf(path, sizeof(path), "/s/n%d", number);
	return path;
}

STAGED(of_many_children_some_are_read_at_once_and_the_others_in_turn)
{
	enum { CHILDREN = 600 };
	struct cache_outcome outcome;
	for (int i = 0; i < CHILDREN; i++) {
		memory_put(stage->registry, numbered(i), "");
	}
	cr_assert_eq(
		cache_stage_ask(stage, &outcome, "/s", CACHE_RECORDS, "", false), CACHE_WAITING);
	for (int i = 0; i < 100 && outcome.calls == 0; i++) {
		cache_stage_turn(stage);
	}
	cr_assert_eq(outcome.calls, 1);
	cr_assert_leq(memory_most_tasks(stage->registry), CHILDREN / 2);
	cr_assert_gt(memory_most_tasks(stage->registry), 1);
}

static void count_read(void *context, const struct registry_task *task, struct err *err)
{
	(void)task;
	(void)err;
	++*(int *)context;
}

STAGED(a_lookup_overtakes_what_was_saved)
{
	enum { SAVED = 1000 };
	struct cache_outcome outcome;
	for (int i = 0; i < SAVED; i++) {
		restore(stage, numbered(i));
	}
	cr_assert_eq(
		cache_stage_ask(stage, &outcome, numbered(SAVED - 1), CACHE_RESOLVE, "", false),
		CACHE_READY);
	cr_assert_not(outcome.live, "it waits for its turn");
	cr_assert_eq(
		cache_stage_ask(stage, &outcome, "/t", CACHE_RESOLVE, "", false), CACHE_WAITING);
	int reads = 0;
	memory_on_task(stage->registry, count_read, &reads);
	while (outcome.calls == 0) {
		registry_dispatch(stage->registry, stage->now_ms);
		ev_run(stage->loop, EVRUN_NOWAIT);
	}
	cr_assert_leq(reads, 2 * REGISTRY_MAX_IN_FLIGHT, "the rest is still to be read");
	for (int i = 0; i < 20 && reads < SAVED; i++) {
		cache_stage_turn(stage);
	}
	cr_assert_gt(reads, SAVED);
}

STAGED(saved_entries_are_read_after_an_outage)
{
	enum { SAVED = 600 };
	struct cache_outcome outcome;
	for (int i = 0; i < SAVED; i++) {
		memory_put(stage->registry, numbered(i), "");
		restore(stage, numbered(i));
	}
	memory_set_state(stage->registry, REGISTRY_AWAY);
	cache_stage_turn(stage);
	cr_assert_eq(
		cache_stage_ask(stage, &outcome, numbered(SAVED - 1), CACHE_RESOLVE, "", false),
		CACHE_READY);
	cr_assert_not(outcome.live);
	memory_set_state(stage->registry, REGISTRY_CONNECTED);
	for (int i = 0; i < 20 && !list_empty(&stage->cache->store.queue); i++) {
		stage->now_ms += 60000; /* the registry's core does not read everything at once */
		cache_stage_turn(stage);
	}
	cr_assert_eq(watch_count(stage->registry), SAVED);
}

STAGED(an_observer_that_comes_while_much_is_read_gets_its_list_too)
{
	enum { SAVED = 600 };
	struct cache_observer observer = { .scope = CACHE_TREE };
	for (int i = 0; i < SAVED; i++) {
		restore(stage, numbered(i));
	}
	cache_observe(stage->cache, "/s", &observer);
	for (int i = 0; i < 20; i++) {
		cache_stage_turn(stage);
	}
	cr_assert_not_null(cache_stage_list(stage, "/s"));
	cr_assert_eq(cache_stage_list(stage, "/s")->stat.children, 2);
	cache_unobserve(&observer);
}

/* Their look-ups have gone, and a full cache forgets them. */
Test(cache_entry, paths_that_are_forgotten_before_they_are_read_leave_room_for_others)
{
	struct cache_stage stage;
	struct cache_outcome outcome;
	cache_stage_open(&stage,
		&(struct cache_options){ .resync_ms = 600000, .max_size_bytes = 64 * 1024 });
	memory_put(stage.registry, "/a", cache_stage_record("one"));
	memory_set_answering(stage.registry, false);
	for (int i = 0; i < 1000; i++) {
		cr_assert_eq(
			cache_stage_ask(&stage, &outcome, numbered(i), CACHE_RESOLVE, "", false),
			CACHE_WAITING);
		cache_cancel(&outcome.wait);
		ev_run(stage.loop, EVRUN_NOWAIT);
	}
	cr_assert_leq(stage.cache->table.bytes, 70 * 1024);
	memory_set_answering(stage.registry, true);
	cr_assert_eq(cache_stage_look(&stage, &outcome, "/a", CACHE_RESOLVE), 0);
	cr_assert_str_eq(outcome.text, cache_stage_record("one"));
	cache_stage_close(&stage);
}
