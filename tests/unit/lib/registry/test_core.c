/* The registry core on a registry in memory, where the test decides what happens when. */
#include <criterion/criterion.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/memory_backend.h"
#include "tests/support/registry_client.h"
#include "tests/support/staged.h"
#include "lib/registry/internal.h"
#include "lib/base/clock.h"

#define assert_answer(answer, name)                                                                \
	cr_assert_str_eq(answer_name(answer), name, "%s", (answer)->err.msg)

static bool is_present(void *context)
{
	return ((const struct answer *)context)->data != NULL;
}

static bool has_child(void *context)
{
	return ((const struct answer *)context)->children_count > 0;
}

static struct registry *open_connected(void)
{
	const struct registry_options options = { 0 };
	struct registry *registry = memory_open("core", &options);
	client_add(registry);
	client_wait_state(registry, REGISTRY_CONNECTED);
	return registry;
}

#define CONNECTED(name)                                                                            \
	STAGED_TEST(                                                                               \
		registry_core, name, struct registry *, registry, open_connected(), client_close)

static void move_to(struct registry *registry, enum registry_state state)
{
	memory_set_state(registry, state);
	client_wait_state(registry, state);
}

/* --- confirm --- */

CONNECTED(a_confirmation_waits_for_a_server_that_is_silent)
{
	struct answer answer = { 0 };
	struct answer later = { 0 };
	memory_set_heard_ms(registry, 4711);
	cr_assert_eq(registry_heard_ms(registry, 9000), 4711);
	memory_set_answering(registry, false);
	registry_confirm(registry, answer_take, &answer);
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

Test(registry_core, an_answer_between_a_change_and_its_read_confirms_nothing)
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

Test(registry_core, a_user_learns_how_old_the_state_is_whose_read_got_no_answer)
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

/* --- requests --- */

Test(registry_core, requests_wait_for_the_first_connection)
{
	struct answer answer = { 0 };
	const struct registry_options options = { 0 };
	struct registry *registry = memory_open("core", &options);
	client_add(registry);
	cr_assert_eq(registry_state(registry), REGISTRY_CONNECTING);
	client_list(registry, "/", &answer);
	assert_answer(&answer, "OK");
	client_close(registry);
	answer_clear(&answer);
}

CONNECTED(requests_fail_at_once_while_the_registry_is_away)
{
	struct answer answer = { 0 };
	static const enum registry_state states[] = { REGISTRY_AWAY, REGISTRY_LOST,
		REGISTRY_DENIED };
	for (size_t i = 0; i < 3; i++) {
		move_to(registry, states[i]);
		const char *error = states[i] == REGISTRY_DENIED ? "AuthenticationFailed"
								 : "RegistryUnavailable";
		client_get(registry, "/a", &answer);
		assert_answer(&answer, error);
		client_put(registry, "/a", "x", REGISTRY_BIND_OVERWRITE, true, &answer);
		assert_answer(&answer, error);
		client_delete(registry, "/a", REGISTRY_DELETE_TREE, NULL, &answer);
		assert_answer(&answer, error);
		client_records(registry, "/a", &answer);
		assert_answer(&answer, error);
		cr_assert_eq(memory_tasks(registry), 0);
	}
	answer_clear(&answer);
}

CONNECTED(nothing_completes_within_the_call_that_asked)
{
	struct answer answers[4] = { 0 };
	registry_get(registry, "bad path", answer_take, &answers[0]);
	registry_bind(registry, "/", &(struct registry_bind){ 0 }, answer_take, &answers[1]);
	registry_delete(registry, "/", REGISTRY_DELETE_TREE, NULL, NULL, answer_take, &answers[2]);
	registry_purge(registry, &(struct registry_criteria){ 0 }, REGISTRY_PURGE_ALL, false, NULL,
		answer_take, &answers[3]);
	for (size_t i = 0; i < 4; i++) {
		cr_assert_eq(answers[i].calls, 0);
	}
	cr_assert_eq(registry_deadline_ms(registry), 0);
	registry_dispatch(registry, clock_monotonic_ms());
	for (size_t i = 0; i < 4; i++) {
		cr_assert_eq(answers[i].calls, 1);
		cr_assert_neq(answers[i].err.code, 0);
		answer_clear(&answers[i]);
	}
}

CONNECTED(cancelled_requests_are_never_told)
{
	enum { REQUESTS = 6 };
	struct answer answers[REQUESTS] = { 0 };
	struct answer answer = { 0 };
	const struct registry_bind bind = { .data = "x", .len = 1, .parents = true };
	struct registry_request *requests[REQUESTS] = {
		registry_get(registry, "/a", answer_take, &answers[0]),
		registry_get(registry, "bad path", answer_take, &answers[1]),
		registry_bind(registry, "/a/b/c", &bind, answer_take, &answers[2]),
		registry_delete(
			registry, "/", REGISTRY_DELETE_TREE, NULL, NULL, answer_take, &answers[3]),
		registry_find(
			registry, &(struct registry_criteria){ 0 }, NULL, answer_take, &answers[4]),
		registry_mknode(registry, "/x", NULL, false, answer_take, &answers[5]),
	};
	for (size_t i = 0; i < REQUESTS; i++) {
		registry_cancel(registry, requests[i]);
	}
	cr_assert_eq(memory_tasks(registry), 0);
	client_list(registry, "/", &answer);
	assert_answer(&answer, "OK");
	for (size_t i = 0; i < REQUESTS; i++) {
		cr_assert_eq(answers[i].calls, 0);
	}
	answer_clear(&answer);
}

Test(registry_core, closing_with_everything_under_way_tells_nobody)
{
	struct answer answer = { 0 };
	struct registry *registry = open_connected();
	const struct registry_bind bind = { .data = "x", .len = 1, .parents = true };
	registry_bind(registry, "/a/b/c", &bind, answer_take, &answer);
	registry_get(registry, "bad path", answer_take, &answer);
	registry_find(registry, &(struct registry_criteria){ 0 }, NULL, answer_take, &answer);
	registry_watch(registry, "/a", REGISTRY_WATCH_DATA, answer_take, &answer);
	registry_watch(registry, "bad path", REGISTRY_WATCH_DATA, answer_take, &answer);
	client_close(registry);
	cr_assert_eq(answer.calls, 0);
}

/* --- races, decided by the test --- */

struct interference {
	struct registry *registry;
	enum registry_operation operation;
	size_t left; /* how often to interfere */
	void (*interfere)(struct registry *registry, const struct registry_task *task);
};

static void on_task(void *context, const struct registry_task *task, struct err *err)
{
	struct interference *interference = context;
	(void)err;
	if (task->operation == interference->operation && interference->left > 0) {
		interference->left--;
		interference->interfere(interference->registry, task);
	}
}

static void touch(struct registry *registry, const struct registry_task *task)
{
	memory_put(registry, task->path, "somebody else's");
}

static void remove_top(struct registry *registry, const struct registry_task *task)
{
	(void)task;
	memory_remove(registry, "/a");
}

static void add_child(struct registry *registry, const struct registry_task *task)
{
	char path[256];
	snprintf(path, sizeof(path), "%s/new", task->path);
	memory_put(registry, path, "x");
}

static struct registry *open_interfered(struct interference *interference)
{
	interference->registry = open_connected();
	memory_on_task(interference->registry, on_task, interference);
	return interference->registry;
}

Test(registry_core, overwriting_starts_anew_when_another_writes_between)
{
	struct answer answer = { 0 };
	struct interference between = {
		.operation = REGISTRY_OP_SET, .left = 5, .interfere = touch
	};
	struct registry *registry = open_interfered(&between);
	memory_put(registry, "/a", "old");
	client_put(registry, "/a", "new", REGISTRY_BIND_OVERWRITE, false, &answer);
	assert_answer(&answer, "OK");
	cr_assert_eq(between.left, 0);
	client_get(registry, "/a", &answer);
	cr_assert_str_eq(answer.data, "new");
	client_close(registry);
	answer_clear(&answer);
}

Test(registry_core, overwriting_what_is_deleted_between_creates_it)
{
	struct answer answer = { 0 };
	struct interference between = {
		.operation = REGISTRY_OP_REPLACE, .left = 1, .interfere = remove_top
	};
	struct registry *registry = open_interfered(&between);
	memory_put(registry, "/a", "old");
	client_put(registry, "/a", "new", REGISTRY_BIND_OVERWRITE, true, &answer);
	assert_answer(&answer, "OK");
	cr_assert(answer.stat.own);
	client_close(registry);
	answer_clear(&answer);
}

Test(registry_core, endless_contention_ends_and_is_named)
{
	struct answer answer = { 0 };
	struct interference between = {
		.operation = REGISTRY_OP_SET, .left = 1000, .interfere = touch
	};
	struct registry *registry = open_interfered(&between);
	memory_put(registry, "/a", "old");
	client_put(registry, "/a", "new", REGISTRY_BIND_OVERWRITE, false, &answer);
	assert_answer(&answer, "Timeout");
	cr_assert(strstr(answer.err.msg, "contention"), "%s", answer.err.msg);
	cr_assert_eq(1000 - between.left, REGISTRY_MAX_ROUNDS);
	client_close(registry);
	answer_clear(&answer);
}

Test(registry_core, replacing_loses_to_a_write_between)
{
	struct answer answer = { 0 };
	struct interference between = {
		.operation = REGISTRY_OP_SET, .left = 1, .interfere = touch
	};
	struct registry *registry = open_interfered(&between);
	client_put(registry, "/a", "old", REGISTRY_BIND_CREATE, false, &answer);
	const struct registry_bind bind = {
		.data = "new", .len = 3, .mode = REGISTRY_BIND_REPLACE, .expected = answer.stat
	};
	client_bind(registry, "/a", &bind, &answer);
	assert_answer(&answer, "FileAlreadyExists");
	client_get(registry, "/a", &answer);
	cr_assert_str_eq(answer.data, "somebody else's");
	client_close(registry);
	answer_clear(&answer);
}

static void make_b(struct registry *registry, const struct registry_task *task)
{
	if (strcmp(task->path, "/b") == 0) {
		memory_put(registry, "/b", "");
	}
}

static void count_existing(void *context, int code, double duration_s)
{
	(void)duration_s;
	*(int *)context += code == BERTH_FILE_ALREADY_EXISTS;
}

Test(registry_core, a_parent_that_exists_already_is_an_answer_like_success)
{
	struct answer answer = { 0 };
	int existing = 0;
	const struct registry_options options = { .on_answer = count_existing,
		.context = &existing };
	struct interference between = {
		.operation = REGISTRY_OP_CREATE, .left = 2, .interfere = make_b
	};
	between.registry = memory_open("core", &options);
	client_add(between.registry);
	client_wait_state(between.registry, REGISTRY_CONNECTED);
	memory_put(between.registry, "/a", "");
	client_mknode(between.registry, "/a", true, &answer);
	assert_answer(&answer, "OK");
	memory_on_task(between.registry, on_task, &between);
	client_mknode(between.registry, "/b/c", true, &answer);
	assert_answer(&answer, "OK");
	cr_assert_eq(between.left, 0);
	cr_assert_eq(existing, 0);
	client_put(between.registry, "/b/c", "new", REGISTRY_BIND_CREATE, false, &answer);
	assert_answer(&answer, "FileAlreadyExists");
	cr_assert_eq(existing, 1);
	client_close(between.registry);
	answer_clear(&answer);
}

Test(registry_core, endless_deletion_of_parents_ends_and_is_named)
{
	struct answer answer = { 0 };
	struct interference between = {
		.operation = REGISTRY_OP_CREATE, .left = 100000, .interfere = remove_top
	};
	struct registry *registry = open_interfered(&between);
	client_mknode(registry, "/a/b/c", true, &answer);
	assert_answer(&answer, "Timeout");
	between.left = 5;
	client_mknode(registry, "/a/b/c", true, &answer);
	assert_answer(&answer, "OK");
	client_close(registry);
	answer_clear(&answer);
}

Test(registry_core, a_tree_that_grows_while_deleted_is_deleted_too)
{
	struct answer answer = { 0 };
	struct interference between = {
		.operation = REGISTRY_OP_DELETE, .left = 3, .interfere = add_child
	};
	struct registry *registry = open_interfered(&between);
	memory_put(registry, "/a", "x");
	client_delete(registry, "/a", REGISTRY_DELETE_TREE, NULL, &answer);
	assert_answer(&answer, "OK");
	client_list(registry, "/", &answer);
	cr_assert_eq(answer.children_count, 0);
	client_close(registry);
	answer_clear(&answer);
}

Test(registry_core, a_purge_spares_what_is_registered_anew)
{
	struct answer answer = { 0 };
	struct interference between = {
		.operation = REGISTRY_OP_DELETE, .left = 1, .interfere = touch
	};
	struct registry *registry = open_interfered(&between);
	memory_put(registry, "/a",
		"{\"type\":\"JSONServiceRecord\",\"yarn:id\":\"c1\","
		"\"yarn:persistence\":\"container\"}");
	const struct registry_criteria criteria = { .id = "c1", .persistence = "container" };
	client_purge(registry, &criteria, REGISTRY_PURGE_ALL, &answer);
	assert_answer(&answer, "OK");
	cr_assert_eq(answer.count, 0);
	client_get(registry, "/a", &answer);
	assert_answer(&answer, "OK");
	client_close(registry);
	answer_clear(&answer);
}

CONNECTED(walks_keep_to_their_number_of_tasks)
{
	struct answer answer = { 0 };
	char path[64];
	for (size_t i = 0; i < 1000; i++) {
		if (i < 30) {
			snprintf(path, sizeof(path), "/d%zu", i);
			memory_put(registry, path, "x");
		}
		snprintf(path, sizeof(path), "/d%zu/n%zu", i % 30, i);
		memory_put(registry, path, "x");
	}
	client_find(registry, &(struct registry_criteria){ 0 }, &answer);
	assert_answer(&answer, "OK");
	for (size_t i = 0; i < 30; i++) {
		snprintf(path, sizeof(path), "/d%zu", i);
		client_delete(registry, path, REGISTRY_DELETE_TREE, NULL, &answer);
		assert_answer(&answer, "OK");
	}
	cr_assert_eq(memory_most_tasks(registry), REGISTRY_MAX_IN_FLIGHT);
	answer_clear(&answer);
}

/* --- watches --- */

static bool is_absent(void *context)
{
	return ((struct answer *)context)->err.code == BERTH_PATH_NOT_FOUND;
}

CONNECTED(watches_are_read_again_after_each_reconnect)
{
	struct answer changed = { 0 };
	struct answer unchanged = { 0 };
	memory_put(registry, "/a", "one");
	memory_put(registry, "/b", "same");
	registry_watch(registry, "/a", REGISTRY_WATCH_DATA, answer_take, &changed);
	registry_watch(registry, "/b", REGISTRY_WATCH_DATA, answer_take, &unchanged);
	client_wait_calls(&changed, 1);
	client_wait_calls(&unchanged, 1);
	move_to(registry, REGISTRY_AWAY);
	memory_put(registry, "/a", "two");
	registry_dispatch(registry, clock_monotonic_ms());
	cr_assert_eq(changed.calls, 1);
	move_to(registry, REGISTRY_CONNECTED);
	client_wait_calls(&changed, 2);
	client_wait_calls(&unchanged, 2);
	cr_assert_str_eq(changed.data, "two");
	cr_assert(changed.changed);
	cr_assert_str_eq(unchanged.data, "same");
	cr_assert_not(unchanged.changed);
	cr_assert_eq(memory_armed_watches(registry), 2);
	answer_clear(&changed);
	answer_clear(&unchanged);
}

CONNECTED(a_watch_made_while_away_is_read_when_connected)
{
	struct answer seen = { 0 };
	memory_put(registry, "/a", "one");
	move_to(registry, REGISTRY_AWAY);
	registry_watch(registry, "/a", REGISTRY_WATCH_DATA, answer_take, &seen);
	registry_dispatch(registry, clock_monotonic_ms());
	cr_assert_eq(seen.calls, 0);
	move_to(registry, REGISTRY_CONNECTED);
	client_wait_calls(&seen, 1);
	cr_assert_str_eq(seen.data, "one");
	answer_clear(&seen);
}

CONNECTED(a_lost_session_takes_its_nodes_and_the_watch_tells)
{
	struct answer answer = { 0 };
	struct answer seen = { 0 };
	client_put(registry, "/a", "x", REGISTRY_BIND_CREATE, true, &answer);
	registry_watch(registry, "/a", REGISTRY_WATCH_DATA, answer_take, &seen);
	client_wait_calls(&seen, 1);
	cr_assert(seen.stat.own);
	move_to(registry, REGISTRY_LOST);
	move_to(registry, REGISTRY_CONNECTED);
	client_wait(is_absent, &seen);
	cr_assert(seen.changed);
	answer_clear(&answer);
	answer_clear(&seen);
}

static void deny(void *context, const struct registry_task *task, struct err *err)
{
	const bool *denied = context;
	if (*denied && task->operation == REGISTRY_OP_GET) {
		err_set(err, BERTH_NO_PATH_PERMISSIONS, "not for you");
	}
}

CONNECTED(an_error_is_told_as_a_state_and_tried_again)
{
	struct answer seen = { 0 };
	bool denied = true;
	memory_on_task(registry, deny, &denied);
	memory_put(registry, "/a", "x");
	struct registry_watch *watch = registry_watch(
		registry, "/a", REGISTRY_WATCH_DATA, answer_take, &seen);
	client_wait_calls(&seen, 1);
	assert_answer(&seen, "NoPathPermissions");
	/* In half a minute or so, without being asked. */
	int64_t retry_ms = registry_deadline_ms(registry);
	cr_assert_gt(retry_ms, clock_monotonic_ms());
	cr_assert_lt(retry_ms, clock_monotonic_ms() + 60000);
	registry_dispatch(registry, retry_ms);
	registry_dispatch(registry, retry_ms);
	cr_assert_eq(seen.calls, 1, "still the same");
	denied = false;
	registry_dispatch(registry, registry_deadline_ms(registry));
	client_wait_calls(&seen, 2);
	assert_answer(&seen, "OK");
	/* And at once when asked. */
	denied = true;
	registry_watch_refresh(watch);
	client_wait_calls(&seen, 3);
	assert_answer(&seen, "NoPathPermissions");
	answer_clear(&seen);
}

CONNECTED(many_watches_are_read_some_at_a_time)
{
	enum { WATCHES = 500 };
	static struct answer seen[WATCHES];
	char path[64];
	for (size_t i = 0; i < WATCHES; i++) {
		snprintf(path, sizeof(path), "/n%zu", i);
		registry_watch(registry, path, REGISTRY_WATCH_DATA, answer_take, &seen[i]);
	}
	for (size_t i = 0; i < WATCHES; i++) {
		client_wait_calls(&seen[i], 1);
	}
	move_to(registry, REGISTRY_AWAY);
	move_to(registry, REGISTRY_CONNECTED);
	for (size_t i = 0; i < WATCHES; i++) {
		client_wait_calls(&seen[i], 2);
		answer_clear(&seen[i]);
	}
	cr_assert_eq(memory_most_tasks(registry), REGISTRY_MAX_IN_FLIGHT);
}

enum { KNOWN = 1000 };

/* Counts the reads by the first letter of their path. */
static void count_reads(void *context, const struct registry_task *task, struct err *err)
{
	(void)err;
	size_t *reads = context;
	reads[(unsigned char)task->path[1]]++;
}

/* Connected anew, with KNOWN paths /k0, /k1 … to confirm; the watch of the last one. */
static struct registry_watch *reconnect_with_many(
	struct registry *registry, struct answer *seen, size_t *reads)
{
	struct registry_watch *watch = NULL;
	char path[64];
	for (size_t i = 0; i < KNOWN; i++) {
		snprintf(path, sizeof(path), "/k%zu", i);
		watch = registry_watch(registry, path, REGISTRY_WATCH_DATA, answer_take, &seen[i]);
	}
	for (size_t i = 0; i < KNOWN; i++) {
		client_wait_calls(&seen[i], 1);
	}
	move_to(registry, REGISTRY_AWAY);
	memory_on_task(registry, count_reads, reads);
	move_to(registry, REGISTRY_CONNECTED);
	return watch;
}

enum { STEP_MS = 100, PATIENCE_MS = 60000 };

/*
 * Lets time pass, in steps, until all watches were called twice; returns the most reads of a step.
 */
static size_t confirm_all(struct registry *registry, const struct answer *seen, const size_t *reads,
	size_t *ret_steps)
{
	int64_t from_ms = clock_monotonic_ms();
	size_t done = 0;
	size_t most = 0;
	size_t before = reads['k'];
	*ret_steps = 0;
	for (int64_t at_ms = from_ms; done < KNOWN; at_ms += STEP_MS) {
		cr_assert_lt(at_ms, from_ms + PATIENCE_MS, "%zu are confirmed", done);
		do {
			registry_dispatch(registry, at_ms);
		} while (registry_deadline_ms(registry) <= at_ms);
		most = reads['k'] - before > most ? reads['k'] - before : most;
		before = reads['k'];
		while (done < KNOWN && seen[done].calls >= 2) {
			done++;
		}
		++*ret_steps;
	}
	return most;
}

CONNECTED(confirmations_are_spread_over_a_window)
{
	static struct answer seen[KNOWN];
	size_t reads[256] = { 0 };
	size_t steps;
	reconnect_with_many(registry, seen, reads);
	size_t most = confirm_all(registry, seen, reads, &steps);
	cr_assert_eq(reads['k'], KNOWN, "each once");
	cr_assert_gt(steps, 100);
	cr_assert_leq(most * steps, 3 * KNOWN, "%zu in one of %zu steps", most, steps);
	for (size_t i = 0; i < KNOWN; i++) {
		answer_clear(&seen[i]);
	}
}

CONNECTED(new_and_requested_reads_go_before_the_confirmations)
{
	static struct answer seen[KNOWN];
	struct answer new = { 0 };
	size_t reads[256] = { 0 };
	size_t steps;
	struct registry_watch *last = reconnect_with_many(registry, seen, reads);
	registry_watch(registry, "/new", REGISTRY_WATCH_DATA, answer_take, &new);
	registry_watch_hurry(last);
	registry_watch_hurry(last);
	client_wait_calls(&new, 1);
	client_wait_calls(&seen[KNOWN - 1], 2);
	cr_assert_lt(reads['k'], KNOWN / 2);
	confirm_all(registry, seen, reads, &steps);
	cr_assert_eq(reads['k'], KNOWN, "each once");
	for (size_t i = 0; i < KNOWN; i++) {
		answer_clear(&seen[i]);
	}
	answer_clear(&new);
}

CONNECTED(new_paths_and_confirmations_are_read_in_turns)
{
	static struct answer seen[KNOWN];
	static struct answer new[KNOWN];
	size_t reads[256] = { 0 };
	char path[64];
	reconnect_with_many(registry, seen, reads);
	for (size_t i = 0; i < KNOWN; i++) {
		snprintf(path, sizeof(path), "/new%zu", i);
		registry_watch(registry, path, REGISTRY_WATCH_DATA, answer_take, &new[i]);
	}
	/* All confirmations are due by then. */
	int64_t late_ms = clock_monotonic_ms() + PATIENCE_MS;
	for (int turns = 0; new[KNOWN / 2].calls == 0; turns++) {
		cr_assert_lt(turns, KNOWN);
		registry_dispatch(registry, late_ms);
	}
	cr_assert_geq(reads['k'], KNOWN / 2 - 2 * REGISTRY_MAX_IN_FLIGHT);
	cr_assert_leq(reads['k'], KNOWN / 2 + 2 * REGISTRY_MAX_IN_FLIGHT);
	for (size_t i = 0; i < KNOWN; i++) {
		answer_clear(&new[i]);
		answer_clear(&seen[i]);
	}
}

/* --- what another watch implies --- */

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

Test(registry_core, a_state_that_no_other_one_implies_any_more_is_not_confirmed_before_its_read)
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

Test(registry_core, a_follower_takes_over_the_doubt_about_its_leader)
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

static void note_heard(void *context, const struct registry_result *result)
{
	struct seen *seen = context;
	(void)result;
	seen->heard_ms = registry_heard_ms(seen->registry, 9000);
}

Test(registry_core, an_implied_state_is_confirmed_when_its_users_have_it)
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
	registry_confirm(seen.registry, note_heard, &seen);
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

Test(registry_core, a_deleted_node_is_known_when_the_list_of_its_parent_cannot_be_read)
{
	static const int codes[] = { BERTH_TIMEOUT, BERTH_NO_PATH_PERMISSIONS,
		BERTH_REGISTRY_UNAVAILABLE };
	for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
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

/* --- opening --- */

Test(registry_core, bad_options_are_refused_at_once)
{
	static const struct registry_options bad[] = {
		{ .url = NULL },
		{ .url = "redis://h" },
		{ .url = "zookeeper://u:p@h" },
		{ .url = "dir:/tmp/x", .auth = "plain" },
		{ .url = "zookeeper://127.0.0.1:1", .auth = "digest" },
		{ .url = "zookeeper://127.0.0.1:1", .auth = "digest", .auth_file = "/nowhere" },
		{ .url = "zookeeper://127.0.0.1:1", .secure = true },
	};
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct registry *registry = NULL;
		struct err err = ERR_INIT;
		cr_assert_neq(registry_open(&registry, &bad[i], &err), 0, "%zu", i);
		cr_assert_neq(err.code, 0);
		cr_assert_null(registry);
	}
}

Test(registry_core, missing_options_are_a_missing_url)
{
	struct registry *registry = NULL;
	struct err err = ERR_INIT;
	struct err without_url = ERR_INIT;
	const struct registry_options options = { .url = NULL };
	cr_assert_neq(registry_open(&registry, NULL, &err), 0);
	cr_assert_neq(registry_open(&registry, &options, &without_url), 0);
	cr_expect_str_eq(err.msg, without_url.msg);
	cr_expect_not_null(strstr(err.msg, "zookeeper://"));
	cr_assert_null(registry);
}
