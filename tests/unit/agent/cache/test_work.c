/* The work for many clients and nodes is done once, and spread over iterations of the loop. */

#include <criterion/criterion.h>

#include <stdio.h>
#include <string.h>

#include "agent/cache/parts.h"
#include "tests/support/cache_stage.h"
#include "tests/support/memory_backend.h"
#include "tests/support/staged.h"

enum { TREES = 8, NODES = 1100, WATCHERS = 100, PATH_BYTES = 40 };

struct watcher {
	struct cache_observer observer;
	int ready;
	int events;
};

static struct cache_stage *open_stage(struct cache_stage *stage)
{
	cache_stage_open(stage,
		&(struct cache_options){
			.resync_ms = 600000, .max_size_bytes = (size_t)64 * 1024 * 1024 });
	char path[PATH_BYTES];
	for (int tree = 0; tree < TREES; tree++) {
		snprintf(path, sizeof(path), "/t%d", tree);
		memory_put(stage->registry, path, "");
		for (int i = 0; i < NODES; i++) {
			snprintf(path, sizeof(path), "/t%d/n%d", tree, i);
			memory_put(stage->registry, path, "");
		}
	}
	return stage;
}

#define STAGED(name)                                                                               \
	STAGED_TEST(cache_work, name, struct cache_stage *, stage,                                 \
		open_stage(&(struct cache_stage){ 0 }), cache_stage_close)

static uint64_t steps_of(const struct cache_stage *stage)
{
	struct cache_stats stats;
	cache_get_stats(stage->cache, &stats);
	return stats.steps;
}

static void one_turn(struct cache_stage *stage)
{
	registry_dispatch(stage->registry, stage->now_ms);
	ev_run(stage->loop, EVRUN_NOWAIT);
}

static void on_ready(void *context)
{
	((struct watcher *)context)->ready++;
}

static void on_event(void *context, enum cache_event event, const char *path, const char *record)
{
	(void)event;
	(void)path;
	(void)record;
	((struct watcher *)context)->events++;
}

static void watch_as(
	struct cache_stage *stage, struct watcher *watcher, int tree, enum cache_scope scope)
{
	char path[PATH_BYTES];
	snprintf(path, sizeof(path), "/t%d", tree);
	*watcher = (struct watcher){ .observer = { .scope = scope,
					     .on_ready = on_ready,
					     .on_event = on_event,
					     .context = watcher } };
	cache_observe(stage->cache, path, &watcher->observer);
}

static void watch(struct cache_stage *stage, struct watcher *watcher, int tree)
{
	watch_as(stage, watcher, tree, CACHE_TREE);
}

static void watch_all(struct cache_stage *stage, struct watcher *watcher)
{
	*watcher = (struct watcher){
		.observer = { .scope = CACHE_TREE, .on_ready = on_ready, .context = watcher }
	};
	cache_observe(stage->cache, "/", &watcher->observer);
}

static void leave(struct watcher *watchers, int count)
{
	for (int i = 0; i < count; i++) {
		cache_unobserve(&watchers[i].observer);
	}
}

static int count_ready(const struct watcher *watchers, int count)
{
	int ready = 0;
	for (int i = 0; i < count; i++) {
		ready += watchers[i].ready;
	}
	return ready;
}

/* Everything is in the cache, and live. */
static void load(struct cache_stage *stage, struct watcher first[TREES + 1])
{
	for (int tree = 0; tree < TREES; tree++) {
		watch(stage, &first[tree], tree);
	}
	watch_all(stage, &first[TREES]);
	for (int i = 0; i < 1000 && count_ready(first, TREES + 1) < TREES + 1; i++) {
		one_turn(stage);
	}
	cr_assert_eq(count_ready(first, TREES + 1), TREES + 1);
}

enum { SLICE = 300 };

static void on_turn(struct ev_loop *loop, ev_prepare *prepare, int events)
{
	const struct cache_stage *stage = prepare->data;
	(void)loop;
	(void)events;
	cache_work(&stage->cache->turn, CACHE_TURN_STEPS - SLICE);
}

/* Little of each turn is left for the cache. */
static void begin_small_turns(struct cache_stage *stage, ev_prepare *prepare)
{
	ev_prepare_init(prepare, on_turn);
	ev_set_priority(prepare, EV_MAXPRI);
	prepare->data = stage;
	ev_prepare_start(stage->loop, prepare);
}

static size_t count_nodes(const char *text)
{
	size_t nodes = 0;
	for (const char *at = text; (at = strstr(at, "\"/")); at++) {
		nodes++;
	}
	return nodes;
}

/* The picture holds all nodes of the registry, and no other. */
static void check_picture(struct watcher *watcher, const char *const *there, const char *gone)
{
	struct buffer text;
	buffer_init(&text, SIZE_MAX);
	cache_write_snapshot(&watcher->observer, &text);
	cr_assert_eq(count_nodes(buffer_text(&text)), TREES * (NODES + 1) + 1 + 2 - 1);
	for (; *there; there++) {
		cr_assert_not_null(strstr(buffer_text(&text), *there), "%s", *there);
	}
	cr_assert_null(strstr(buffer_text(&text), gone));
	buffer_finish(&text);
}

/* Paths come and go before and behind the place where the walk is. */
STAGED(a_walk_in_slices_is_complete_whatever_comes_and_goes)
{
	static const char *const there[] = { "\"/t0/a\":", "\"/t7/z\":", NULL };
	struct watcher top;
	ev_prepare prepare;
	begin_small_turns(stage, &prepare);
	watch_all(stage, &top);
	int turns = 0;
	for (; !top.ready && turns < 10000; turns++) {
		if (turns == 40) {
			memory_put(stage->registry, "/t0/a", "");
			memory_put(stage->registry, "/t7/z", "");
			memory_remove(stage->registry, "/t0/n0");
		}
		one_turn(stage);
	}
	cr_assert_eq(top.ready, 1);
	cr_assert_gt(turns, 40);
	check_picture(&top, there, "\"/t0/n0\":");
	cache_unobserve(&top.observer);
	ev_prepare_stop(stage->loop, &prepare);
}

STAGED(events_of_many_changes_for_many_observers_take_several_turns)
{
	enum { CHANGES = 400 };
	struct watcher first[TREES + 1];
	static struct watcher watchers[WATCHERS];
	char path[PATH_BYTES];
	load(stage, first);
	for (int i = 0; i < WATCHERS; i++) {
		watch(stage, &watchers[i], 0);
	}
	one_turn(stage);
	for (int i = 0; i < CHANGES; i++) {
		snprintf(path, sizeof(path), "/t0/n%d", i);
		memory_put(stage->registry, path, "changed");
	}
	int turns = 0;
	for (; watchers[0].events < CHANGES && turns < 10000; turns++) {
		uint64_t before = steps_of(stage);
		one_turn(stage);
		cr_assert_lt(steps_of(stage) - before,
			CACHE_TURN_STEPS + (WATCHERS + 1) * (CACHE_EVENT_STEPS + 2));
	}
	for (int i = 0; i < WATCHERS; i++) {
		cr_assert_eq(watchers[i].events, CHANGES, "observer %d: %d", i, watchers[i].events);
	}
	cr_assert_gt(turns, WATCHERS * CHANGES * CACHE_EVENT_STEPS / CACHE_TURN_STEPS);
	leave(watchers, WATCHERS);
	leave(first, TREES + 1);
}

enum { ALL_NODES = TREES * (NODES + 1) + 1, TURNS = 5 };

/* Whether it is ready; half of a turn is for that. */
static bool ask_for_snapshot(struct cache_stage *stage, struct watcher *watcher)
{
	uint64_t before = steps_of(stage);
	bool ready = cache_snapshot_ready(&watcher->observer);
	cr_assert_leq(steps_of(stage) - before, CACHE_TURN_STEPS / 2);
	return ready;
}

static int turns_until_ready(struct cache_stage *stage, struct watcher *watcher)
{
	int turns = 0;
	for (bool ready = false; !ready && turns < 1000; turns++) {
		one_turn(stage);
		ready = ask_for_snapshot(stage, watcher);
	}
	return turns;
}

static void check_snapshot(struct watcher *watcher, size_t nodes)
{
	struct buffer text;
	buffer_init(&text, SIZE_MAX);
	cache_write_snapshot(&watcher->observer, &text);
	cr_assert_eq(count_nodes(buffer_text(&text)), nodes);
	buffer_finish(&text);
}

STAGED(the_text_of_a_large_picture_takes_several_turns_and_serves_all)
{
	struct watcher first[TREES + 1];
	load(stage, first);
	cr_assert_eq(turns_until_ready(stage, &first[TREES]), TURNS);
	for (int i = 0; i < 3; i++) {
		one_turn(stage);
		cr_assert(ask_for_snapshot(stage, &first[TREES]));
		uint64_t before = steps_of(stage);
		check_snapshot(&first[TREES], ALL_NODES);
		cr_assert_eq(steps_of(stage), before);
	}
	/* Nobody asks any more. */
	one_turn(stage);
	one_turn(stage);
	one_turn(stage);
	cr_assert_null(stage->cache->follow.written.root);
	leave(first, TREES + 1);
}

STAGED(a_change_of_what_is_written_begins_the_text_anew_and_another_one_does_not)
{
	struct watcher first[TREES + 1];
	load(stage, first);
	struct cache_written *written = &stage->cache->follow.written;
	for (int i = 0; i < TURNS / 2; i++) {
		one_turn(stage);
		cr_assert_not(ask_for_snapshot(stage, &first[TREES]));
	}
	size_t so_far = written->text.len;
	memory_put(stage->registry, "/t7/n0", cache_stage_record("behind"));
	memory_put(stage->registry, "/t7/z", cache_stage_record("new"));
	one_turn(stage);
	cr_assert_not(ask_for_snapshot(stage, &first[TREES]));
	cr_assert_gt(written->text.len, so_far);
	cr_assert_eq(written->overtaken, 0);
	memory_put(stage->registry, "/t0/n0", cache_stage_record("before"));
	for (int i = 0; i < 3 && written->overtaken == 0; i++) {
		one_turn(stage);
		cr_assert_not(ask_for_snapshot(stage, &first[TREES]));
	}
	cr_assert_eq(written->overtaken, 1);
	cr_assert_lt(written->text.len, so_far);
	cr_assert_lt(turns_until_ready(stage, &first[TREES]), 1000);
	cr_assert_not_null(strstr(buffer_text(&written->text), "before"));
	cr_assert_not_null(strstr(buffer_text(&written->text), "behind"));
	cr_assert_not_null(strstr(buffer_text(&written->text), "\"/t7/z\""));
	check_snapshot(&first[TREES], ALL_NODES + 1);
	/* And so does a change behind its end. */
	memory_remove(stage->registry, "/t7/z");
	for (int i = 0; i < 3 && written->complete; i++) {
		one_turn(stage);
		(void)ask_for_snapshot(stage, &first[TREES]);
	}
	cr_assert_lt(turns_until_ready(stage, &first[TREES]), 1000);
	check_snapshot(&first[TREES], ALL_NODES);
	leave(first, TREES + 1);
}

STAGED(the_text_of_a_picture_that_changes_all_the_time_is_written_in_the_end)
{
	struct watcher first[TREES + 1];
	load(stage, first);
	int turns = 0;
	for (bool ready = false; !ready && turns < 100; turns++) {
		memory_put(stage->registry, "/t0/n0", cache_stage_record(turns % 2 ? "a" : "b"));
		one_turn(stage);
		ready = cache_snapshot_ready(&first[TREES].observer);
	}
	cr_assert_lt(turns, 100);
	check_snapshot(&first[TREES], ALL_NODES);
	leave(first, TREES + 1);
}

struct late_asker {
	struct cache_stage *stage;
	struct watcher *watcher;
	bool ready;
};

/* Each filter has an answer of its own, and each looks at all children of the directory. */
STAGED(answers_over_children_that_many_ask_for_at_once_take_several_turns)
{
	enum { ASKERS = 20, ALL = ASKERS * TREES };
	struct watcher first[TREES + 1];
	static struct cache_outcome outcomes[ALL];
	char path[PATH_BYTES];
	char api[PATH_BYTES];
	load(stage, first);
	uint64_t before = steps_of(stage);
	int waiting = 0;
	for (int i = 0; i < ALL; i++) {
		snprintf(path, sizeof(path), "/t%d", i % TREES);
		snprintf(api, sizeof(api), "http://%d", i);
		struct cache_filter filter = { .api = api };
		struct cache_query query = {
			.path = path, .kind = CACHE_ENDPOINTS, .filter = &filter, .max_age_ms = -1
		};
		waiting += cache_stage_ask_query(stage, &outcomes[i], &query, "") == CACHE_WAITING;
	}
	cr_assert_lt(steps_of(stage) - before, CACHE_TURN_STEPS + 2 * NODES);
	cr_assert_eq(waiting, ALL, "an answer of so many children is written in slices");
	int answered = 0;
	for (int turn = 0; turn < 100000 && answered < ALL; turn++) {
		before = steps_of(stage);
		one_turn(stage);
		cr_assert_lt(steps_of(stage) - before, CACHE_TURN_STEPS + 2 * NODES);
		answered = 0;
		for (int i = 0; i < ALL; i++) {
			answered += outcomes[i].calls;
		}
	}
	cr_assert_eq(answered, ALL);
	leave(first, TREES + 1);
}
