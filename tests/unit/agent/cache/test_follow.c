/* Observers: what they hear of a path and of a tree, and of the registry's absence. */

#include <criterion/criterion.h>

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "agent/cache/parts.h"
#include "lib/base/array.h"
#include "lib/base/clock.h"
#include "tests/support/cache_stage.h"
#include "tests/support/file_stage.h"
#include "tests/support/memory_backend.h"
#include "tests/support/scratch.h"
#include "tests/support/staged.h"

enum { REASON_BYTES = 256 };

static struct cache_stage *open_stage(struct cache_stage *stage)
{
	cache_stage_open(stage, &(struct cache_options){ .resync_ms = 600000 });
	return stage;
}

#define STAGED(name)                                                                               \
	STAGED_TEST(cache_follow, name, struct cache_stage *, stage,                               \
		open_stage(&(struct cache_stage){ 0 }), cache_stage_close)

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

static void leave(struct watcher *watcher)
{
	cache_unobserve(&watcher->observer);
	buffer_finish(&watcher->log);
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
	leave(&watcher);
}

STAGED(a_record_on_several_lines_is_one_line_of_a_stream)
{
	struct watcher watcher;
	memory_put(stage->registry, "/s", "{\"type\":\"JSONServiceRecord\",\r\n\n\"x\":1}\n");
	observe(stage, &watcher, "/s", false);
	cr_assert_str_eq(
		buffer_text(&watcher.log), "{\"/s\":{\"type\":\"JSONServiceRecord\",\"x\":1}}");
	leave(&watcher);
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
	leave(&watcher);
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
	leave(&watcher);
}

static void on_refused(void *context, const struct err *err)
{
	struct watcher *watcher = context;
	buffer_printf(&watcher->log, " refused: %s", berth_error_name(err->code));
}

Test(cache_follow, trees_that_do_not_fit_are_refused_the_last_come_first)
{
	struct cache_stage stage;
	struct watcher first;
	struct watcher second;
	struct watcher narrow;
	struct cache_stats stats;
	enum { LIMIT = 64 * 1024 };
	cache_stage_open(
		&stage, &(struct cache_options){ .resync_ms = 600000, .max_size_bytes = LIMIT });
	memory_put(stage.registry, "/s", "");
	memory_put(stage.registry, "/t", "");
	observe(&stage, &first, "/s", true);
	observe(&stage, &second, "/t", true);
	observe(&stage, &narrow, "/s", false);
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
	cr_assert_not_null(narrow.observer.node, "single paths stay longer");
	leave(&narrow);
	leave(&first);
	leave(&second);
	cache_stage_close(&stage);
}

static void keep_reason(void *context, const struct err *err)
{
	snprintf(context, REASON_BYTES, "%s", err->msg);
}

/* All of them fit before the limit is lower. */
STAGED(a_refusal_says_what_does_not_fit_and_where_the_limit_is)
{
	static const struct {
		enum cache_scope scope;
		const char *what;
	} cases[] = { { CACHE_SELF, "/s" }, { CACHE_CHILDREN_TOO, "/s" },
		{ CACHE_TREE, "/s with all below it" } };
	memory_put(stage->registry, "/s", "");
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		char reason[REASON_BYTES] = "";
		char expected[REASON_BYTES];
		struct cache_observer observer = {
			.scope = cases[i].scope, .on_refused = keep_reason, .context = reason
		};
		cache_observe(stage->cache, "/s", &observer);
		cache_stage_turn(stage);
		cr_assert_str_eq(reason, "");
		cache_set_options(stage->cache, &(struct cache_options){ .max_size_bytes = 100 });
		cache_stage_turn(stage);
		snprintf(expected, sizeof(expected),
			"%s does not fit into the cache of 100 bytes; "
			"`max_size` in [cache] may be larger",
			cases[i].what);
		cr_expect_str_eq(reason, expected);
		cache_set_options(
			stage->cache, &(struct cache_options){ .max_size_bytes = 1024 * 1024 });
		cache_stage_turn(stage);
	}
	struct cache_stats stats;
	cache_get_stats(stage->cache, &stats);
	cr_expect_eq(stats.refusals, ARRAY_LEN(cases));
}

/* The first one has nobody to tell, so that it waits for the registry. */
STAGED(away_an_observer_of_what_is_not_known_is_refused_or_waits)
{
	char reason[REASON_BYTES] = "";
	struct cache_observer waiting = { .scope = CACHE_TREE };
	struct cache_observer refused = {
		.scope = CACHE_TREE, .on_refused = keep_reason, .context = reason
	};
	memory_put(stage->registry, "/s", "");
	memory_set_state(stage->registry, REGISTRY_AWAY);
	cache_stage_turn(stage);
	cache_observe(stage->cache, "/s", &waiting);
	cache_observe(stage->cache, "/s", &refused);
	cache_stage_turn(stage);
	cr_expect_str_eq(reason, "the registry is away, and not all of this is known");
	cr_expect_null(refused.node);
	cr_expect_eq(waiting.state, CACHE_OBSERVER_LOADING);
	memory_set_state(stage->registry, REGISTRY_CONNECTED);
	cache_stage_turn(stage);
	cr_expect_eq(waiting.state, CACHE_OBSERVER_LIVE);
	cache_unobserve(&waiting);
}

STAGED(an_observer_hears_once_of_each_outage_and_of_its_end)
{
	struct watcher watcher;
	memory_put(stage->registry, "/s", "");
	observe(stage, &watcher, "/s", false);
	buffer_clear(&watcher.log);
	for (int outages = 0; outages < 2; outages++) {
		memory_set_state(stage->registry, REGISTRY_AWAY);
		cache_stage_turn(stage);
		memory_set_state(stage->registry, REGISTRY_CONNECTED);
		stage->now_ms += 60000; /* the registry's core spreads its reads */
		cache_stage_turn(stage);
	}
	cr_assert_str_eq(buffer_text(&watcher.log), " S F S F");
	leave(&watcher);
}

/* Of others for the same path, whatever they follow, and whenever they come. */
STAGED(an_observer_is_ready_once_and_with_all_that_it_follows)
{
	static const enum cache_scope scopes[] = { CACHE_SELF, CACHE_TREE, CACHE_CHILDREN_TOO,
		CACHE_SELF, CACHE_TREE };
	static const char *const pictures[] = { "{\"/s\":null}",
		"{\"/s\":null,\"/s/a\":null,\"/s/a/x\":null}", "{\"/s\":null,\"/s/a\":null}" };
	enum { COUNT = ARRAY_LEN(scopes), AT_ONCE = 3 };
	struct cache_outcome outcome;
	struct watcher watchers[COUNT];
	memory_put(stage->registry, "/s", "");
	memory_put(stage->registry, "/s/a", "");
	memory_put(stage->registry, "/s/a/x", "");
	cache_stage_look(stage, &outcome, "/s", CACHE_RESOLVE);
	for (size_t i = 0; i < COUNT; i++) {
		watchers[i] = (struct watcher){ .observer = { .scope = scopes[i],
							.on_ready = on_ready,
							.on_event = on_event,
							.context = &watchers[i] } };
		buffer_init(&watchers[i].log, 65536);
		cache_observe(stage->cache, "/s", &watchers[i].observer);
		if (i + 1 >= AT_ONCE) {
			cache_stage_turn(stage);
		}
	}
	for (size_t i = 0; i < COUNT; i++) {
		cr_expect_str_eq(buffer_text(&watchers[i].log), pictures[i % AT_ONCE], "%zu", i);
		leave(&watchers[i]);
	}
}

/* An answer of a moment ago is enough. */
STAGED(an_observer_is_fresh_when_the_server_was_heard_within_the_bound)
{
	struct watcher watcher;
	memory_put(stage->registry, "/s", "");
	observe(stage, &watcher, "/s", false);
	buffer_clear(&watcher.log);
	memory_set_state(stage->registry, REGISTRY_AWAY);
	cache_stage_turn(stage);
	memory_set_heard_ms(stage->registry, clock_monotonic_ms() - 100);
	memory_set_state(stage->registry, REGISTRY_CONNECTED);
	stage->now_ms += 60000; /* the registry's core spreads its reads */
	cache_stage_turn(stage);
	cr_assert_str_eq(buffer_text(&watcher.log), " S F");
	leave(&watcher);
}

/* Everything is read again: the registry's core spreads its reads. */
static void reconnect(struct cache_stage *stage)
{
	memory_set_state(stage->registry, REGISTRY_CONNECTED);
	cache_stage_turn(stage);
	stage->now_ms += 60000;
	cache_stage_turn(stage);
}

/* Behind all that came meanwhile: paths that are new, and what is below them. */
STAGED(an_observer_is_fresh_behind_the_records_of_new_paths)
{
	static const char *const late[] = { "/s/b", "/s/b/c" };
	for (size_t i = 0; i < ARRAY_LEN(late); i++) {
		struct watcher watcher;
		memory_put(stage->registry, "/s", "");
		observe(stage, &watcher, "/s", true);
		buffer_clear(&watcher.log);
		memory_set_state(stage->registry, REGISTRY_AWAY);
		cache_stage_turn(stage);
		memory_put(stage->registry, "/s/b", "");
		memory_put(stage->registry, "/s/b/c", "");
		memory_be_late(stage->registry, late[i]);
		reconnect(stage);
		cr_assert_null(strchr(buffer_text(&watcher.log), 'F'), "%s", late[i]);
		memory_answer_late(stage->registry);
		cache_stage_turn(stage);
		cr_assert_str_eq(buffer_text(&watcher.log), " S U/s/bnull U/s/b/cnull F");
		memory_remove(stage->registry, "/s/b/c");
		memory_remove(stage->registry, "/s/b");
		leave(&watcher);
		cache_stage_turn(stage);
	}
}

/* A path that only a client asks for makes nobody wait. */
STAGED(an_observer_is_fresh_while_another_path_is_read)
{
	struct watcher watcher;
	struct cache_outcome outcome;
	memory_put(stage->registry, "/s", "");
	observe(stage, &watcher, "/s", true);
	buffer_clear(&watcher.log);
	memory_set_state(stage->registry, REGISTRY_AWAY);
	cache_stage_turn(stage);
	memory_be_late(stage->registry, "/t");
	memory_set_state(stage->registry, REGISTRY_CONNECTED);
	registry_dispatch(stage->registry, stage->now_ms);
	cr_assert_eq(
		cache_stage_ask(stage, &outcome, "/t", CACHE_RESOLVE, "", false), CACHE_WAITING);
	stage->now_ms += 60000;
	cache_stage_turn(stage);
	cr_assert_str_eq(buffer_text(&watcher.log), " S F");
	memory_answer_late(stage->registry);
	cache_stage_turn(stage);
	cr_assert_eq(outcome.code, BERTH_PATH_NOT_FOUND);
	leave(&watcher);
}

static void time_out(void *context, const struct registry_task *task, struct err *err)
{
	(void)context;
	(void)task;
	err_set(err, BERTH_TIMEOUT, "no answer");
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
	leave(&one);
	leave(&all);
	leave(&other);
}

static void leave_lists_unanswered(void *context, const struct registry_task *task, struct err *err)
{
	(void)context;
	if (task->operation == REGISTRY_OP_CHILDREN) {
		err_set(err, BERTH_TIMEOUT, "no answer");
	}
}

STAGED(an_observer_of_children_hears_of_a_list_without_answer)
{
	struct watcher self;
	struct watcher children = { .observer = { .scope = CACHE_CHILDREN_TOO,
					    .on_event = on_event,
					    .context = &children } };
	struct cache_outcome outcome;
	memory_put(stage->registry, "/t", "");
	memory_put(stage->registry, "/t/a", cache_stage_record("one"));
	observe(stage, &self, "/t", false);
	buffer_clear(&self.log);
	buffer_init(&children.log, 65536);
	cache_observe(stage->cache, "/t", &children.observer);
	cache_stage_turn(stage);
	memory_on_task(stage->registry, leave_lists_unanswered, NULL);
	cache_stage_ask(stage, &outcome, "/t", CACHE_LIST, "", true);
	cache_stage_turn(stage);
	cr_assert_str_eq(buffer_text(&children.log), " S");
	memory_on_task(stage->registry, NULL, NULL);
	registry_dispatch(stage->registry, registry_deadline_ms(stage->registry));
	cache_stage_turn(stage);
	cr_assert_str_eq(buffer_text(&children.log), " S F");
	cr_assert_str_eq(buffer_text(&self.log), "", "it follows no list");
	leave(&self);
	leave(&children);
}

static bool is_read(struct cache_stage *stage, const char *path)
{
	return cache_stage_data(stage, path) != NULL;
}

STAGED(of_children_an_observer_reads_nothing_below)
{
	struct cache_observer observer = { .scope = CACHE_CHILDREN_TOO };
	memory_put(stage->registry, "/s", "");
	memory_put(stage->registry, "/s/a", "");
	memory_put(stage->registry, "/s/a/x", "");
	cache_observe(stage->cache, "/s", &observer);
	cache_stage_turn(stage);
	cr_assert_str_eq(cache_stage_data(stage, "/s/a")->data, "");
	cr_assert_null(cache_stage_list(stage, "/s/a"));
	cr_assert_not(is_read(stage, "/s/a/x"));
	cache_unobserve(&observer);
}

static void set_warm(struct cache_stage *stage, char *path)
{
	char *warm[] = { path };
	cache_set_options(stage->cache,
		&(struct cache_options){ .resync_ms = 600000,
			.max_size_bytes = 1024 * 1024,
			.warm = warm,
			.warm_count = path != NULL });
	cache_stage_turn(stage);
}

STAGED(warm_paths_are_alone_or_trees_and_change_with_the_options)
{
	memory_put(stage->registry, "/s", "");
	memory_put(stage->registry, "/s/a", "");
	set_warm(stage, (char[]){ "/s" });
	cr_assert(is_read(stage, "/s"));
	cr_assert_not(is_read(stage, "/s/a"));
	set_warm(stage, (char[]){ "/" });
	cr_assert(is_read(stage, "/"));
	cr_assert_not(is_read(stage, "/s/a"));
	set_warm(stage, (char[]){ "/**" });
	cr_assert(is_read(stage, "/s/a"));
	cr_assert_eq(list_count(&stage->cache->follow.observers), 1);
	set_warm(stage, NULL);
	cr_assert(list_empty(&stage->cache->follow.observers));
}

/* Of a reload during an outage. */
STAGED(warm_paths_that_come_while_the_registry_is_away_are_read_when_it_is_back)
{
	memory_put(stage->registry, "/s", "");
	memory_put(stage->registry, "/s/a", "");
	memory_put(stage->registry, "/s/a/x", "");
	memory_set_state(stage->registry, REGISTRY_AWAY);
	cache_stage_turn(stage);
	set_warm(stage, (char[]){ "/s/**" });
	memory_set_state(stage->registry, REGISTRY_CONNECTED);
	cache_stage_turn(stage);
	cr_assert(is_read(stage, "/s/a/x"));
	set_warm(stage, NULL);
}

Test(cache_follow, warm_subtrees_are_loaded_before_anybody_asks)
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

/* ---- what was saved ---- */

/* Saves what an observer of /s has read: the nodes /s, /s/a and /s/b. */
static void save_tree(char *ret_folder)
{
	struct cache_stage stage;
	struct watcher watcher;
	struct err err = ERR_INIT;
	scratch_folder(ret_folder);
	open_stage(&stage);
	memory_put(stage.registry, "/s", "");
	memory_put(stage.registry, "/s/a", "");
	memory_put(stage.registry, "/s/b", "");
	observe(&stage, &watcher, "/s", true);
	cr_assert_eq(save_cache(stage.cache, ret_folder, &err), 0, "%s", err.msg);
	leave(&watcher);
	cache_stage_close(&stage);
}

static void remove_saved(const char *folder)
{
	char file[SCRATCH_PATH + 16];
	snprintf(file, sizeof(file), "%s/cache", folder);
	unlink(file);
	rmdir(folder);
}

/* The registry confirms a saved value: an observer still hears when its path goes. */
Test(cache_follow, an_observer_hears_of_the_end_of_what_was_saved)
{
	struct cache_stage stage;
	struct watcher watcher;
	char folder[SCRATCH_PATH];
	save_tree(folder);
	open_stage(&stage);
	memory_put(stage.registry, "/s", "");
	memory_put(stage.registry, "/s/a", "");
	memory_put(stage.registry, "/s/b", "");
	cache_load(stage.cache, folder);
	cache_stage_turn(&stage);
	observe(&stage, &watcher, "/s", true);
	buffer_clear(&watcher.log);
	memory_remove(stage.registry, "/s/a");
	cache_stage_turn(&stage);
	cr_assert_str_eq(buffer_text(&watcher.log), " D/s/a");
	leave(&watcher);
	cache_stage_close(&stage);
	remove_saved(folder);
}

/* Between two lists that name a path, its value can stay the same: its absence was doubted. */
Test(cache_follow, an_observer_hears_of_what_is_listed_again_with_the_same_value)
{
	struct cache_stage stage;
	struct watcher before;
	struct watcher watcher;
	char folder[SCRATCH_PATH];
	save_tree(folder);
	open_stage(&stage);
	memory_put(stage.registry, "/s", "");
	memory_put(stage.registry, "/s/b", "");
	memory_set_state(stage.registry, REGISTRY_AWAY);
	cache_stage_turn(&stage);
	cache_load(stage.cache, folder);
	observe(&stage, &before, "/s", true);
	memory_set_state(stage.registry, REGISTRY_CONNECTED);
	cache_stage_turn(&stage);
	observe(&stage, &watcher, "/s", true);
	cr_assert_null(strstr(buffer_text(&watcher.log), "/s/a"));
	buffer_clear(&watcher.log);
	memory_put(stage.registry, "/s/a", "");
	cache_stage_turn(&stage);
	cr_assert_str_eq(buffer_text(&watcher.log), " U/s/anull");
	leave(&before);
	leave(&watcher);
	cache_stage_close(&stage);
	remove_saved(folder);
}
