/* Lists of children and the nodes that they name. */
#include <stdio.h>
#include <string.h>

#include "lib/base/clock.h"
#include "lib/base/path.h"
#include "lib/registry/internal.h"
#include "lib/registry/value.h"
#include "tests/support/core_stage.h"

/* ---- list ---- */

/* A list of children and the paths in it agree, at every moment that a user can see. */

#define CONNECTED(name) CONNECTED_TO(registry_list, name)

enum { TURNS = 10, RETRIED_MS = 120000 };

/* The answers of a user who watches /t and /t/a. */
struct user {
	struct registry_watch *list_watch;
	struct registry_watch *watch;
	struct answer list;
	struct answer seen;
};

static void watch_both(struct registry *registry, struct user *user)
{
	*user = (struct user){ .watch = NULL };
	memory_put(registry, "/t", "");
	memory_put(registry, "/t/a", "old");
	memory_put(registry, "/t/b", "other");
	user->watch = registry_watch(
		registry, "/t/a", REGISTRY_WATCH_DATA, answer_take, &user->seen);
	client_wait_calls(&user->seen, 1);
	user->list_watch = registry_watch(
		registry, "/t", REGISTRY_WATCH_CHILDREN, answer_take, &user->list);
	client_wait_calls(&user->list, 1);
}

static void user_finish(struct user *user)
{
	answer_clear(&user->list);
	answer_clear(&user->seen);
}

static void stand_still(struct registry *registry, int64_t now_ms)
{
	for (int i = 0; i < TURNS; i++) {
		registry_dispatch(registry, now_ms);
	}
}

/* Nothing is heard of the path, nor of what is below it. */
static void keep_back(void *context, const struct registry_task *task, struct err *err)
{
	if (path_is_under(task->path, context)) {
		err_set(err, BERTH_REGISTRY_UNAVAILABLE, "no answer");
	}
}

/* Its answer comes behind that of a later read of a path which was made again meanwhile. */
CONNECTED(a_list_whose_answer_was_overtaken_ends_nothing)
{
	struct user user;
	watch_both(registry, &user);
	int64_t now_ms = clock_monotonic_ms();
	memory_be_late(registry, "/t");
	memory_remove(registry, "/t/a");
	stand_still(registry, now_ms);
	cr_assert_eq(user.seen.calls + user.list.calls, 2, "the list is still to be answered");
	memory_put(registry, "/t/a", "new");
	registry_watch_refresh(user.watch);
	stand_still(registry, now_ms);
	cr_assert_str_eq(user.seen.data, "new");
	cr_assert_eq(user.seen.calls, 2);
	memory_answer_late(registry);
	stand_still(registry, now_ms);
	cr_assert_str_eq(user.seen.data, "new");
	cr_assert_eq(user.seen.calls, 2);
	cr_assert_eq(user.list.calls, 1, "no list came that lacks it");
	user_finish(&user);
}

/* ---- what a user knew before ---- */

static const struct registry_value *value_of(const char *data, char *const *children, size_t count)
{
	const struct registry_result result = { .data = data,
		.data_len = data ? strlen(data) : 0,
		.children = children,
		.children_count = count };
	const struct registry_value *value = registry_value_copy(&result);
	cr_assert_not_null(value);
	return value;
}

CONNECTED(a_known_value_that_waits_to_be_read_ends_with_the_first_list)
{
	static struct answer others[2 * REGISTRY_MAX_IN_FLIGHT];
	struct answer seen = { 0 };
	struct answer list = { 0 };
	char path[64];
	const struct registry_value *known = value_of("saved", NULL, 0);
	memory_put(registry, "/t", "");
	for (size_t i = 0; i < 2 * REGISTRY_MAX_IN_FLIGHT; i++) {
		snprintf(path, sizeof(path), "/other%zu", i);
		registry_watch(registry, path, REGISTRY_WATCH_DATA, answer_take, &others[i]);
	}
	registry_watch_known(registry, "/t/a", REGISTRY_WATCH_DATA, known, answer_take, &seen);
	registry_value_release(known);
	registry_watch_hurry(
		registry_watch(registry, "/t", REGISTRY_WATCH_CHILDREN, answer_take, &list));
	memory_on_task(registry, keep_back, (void *)(uintptr_t) "/t/a");
	client_wait_calls(&list, 1);
	cr_assert_eq(others[2 * REGISTRY_MAX_IN_FLIGHT - 1].calls, 0);
	assert_answer(&seen, "PathNotFound");
	for (size_t i = 0; i < 2 * REGISTRY_MAX_IN_FLIGHT; i++) {
		answer_clear(&others[i]);
	}
	answer_clear(&seen);
	answer_clear(&list);
}

/* ---- follow ---- */

/* States that a watch takes from another one, its leader, instead of reading them. */

enum { LONG_MS = 60000 };

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
