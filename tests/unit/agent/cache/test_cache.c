#include <criterion/criterion.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/cache/cache.h"
#include "tests/support/memory_backend.h"
#include "tests/support/scratch.h"

/* A cache on a registry in memory, in which nothing happens but when a test says so. */
struct stage {
	struct ev_loop *loop;
	struct registry *registry;
	struct cache *cache;
};

/* What came of a lookup or a stream of events. */
struct outcome {
	struct cache_wait wait;
	int calls;
	int code;
	bool live;
	char etag[CACHE_ETAG_BYTES];
	char text[4096];
};

static void on_state(void *context, enum registry_state state, const char *why)
{
	(void)why;
	struct stage *stage = context;
	if (stage->cache) {
		cache_on_registry_state(stage->cache, state);
	}
}

static void turn(struct stage *stage)
{
	for (int i = 0; i < 20; i++) {
		registry_dispatch(stage->registry, 1);
		ev_run(stage->loop, EVRUN_NOWAIT);
	}
}

static void release_front(void *front)
{
	(void)front;
}

static void open_stage_at(struct stage *stage, const char *url, const struct cache_options *given)
{
	struct cache_options options = *given;
	options.release_front = release_front;
	options.max_size_bytes = options.max_size_bytes ? options.max_size_bytes : 1024 * 1024;
	*stage = (struct stage){ .loop = ev_loop_new(EVFLAG_AUTO) };
	struct registry_options registry_options = {
		.url = url, .on_state = on_state, .context = stage
	};
	stage->registry = memory_open("cache", &registry_options);
	stage->cache = cache_create(stage->loop, stage->registry, &options);
	memory_set_state(stage->registry, REGISTRY_CONNECTED);
	turn(stage);
}

static void open_stage(struct stage *stage, const struct cache_options *given)
{
	open_stage_at(stage, "dir:/here", given);
}

static void close_stage(struct stage *stage)
{
	cache_destroy(stage->cache);
	stage->cache = NULL;
	registry_close(stage->registry);
	ev_loop_destroy(stage->loop);
}

static void keep(struct outcome *outcome, const struct cache_answer *answer)
{
	outcome->code = answer->err ? answer->err->code : 0;
	outcome->live = answer->live;
	strcpy(outcome->etag, answer->etag);
	snprintf(outcome->text, sizeof(outcome->text), "%s", answer->body);
}

static void on_answer(void *context, struct cache_answer *answer, const struct err *err)
{
	struct outcome *outcome = context;
	outcome->calls++;
	outcome->code = err->code;
	if (answer) {
		keep(outcome, answer);
	}
}

static enum cache_verdict ask(struct stage *stage, struct outcome *outcome, const char *path,
	enum cache_answer_kind kind, const char *unlike, bool refresh)
{
	*outcome = (struct outcome){ .wait = { .on_answer = on_answer, .context = outcome } };
	strcpy(outcome->wait.unlike, unlike);
	struct cache_answer *answer;
	struct err err = ERR_INIT;
	struct cache_filter any = { .text = false };
	enum cache_verdict verdict = cache_ask(stage->cache, path, kind,
		kind == CACHE_ENDPOINTS ? &any : NULL, refresh, &outcome->wait, &answer, &err);
	if (verdict == CACHE_READY) {
		keep(outcome, answer);
	}
	outcome->code = verdict == CACHE_UNAVAILABLE ? err.code : outcome->code;
	return verdict;
}

/* Asks and waits; the code. */
static int look(
	struct stage *stage, struct outcome *outcome, const char *path, enum cache_answer_kind kind)
{
	if (ask(stage, outcome, path, kind, "", false) == CACHE_WAITING) {
		turn(stage);
		cr_assert_eq(outcome->calls, 1, "no answer for %s", path);
	}
	return outcome->code;
}

static const char *record(const char *description)
{
	static char text[256];
	snprintf(text, sizeof(text),
		"{\"type\":\"JSONServiceRecord\",\"description\":\"%s\",\"external\":[{\"api\":\"http://a\","
		"\"addressType\":\"uri\",\"protocol\":\"REST\",\"addresses\":[{\"uri\":\"http://%s\"}]}]}",
		description, description);
	return text;
}

Test(cache, a_second_lookup_is_a_hit_without_a_read)
{
	struct stage stage;
	struct outcome outcome;
	open_stage(&stage, &(struct cache_options){ .resync_ms = 600000 });
	memory_put(stage.registry, "/a", record("one"));
	cr_assert_eq(ask(&stage, &outcome, "/a", CACHE_RESOLVE, "", false), CACHE_WAITING);
	turn(&stage);
	cr_assert_str_eq(outcome.text, record("one"));
	struct cache_stats before;
	cache_get_stats(stage.cache, &before);
	cr_assert_not_null(cache_find(stage.cache, "/a", CACHE_RESOLVE, NULL));
	cr_assert_eq(ask(&stage, &outcome, "/a", CACHE_RESOLVE, "", false), CACHE_READY);
	cr_assert(outcome.live);
	struct cache_stats after;
	cache_get_stats(stage.cache, &after);
	cr_assert_eq(after.loads, before.loads);
	close_stage(&stage);
}

Test(cache, many_who_ask_at_once_cost_one_read)
{
	struct stage stage;
	struct outcome outcomes[50];
	open_stage(&stage, &(struct cache_options){ .resync_ms = 600000 });
	memory_put(stage.registry, "/a", record("one"));
	for (int i = 0; i < 50; i++) {
		cr_assert_eq(
			ask(&stage, &outcomes[i], "/a", CACHE_RESOLVE, "", false), CACHE_WAITING);
	}
	turn(&stage);
	struct cache_stats stats;
	cache_get_stats(stage.cache, &stats);
	cr_assert_eq(stats.loads, 1);
	for (int i = 0; i < 50; i++) {
		cr_assert_eq(outcomes[i].calls, 1);
	}
	close_stage(&stage);
}

Test(cache, errors_have_the_names_of_the_contract_and_do_not_harm_each_other)
{
	struct stage stage;
	struct outcome outcome;
	open_stage(&stage, &(struct cache_options){ .resync_ms = 600000 });
	memory_put(stage.registry, "/empty", "");
	memory_put(stage.registry, "/bad", "{\"type\":\"JSONServiceRecord\"");
	cr_assert_eq(look(&stage, &outcome, "/none", CACHE_RESOLVE), BERTH_PATH_NOT_FOUND);
	cr_assert_eq(look(&stage, &outcome, "/empty", CACHE_RESOLVE), BERTH_NO_RECORD);
	cr_assert_eq(look(&stage, &outcome, "/bad", CACHE_RESOLVE), BERTH_INVALID_RECORD);
	cr_assert_eq(look(&stage, &outcome, "/", CACHE_LIST), 0);
	cr_assert_str_eq(outcome.text, "[\"/bad\",\"/empty\"]\n");
	close_stage(&stage);
}

Test(cache, absence_is_known_and_ends_when_somebody_writes)
{
	struct stage stage;
	struct outcome outcome;
	open_stage(&stage, &(struct cache_options){ .resync_ms = 600000 });
	look(&stage, &outcome, "/a", CACHE_RESOLVE);
	cr_assert_not_null(cache_find(stage.cache, "/a", CACHE_RESOLVE, NULL));
	memory_put(stage.registry, "/a", record("one"));
	turn(&stage);
	cr_assert_eq(look(&stage, &outcome, "/a", CACHE_RESOLVE), 0);
	close_stage(&stage);
}

Test(cache, records_and_endpoints_follow_their_children)
{
	struct stage stage;
	struct outcome outcome;
	open_stage(&stage, &(struct cache_options){ .resync_ms = 600000 });
	memory_put(stage.registry, "/s", "");
	memory_put(stage.registry, "/s/a", record("one"));
	memory_put(stage.registry, "/s/b", "");
	cr_assert_eq(look(&stage, &outcome, "/s", CACHE_RECORDS), 0);
	cr_assert_not_null(strstr(outcome.text, "\"/s/a\":{"));
	cr_assert_null(strstr(outcome.text, "/s/b"));
	cr_assert_eq(look(&stage, &outcome, "/s", CACHE_ENDPOINTS), 0);
	cr_assert_not_null(strstr(outcome.text, "http://one"));
	memory_put(stage.registry, "/s/a", record("two"));
	memory_put(stage.registry, "/s/b", record("three"));
	turn(&stage);
	look(&stage, &outcome, "/s", CACHE_ENDPOINTS);
	cr_assert_not_null(strstr(outcome.text, "http://two"));
	cr_assert_not_null(strstr(outcome.text, "http://three"));
	cr_assert_null(strstr(outcome.text, "http://one"));
	close_stage(&stage);
}

Test(cache, a_long_poll_wakes_with_the_next_different_answer)
{
	struct stage stage;
	struct outcome outcome;
	open_stage(&stage, &(struct cache_options){ .resync_ms = 600000 });
	memory_put(stage.registry, "/a", record("one"));
	look(&stage, &outcome, "/a", CACHE_RESOLVE);
	char etag[CACHE_ETAG_BYTES];
	strcpy(etag, outcome.etag);
	cr_assert_eq(ask(&stage, &outcome, "/a", CACHE_RESOLVE, etag, false), CACHE_WAITING);
	memory_put(stage.registry, "/a", record("one"));
	turn(&stage);
	cr_assert_eq(outcome.calls, 0, "the same record written again is the same answer");
	memory_put(stage.registry, "/a", record("two"));
	turn(&stage);
	cr_assert_eq(outcome.calls, 1);
	cr_assert_str_eq(outcome.text, record("two"));
	close_stage(&stage);
}

Test(cache, away_known_answers_are_stale_and_unknown_ones_unavailable)
{
	struct stage stage;
	struct outcome outcome;
	open_stage(&stage, &(struct cache_options){ .resync_ms = 600000 });
	memory_put(stage.registry, "/a", record("one"));
	look(&stage, &outcome, "/a", CACHE_RESOLVE);
	memory_set_state(stage.registry, REGISTRY_AWAY);
	turn(&stage);
	cr_assert_null(cache_find(stage.cache, "/a", CACHE_RESOLVE, NULL));
	cr_assert_eq(ask(&stage, &outcome, "/a", CACHE_RESOLVE, "", false), CACHE_READY);
	cr_assert_not(outcome.live);
	cr_assert_str_eq(outcome.text, record("one"));
	cr_assert_eq(ask(&stage, &outcome, "/b", CACHE_RESOLVE, "", false), CACHE_UNAVAILABLE);
	cr_assert_eq(outcome.code, BERTH_REGISTRY_UNAVAILABLE);
	memory_put(stage.registry, "/a", record("two"));
	memory_set_state(stage.registry, REGISTRY_CONNECTED);
	turn(&stage);
	cr_assert_eq(look(&stage, &outcome, "/a", CACHE_RESOLVE), 0);
	cr_assert(outcome.live);
	cr_assert_str_eq(outcome.text, record("two"));
	close_stage(&stage);
}

static void time_out(void *context, const struct registry_task *task, struct err *err)
{
	(void)context;
	(void)task;
	err_set(err, BERTH_TIMEOUT, "no answer");
}

Test(cache, a_read_without_answer_leaves_what_was_known_as_stale_and_is_tried_again_soon)
{
	struct stage stage;
	struct outcome outcome;
	open_stage(&stage, &(struct cache_options){ .resync_ms = 600000 });
	memory_put(stage.registry, "/t", "");
	memory_put(stage.registry, "/t/a", record("one"));
	look(&stage, &outcome, "/t/a", CACHE_RESOLVE);
	look(&stage, &outcome, "/t", CACHE_RECORDS);
	memory_on_task(stage.registry, time_out, NULL);
	cr_assert_eq(ask(&stage, &outcome, "/t/a", CACHE_RESOLVE, "", true), CACHE_WAITING);
	turn(&stage);
	cr_assert_eq(outcome.calls, 1, "who waits is not left waiting");
	cr_assert_not(outcome.live);
	cr_assert_str_eq(outcome.text, record("one"));
	cr_assert_eq(ask(&stage, &outcome, "/t", CACHE_RECORDS, "", false), CACHE_READY);
	cr_assert_not(outcome.live, "what is made of it is stale too");

	memory_on_task(stage.registry, NULL, NULL);
	registry_dispatch(stage.registry, registry_deadline_ms(stage.registry));
	turn(&stage);
	cr_assert_eq(ask(&stage, &outcome, "/t/a", CACHE_RESOLVE, "", false), CACHE_READY);
	cr_assert(outcome.live);
	close_stage(&stage);
}

/* What the cache says of a list while the registry reads it, the first and the second time. */
struct reads {
	struct stage *stage;
	int count;
	struct outcome outcomes[2];
};

static void ask_while_reading(void *context, const struct registry_task *task, struct err *err)
{
	(void)err;
	struct reads *reads = context;
	if (task->operation == REGISTRY_OP_CHILDREN && reads->count < 2) {
		struct outcome *outcome = &reads->outcomes[reads->count++];
		cr_assert_eq(
			ask(reads->stage, outcome, task->path, CACHE_LIST, "", false), CACHE_READY);
	}
}

Test(cache, an_empty_list_right_after_a_reconnect_is_not_believed_at_once)
{
	struct stage stage;
	struct outcome outcome;
	struct reads reads = { .stage = &stage };
	open_stage(&stage, &(struct cache_options){ .resync_ms = 600000 });
	memory_put(stage.registry, "/s", "");
	memory_put(stage.registry, "/s/a", record("one"));
	memory_put(stage.registry, "/s/b", record("two"));
	look(&stage, &outcome, "/s", CACHE_LIST);
	memory_set_state(stage.registry, REGISTRY_AWAY);
	turn(&stage);
	memory_remove(stage.registry, "/s/a");
	memory_remove(stage.registry, "/s/b");
	memory_on_task(stage.registry, ask_while_reading, &reads);
	memory_set_state(stage.registry, REGISTRY_CONNECTED);
	outcome.live = false;
	for (int i = 0; i < 3000 && !outcome.live; i++) {
		turn(&stage);
		usleep(10000);
		ask(&stage, &outcome, "/s", CACHE_LIST, "", false);
	}
	cr_assert(outcome.live);
	cr_assert_str_eq(outcome.text, "[]\n");
	cr_assert_eq(reads.count, 2, "it was read again before it was believed");
	for (int i = 0; i < 2; i++) {
		cr_assert_not(reads.outcomes[i].live);
		cr_assert_str_eq(reads.outcomes[i].text, "[\"/s/a\",\"/s/b\"]\n");
	}
	close_stage(&stage);
}

Test(cache, the_least_recently_used_give_way_and_return_their_watches)
{
	struct stage stage;
	struct outcome outcome;
	enum { LIMIT = 128 * 1024 };
	open_stage(&stage, &(struct cache_options){ .resync_ms = 600000, .max_size_bytes = LIMIT });
	for (int i = 0; i < 500; i++) {
		char path[32];
		snprintf(path, sizeof(path), "/n%d", i);
		memory_put(stage.registry, path, record(path));
		cr_assert_eq(look(&stage, &outcome, path, CACHE_RESOLVE), 0);
	}
	struct cache_stats stats;
	cache_get_stats(stage.cache, &stats);
	cr_assert_leq(stats.bytes, LIMIT);
	cr_assert_geq(stats.bytes, LIMIT * 9 / 10);
	cr_assert_gt(stats.evictions, 0);
	cr_assert_eq(registry_watch_count(stage.registry), stats.entries);
	cr_assert_null(cache_find(stage.cache, "/n0", CACHE_RESOLVE, NULL));
	cr_assert_not_null(cache_find(stage.cache, "/n499", CACHE_RESOLVE, NULL));
	close_stage(&stage);
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

static void observe(struct stage *stage, struct watcher *watcher, const char *path, bool recursive)
{
	*watcher = (struct watcher){ .observer = { .recursive = recursive,
					     .on_ready = on_ready,
					     .on_event = on_event,
					     .context = watcher } };
	buffer_init(&watcher->log, 65536);
	cache_observe(stage->cache, path, &watcher->observer);
	turn(stage);
}

Test(cache, a_recursive_observer_gets_a_snapshot_and_then_every_change)
{
	struct stage stage;
	struct watcher watcher;
	open_stage(&stage, &(struct cache_options){ .resync_ms = 600000 });
	memory_put(stage.registry, "/s", "");
	memory_put(stage.registry, "/s/a", "");
	memory_put(stage.registry, "/s/a/x", "");
	observe(&stage, &watcher, "/s", true);
	cr_assert_str_eq(buffer_text(&watcher.log), "{\"/s\":null,\"/s/a\":null,\"/s/a/x\":null}");
	buffer_clear(&watcher.log);
	memory_put(stage.registry, "/s/b", "");
	turn(&stage);
	memory_put(stage.registry, "/s/b/y", "");
	turn(&stage);
	memory_remove(stage.registry, "/s/a/x");
	turn(&stage);
	cr_assert_str_eq(buffer_text(&watcher.log), " U/s/bnull U/s/b/ynull D/s/a/x");
	cache_unobserve(&watcher.observer);
	buffer_finish(&watcher.log);
	close_stage(&stage);
}

Test(cache, an_observer_is_not_told_again_what_was_looked_up_before)
{
	struct stage stage;
	struct outcome outcome;
	struct watcher watcher;
	open_stage(&stage, &(struct cache_options){ .resync_ms = 600000 });
	memory_put(stage.registry, "/s", "");
	memory_put(stage.registry, "/s/a", record("one"));
	look(&stage, &outcome, "/s/a", CACHE_RESOLVE);
	look(&stage, &outcome, "/s/b", CACHE_RESOLVE);
	observe(&stage, &watcher, "/s", true);
	buffer_clear(&watcher.log);
	memory_put(stage.registry, "/s/b", "");
	turn(&stage);
	memory_put(stage.registry, "/s/c", "");
	turn(&stage);
	cr_assert_str_eq(buffer_text(&watcher.log), " U/s/bnull U/s/cnull");
	cache_unobserve(&watcher.observer);
	buffer_finish(&watcher.log);
	close_stage(&stage);
}

static void on_refused(void *context, const struct err *err)
{
	struct watcher *watcher = context;
	buffer_printf(&watcher->log, " refused: %s", berth_error_name(err->code));
}

Test(cache, trees_that_do_not_fit_are_refused_the_last_come_first)
{
	struct stage stage;
	struct watcher first;
	struct watcher second;
	struct cache_stats stats;
	enum { LIMIT = 64 * 1024 };
	open_stage(&stage, &(struct cache_options){ .resync_ms = 600000, .max_size_bytes = LIMIT });
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
		memory_put(stage.registry, path, record(path));
		turn(&stage);
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
	close_stage(&stage);
}

Test(cache, an_observer_hears_of_staleness_once_and_of_its_end)
{
	struct stage stage;
	struct watcher watcher;
	open_stage(&stage, &(struct cache_options){ .resync_ms = 600000 });
	memory_put(stage.registry, "/s", "");
	observe(&stage, &watcher, "/s", false);
	buffer_clear(&watcher.log);
	memory_set_state(stage.registry, REGISTRY_AWAY);
	turn(&stage);
	memory_set_state(stage.registry, REGISTRY_CONNECTED);
	turn(&stage);
	cr_assert_str_eq(buffer_text(&watcher.log), " S F");
	cache_unobserve(&watcher.observer);
	buffer_finish(&watcher.log);
	close_stage(&stage);
}

Test(cache, an_observer_hears_of_a_read_without_answer)
{
	struct stage stage;
	struct watcher one;
	struct watcher all;
	struct watcher other;
	struct outcome outcome;
	open_stage(&stage, &(struct cache_options){ .resync_ms = 600000 });
	memory_put(stage.registry, "/t", "");
	memory_put(stage.registry, "/t/a", record("one"));
	memory_put(stage.registry, "/t/b", record("two"));
	observe(&stage, &one, "/t/a", false);
	observe(&stage, &other, "/t/b", false);
	observe(&stage, &all, "/t", true);
	buffer_clear(&one.log);
	buffer_clear(&other.log);
	buffer_clear(&all.log);
	memory_on_task(stage.registry, time_out, NULL);
	ask(&stage, &outcome, "/t/a", CACHE_RESOLVE, "", true);
	turn(&stage);
	cr_assert_str_eq(buffer_text(&one.log), " S");
	cr_assert_str_eq(buffer_text(&all.log), " S");
	memory_on_task(stage.registry, NULL, NULL);
	for (int kinds = 0; kinds < 2; kinds++) { /* the record and the children, each in its time */
		registry_dispatch(stage.registry, registry_deadline_ms(stage.registry));
		turn(&stage);
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
	close_stage(&stage);
}

Test(cache, warm_subtrees_are_loaded_before_anybody_asks)
{
	struct stage stage;
	char *warm[] = { (char[]){ "/s/**" } };
	open_stage(&stage,
		&(struct cache_options){ .resync_ms = 600000, .warm = warm, .warm_count = 1 });
	memory_put(stage.registry, "/s", "");
	memory_put(stage.registry, "/s/a", record("one"));
	turn(&stage);
	struct outcome outcome;
	cr_assert_eq(ask(&stage, &outcome, "/s/a", CACHE_RESOLVE, "", false), CACHE_READY);
	cr_assert(outcome.live);
	close_stage(&stage);
}

Test(cache, what_was_saved_answers_stale_until_the_registry_confirms_it)
{
	struct stage stage;
	struct outcome outcome;
	char directory[SCRATCH_PATH];
	scratch_folder(directory);
	open_stage(&stage, &(struct cache_options){ .resync_ms = 600000 });
	memory_put(stage.registry, "/a", record("one"));
	look(&stage, &outcome, "/a", CACHE_RESOLVE);
	struct err err = ERR_INIT;
	cr_assert_eq(cache_save(stage.cache, directory, &err), 0, "%s", err.msg);
	close_stage(&stage);

	open_stage(&stage, &(struct cache_options){ .resync_ms = 600000 });
	memory_set_state(stage.registry, REGISTRY_AWAY);
	turn(&stage);
	cache_load(stage.cache, directory);
	cr_assert_eq(ask(&stage, &outcome, "/a", CACHE_RESOLVE, "", false), CACHE_READY);
	cr_assert_not(outcome.live);
	cr_assert_str_eq(outcome.text, record("one"));
	memory_put(stage.registry, "/a", record("two"));
	memory_set_state(stage.registry, REGISTRY_CONNECTED);
	turn(&stage);
	cr_assert_eq(look(&stage, &outcome, "/a", CACHE_RESOLVE), 0);
	cr_assert(outcome.live);
	cr_assert_str_eq(outcome.text, record("two"));
	close_stage(&stage);

	char file[SCRATCH_PATH + 16];
	snprintf(file, sizeof(file), "%s/cache", directory);
	cr_assert_eq(truncate(file, 40), 0);
	open_stage(&stage, &(struct cache_options){ .resync_ms = 600000 });
	cache_load(stage.cache, directory);
	struct cache_stats stats;
	cache_get_stats(stage.cache, &stats);
	cr_assert_eq(stats.entries, 0);
	close_stage(&stage);
	unlink(file);
	rmdir(directory);
}

Test(cache, what_was_saved_of_another_registry_is_not_believed)
{
	struct stage stage;
	struct outcome outcome;
	char directory[SCRATCH_PATH];
	scratch_folder(directory);
	open_stage(&stage, &(struct cache_options){ .resync_ms = 600000 });
	memory_put(stage.registry, "/a", record("one"));
	look(&stage, &outcome, "/a", CACHE_RESOLVE);
	struct err err = ERR_INIT;
	cr_assert_eq(cache_save(stage.cache, directory, &err), 0, "%s", err.msg);
	close_stage(&stage);

	open_stage_at(&stage, "dir:/elsewhere", &(struct cache_options){ .resync_ms = 600000 });
	memory_set_state(stage.registry, REGISTRY_AWAY);
	turn(&stage);
	cache_load(stage.cache, directory);
	cr_assert_eq(ask(&stage, &outcome, "/a", CACHE_RESOLVE, "", false), CACHE_UNAVAILABLE);
	close_stage(&stage);

	char file[SCRATCH_PATH + 16];
	snprintf(file, sizeof(file), "%s/cache", directory);
	unlink(file);
	rmdir(directory);
}
