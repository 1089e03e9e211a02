#include <criterion/criterion.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/base/state_file.h"
#include "agent/cache/internal.h"
#include "tests/support/cache_stage.h"
#include "tests/support/memory_backend.h"
#include "tests/support/scratch.h"
#include "tests/support/staged.h"

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
		ev_invoke(stage->loop, &stage->cache->doubt_timer, EV_TIMER); /* its time comes */
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
	cr_assert_eq(registry_watch_count(stage.registry), stats.entries);
	cr_assert_null(cache_stage_find(&stage, "/n0"));
	cr_assert_not_null(cache_stage_find(&stage, "/n499"));
	cache_stage_close(&stage);
}

/* ---- observers ---- */

struct watcher {
	struct cache_observer observer;
	struct buffer log;
};

static void on_ready(void *context)
{
	struct watcher *watcher = context;
	cache_write_snapshot(&watcher->observer, &watcher->log);
}

static void on_event(void *context, enum cache_event event, const char *path, const char *text)
{
	struct watcher *watcher = context;
	buffer_printf(&watcher->log, " %c%s%s", "UDSF"[event], path ? path : "",
		text && strlen(text) < 5 ? text : "");
}

static void observe(
	struct cache_stage *stage, struct watcher *watcher, const char *path, bool recursive)
{
	*watcher = (struct watcher){ .observer = { .scope = recursive ? CACHE_TREE : CACHE_SELF,
					     .on_ready = on_ready,
					     .on_event = on_event,
					     .context = watcher } };
	buffer_init(&watcher->log, 65536);
	cache_observe(stage->cache, path, &watcher->observer);
	cache_stage_turn(stage);
}

STAGED(a_recursive_observer_gets_a_snapshot_and_then_every_change)
{
	struct watcher watcher;
	memory_put(stage->registry, "/s", "");
	memory_put(stage->registry, "/s/a", "");
	memory_put(stage->registry, "/s/a/x", "");
	observe(stage, &watcher, "/s", true);
	cr_assert_str_eq(buffer_text(&watcher.log), "{\"/s\":null,\"/s/a\":null,\"/s/a/x\":null}");
	buffer_clear(&watcher.log);
	memory_put(stage->registry, "/s/b", "");
	cache_stage_turn(stage);
	memory_put(stage->registry, "/s/b/y", "");
	cache_stage_turn(stage);
	memory_remove(stage->registry, "/s/a/x");
	cache_stage_turn(stage);
	cr_assert_str_eq(buffer_text(&watcher.log), " U/s/bnull U/s/b/ynull D/s/a/x");
	cache_unobserve(&watcher.observer);
	buffer_finish(&watcher.log);
}

STAGED(an_observer_is_not_told_again_what_was_looked_up_before)
{
	struct cache_outcome outcome;
	struct watcher watcher;
	memory_put(stage->registry, "/s", "");
	memory_put(stage->registry, "/s/a", cache_stage_record("one"));
	cache_stage_look(stage, &outcome, "/s/a", CACHE_RESOLVE);
	cache_stage_look(stage, &outcome, "/s/b", CACHE_RESOLVE);
	observe(stage, &watcher, "/s", true);
	buffer_clear(&watcher.log);
	memory_put(stage->registry, "/s/b", "");
	cache_stage_turn(stage);
	memory_put(stage->registry, "/s/c", "");
	cache_stage_turn(stage);
	cr_assert_str_eq(buffer_text(&watcher.log), " U/s/bnull U/s/cnull");
	cache_unobserve(&watcher.observer);
	buffer_finish(&watcher.log);
}

STAGED(an_absent_path_outside_of_the_observed_trees_is_read_once)
{
	struct cache_outcome outcome;
	struct watcher watcher;
	memory_put(stage->registry, "/s", "");
	observe(stage, &watcher, "/s", true);
	cr_assert_eq(cache_stage_look(stage, &outcome, "/t", CACHE_RESOLVE), BERTH_PATH_NOT_FOUND);
	cache_stage_turn(stage);
	cr_assert_eq(cache_stage_ask(stage, &outcome, "/t", CACHE_RESOLVE, "", false), CACHE_READY);
	cr_assert_eq(outcome.code, BERTH_PATH_NOT_FOUND);
	cache_unobserve(&watcher.observer);
	buffer_finish(&watcher.log);
}

static void on_refused(void *context, const struct err *err)
{
	struct watcher *watcher = context;
	buffer_printf(&watcher->log, " refused: %s", berth_error_name(err->code));
}

Test(cache, trees_that_do_not_fit_are_refused_the_last_come_first)
{
	struct cache_stage stage;
	struct watcher first;
	struct watcher second;
	struct cache_stats stats;
	enum { LIMIT = 64 * 1024 };
	cache_stage_open(
		&stage, &(struct cache_options){ .resync_ms = 600000, .max_size_bytes = LIMIT });
	memory_put(stage.registry, "/s", "");
	memory_put(stage.registry, "/t", "");
	observe(&stage, &first, "/s", true);
	observe(&stage, &second, "/t", true);
	second.observer.on_refused = on_refused;
	first.observer.on_refused = on_refused;
	buffer_clear(&first.log);
	buffer_clear(&second.log);
	for (int i = 0; i < 500 && second.observer.node; i++) {
		char path[32];
		snprintf(path, sizeof(path), "/t/n%d", i);
		memory_put(stage.registry, path, cache_stage_record(path));
		cache_stage_turn(&stage);
		cache_get_stats(stage.cache, &stats);
		cr_assert_leq(stats.bytes, LIMIT);
	}
	cr_assert_null(second.observer.node);
	cr_assert_not_null(strstr(buffer_text(&second.log), " refused: LimitExceeded"));
	cr_assert_eq(stats.refusals, 1);
	cr_assert_str_eq(buffer_text(&first.log), "");
	cr_assert_not_null(first.observer.node);
	cache_unobserve(&first.observer);
	buffer_finish(&first.log);
	buffer_finish(&second.log);
	cache_stage_close(&stage);
}

STAGED(an_observer_hears_of_staleness_once_and_of_its_end)
{
	struct watcher watcher;
	memory_put(stage->registry, "/s", "");
	observe(stage, &watcher, "/s", false);
	buffer_clear(&watcher.log);
	memory_set_state(stage->registry, REGISTRY_AWAY);
	cache_stage_turn(stage);
	memory_set_state(stage->registry, REGISTRY_CONNECTED);
	cache_stage_turn(stage);
	cr_assert_str_eq(buffer_text(&watcher.log), " S F");
	cache_unobserve(&watcher.observer);
	buffer_finish(&watcher.log);
}

STAGED(an_observer_hears_of_a_read_without_answer)
{
	struct watcher one;
	struct watcher all;
	struct watcher other;
	struct cache_outcome outcome;
	memory_put(stage->registry, "/t", "");
	memory_put(stage->registry, "/t/a", cache_stage_record("one"));
	memory_put(stage->registry, "/t/b", cache_stage_record("two"));
	observe(stage, &one, "/t/a", false);
	observe(stage, &other, "/t/b", false);
	observe(stage, &all, "/t", true);
	buffer_clear(&one.log);
	buffer_clear(&other.log);
	buffer_clear(&all.log);
	memory_on_task(stage->registry, time_out, NULL);
	cache_stage_ask(stage, &outcome, "/t/a", CACHE_RESOLVE, "", true);
	cache_stage_turn(stage);
	cr_assert_str_eq(buffer_text(&one.log), " S");
	cr_assert_str_eq(buffer_text(&all.log), " S");
	memory_on_task(stage->registry, NULL, NULL);
	/* the record and the children, each in its time */
	for (int kinds = 0; kinds < 2; kinds++) {
		registry_dispatch(stage->registry, registry_deadline_ms(stage->registry));
		cache_stage_turn(stage);
	}
	cr_assert_str_eq(buffer_text(&one.log), " S F");
	cr_assert_str_eq(buffer_text(&all.log), " S F");
	cr_assert_str_eq(buffer_text(&other.log), "", "what it watches was never in doubt");
	cache_unobserve(&one.observer);
	cache_unobserve(&all.observer);
	cache_unobserve(&other.observer);
	buffer_finish(&one.log);
	buffer_finish(&all.log);
	buffer_finish(&other.log);
}

Test(cache, warm_subtrees_are_loaded_before_anybody_asks)
{
	struct cache_stage stage;
	char *warm[] = { (char[]){ "/s/**" } };
	cache_stage_open(&stage,
		&(struct cache_options){ .resync_ms = 600000, .warm = warm, .warm_count = 1 });
	memory_put(stage.registry, "/s", "");
	memory_put(stage.registry, "/s/a", cache_stage_record("one"));
	cache_stage_turn(&stage);
	struct cache_outcome outcome;
	cr_assert_eq(
		cache_stage_ask(&stage, &outcome, "/s/a", CACHE_RESOLVE, "", false), CACHE_READY);
	cr_assert(outcome.live);
	cache_stage_close(&stage);
}

Test(cache, a_saved_answer_is_stale_until_the_registry_confirms_it)
{
	struct cache_stage stage;
	struct cache_outcome outcome;
	char directory[SCRATCH_PATH];
	scratch_folder(directory);
	cache_stage_open(&stage, &(struct cache_options){ .resync_ms = 600000 });
	memory_put(stage.registry, "/a", cache_stage_record("one"));
	cache_stage_look(&stage, &outcome, "/a", CACHE_RESOLVE);
	struct err err = ERR_INIT;
	cr_assert_eq(cache_save(stage.cache, directory, &err), 0, "%s", err.msg);
	cache_stage_close(&stage);

	cache_stage_open(&stage, &(struct cache_options){ .resync_ms = 600000 });
	memory_set_state(stage.registry, REGISTRY_AWAY);
	cache_stage_turn(&stage);
	cache_load(stage.cache, directory);
	cr_assert_eq(
		cache_stage_ask(&stage, &outcome, "/a", CACHE_RESOLVE, "", false), CACHE_READY);
	cr_assert_not(outcome.live);
	cr_assert_str_eq(outcome.text, cache_stage_record("one"));
	memory_put(stage.registry, "/a", cache_stage_record("two"));
	memory_set_state(stage.registry, REGISTRY_CONNECTED);
	cache_stage_turn(&stage);
	cr_assert_eq(cache_stage_look(&stage, &outcome, "/a", CACHE_RESOLVE), 0);
	cr_assert(outcome.live);
	cr_assert_str_eq(outcome.text, cache_stage_record("two"));
	cache_stage_close(&stage);

	char file[SCRATCH_PATH + 16];
	snprintf(file, sizeof(file), "%s/cache", directory);
	cr_assert_eq(truncate(file, 40), 0);
	cache_stage_open(&stage, &(struct cache_options){ .resync_ms = 600000 });
	cache_load(stage.cache, directory);
	struct cache_stats stats;
	cache_get_stats(stage.cache, &stats);
	cr_assert_eq(stats.entries, 0);
	cache_stage_close(&stage);
	unlink(file);
	rmdir(directory);
}

/* The registry confirms a saved value: an observer still hears when its path goes. */
Test(cache, an_observer_hears_of_the_end_of_what_was_saved)
{
	struct cache_stage stage;
	struct watcher watcher;
	char directory[SCRATCH_PATH];
	struct err err = ERR_INIT;
	scratch_folder(directory);
	cache_stage_open(&stage, &(struct cache_options){ .resync_ms = 600000 });
	memory_put(stage.registry, "/s", "");
	memory_put(stage.registry, "/s/a", "");
	observe(&stage, &watcher, "/s", true);
	cr_assert_eq(cache_save(stage.cache, directory, &err), 0, "%s", err.msg);
	cache_unobserve(&watcher.observer);
	buffer_finish(&watcher.log);
	cache_stage_close(&stage);

	cache_stage_open(&stage, &(struct cache_options){ .resync_ms = 600000 });
	memory_put(stage.registry, "/s", "");
	memory_put(stage.registry, "/s/a", "");
	cache_load(stage.cache, directory);
	cache_stage_turn(&stage);
	observe(&stage, &watcher, "/s", true);
	buffer_clear(&watcher.log);
	memory_remove(stage.registry, "/s/a");
	cache_stage_turn(&stage);
	cr_assert_str_eq(buffer_text(&watcher.log), " D/s/a");
	cache_unobserve(&watcher.observer);
	buffer_finish(&watcher.log);
	cache_stage_close(&stage);
	char file[SCRATCH_PATH + 16];
	snprintf(file, sizeof(file), "%s/cache", directory);
	unlink(file);
	rmdir(directory);
}

/* Between two lists that name a path, its value can stay the same: its absence was doubted. */
Test(cache, an_observer_hears_of_what_is_listed_again_with_the_same_value)
{
	struct cache_stage stage;
	struct watcher before;
	struct watcher watcher;
	char directory[SCRATCH_PATH];
	struct err err = ERR_INIT;
	scratch_folder(directory);
	cache_stage_open(&stage, &(struct cache_options){ .resync_ms = 600000 });
	memory_put(stage.registry, "/s", "");
	memory_put(stage.registry, "/s/a", "");
	memory_put(stage.registry, "/s/b", "");
	observe(&stage, &watcher, "/s", true);
	cr_assert_eq(cache_save(stage.cache, directory, &err), 0, "%s", err.msg);
	cache_unobserve(&watcher.observer);
	buffer_finish(&watcher.log);
	cache_stage_close(&stage);

	cache_stage_open(&stage, &(struct cache_options){ .resync_ms = 600000 });
	memory_put(stage.registry, "/s", "");
	memory_put(stage.registry, "/s/b", "");
	memory_set_state(stage.registry, REGISTRY_AWAY);
	cache_stage_turn(&stage);
	cache_load(stage.cache, directory);
	observe(&stage, &before, "/s", true);
	memory_set_state(stage.registry, REGISTRY_CONNECTED);
	cache_stage_turn(&stage);
	observe(&stage, &watcher, "/s", true);
	cr_assert_null(strstr(buffer_text(&watcher.log), "/s/a"));
	buffer_clear(&watcher.log);
	memory_put(stage.registry, "/s/a", "");
	cache_stage_turn(&stage);
	cr_assert_str_eq(buffer_text(&watcher.log), " U/s/anull");
	cache_unobserve(&before.observer);
	buffer_finish(&before.log);
	cache_unobserve(&watcher.observer);
	buffer_finish(&watcher.log);
	cache_stage_close(&stage);
	char file[SCRATCH_PATH + 16];
	snprintf(file, sizeof(file), "%s/cache", directory);
	unlink(file);
	rmdir(directory);
}

/* Adds to the number behind the text, in place: it keeps its width. */
static void add_to_number(char *text, const char *before, double more)
{
	char *at = strstr(text, before);
	cr_assert_not_null(at, "%s in %s", before, text);
	at += strlen(before);
	int width = (int)strspn(at, "0123456789.");
	char number[64];
	int whole = (int)strcspn(at, ".") + 1;
	snprintf(number, sizeof(number), "%.*f", width - whole, strtod(at, NULL) + more);
	memcpy(at, number, (size_t)width);
}

Test(cache, the_age_of_a_saved_answer_does_not_follow_a_wall_clock_that_is_set)
{
	struct cache_stage stage;
	struct cache_outcome outcome;
	char directory[SCRATCH_PATH];
	char *text;
	size_t len;
	struct err err = ERR_INIT;
	scratch_folder(directory);
	cache_stage_open(&stage, &(struct cache_options){ .resync_ms = 600000 });
	memory_put(stage.registry, "/a", cache_stage_record("one"));
	cache_stage_look(&stage, &outcome, "/a", CACHE_RESOLVE);
	cr_assert_eq(cache_save(stage.cache, directory, &err), 0, "%s", err.msg);
	cache_stage_close(&stage);

	/* As if the clock had been set an hour ahead since. */
	cr_assert_eq(state_file_read(directory, "cache", "cache", 1 << 20, &text, &len, &err), 0);
	add_to_number(text, "\"wall\":", -3600);
	add_to_number(text, "[\"/a\",0,0,", -3600);
	cr_assert_eq(state_file_write(directory, "cache", "cache", text, len, &err), 0);
	free(text);

	cache_stage_open(&stage, &(struct cache_options){ .resync_ms = 600000 });
	memory_set_state(stage.registry, REGISTRY_AWAY);
	cache_stage_turn(&stage);
	cache_load(stage.cache, directory);
	cr_assert_eq(
		cache_stage_ask(&stage, &outcome, "/a", CACHE_RESOLVE, "", false), CACHE_READY);
	cr_assert_lt(outcome.age_ms, 1800 * 1000);
	cache_stage_close(&stage);

	char file[SCRATCH_PATH + 16];
	snprintf(file, sizeof(file), "%s/cache", directory);
	unlink(file);
	rmdir(directory);
}

Test(cache, a_snapshot_of_another_registry_is_not_used)
{
	struct cache_stage stage;
	struct cache_outcome outcome;
	char directory[SCRATCH_PATH];
	scratch_folder(directory);
	cache_stage_open(&stage, &(struct cache_options){ .resync_ms = 600000 });
	memory_put(stage.registry, "/a", cache_stage_record("one"));
	cache_stage_look(&stage, &outcome, "/a", CACHE_RESOLVE);
	struct err err = ERR_INIT;
	cr_assert_eq(cache_save(stage.cache, directory, &err), 0, "%s", err.msg);
	cache_stage_close(&stage);

	cache_stage_open_at(
		&stage, "dir:/elsewhere", &(struct cache_options){ .resync_ms = 600000 });
	memory_set_state(stage.registry, REGISTRY_AWAY);
	cache_stage_turn(&stage);
	cache_load(stage.cache, directory);
	cr_assert_eq(cache_stage_ask(&stage, &outcome, "/a", CACHE_RESOLVE, "", false),
		CACHE_UNAVAILABLE);
	cache_stage_close(&stage);

	char file[SCRATCH_PATH + 16];
	snprintf(file, sizeof(file), "%s/cache", directory);
	unlink(file);
	rmdir(directory);
}

/* ---- filters ---- */

Test(cache_filter, is_the_same_after_it_was_written_and_read)
{
	const struct cache_filter filter = { .text = true,
		.scope = "internal",
		.protocol = "http",
		.api = "classpath:a",
		.type = "t",
		.id = "i",
		.persistence = "container" };
	char variant[CACHE_VARIANT_BYTES];
	cache_write_variant(variant, &filter);
	struct cache_filter read = cache_read_variant(variant);
	cr_expect(read.text);
	cr_expect_str_eq(read.scope, "internal");
	cr_expect_str_eq(read.protocol, "http");
	cr_expect_str_eq(read.api, "classpath:a");
	cr_expect_str_eq(read.type, "t");
	cr_expect_str_eq(read.id, "i");
	cr_expect_str_eq(read.persistence, "container");
}

Test(cache_filter, absent_texts_stay_absent)
{
	char variant[CACHE_VARIANT_BYTES];
	cache_write_variant(variant, &(struct cache_filter){ .id = "i" });
	struct cache_filter read = cache_read_variant(variant);
	cr_expect_not(read.text);
	cr_expect_null(read.api);
	cr_expect_null(read.protocol);
	cr_expect_null(read.scope);
	cr_expect_null(read.type);
	cr_expect_str_eq(read.id, "i");
	cr_expect_null(read.persistence);
	cache_write_variant(variant, &(struct cache_filter){ .text = true });
	cr_expect(cache_read_variant(variant).text);
	cache_write_variant(variant, NULL);
	cr_expect_str_eq(variant, "");
	read = cache_read_variant(variant);
	cr_expect_not(read.text);
	cr_expect_null(read.api);
}

Test(cache_filter, texts_at_their_limit_are_whole_and_longer_ones_end_in_the_room)
{
	char text[2 * CACHE_FILTER_BYTES];
	struct {
		char variant[CACHE_VARIANT_BYTES];
		char behind[8];
	} room;
	memset(room.behind, '!', sizeof(room.behind));
	memset(text, 'a', sizeof(text));
	text[CACHE_FILTER_BYTES] = '\0';
	cache_write_variant(room.variant, &(struct cache_filter){ .persistence = text });
	cr_expect_str_eq(cache_read_variant(room.variant).persistence, text);
	text[CACHE_FILTER_BYTES] = 'a';
	text[sizeof(text) - 1] = '\0';
	cache_write_variant(room.variant, &(struct cache_filter){ .api = text, .id = "i" });
	cr_expect_lt(strlen(room.variant), sizeof(room.variant));
	cr_expect_eq(room.behind[0], '!');
}
