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
