/* States that a watch takes from another one, its leader, instead of reading them. */
#include "tests/support/core_stage.h"

#include <stdio.h>
#include <string.h>

#include "lib/base/clock.h"
#include "lib/registry/internal.h"

#define CONNECTED(name) CONNECTED_TO(registry_follow, name)

enum { TURNS = 10, LONG_MS = 60000 };

/* How often a path was read, and the path that another client removes before the next such read. */
struct reads {
	struct registry *registry;
	const char *path;
	size_t count;
	const char *removes_at;
	const char *removes;
};

static void on_task(void *context, const struct registry_task *task, struct err *err)
{
	struct reads *reads = context;
	(void)err;
	reads->count += strcmp(task->path, reads->path) == 0;
	if (reads->removes && strcmp(task->path, reads->removes_at) == 0) {
		memory_remove(reads->registry, reads->removes);
		reads->removes = NULL;
	}
}

static struct registry_watch *watch_now(struct registry *registry, const char *path,
	enum registry_watch_kind kind, struct answer *answer)
{
	struct registry_watch *watch = registry_watch(registry, path, kind, answer_take, answer);
	client_wait_calls(answer, answer->calls + 1);
	return watch;
}

/* A list at `path`, and an absent node below it that is watched, too. */
static void assert_absent_unread(struct registry *registry, const char *path, const char *below)
{
	struct answer list = { 0 };
	struct answer seen = { 0 };
	struct reads reads = { .registry = registry, .path = below };
	watch_now(registry, path, REGISTRY_WATCH_CHILDREN, &list);
	cr_assert_gt(list.children_count, 0);
	memory_on_task(registry, on_task, &reads);
	watch_now(registry, below, REGISTRY_WATCH_DATA, &seen);
	assert_answer(&seen, "PathNotFound");
	cr_assert_eq(reads.count, 0);
	answer_clear(&list);
	answer_clear(&seen);
}

CONNECTED(an_absent_child_among_others_needs_no_read)
{
	memory_put(registry, "/t", "");
	memory_put(registry, "/t/b", "");
	memory_put(registry, "/t/d", "");
	assert_absent_unread(registry, "/t", "/t/c");
}

CONNECTED(an_absent_child_of_the_root_needs_no_read)
{
	memory_put(registry, "/b", "");
	assert_absent_unread(registry, "/", "/a");
}

static void deny_lists(void *context, const struct registry_task *task, struct err *err)
{
	(void)context;
	if (task->operation == REGISTRY_OP_CHILDREN) {
		err_set(err, BERTH_NO_PATH_PERMISSIONS, "no list of %s", task->path);
	}
}

CONNECTED(a_list_that_may_not_be_read_makes_no_child_absent)
{
	struct answer list = { 0 };
	struct answer seen = { 0 };
	memory_put(registry, "/t", "");
	memory_put(registry, "/t/a", "x");
	memory_on_task(registry, deny_lists, NULL);
	watch_now(registry, "/t", REGISTRY_WATCH_CHILDREN, &list);
	assert_answer(&list, "NoPathPermissions");
	watch_now(registry, "/t/a", REGISTRY_WATCH_DATA, &seen);
	assert_answer(&seen, "OK");
	answer_clear(&list);
	answer_clear(&seen);
}

/* The states of a list, and whether that of another watch held when the last one came. */
struct beside {
	struct answer list;
	const struct registry_watch *watch;
	bool holds;
};

static void take_beside(void *context, const struct registry_result *result)
{
	struct beside *beside = context;
	beside->holds = beside->watch && registry_watch_holds(beside->watch);
	answer_take(&beside->list, result);
}

CONNECTED(a_list_that_changes_elsewhere_leaves_no_doubt_about_an_absent_child)
{
	struct beside beside = { .watch = NULL };
	struct answer seen = { 0 };
	memory_put(registry, "/t", "");
	registry_watch(registry, "/t", REGISTRY_WATCH_CHILDREN, take_beside, &beside);
	client_wait_calls(&beside.list, 1);
	beside.watch = watch_now(registry, "/t/a", REGISTRY_WATCH_DATA, &seen);
	memory_set_heard_ms(registry, 100);
	memory_put(registry, "/t/b", "x");
	client_wait_calls(&beside.list, 2);
	cr_assert(beside.holds);
	memory_set_heard_ms(registry, 200);
	cr_assert(registry_watch_holds(beside.watch));
	cr_assert_eq(registry_heard_ms(registry, 9000), 200);
	cr_assert_eq(seen.calls, 1);
	answer_clear(&beside.list);
	answer_clear(&seen);
}

/* The list is read for another child, and the notification of the deletion comes behind it. */
CONNECTED(a_deletion_that_the_list_has_told_already_needs_no_read)
{
	struct answer list = { 0 };
	struct answer seen = { 0 };
	struct reads reads = { registry, "/t/a", 0, "/t", "/t/a" };
	memory_put(registry, "/t", "");
	memory_put(registry, "/t/a", "x");
	watch_now(registry, "/t", REGISTRY_WATCH_CHILDREN, &list);
	struct registry_watch *watch = watch_now(registry, "/t/a", REGISTRY_WATCH_DATA, &seen);
	memory_on_task(registry, on_task, &reads);
	memory_put(registry, "/t/b", "x");
	client_wait_calls(&list, 2);
	cr_assert_str_eq(answer_children(&list), "/t/b");
	client_wait(is_absent, &seen);
	cr_assert_eq(list.calls, 2);
	cr_assert_eq(reads.count, 0);
	cr_assert(registry_watch_holds(watch));
	answer_clear(&list);
	answer_clear(&seen);
}

/* How old the oldest state is when `path` is read, and the server was heard again before. */
struct look {
	struct registry *registry;
	const char *path;
	int64_t heard_ms;
};

static void look_at_read(void *context, const struct registry_task *task, struct err *err)
{
	struct look *look = context;
	(void)err;
	if (strcmp(task->path, look->path) == 0) {
		memory_set_heard_ms(look->registry, 200);
		look->heard_ms = registry_heard_ms(look->registry, 9000);
	}
}

CONNECTED(a_record_is_as_old_as_the_announcement_of_its_deletion_until_it_is_read)
{
	struct answer seen = { 0 };
	struct look look = { .registry = registry, .path = "/t/a" };
	memory_put(registry, "/t", "");
	memory_put(registry, "/t/a", "x");
	watch_now(registry, "/t/a", REGISTRY_WATCH_DATA, &seen);
	memory_set_heard_ms(registry, 100);
	memory_on_task(registry, look_at_read, &look);
	memory_remove(registry, "/t/a");
	client_wait(is_absent, &seen);
	cr_assert_eq(look.heard_ms, 100);
	cr_assert_eq(registry_heard_ms(registry, 9000), 200);
	answer_clear(&seen);
}

/* So many other changes came before that the list itself still waits for its turn. */
CONNECTED(a_deletion_needs_no_read_when_the_list_waits_to_be_read)
{
	static struct answer others[REGISTRY_MAX_IN_FLIGHT];
	struct answer list = { 0 };
	struct answer seen = { 0 };
	struct reads reads = { .registry = registry, .path = "/t/a" };
	char path[64];
	memory_put(registry, "/t", "");
	memory_put(registry, "/t/a", "x");
	for (size_t i = 0; i < REGISTRY_MAX_IN_FLIGHT; i++) {
		snprintf(path, sizeof(path), "/other%zu", i);
		watch_now(registry, path, REGISTRY_WATCH_DATA, &others[i]);
	}
	watch_now(registry, "/t", REGISTRY_WATCH_CHILDREN, &list);
	watch_now(registry, "/t/a", REGISTRY_WATCH_DATA, &seen);
	for (size_t i = 0; i < REGISTRY_MAX_IN_FLIGHT; i++) {
		snprintf(path, sizeof(path), "/other%zu", i);
		memory_put(registry, path, "new");
	}
	memory_remove(registry, "/t/a");
	memory_on_task(registry, on_task, &reads);
	client_wait(is_absent, &seen);
	cr_assert_eq(reads.count, 0);
	for (size_t i = 0; i < REGISTRY_MAX_IN_FLIGHT; i++) {
		answer_clear(&others[i]);
	}
	answer_clear(&list);
	answer_clear(&seen);
}

/*
 * A node is watched by both of its paths. One of them has been confirmed behind a reconnect, so
 * that it alone has a notification; the memory has two nodes, and both go.
 */
Test(registry_follow, a_deletion_told_by_the_other_path_needs_no_read_of_an_unconfirmed_one)
{
	const struct registry_options options = { .foreign_paths = true };
	struct registry *registry = memory_open("core", &options);
	struct answer list = { 0 };
	struct answer twin = { 0 };
	struct answer seen = { 0 };
	struct reads reads = { .registry = registry, .path = "/t/a" };
	client_add(registry);
	client_wait_state(registry, REGISTRY_CONNECTED);
	memory_put(registry, "/t", "");
	memory_put(registry, "/t/a", "x");
	memory_put(registry, "//t", "");
	memory_put(registry, "//t/a", "x");
	struct registry_watch *list_watch = watch_now(
		registry, "/t", REGISTRY_WATCH_CHILDREN, &list);
	struct registry_watch *twin_watch = watch_now(
		registry, "//t/a", REGISTRY_WATCH_DATA, &twin);
	watch_now(registry, "/t/a", REGISTRY_WATCH_DATA, &seen);
	int64_t now_ms = clock_monotonic_ms() + LONG_MS;
	memory_set_state(registry, REGISTRY_AWAY);
	registry_dispatch(registry, now_ms);
	memory_on_task(registry, on_task, &reads);
	memory_set_state(registry, REGISTRY_CONNECTED);
	registry_dispatch(registry, now_ms);
	registry_watch_hurry(list_watch);
	registry_watch_hurry(twin_watch);
	registry_dispatch(registry, now_ms);
	cr_assert(registry_watch_holds(list_watch) && registry_watch_holds(twin_watch));
	cr_assert_eq(seen.calls, 1, "the time of its confirmation has not come");
	memory_remove(registry, "/t/a");
	memory_remove(registry, "//t/a");
	for (int i = 0; i < TURNS; i++) {
		registry_dispatch(registry, now_ms);
	}
	assert_answer(&seen, "PathNotFound");
	cr_assert_eq(reads.count, 0);
	client_close(registry);
	answer_clear(&list);
	answer_clear(&twin);
	answer_clear(&seen);
}
