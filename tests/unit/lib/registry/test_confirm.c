/* The age of a state: confirmations, and states that follow from another watch's. */
#include "lib/base/array.h"
#include "tests/support/core_stage.h"

#include <limits.h>
#include <string.h>

#include "lib/base/clock.h"

#define CONNECTED(name) CONNECTED_TO(registry_confirm, name)

/* ---- confirm ---- */

CONNECTED(a_confirmation_waits_for_a_server_that_is_silent)
{
	struct answer answer = { 0 };
	struct answer later = { 0 };
	memory_set_heard_ms(registry, 4711);
	cr_assert_eq(registry_heard_ms(registry, 9000), 4711);
	memory_set_answering(registry, false);
	registry_confirm(registry, 0, answer_take, &answer);
	registry_dispatch(registry, 0);
	cr_assert_eq(answer.calls, 0);
	memory_set_answering(registry, true);
	client_wait_calls(&answer, 1);
	assert_answer(&answer, "OK");
	move_to(registry, REGISTRY_AWAY);
	client_confirm(registry, &later);
	assert_answer(&later, "RegistryUnavailable");
	answer_clear(&answer);
	answer_clear(&later);
}

struct seen {
	struct registry *registry;
	int64_t heard_ms;
};

/* The server answers another request while the changed node is about to be read. */
static void hear_while_reading(void *context, const struct registry_task *task, struct err *err)
{
	struct seen *seen = context;
	(void)task;
	(void)err;
	memory_set_heard_ms(seen->registry, 200);
	seen->heard_ms = registry_heard_ms(seen->registry, 9000);
}

Test(registry_confirm, an_answer_between_a_change_and_its_read_confirms_nothing)
{
	struct answer answer = { 0 };
	struct seen seen = { .registry = open_connected() };
	memory_put(seen.registry, "/a", "old");
	struct registry_watch *watch = registry_watch(
		seen.registry, "/a", REGISTRY_WATCH_DATA, answer_take, &answer);
	client_wait_calls(&answer, 1);
	memory_set_heard_ms(seen.registry, 100);
	memory_on_task(seen.registry, hear_while_reading, &seen);
	memory_put(seen.registry, "/a", "new");
	client_wait_calls(&answer, 2);
	cr_assert_eq(seen.heard_ms, 100);
	cr_assert_eq(registry_heard_ms(seen.registry, 9000), 200);
	memory_on_task(seen.registry, NULL, NULL);
	registry_unwatch(watch);
	client_close(seen.registry);
	answer_clear(&answer);
}

CONNECTED(a_refresh_that_no_change_has_caused_leaves_the_state_confirmed)
{
	struct answer answer = { 0 };
	memory_put(registry, "/a", "same");
	struct registry_watch *watch = registry_watch(
		registry, "/a", REGISTRY_WATCH_DATA, answer_take, &answer);
	client_wait_calls(&answer, 1);
	memory_set_heard_ms(registry, 100);
	registry_watch_refresh(watch);
	memory_set_heard_ms(registry, 200);
	cr_assert_eq(registry_heard_ms(registry, 9000), 200);
	client_wait_calls(&answer, 2);
	cr_assert_eq(registry_heard_ms(registry, 9000), 200);
	answer_clear(&answer);
}

enum { ONE_FAILURE = 1, ALL_FAIL = INT_MAX };

/* How many more reads of /a, and of /b, get no answer. */
static void fail_some(void *context, const struct registry_task *task, struct err *err)
{
	int *failures = (int *)context + (task->path[1] - 'a');
	if (*failures > 0) {
		--*failures;
		err_set(err, BERTH_REGISTRY_UNAVAILABLE, "no answer about %s", task->path);
	}
}

static bool a_has_failed(void *context)
{
	return ((const int *)context)[0] < ONE_FAILURE;
}

static bool a_has_failed_once(void *context)
{
	return ((const int *)context)[0] < ALL_FAIL;
}

static bool b_has_failed(void *context)
{
	return ((const int *)context)[1] < ALL_FAIL;
}

CONNECTED(a_change_reaches_no_further_back_than_to_its_own_announcement)
{
	struct answer answers[2] = { 0 };
	int failures[2] = { ONE_FAILURE, ALL_FAIL };
	memory_put(registry, "/a", "old");
	memory_put(registry, "/b", "old");
	registry_watch(registry, "/a", REGISTRY_WATCH_DATA, answer_take, &answers[0]);
	registry_watch(registry, "/b", REGISTRY_WATCH_DATA, answer_take, &answers[1]);
	client_wait_calls(&answers[0], 1);
	client_wait_calls(&answers[1], 1);
	memory_set_heard_ms(registry, 100);
	memory_on_task(registry, fail_some, failures);
	memory_put(registry, "/a", "new");
	client_wait(a_has_failed, failures);
	memory_set_heard_ms(registry, 200);
	memory_put(registry, "/b", "new");
	client_wait(b_has_failed, failures);
	memory_set_heard_ms(registry, 300);
	cr_assert_eq(registry_heard_ms(registry, 9000), 100);
	client_wait_calls(&answers[0], 2);
	cr_assert_eq(registry_heard_ms(registry, 9000), 200);
	answer_clear(&answers[0]);
	answer_clear(&answers[1]);
}

CONNECTED(the_old_state_told_to_a_new_user_ends_no_doubt)
{
	struct answer answers[2] = { 0 };
	int failures[2] = { ALL_FAIL, 0 };
	memory_put(registry, "/a", "old");
	registry_watch(registry, "/a", REGISTRY_WATCH_DATA, answer_take, &answers[0]);
	client_wait_calls(&answers[0], 1);
	memory_set_heard_ms(registry, 100);
	memory_on_task(registry, fail_some, failures);
	memory_put(registry, "/a", "new");
	client_wait(a_has_failed_once, failures);
	memory_set_heard_ms(registry, 200);
	struct registry_watch *second = registry_watch(
		registry, "/a", REGISTRY_WATCH_DATA, answer_take, &answers[1]);
	client_wait_calls(&answers[1], 1);
	cr_assert_str_eq(answers[1].data, "old");
	cr_assert_not(registry_watch_holds(second));
	cr_assert_eq(registry_heard_ms(registry, 9000), 100);
	memory_on_task(registry, NULL, NULL);
	client_wait_calls(&answers[1], 2);
	cr_assert_str_eq(answers[1].data, "new");
	cr_assert(registry_watch_holds(second));
	cr_assert_eq(registry_heard_ms(registry, 9000), 200);
	answer_clear(&answers[0]);
	answer_clear(&answers[1]);
}

static void note_heard_without_answer(void *context, const struct registry_result *result)
{
	struct seen *seen = context;
	if (result->err.code == BERTH_TIMEOUT) {
		seen->heard_ms = registry_heard_ms(seen->registry, 9000);
	}
}

static void hear_and_time_out(void *context, const struct registry_task *task, struct err *err)
{
	const struct seen *seen = context;
	memory_set_heard_ms(seen->registry, 200);
	err_set(err, BERTH_TIMEOUT, "no answer about %s", task->path);
}

static bool has_heard(void *context)
{
	return ((const struct seen *)context)->heard_ms != 0;
}

Test(registry_confirm, a_user_learns_how_old_the_state_is_whose_read_got_no_answer)
{
	struct answer answer = { 0 };
	struct seen seen = { .registry = open_connected() };
	memory_put(seen.registry, "/a", "old");
	registry_watch(seen.registry, "/a", REGISTRY_WATCH_DATA, answer_take, &answer);
	registry_watch(seen.registry, "/a", REGISTRY_WATCH_DATA, note_heard_without_answer, &seen);
	client_wait_calls(&answer, 1);
	memory_set_heard_ms(seen.registry, 100);
	memory_on_task(seen.registry, hear_and_time_out, &seen);
	memory_put(seen.registry, "/a", "new");
	client_wait(has_heard, &seen);
	cr_assert_eq(seen.heard_ms, 100);
	client_close(seen.registry);
	answer_clear(&answer);
}

/* ---- what another watch implies ---- */

static void count_tasks(void *context, const struct registry_task *task, struct err *err)
{
	(void)task;
	(void)err;
	++*(size_t *)context;
}

static bool both_absent(void *context)
{
	const struct answer *pair = context;
	return is_absent((void *)(uintptr_t)&pair[0]) && is_absent((void *)(uintptr_t)&pair[1]);
}

CONNECTED(an_ephemeral_node_needs_one_watch_for_data_and_children)
{
	struct answer answer = { 0 };
	struct answer pair[2] = { 0 };
	size_t tasks = 0;
	client_put(registry, "/a", "x", REGISTRY_BIND_CREATE, true, &answer);
	memory_on_task(registry, count_tasks, &tasks);
	registry_watch(registry, "/a", REGISTRY_WATCH_DATA, answer_take, &pair[0]);
	struct registry_watch *list = registry_watch(
		registry, "/a", REGISTRY_WATCH_CHILDREN, answer_take, &pair[1]);
	client_wait_calls(&pair[0], 1);
	client_wait_calls(&pair[1], 1);
	assert_answer(&pair[1], "OK");
	cr_assert_eq(pair[1].children_count, 0);
	cr_assert_eq(tasks, 1);
	cr_assert_eq(memory_armed_watches(registry), 1);
	registry_watch_refresh(list);
	client_wait_calls(&pair[1], 2);
	cr_assert_eq(tasks, 2);
	cr_assert_eq(memory_armed_watches(registry), 1);
	/* It becomes a node that may have children. */
	memory_remove(registry, "/a");
	memory_put(registry, "/a", "y");
	memory_put(registry, "/a/b", "z");
	client_wait(has_child, &pair[1]);
	cr_assert_eq(memory_armed_watches(registry), 2);
	answer_clear(&answer);
	answer_clear(&pair[0]);
	answer_clear(&pair[1]);
}

CONNECTED(a_deleted_node_is_known_from_the_list_of_its_parent)
{
	struct answer list = { 0 };
	struct answer pair[2] = { 0 };
	size_t tasks = 0;
	memory_put(registry, "/t", "");
	memory_put(registry, "/t/a", "x");
	struct registry_watch *parent = registry_watch(
		registry, "/t", REGISTRY_WATCH_CHILDREN, answer_take, &list);
	registry_watch(registry, "/t/a", REGISTRY_WATCH_DATA, answer_take, &pair[0]);
	registry_watch(registry, "/t/a", REGISTRY_WATCH_CHILDREN, answer_take, &pair[1]);
	client_wait_calls(&list, 1);
	client_wait_calls(&pair[1], 1);
	memory_on_task(registry, count_tasks, &tasks);
	memory_remove(registry, "/t/a");
	client_wait(both_absent, pair);
	cr_assert_eq(tasks, 1, "one read of the list");
	cr_assert_eq(memory_armed_watches(registry), 1);
	/* Its creation is noticed in the same way. */
	memory_put(registry, "/t/a", "again");
	client_wait(is_present, &pair[0]);
	cr_assert_str_eq(pair[0].data, "again");
	/* Absent, and alone. */
	memory_remove(registry, "/t/a");
	client_wait(both_absent, pair);
	registry_unwatch(parent);
	registry_dispatch(registry, clock_monotonic_ms());
	memory_put(registry, "/t/a", "alone");
	client_wait(is_present, &pair[0]);
	answer_clear(&list);
	answer_clear(&pair[0]);
	answer_clear(&pair[1]);
}

/* The notifications of its data and of its children tell of the deletion, one after the other. */
CONNECTED(a_change_that_is_announced_twice_is_one_doubt)
{
	struct answer pair[2] = { 0 };
	memory_put(registry, "/a", "x");
	registry_watch(registry, "/a", REGISTRY_WATCH_DATA, answer_take, &pair[0]);
	registry_watch(registry, "/a", REGISTRY_WATCH_CHILDREN, answer_take, &pair[1]);
	client_wait_calls(&pair[0], 1);
	client_wait_calls(&pair[1], 1);
	cr_assert_eq(memory_armed_watches(registry), 2);
	memory_set_heard_ms(registry, 100);
	memory_remove(registry, "/a");
	client_wait(both_absent, pair);
	memory_set_heard_ms(registry, 200);
	cr_assert_eq(registry_heard_ms(registry, 9000), 200);
	answer_clear(&pair[0]);
	answer_clear(&pair[1]);
}

CONNECTED(a_state_that_nobody_has_had_yet_is_not_in_doubt)
{
	struct answer list = { 0 };
	struct answer seen = { 0 };
	memory_put(registry, "/t", "");
	registry_watch(registry, "/t", REGISTRY_WATCH_CHILDREN, answer_take, &list);
	client_wait_calls(&list, 1);
	memory_set_heard_ms(registry, 100);
	registry_watch(registry, "/t/a", REGISTRY_WATCH_DATA, answer_take, &seen);
	memory_set_heard_ms(registry, 200);
	cr_assert_eq(registry_heard_ms(registry, 9000), 200);
	client_wait_calls(&seen, 1);
	assert_answer(&seen, "PathNotFound");
	answer_clear(&list);
	answer_clear(&seen);
}

/* The absence of /t/a is known from the list of /t, which alone has a notification. */
static struct registry *open_following(
	struct answer *list, struct answer *seen, struct registry_watch **ret_parent)
{
	struct registry *registry = open_connected();
	memory_put(registry, "/t", "");
	*ret_parent = registry_watch(registry, "/t", REGISTRY_WATCH_CHILDREN, answer_take, list);
	client_wait_calls(list, 1);
	registry_watch(registry, "/t/a", REGISTRY_WATCH_DATA, answer_take, seen);
	client_wait_calls(seen, 1);
	cr_assert_eq(memory_armed_watches(registry), 1);
	memory_set_heard_ms(registry, 100);
	return registry;
}

Test(registry_confirm, a_state_that_no_other_one_implies_any_more_is_not_confirmed_before_its_read)
{
	struct answer list = { 0 };
	struct answer seen = { 0 };
	struct registry_watch *parent;
	struct seen heard = { .registry = open_following(&list, &seen, &parent) };
	struct registry_watch *again = registry_watch(
		heard.registry, "/t/a", REGISTRY_WATCH_DATA, answer_take, &seen);
	client_wait_calls(&seen, 2);
	memory_on_task(heard.registry, hear_while_reading, &heard);
	registry_watch_refresh(again);
	client_wait_calls(&seen, 4);
	cr_assert_eq(heard.heard_ms, 100);
	cr_assert_eq(registry_heard_ms(heard.registry, 9000), 200);
	client_close(heard.registry);
	answer_clear(&list);
	answer_clear(&seen);
}

static void lose_lists(void *context, const struct registry_task *task, struct err *err)
{
	if (task->operation == REGISTRY_OP_CHILDREN) {
		++*(size_t *)context;
		err_set(err, BERTH_REGISTRY_UNAVAILABLE, "no list of %s", task->path);
	}
}

static bool is_counted(void *context)
{
	return *(const size_t *)context > 0;
}

Test(registry_confirm, a_follower_takes_over_the_doubt_about_its_leader)
{
	struct answer list = { 0 };
	struct answer seen = { 0 };
	struct registry_watch *parent;
	size_t lost = 0;
	struct registry *registry = open_following(&list, &seen, &parent);
	memory_on_task(registry, lose_lists, &lost);
	memory_put(registry, "/t/a", "new");
	client_wait(is_counted, &lost);
	memory_set_heard_ms(registry, 200);
	cr_assert_eq(registry_heard_ms(registry, 9000), 100);
	registry_unwatch(parent);
	cr_assert_eq(registry_heard_ms(registry, 9000), 100);
	client_wait(is_present, &seen);
	cr_assert_eq(registry_heard_ms(registry, 9000), 200);
	client_close(registry);
	answer_clear(&list);
	answer_clear(&seen);
}

/* The list of /t/a is empty, since /t/a is absent, since the list of /t lacks it. */
Test(registry_confirm, a_follower_takes_over_the_doubt_about_the_leader_of_its_leader)
{
	struct answer list = { 0 };
	struct answer seen = { 0 };
	struct answer below = { 0 };
	size_t lost = 0;
	struct registry *registry = open_connected();
	memory_put(registry, "/t", "");
	struct registry_watch *parent = registry_watch(
		registry, "/t", REGISTRY_WATCH_CHILDREN, answer_take, &list);
	client_wait_calls(&list, 1);
	struct registry_watch *data = registry_watch(
		registry, "/t/a", REGISTRY_WATCH_DATA, answer_take, &seen);
	registry_watch(registry, "/t/a", REGISTRY_WATCH_CHILDREN, answer_take, &below);
	client_wait_calls(&below, 1);
	memory_set_heard_ms(registry, 100);
	memory_on_task(registry, lose_lists, &lost);
	memory_put(registry, "/t/a", "new");
	client_wait(is_counted, &lost);
	memory_set_heard_ms(registry, 200);
	registry_unwatch(data);
	registry_unwatch(parent);
	cr_assert_eq(registry_heard_ms(registry, 9000), 100);
	memory_on_task(registry, NULL, NULL);
	client_wait_calls(&below, 2);
	cr_assert_eq(registry_heard_ms(registry, 9000), 200);
	client_close(registry);
	answer_clear(&list);
	answer_clear(&seen);
	answer_clear(&below);
}

/* Reads of /b and lists get no answer. */
static void lose_b_and_lists(void *context, const struct registry_task *task, struct err *err)
{
	lose_lists(context, task, err);
	if (strcmp(task->path, "/b") == 0) {
		++*(size_t *)context;
		err_set(err, BERTH_REGISTRY_UNAVAILABLE, "no answer about %s", task->path);
	}
}

Test(registry_confirm, a_doubt_taken_over_is_older_than_one_that_came_between)
{
	struct answer list = { 0 };
	struct answer seen = { 0 };
	struct answer other = { 0 };
	struct registry_watch *parent;
	size_t lost = 0;
	struct registry *registry = open_following(&list, &seen, &parent);
	memory_put(registry, "/b", "old");
	registry_watch(registry, "/b", REGISTRY_WATCH_DATA, answer_take, &other);
	client_wait_calls(&other, 1);
	memory_on_task(registry, lose_b_and_lists, &lost);
	memory_put(registry, "/t/a", "new");
	client_wait(is_counted, &lost);
	memory_set_heard_ms(registry, 200);
	lost = 0;
	memory_put(registry, "/b", "new");
	client_wait(is_counted, &lost);
	memory_set_heard_ms(registry, 300);
	registry_unwatch(parent);
	cr_assert_eq(registry_heard_ms(registry, 9000), 100);
	client_wait(is_present, &seen);
	cr_assert_eq(registry_heard_ms(registry, 9000), 200);
	memory_on_task(registry, NULL, NULL);
	client_wait_calls(&other, 2);
	cr_assert_eq(registry_heard_ms(registry, 9000), 300);
	client_close(registry);
	answer_clear(&list);
	answer_clear(&seen);
	answer_clear(&other);
}

static void note_heard(void *context, const struct registry_result *result)
{
	struct seen *seen = context;
	(void)result;
	seen->heard_ms = registry_heard_ms(seen->registry, 9000);
}

Test(registry_confirm, an_implied_state_is_confirmed_when_its_users_have_it)
{
	struct answer made = { 0 };
	struct answer pair[2] = { 0 };
	int failures[2] = { ONE_FAILURE, 0 };
	struct registry *other = open_connected();
	struct seen seen = { .registry = open_connected() };
	registry_watch(seen.registry, "/a", REGISTRY_WATCH_DATA, answer_take, &pair[0]);
	registry_watch(seen.registry, "/a", REGISTRY_WATCH_CHILDREN, answer_take, &pair[1]);
	client_wait(both_absent, pair);
	memory_set_heard_ms(seen.registry, 100);
	memory_on_task(seen.registry, fail_some, failures);
	client_put(other, "/a", "x", REGISTRY_BIND_CREATE, true, &made);
	assert_answer(&made, "OK");
	client_wait(a_has_failed, failures);
	memory_on_task(seen.registry, NULL, NULL);
	/* Behind the next read of /a, and before users of the list hear its result. */
	int64_t later_ms = clock_monotonic_ms() + 60000;
	registry_dispatch(seen.registry, later_ms);
	cr_assert_eq(memory_tasks(seen.registry), 1);
	registry_confirm(seen.registry, 0, note_heard, &seen);
	memory_set_heard_ms(seen.registry, 200);
	cr_assert(is_absent(&pair[1]));
	registry_dispatch(seen.registry, later_ms);
	cr_assert_not(is_absent(&pair[1]));
	cr_assert_eq(seen.heard_ms, 100);
	cr_assert_eq(registry_heard_ms(seen.registry, 9000), 200);
	client_close(seen.registry);
	client_close(other);
	answer_clear(&made);
	answer_clear(&pair[0]);
	answer_clear(&pair[1]);
}

struct unlistable {
	int code;
	int reads; /* that fail */
};

static void fail_lists(void *context, const struct registry_task *task, struct err *err)
{
	struct unlistable *unlistable = context;
	if (task->operation == REGISTRY_OP_CHILDREN && unlistable->reads > 0) {
		unlistable->reads--;
		err_set(err, unlistable->code, "no list of %s", task->path);
	}
}

/* `during`: the list fails when the deletion has it read; else it has failed before. */
static void delete_below_an_unlistable_parent(int code, bool during)
{
	struct answer list = { 0 };
	struct answer seen = { 0 };
	struct unlistable unlistable = { code, during ? 0 : INT_MAX };
	struct registry *registry = open_connected();
	memory_put(registry, "/t", "");
	memory_put(registry, "/t/a", "x");
	memory_on_task(registry, fail_lists, &unlistable);
	registry_watch(registry, "/t", REGISTRY_WATCH_CHILDREN, answer_take, &list);
	registry_watch(registry, "/t/a", REGISTRY_WATCH_DATA, answer_take, &seen);
	client_wait_calls(&seen, 1);
	if (during) {
		client_wait_calls(&list, 1);
		unlistable.reads = INT_MAX;
	}
	memory_remove(registry, "/t/a");
	/* Before the list is tried again. */
	int64_t now_ms = clock_monotonic_ms();
	for (int i = 0; i < 20; i++) {
		registry_dispatch(registry, now_ms);
	}
	cr_assert_eq(seen.err.code, BERTH_PATH_NOT_FOUND, "%d during %d", code, during);
	client_close(registry);
	answer_clear(&list);
	answer_clear(&seen);
}

Test(registry_confirm, a_deleted_node_is_known_when_the_list_of_its_parent_cannot_be_read)
{
	static const int codes[] = { BERTH_TIMEOUT, BERTH_NO_PATH_PERMISSIONS,
		BERTH_REGISTRY_UNAVAILABLE };
	for (size_t i = 0; i < ARRAY_LEN(codes); i++) {
		delete_below_an_unlistable_parent(codes[i], true);
		delete_below_an_unlistable_parent(codes[i], false);
	}
}

static void never_absent(void *context, const struct registry_result *result)
{
	cr_assert_eq(result->err.code, 0, "%s", result->err.msg);
	answer_take(context, result);
}

CONNECTED(a_replaced_node_is_not_absent_for_a_watch_that_follows_its_parent)
{
	struct answer answer = { 0 };
	struct answer list = { 0 };
	struct answer seen = { 0 };
	memory_put(registry, "/t", "");
	memory_put(registry, "/t/a", "persistent");
	registry_watch(registry, "/t", REGISTRY_WATCH_CHILDREN, answer_take, &list);
	registry_watch(registry, "/t/a", REGISTRY_WATCH_DATA, never_absent, &seen);
	client_wait_calls(&seen, 1);
	client_wait_calls(&list, 1);
	client_put(registry, "/t/a", "ephemeral", REGISTRY_BIND_OVERWRITE, true, &answer);
	assert_answer(&answer, "OK");
	client_wait_calls(&seen, 2);
	cr_assert_str_eq(seen.data, "ephemeral");
	answer_clear(&answer);
	answer_clear(&list);
	answer_clear(&seen);
}

CONNECTED(an_absent_child_of_a_watched_list_needs_no_read)
{
	struct answer list = { 0 };
	struct answer seen = { 0 };
	size_t tasks = 0;
	memory_put(registry, "/t", "");
	registry_watch(registry, "/t", REGISTRY_WATCH_CHILDREN, answer_take, &list);
	client_wait_calls(&list, 1);
	memory_on_task(registry, count_tasks, &tasks);
	registry_watch(registry, "/t/a", REGISTRY_WATCH_DATA, answer_take, &seen);
	client_wait_calls(&seen, 1);
	assert_answer(&seen, "PathNotFound");
	cr_assert_eq(tasks, 0);
	move_to(registry, REGISTRY_AWAY);
	move_to(registry, REGISTRY_CONNECTED);
	client_wait_calls(&seen, 2);
	cr_assert_eq(tasks, 1, "the list is read again, and the child is not");
	answer_clear(&list);
	answer_clear(&seen);
}

CONNECTED(unwatching_disarms)
{
	struct answer seen = { 0 };
	struct registry_watch *one = registry_watch(
		registry, "/a", REGISTRY_WATCH_DATA, answer_take, &seen);
	struct registry_watch *two = registry_watch(
		registry, "/a", REGISTRY_WATCH_DATA, answer_take, &seen);
	client_wait_calls(&seen, 2);
	cr_assert_eq(memory_armed_watches(registry), 1);
	registry_unwatch(one);
	cr_assert_eq(memory_armed_watches(registry), 1);
	registry_unwatch(two);
	cr_assert_eq(memory_armed_watches(registry), 0);
	registry_unwatch(NULL);
	answer_clear(&seen);
}
