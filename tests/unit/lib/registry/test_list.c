/* A list of children and the paths in it agree, at every moment that a user can see. */
#include "tests/support/core_stage.h"

#include <stdio.h>
#include <string.h>

#include "lib/base/clock.h"
#include "lib/base/path.h"
#include "lib/registry/internal.h"
#include "lib/registry/value.h"

#define CONNECTED(name) CONNECTED_TO(registry_list, name)

enum { TURNS = 10, RETRIED_MS = 120000 };

/* The answers of a user who watches /t and /t/a. */
struct user {
	struct registry_watch *list_watch;
	struct registry_watch *watch;
	struct answer list;
	struct answer seen;
};

static bool names(const struct answer *list, const char *path)
{
	return list->children_count > 0 && strstr(answer_children(list), path) != NULL;
}

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

static void away(struct registry *registry)
{
	memory_set_state(registry, REGISTRY_AWAY);
	registry_dispatch(registry, clock_monotonic_ms());
}

static int64_t back(struct registry *registry)
{
	int64_t now_ms = clock_monotonic_ms();
	memory_set_state(registry, REGISTRY_CONNECTED);
	stand_still(registry, now_ms);
	return now_ms;
}

/* Nothing is heard of the path, nor of what is below it. */
static void keep_back(void *context, const struct registry_task *task, struct err *err)
{
	if (path_is_under(task->path, context)) {
		err_set(err, BERTH_REGISTRY_UNAVAILABLE, "no answer");
	}
}

static void keep_lists_back(void *context, const struct registry_task *task, struct err *err)
{
	(void)context;
	if (task->operation == REGISTRY_OP_CHILDREN) {
		err_set(err, BERTH_TIMEOUT, "no answer");
	}
}

static void fail_lists(void *context, const struct registry_task *task, struct err *err)
{
	*(size_t *)context += task->operation == REGISTRY_OP_CHILDREN;
	keep_lists_back(NULL, task, err);
}

static void forbid_lists(void *context, const struct registry_task *task, struct err *err)
{
	(void)context;
	if (task->operation == REGISTRY_OP_CHILDREN) {
		err_set(err, BERTH_NO_PATH_PERMISSIONS, "not for you");
	}
}

CONNECTED(a_list_without_a_path_that_has_no_answer_ends_it_in_the_same_dispatch)
{
	struct user user;
	watch_both(registry, &user);
	away(registry);
	memory_remove(registry, "/t/a");
	memory_on_task(registry, keep_back, (void *)(uintptr_t) "/t/a");
	memory_set_state(registry, REGISTRY_CONNECTED);
	registry_dispatch(registry, clock_monotonic_ms());
	registry_watch_hurry(user.list_watch);
	while (user.list.calls == 1) {
		cr_assert_str_eq(user.seen.data, "old");
		registry_dispatch(registry, clock_monotonic_ms());
	}
	cr_assert_str_eq(answer_children(&user.list), "/t/b");
	assert_answer(&user.seen, "PathNotFound");
	user_finish(&user);
}

CONNECTED(the_first_list_ends_what_was_known_before_the_connection_broke)
{
	struct answer list = { 0 };
	struct answer seen = { 0 };
	memory_put(registry, "/t", "");
	memory_put(registry, "/t/a", "old");
	registry_watch(registry, "/t/a", REGISTRY_WATCH_DATA, answer_take, &seen);
	client_wait_calls(&seen, 1);
	away(registry);
	memory_remove(registry, "/t/a");
	memory_on_task(registry, keep_back, (void *)(uintptr_t) "/t/a");
	int64_t now_ms = back(registry);
	registry_watch(registry, "/t", REGISTRY_WATCH_CHILDREN, answer_take, &list);
	stand_still(registry, now_ms);
	cr_assert_eq(list.calls, 1);
	assert_answer(&seen, "PathNotFound");
	answer_clear(&list);
	answer_clear(&seen);
}

CONNECTED(a_directory_takes_the_paths_below_it_with_it)
{
	struct answer list = { 0 };
	struct answer below = { 0 };
	struct answer deep = { 0 };
	memory_put(registry, "/t", "");
	memory_put(registry, "/t/d", "");
	memory_put(registry, "/t/d/x", "deep");
	registry_watch(registry, "/t", REGISTRY_WATCH_CHILDREN, answer_take, &list);
	registry_watch(registry, "/t/d", REGISTRY_WATCH_CHILDREN, answer_take, &below);
	registry_watch(registry, "/t/d/x", REGISTRY_WATCH_DATA, answer_take, &deep);
	client_wait_calls(&deep, 1);
	away(registry);
	memory_remove(registry, "/t/d/x");
	memory_remove(registry, "/t/d");
	memory_on_task(registry, keep_back, (void *)(uintptr_t) "/t/d");
	back(registry);
	cr_assert_eq(list.children_count, 0);
	assert_answer(&below, "PathNotFound");
	assert_answer(&deep, "PathNotFound");
	answer_clear(&list);
	answer_clear(&below);
	answer_clear(&deep);
}

CONNECTED(a_path_that_is_there_waits_for_the_list_that_names_it)
{
	struct user user;
	watch_both(registry, &user);
	memory_remove(registry, "/t/a");
	client_wait(is_absent, &user.seen);
	size_t lists = 0;
	memory_on_task(registry, fail_lists, &lists);
	memory_put(registry, "/t/a", "new");
	int64_t now_ms = clock_monotonic_ms();
	stand_still(registry, now_ms);
	assert_answer(&user.list, "Timeout");
	assert_answer(&user.seen, "PathNotFound");
	cr_assert_eq(lists, 1, "it is not asked for again and again");
	memory_on_task(registry, NULL, NULL);
	stand_still(registry, now_ms + RETRIED_MS);
	cr_assert(names(&user.list, "/t/a"));
	cr_assert_str_eq(user.seen.data, "new");
	user_finish(&user);
}

CONNECTED(a_path_that_has_gone_waits_for_the_list_to_say_so)
{
	struct user user;
	watch_both(registry, &user);
	away(registry);
	memory_remove(registry, "/t/a");
	memory_set_state(registry, REGISTRY_CONNECTED);
	registry_dispatch(registry, clock_monotonic_ms());
	registry_watch_hurry(user.watch);
	while (user.seen.calls == 1) {
		cr_assert(names(&user.list, "/t/a"));
		registry_dispatch(registry, clock_monotonic_ms());
	}
	assert_answer(&user.seen, "PathNotFound");
	cr_assert_str_eq(answer_children(&user.list), "/t/b");
	user_finish(&user);
}

/* The deletion is not announced; a user asks for the path again. */
struct remover {
	struct registry *registry;
	const char *path; /* NULL: it is done */
	size_t lists;
};

static void remove_at_read(void *context, const struct registry_task *task, struct err *err)
{
	struct remover *remover = context;
	(void)err;
	remover->lists += task->operation == REGISTRY_OP_CHILDREN;
	if (remover->path && strcmp(task->path, remover->path) == 0) {
		memory_remove(remover->registry, remover->path);
		remover->path = NULL;
	}
}

CONNECTED(a_deletion_that_a_read_finds_has_the_list_read)
{
	struct user user;
	struct remover remover = { .registry = registry, .path = "/t/a" };
	watch_both(registry, &user);
	memory_on_task(registry, remove_at_read, &remover);
	registry_watch_refresh(user.watch);
	while (user.seen.calls == 1) {
		cr_assert(names(&user.list, "/t/a"));
		registry_dispatch(registry, clock_monotonic_ms());
	}
	assert_answer(&user.seen, "PathNotFound");
	cr_assert_str_eq(answer_children(&user.list), "/t/b");
	cr_assert_eq(remover.lists, 1);
	user_finish(&user);
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

static void hide(void *context, const struct registry_task *task, struct err *err)
{
	size_t *reads = context;
	++*reads;
	if (strcmp(task->path, "/t/a") == 0) {
		err_set(err, BERTH_PATH_NOT_FOUND, "hidden");
	}
}

CONNECTED(a_path_that_is_listed_and_never_found_is_absent_after_a_few_reads)
{
	struct user user;
	size_t reads = 0;
	watch_both(registry, &user);
	memory_on_task(registry, hide, &reads);
	registry_watch_refresh(user.watch);
	int64_t now_ms = clock_monotonic_ms();
	stand_still(registry, now_ms);
	assert_answer(&user.seen, "PathNotFound");
	cr_assert_leq(reads, 4);
	size_t before = reads;
	stand_still(registry, now_ms);
	cr_assert_eq(reads, before);
	user_finish(&user);
}

CONNECTED(a_list_that_may_not_be_read_holds_nothing_back)
{
	struct user user;
	watch_both(registry, &user);
	memory_on_task(registry, forbid_lists, NULL);
	registry_watch_refresh(user.list_watch);
	memory_remove(registry, "/t/a");
	client_wait(is_absent, &user.seen);
	assert_answer(&user.list, "NoPathPermissions");
	memory_put(registry, "/t/a", "new");
	client_wait(is_present, &user.seen);
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

CONNECTED(a_known_value_ends_with_the_list_and_is_for_its_user_alone)
{
	struct answer seen = { 0 };
	struct answer other = { 0 };
	struct answer list = { 0 };
	const struct registry_value *known = value_of("saved", NULL, 0);
	memory_put(registry, "/t", "");
	away(registry);
	struct registry_watch *watch = registry_watch_known(
		registry, "/t/a", REGISTRY_WATCH_DATA, known, answer_take, &seen);
	registry_value_release(known);
	cr_assert_str_eq(registry_watch_value(watch)->data, "saved");
	registry_watch(registry, "/t/a", REGISTRY_WATCH_DATA, answer_take, &other);
	registry_watch(registry, "/t", REGISTRY_WATCH_CHILDREN, answer_take, &list);
	stand_still(registry, clock_monotonic_ms());
	cr_assert_eq(seen.calls + other.calls, 0);
	memory_on_task(registry, keep_back, (void *)(uintptr_t) "/t/a");
	back(registry);
	cr_assert_eq(list.children_count, 0);
	assert_answer(&seen, "PathNotFound");
	assert_answer(&other, "PathNotFound");
	answer_clear(&seen);
	answer_clear(&other);
	answer_clear(&list);
}

/* How old the oldest state is when the path is read, and the server was heard again before. */
struct look {
	struct registry *registry;
	int64_t heard_ms;
};

static void look_at_read(void *context, const struct registry_task *task, struct err *err)
{
	struct look *look = context;
	(void)err;
	if (strcmp(task->path, "/t/a") == 0) {
		memory_set_heard_ms(look->registry, 200);
		look->heard_ms = registry_heard_ms(look->registry, 9000);
	}
}

CONNECTED(an_end_that_came_with_a_list_is_as_old_as_the_list_until_the_path_is_read)
{
	struct answer seen = { 0 };
	struct answer list = { 0 };
	struct look look = { .registry = registry };
	const struct registry_value *known = value_of("saved", NULL, 0);
	memory_put(registry, "/t", "");
	away(registry);
	registry_watch(registry, "/t", REGISTRY_WATCH_CHILDREN, answer_take, &list);
	registry_watch_known(registry, "/t/a", REGISTRY_WATCH_DATA, known, answer_take, &seen);
	registry_value_release(known);
	memory_set_heard_ms(registry, 100);
	memory_on_task(registry, look_at_read, &look);
	back(registry);
	assert_answer(&seen, "PathNotFound");
	cr_assert_eq(look.heard_ms, 100);
	cr_assert_eq(registry_heard_ms(registry, 9000), 200);
	answer_clear(&seen);
	answer_clear(&list);
}

CONNECTED(a_known_list_keeps_a_path_back_that_it_lacks)
{
	struct answer seen = { 0 };
	struct answer list = { 0 };
	const struct registry_value *known = value_of(NULL, NULL, 0);
	memory_put(registry, "/t", "");
	memory_put(registry, "/t/a", "new");
	away(registry);
	registry_watch_known(registry, "/t", REGISTRY_WATCH_CHILDREN, known, answer_take, &list);
	registry_value_release(known);
	registry_watch(registry, "/t/a", REGISTRY_WATCH_DATA, answer_take, &seen);
	memory_on_task(registry, keep_lists_back, NULL);
	int64_t now_ms = back(registry);
	assert_answer(&list, "Timeout");
	cr_assert_eq(seen.calls, 0);
	memory_on_task(registry, NULL, NULL);
	stand_still(registry, now_ms + RETRIED_MS);
	cr_assert(names(&list, "/t/a"));
	cr_assert_str_eq(seen.data, "new");
	answer_clear(&seen);
	answer_clear(&list);
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

/* ---- the queue ---- */

CONNECTED(a_user_who_waits_goes_before_a_thousand_new_paths)
{
	enum { MANY = 1000 };
	static struct answer others[MANY];
	struct answer seen = { 0 };
	char path[64];
	for (int i = 0; i < MANY; i++) {
		snprintf(path, sizeof(path), "/other%d", i);
		registry_watch(registry, path, REGISTRY_WATCH_DATA, answer_take, &others[i]);
	}
	struct registry_watch *watch = registry_watch(
		registry, "/a", REGISTRY_WATCH_DATA, answer_take, &seen);
	registry_watch_hurry(watch);
	registry_watch_hurry(watch);
	client_wait_calls(&seen, 1);
	int before = 0;
	for (int i = 0; i < MANY; i++) {
		before += others[i].calls;
		answer_clear(&others[i]);
	}
	cr_assert_leq(before, 2 * REGISTRY_MAX_IN_FLIGHT);
	cr_assert_leq(memory_most_tasks(registry), REGISTRY_MAX_IN_FLIGHT);
	answer_clear(&seen);
}
