/* Pictures: the registry as a user inside the agent sees it. */

#include <criterion/criterion.h>

#include <stdio.h>
#include <string.h>

#include "lib/base/clock.h"
#include "lib/registry/backend.h"
#include "tests/support/cache_stage.h"
#include "tests/support/memory_backend.h"

struct watcher {
	struct cache_observer observer;
	int ready;
	int events;
	int refused;
	char seen[256];
};

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

static void on_refused(void *context, const struct err *err)
{
	struct watcher *watcher = context;
	watcher->refused = err->code;
}

static void visit(void *context, const struct cache_record *record)
{
	struct watcher *watcher = context;
	size_t len = strlen(watcher->seen);
	cr_assert_eq(record->len, record->data ? strlen(record->data) : 0);
	snprintf(watcher->seen + len, sizeof(watcher->seen) - len, " %s%s", record->path,
		record->data ? "" : "-");
}

static void observe(struct cache_stage *stage, struct watcher *watcher, const char *path,
	enum cache_scope scope)
{
	*watcher = (struct watcher){ .observer = { .scope = scope,
					     .on_ready = on_ready,
					     .on_event = on_event,
					     .on_refused = on_refused,
					     .context = watcher } };
	cache_observe(stage->cache, path, &watcher->observer);
	cache_stage_turn(stage);
}

static struct cache_picture look(struct watcher *watcher)
{
	watcher->seen[0] = '\0';
	return cache_read_picture(&watcher->observer, clock_monotonic_ms(), visit, watcher);
}

static void open_stage(struct cache_stage *stage)
{
	cache_stage_open(stage, &(struct cache_options){ .resync_ms = 600000 });
	memory_put(stage->registry, "/s", "");
	memory_put(stage->registry, "/s/a", cache_stage_record("one"));
	memory_put(stage->registry, "/s/a/x", cache_stage_record("below"));
	memory_put(stage->registry, "/s/b", "host:1");
}

Test(cache_picture, of_a_path_with_its_children_leaves_out_what_is_below_them)
{
	struct cache_stage stage;
	struct watcher watcher;
	struct cache_outcome outcome;
	open_stage(&stage);
	cr_assert_eq(cache_stage_look(&stage, &outcome, "/s/a", CACHE_RECORDS), 0);
	observe(&stage, &watcher, "/s", CACHE_CHILDREN_TOO);
	cr_assert_eq(watcher.ready, 1);
	struct cache_picture picture = look(&watcher);
	cr_assert_str_eq(watcher.seen, " /s- /s/a /s/b-");
	cr_assert(picture.confirmed);
	memory_put(stage.registry, "/s/a/y", cache_stage_record("below"));
	cache_stage_turn(&stage);
	cr_assert_eq(watcher.events, 0);
	memory_put(stage.registry, "/s/c", cache_stage_record("three"));
	cache_stage_turn(&stage);
	cr_assert_eq(watcher.events, 1);
	memory_remove(stage.registry, "/s/b");
	cache_stage_turn(&stage);
	cr_assert_eq(watcher.events, 2);
	look(&watcher);
	cr_assert_str_eq(watcher.seen, " /s- /s/a /s/c");
	cache_unobserve(&watcher.observer);
	cache_stage_close(&stage);
}

Test(cache_picture, of_a_tree_holds_everything_below)
{
	struct cache_stage stage;
	struct watcher watcher;
	open_stage(&stage);
	observe(&stage, &watcher, "/s", CACHE_TREE);
	look(&watcher);
	cr_assert_str_eq(watcher.seen, " /s- /s/a /s/a/x /s/b-");
	cache_unobserve(&watcher.observer);
	cache_stage_close(&stage);
}

Test(cache_picture, is_not_confirmed_while_the_registry_is_away)
{
	struct cache_stage stage;
	struct watcher watcher;
	open_stage(&stage);
	observe(&stage, &watcher, "/s", CACHE_CHILDREN_TOO);
	memory_set_heard_ms(stage.registry, clock_monotonic_ms() - 3000);
	memory_set_state(stage.registry, REGISTRY_AWAY);
	cache_stage_turn(&stage);
	struct cache_picture picture = look(&watcher);
	cr_assert_not(picture.confirmed);
	cr_assert_geq(picture.age_ms, 3000);
	cr_assert_str_eq(watcher.seen, " /s- /s/a /s/b-", "and nothing of it is lost");
	memory_set_heard_ms(stage.registry, INT64_MIN); /* a new session, before its first answer */
	cr_assert_geq(look(&watcher).age_ms, 3000);
	cr_assert_lt(look(&watcher).age_ms, 600000);
	struct watcher other;
	observe(&stage, &other, "/t", CACHE_CHILDREN_TOO);
	cr_assert_eq(other.refused, BERTH_REGISTRY_UNAVAILABLE);
	memory_set_heard_ms(stage.registry, INT64_MAX);
	memory_set_state(stage.registry, REGISTRY_CONNECTED);
	cache_stage_turn(&stage);
	/* a user that looks does not wait for the confirmations of all other paths */
	look(&watcher);
	cache_stage_turn(&stage);
	cr_assert(look(&watcher).confirmed);
	cache_unobserve(&watcher.observer);
	cache_stage_close(&stage);
}

static void refuse_one(void *context, const struct registry_task *task, struct err *err)
{
	if (task->operation == REGISTRY_OP_GET && strcmp(task->path, context) == 0) {
		err_set(err, BERTH_REGISTRY_UNAVAILABLE, "not now");
	}
}

static void leave_unanswered(void *context, const struct registry_task *task, struct err *err)
{
	const struct registry_task *asked = context;
	if (task->operation == asked->operation && strcmp(task->path, asked->path) == 0) {
		err_set(err, BERTH_TIMEOUT, "no answer");
	}
}

/* A part of the picture gets no answer while the rest is true. */
static void check_doubt(
	const char *path, enum registry_operation operation, enum cache_answer_kind kind)
{
	struct cache_stage stage;
	struct watcher watcher;
	struct cache_outcome outcome;
	struct registry_task asked = { .operation = operation, .path = (char *)(uintptr_t)path };
	open_stage(&stage);
	observe(&stage, &watcher, "/s", CACHE_CHILDREN_TOO);
	cr_assert(look(&watcher).confirmed);
	memory_set_heard_ms(stage.registry, clock_monotonic_ms() - 5000);
	memory_on_task(stage.registry, leave_unanswered, &asked);
	cache_stage_ask(&stage, &outcome, path, kind, "", true);
	cache_stage_turn(&stage);
	memory_set_heard_ms(stage.registry, INT64_MAX);
	struct cache_picture picture = look(&watcher);
	cr_assert_not(picture.confirmed);
	cr_assert_geq(picture.age_ms, 5000, "it is as old as its oldest part");
	cr_assert_str_eq(watcher.seen, " /s- /s/a /s/b-");
	cache_unobserve(&watcher.observer);
	cache_stage_close(&stage);
}

Test(cache_picture, is_not_confirmed_while_a_record_of_it_cannot_be_read)
{
	check_doubt("/s/a", REGISTRY_OP_GET, CACHE_RESOLVE);
}

Test(cache_picture, is_not_confirmed_while_its_list_cannot_be_read)
{
	check_doubt("/s", REGISTRY_OP_CHILDREN, CACHE_LIST);
}

static void look_in_event(
	void *context, enum cache_event event, const char *path, const char *record)
{
	on_event(context, event, path, record);
	look(context);
}

Test(cache_picture, may_be_read_in_an_event_before_a_child_that_came_with_it_is_known)
{
	struct cache_stage stage;
	struct watcher watcher;
	open_stage(&stage);
	observe(&stage, &watcher, "/s", CACHE_CHILDREN_TOO);
	watcher.observer.on_event = look_in_event;
	memory_put(stage.registry, "/s", cache_stage_record("own"));
	memory_put(stage.registry, "/s/c", cache_stage_record("three"));
	cache_stage_turn(&stage);
	cr_assert_eq(watcher.events, 2);
	cr_assert_str_eq(watcher.seen, " /s /s/a /s/b- /s/c");
	cache_unobserve(&watcher.observer);
	cache_stage_close(&stage);
}

Test(cache_picture, is_ready_when_the_last_of_its_paths_is_read)
{
	struct cache_stage stage;
	struct watcher watcher;
	open_stage(&stage);
	memory_on_task(stage.registry, refuse_one, (void *)(uintptr_t) "/s/b");
	observe(&stage, &watcher, "/s", CACHE_CHILDREN_TOO);
	cr_assert_eq(watcher.ready, 0);
	cr_assert_eq(watcher.events, 0);
	memory_put(stage.registry, "/s/a", cache_stage_record("changed"));
	cache_stage_turn(&stage);
	cr_assert_eq(watcher.events, 0, "before it is ready");
	memory_on_task(stage.registry, NULL, NULL);
	stage.now_ms += 60000;
	cache_stage_turn(&stage);
	cr_assert_eq(watcher.ready, 1);
	look(&watcher);
	cr_assert_str_eq(watcher.seen, " /s- /s/a /s/b-");
	cache_unobserve(&watcher.observer);
	cache_stage_close(&stage);
}

Test(cache_picture, needs_no_events)
{
	struct cache_stage stage;
	struct watcher watcher;
	struct cache_observer silent = { .scope = CACHE_TREE };
	open_stage(&stage);
	cache_observe(stage.cache, "/s", &silent);
	observe(&stage, &watcher, "/s", CACHE_TREE);
	memory_put(stage.registry, "/s/a", cache_stage_record("changed"));
	memory_put(stage.registry, "/s/c", "");
	cache_stage_turn(&stage);
	cr_assert_eq(watcher.events, 2);
	memory_set_state(stage.registry, REGISTRY_AWAY);
	cache_stage_turn(&stage);
	cr_assert_eq(watcher.events, 3);
	cache_unobserve(&watcher.observer);
	cache_unobserve(&silent);
	cache_stage_close(&stage);
}

static void remove_first(void *context, const struct registry_task *task, struct err *err)
{
	(void)err;
	if (task->operation == REGISTRY_OP_GET && strcmp(task->path, "/s/c") == 0) {
		memory_remove(((struct cache_stage *)context)->registry, "/s/c");
	}
}

Test(cache_picture, of_a_tree_forgets_a_path_that_was_gone_when_it_was_read)
{
	struct cache_stage stage;
	struct watcher watcher;
	struct cache_stats before;
	struct cache_stats after;
	open_stage(&stage);
	observe(&stage, &watcher, "/s", CACHE_TREE);
	cache_get_stats(stage.cache, &before);
	memory_put(stage.registry, "/s/c", "");
	memory_on_task(stage.registry, remove_first, &stage);
	cache_stage_turn(&stage);
	cache_get_stats(stage.cache, &after);
	cr_assert_eq(after.paths, before.paths);
	cr_assert_eq(watcher.events, 0);
	cache_unobserve(&watcher.observer);
	cache_stage_close(&stage);
}

struct chain {
	struct cache_stage *stage;
	struct watcher *next;
};

static void observe_next(void *context)
{
	struct chain *chain = context;
	cache_observe(chain->stage->cache, "/s/a", &chain->next->observer);
}

Test(cache_picture, may_be_asked_for_when_another_one_is_ready)
{
	struct cache_stage stage;
	struct watcher next = { .observer = { .on_ready = on_ready, .context = &next } };
	struct chain chain = { &stage, &next };
	struct cache_observer first = { .on_ready = observe_next, .context = &chain };
	struct cache_outcome outcome;
	open_stage(&stage);
	cr_assert_eq(cache_stage_look(&stage, &outcome, "/s/a", CACHE_RESOLVE), 0);
	cr_assert_eq(cache_stage_look(&stage, &outcome, "/s/b", CACHE_RESOLVE), BERTH_NO_RECORD);
	cache_observe(stage.cache, "/s/b", &first);
	cache_stage_turn(&stage);
	cr_assert_eq(next.ready, 1);
	cache_unobserve(&first);
	cache_unobserve(&next.observer);
	cache_stage_close(&stage);
}

Test(cache_picture, that_cannot_fit_is_refused_at_once)
{
	struct cache_stage stage;
	struct watcher watcher;
	cache_stage_open(&stage,
		&(struct cache_options){ .resync_ms = 600000, .max_size_bytes = 256 * 1024 });
	memory_put(stage.registry, "/s", "");
	for (int i = 0; i < 2000; i++) {
		char path[32];
		snprintf(path, sizeof(path), "/s/n%d", i);
		memory_put(stage.registry, path, "");
	}
	observe(&stage, &watcher, "/s", CACHE_CHILDREN_TOO);
	cr_assert_eq(watcher.refused, BERTH_LIMIT_EXCEEDED);
	struct cache_stats stats;
	cache_get_stats(stage.cache, &stats);
	cr_assert_lt(stats.paths, 10);
	cache_stage_close(&stage);
}

Test(cache_picture, that_outgrows_the_cache_is_refused_and_the_smaller_one_stays)
{
	struct cache_stage stage;
	struct watcher watcher;
	struct watcher small;
	cache_stage_open(&stage,
		&(struct cache_options){ .resync_ms = 600000, .max_size_bytes = 256 * 1024 });
	memory_put(stage.registry, "/s", "");
	observe(&stage, &small, "/s", CACHE_SELF);
	observe(&stage, &watcher, "/s", CACHE_CHILDREN_TOO);
	cr_assert_eq(watcher.ready, 1);
	for (int i = 0; i < 2000; i++) {
		char path[32];
		snprintf(path, sizeof(path), "/s/n%d", i);
		memory_put(stage.registry, path, "");
	}
	cache_stage_turn(&stage);
	cr_assert_eq(watcher.refused, BERTH_LIMIT_EXCEEDED);
	cr_assert_eq(small.refused, 0);
	struct cache_stats stats;
	cache_get_stats(stage.cache, &stats);
	cr_assert_lt(stats.paths, 10);
	cache_unobserve(&small.observer);
	cache_stage_close(&stage);
}

static const char tricks[] = "{\"type\":\"JSONServiceRecord\",\"x\":\"a\xc2\x9b"
			     "31m\xe2\x80\xae"
			     "b\"}";
#define ESCAPED "{\"type\":\"JSONServiceRecord\",\"x\":\"a\\u009b31m\\u202eb\"}"

Test(cache_picture, a_record_that_would_play_tricks_on_a_terminal_is_escaped)
{
	struct cache_stage stage;
	struct cache_outcome outcome;
	cache_stage_open(&stage, &(struct cache_options){ .resync_ms = 600000 });
	memory_put(stage.registry, "/a", tricks);
	cr_assert_eq(cache_stage_look(&stage, &outcome, "/a", CACHE_RESOLVE), 0);
	cr_assert_str_eq(outcome.text, ESCAPED);
	cr_assert_eq(cache_stage_look(&stage, &outcome, "/", CACHE_RECORDS), 0);
	cr_assert_str_eq(outcome.text, "{\"/a\":" ESCAPED "}\n");
	cache_stage_close(&stage);
}

static void keep_record(void *context, enum cache_event event, const char *path, const char *record)
{
	(void)path;
	if (event == CACHE_UPDATED) {
		snprintf(context, 256, "%s", record);
	}
}

Test(cache_picture, followers_get_it_escaped_and_users_inside_the_agent_as_it_is_stored)
{
	struct cache_stage stage;
	struct buffer snapshot;
	char told[256] = "";
	struct cache_observer observer = { .on_event = keep_record, .context = told };
	cache_stage_open(&stage, &(struct cache_options){ .resync_ms = 600000 });
	cache_observe(stage.cache, "/a", &observer);
	cache_stage_turn(&stage);
	memory_put(stage.registry, "/a", tricks);
	cache_stage_turn(&stage);
	cr_assert_str_eq(told, ESCAPED);
	buffer_init(&snapshot, SIZE_MAX);
	cache_write_snapshot(&observer, &snapshot);
	cr_assert_str_eq(buffer_text(&snapshot), "{\"/a\":" ESCAPED "}");
	buffer_finish(&snapshot);
	cr_assert_str_eq(cache_stage_data(&stage, "/a")->data, tricks);
	cache_unobserve(&observer);
	cache_stage_close(&stage);
}
