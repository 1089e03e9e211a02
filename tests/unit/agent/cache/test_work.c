/* The work for many clients and nodes is done once, and spread over iterations of the loop. */

#include <criterion/criterion.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/cache/parts.h"
#include "lib/base/array.h"
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

STAGED(one_walk_serves_all_observers_of_a_tree)
{
	struct watcher first[TREES + 1];
	static struct watcher watchers[WATCHERS];
	load(stage, first);
	for (int i = 0; i < WATCHERS; i++) {
		watch(stage, &watchers[i], 0);
	}
	uint64_t before = steps_of(stage);
	one_turn(stage);
	cr_assert_eq(count_ready(watchers, WATCHERS), WATCHERS);
	cr_assert_lt(steps_of(stage) - before, 2 * NODES);
	leave(watchers, WATCHERS);
	leave(first, TREES + 1);
}

static void time_out(void *context, const struct registry_task *task, struct err *err)
{
	(void)context;
	(void)task;
	err_set(err, BERTH_TIMEOUT, "no answer");
}

/* The steps of the turns until nothing more is to be done. */
static uint64_t steps_for(struct cache_stage *stage)
{
	uint64_t before = steps_of(stage);
	cache_stage_turn(stage);
	return steps_of(stage) - before;
}

/* An observer is a step for its readiness, for each path that arrives, and for each doubt. */
STAGED(the_work_for_each_observer_and_for_each_child_counts)
{
	struct watcher first[TREES + 1];
	static struct watcher watchers[WATCHERS];
	struct cache_outcome outcome;
	load(stage, first);
	for (int i = 0; i < WATCHERS; i++) {
		watch(stage, &watchers[i], 0);
	}
	cr_expect_geq(steps_for(stage), NODES + 2 * WATCHERS);
	memory_put(stage->registry, "/t0/n0", "changed");
	cr_expect_geq(steps_for(stage), WATCHERS * (CACHE_EVENT_STEPS + 1));
	memory_on_task(stage->registry, time_out, NULL);
	cache_stage_ask(stage, &outcome, "/t0/n0", CACHE_RESOLVE, "", true);
	cr_expect_geq(steps_for(stage), WATCHERS * (CACHE_EVENT_STEPS + 2));
	memory_on_task(stage->registry, NULL, NULL);
	registry_dispatch(stage->registry, registry_deadline_ms(stage->registry));
	cache_stage_turn(stage);
	leave(watchers, WATCHERS);
	memory_put(stage->registry, "/t0/z", "");
	cr_expect_geq(steps_for(stage), NODES);
	uint64_t before = steps_of(stage);
	cr_expect_eq(
		cache_stage_ask(stage, &outcome, "/t1", CACHE_RECORDS, "", false), CACHE_WAITING);
	cr_expect_geq(steps_of(stage) - before, NODES);
	cache_cancel(&outcome.wait);
	leave(first, TREES + 1);
}

/* The registry answers some of the reads at a time, and an observer looks again behind the last. */
STAGED(a_picture_is_walked_for_its_lists_and_once_when_all_of_it_is_there)
{
	static const struct {
		enum cache_scope scope;
		unsigned steps; /* for each child */
	} cases[] = { { CACHE_CHILDREN_TOO, 4 }, { CACHE_TREE, 6 } };
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct watcher watcher;
		watch_as(stage, &watcher, (int)i, cases[i].scope);
		uint64_t steps = 0;
		for (int turns = 0; turns < 20 && !watcher.ready; turns++) {
			steps += steps_for(stage);
		}
		cr_expect_eq(watcher.ready, 1);
		cr_expect_lt(steps, cases[i].steps * NODES + NODES / 2);
		leave(&watcher, 1);
	}
}

/* The walks are more than a loop iteration may do. */
STAGED(pictures_of_many_trees_are_complete_over_several_turns)
{
	enum { ROUNDS = 3, ALL = ROUNDS * TREES };
	struct watcher first[TREES + 1];
	struct watcher all[ALL];
	load(stage, first);
	for (int i = 0; i < ALL; i++) {
		watch_as(
			stage, &all[i], i % TREES, i / TREES % 2 ? CACHE_CHILDREN_TOO : CACHE_TREE);
	}
	struct watcher top;
	watch_all(stage, &top);
	int turns = 0;
	for (; (!top.ready || count_ready(all, ALL) < ALL) && turns < 100; turns++) {
		uint64_t before = steps_of(stage);
		one_turn(stage);
		cr_assert_leq(steps_of(stage) - before, CACHE_TURN_STEPS + ALL);
	}
	cr_assert_eq(count_ready(all, ALL) + top.ready, ALL + 1);
	cr_assert_eq(turns, 2);
	cache_unobserve(&top.observer);
	leave(all, ALL);
	leave(first, TREES + 1);
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

/* Everything is known: the walk alone takes the turns. */
STAGED(a_walk_of_one_tree_takes_several_turns_and_ends_with_its_observers)
{
	struct watcher first[TREES + 1];
	struct watcher second;
	struct watcher third;
	ev_prepare prepare;
	load(stage, first);
	begin_small_turns(stage, &prepare);
	watch_all(stage, &second);
	int turns = 0;
	for (; !second.ready && turns < 1000; turns++) {
		uint64_t before = steps_of(stage);
		one_turn(stage);
		cr_assert_leq(steps_of(stage) - before, CACHE_TURN_STEPS + 2);
	}
	cr_assert_geq(turns, TREES * NODES / SLICE);
	cr_assert_lt(turns, 2 * TREES * NODES / SLICE);

	cache_unobserve(&second.observer);
	watch_all(stage, &second);
	one_turn(stage);
	cr_assert_eq(stage->cache->follow.tree.root, second.observer.node);
	cache_unobserve(&second.observer);
	cr_assert_not_null(stage->cache->follow.tree.root, "others observe the path");
	leave(first, TREES + 1);
	cr_assert_null(stage->cache->follow.tree.root);
	watch(stage, &third, 0);
	for (turns = 0; !third.ready && turns < 1000; turns++) {
		one_turn(stage);
	}
	cr_assert_eq(third.ready, 1);
	cache_unobserve(&third.observer);
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

STAGED(snapshots_of_one_turn_are_written_once)
{
	struct watcher first[TREES + 1];
	struct buffer one;
	struct buffer other;
	load(stage, first);
	buffer_init(&one, SIZE_MAX);
	buffer_init(&other, SIZE_MAX);
	uint64_t before = steps_of(stage);
	cache_write_snapshot(&first[0].observer, &one);
	uint64_t written = steps_of(stage);
	cr_assert_gt(written - before, NODES);
	cache_write_snapshot(&first[0].observer, &other);
	cr_assert_eq(steps_of(stage), written);
	cr_assert_str_eq(buffer_text(&one), buffer_text(&other));
	buffer_clear(&other);
	cache_write_snapshot(&first[1].observer, &other);
	cr_assert_eq(strncmp(buffer_text(&other), "{\"/t1\"", 6), 0);
	buffer_clear(&other);
	memory_put(stage->registry, "/t0/n0", cache_stage_record("new"));
	cache_stage_turn(stage);
	cache_write_snapshot(&first[0].observer, &other);
	cr_assert_not_null(strstr(buffer_text(&other), "new"));
	buffer_finish(&one);
	buffer_finish(&other);
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

static void ask_late(struct ev_loop *loop, ev_prepare *prepare, int events)
{
	struct late_asker *asker = prepare->data;
	(void)loop;
	(void)events;
	asker->ready = asker->ready || ask_for_snapshot(asker->stage, asker->watcher);
}

/* As HTTP does, which writes at the end of a turn what the turn has brought. */
STAGED(a_text_that_is_asked_for_behind_the_end_of_each_turn_is_written_in_the_end)
{
	struct watcher first[TREES + 1];
	struct late_asker asker = { stage, &first[TREES], false };
	ev_prepare prepare;
	load(stage, first);
	ev_prepare_init(&prepare, ask_late);
	ev_set_priority(&prepare, EV_MINPRI);
	prepare.data = &asker;
	ev_prepare_start(stage->loop, &prepare);
	int turns = 0;
	for (; !asker.ready && turns < 1000; turns++) {
		one_turn(stage);
	}
	cr_assert_gt(turns, TURNS / 2);
	cr_assert_lt(turns, 1000);
	check_snapshot(&first[TREES], ALL_NODES);
	ev_prepare_stop(stage->loop, &prepare);
	leave(first, TREES + 1);
}

STAGED(a_text_that_somebody_waits_for_goes_on_before_another_one_begins)
{
	struct watcher first[TREES + 1];
	load(stage, first);
	for (bool ready = false; !ready;) {
		one_turn(stage);
		ready = ask_for_snapshot(stage, &first[TREES]);
		cr_assert(ready || !ask_for_snapshot(stage, &first[0]));
		cr_assert_eq(stage->cache->follow.written.root, first[TREES].observer.node);
	}
	/* Complete, it makes room; and so does one that nobody asks for any more. */
	cr_assert(ask_for_snapshot(stage, &first[0]));
	one_turn(stage);
	one_turn(stage);
	cr_assert_not(ask_for_snapshot(stage, &first[TREES]));
	one_turn(stage);
	cr_assert_not(ask_for_snapshot(stage, &first[0]));
	one_turn(stage);
	cr_assert(ask_for_snapshot(stage, &first[0]));
	cache_unobserve(&first[0].observer);
	cr_assert_null(stage->cache->follow.written.root);
	leave(first, TREES + 1);
}

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
