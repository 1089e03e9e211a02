/* Watches of the registry core: when they are read, and in which order. */
#include "tests/support/core_stage.h"

#include <stdio.h>

#include "lib/base/clock.h"
#include "lib/registry/internal.h"

#define CONNECTED(name) CONNECTED_TO(registry_watch, name)

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

CONNECTED(a_retry_comes_after_half_of_its_delay_to_one_and_a_half)
{
	enum { RETRIES = 100, DELAY_MS = 30000 };
	struct answer seen = { 0 };
	bool denied = true;
	memory_on_task(registry, deny, &denied);
	memory_put(registry, "/a", "x");
	registry_watch(registry, "/a", REGISTRY_WATCH_DATA, answer_take, &seen);
	int64_t now_ms = clock_monotonic_ms() + DELAY_MS;
	int64_t least_ms = INT64_MAX;
	int64_t most_ms = 0;
	for (int i = 0; i < RETRIES; i++) {
		/* Reads, and takes the answer. */
		registry_dispatch(registry, now_ms);
		registry_dispatch(registry, now_ms);
		int64_t wait_ms = registry_deadline_ms(registry) - now_ms;
		least_ms = wait_ms < least_ms ? wait_ms : least_ms;
		most_ms = wait_ms > most_ms ? wait_ms : most_ms;
		now_ms += wait_ms;
	}
	assert_answer(&seen, "NoPathPermissions");
	cr_assert_geq(least_ms, DELAY_MS / 2);
	cr_assert_lt(most_ms, DELAY_MS + DELAY_MS / 2);
	answer_clear(&seen);
}

CONNECTED(no_more_reads_are_under_way_than_the_registry_takes)
{
	static struct answer seen[REGISTRY_MAX_IN_FLIGHT + 1];
	char path[64];
	for (size_t i = 0; i <= REGISTRY_MAX_IN_FLIGHT; i++) {
		snprintf(path, sizeof(path), "/n%zu", i);
		registry_watch(registry, path, REGISTRY_WATCH_DATA, answer_take, &seen[i]);
	}
	cr_assert_eq(memory_tasks(registry), REGISTRY_MAX_IN_FLIGHT);
	for (size_t i = 0; i <= REGISTRY_MAX_IN_FLIGHT; i++) {
		client_wait_calls(&seen[i], 1);
		answer_clear(&seen[i]);
	}
	cr_assert_eq(memory_most_tasks(registry), REGISTRY_MAX_IN_FLIGHT);
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

CONNECTED(a_watch_is_read_at_once)
{
	struct answer seen = { 0 };
	registry_watch(registry, "/a", REGISTRY_WATCH_DATA, answer_take, &seen);
	cr_assert_eq(memory_tasks(registry), 1);
	client_wait_calls(&seen, 1);
	answer_clear(&seen);
}

CONNECTED(a_watch_that_comes_during_a_refresh_gets_no_older_state)
{
	struct answer first = { 0 };
	struct answer second = { 0 };
	memory_put(registry, "/a", "old");
	struct registry_watch *watch = registry_watch(
		registry, "/a", REGISTRY_WATCH_DATA, answer_take, &first);
	client_wait_calls(&first, 1);
	memory_set_answering(registry, false);
	memory_put(registry, "/a", "new");
	registry_watch_refresh(watch);
	registry_watch(registry, "/a", REGISTRY_WATCH_DATA, answer_take, &second);
	registry_dispatch(registry, clock_monotonic_ms());
	cr_assert_eq(second.calls, 0);
	memory_set_answering(registry, true);
	client_wait_calls(&second, 1);
	cr_assert_str_eq(second.data, "new");
	answer_clear(&first);
	answer_clear(&second);
}

CONNECTED(a_watch_that_comes_between_two_refreshes_gets_the_state_of_the_later_one)
{
	struct answer first = { 0 };
	struct answer second = { 0 };
	memory_put(registry, "/a", "same");
	struct registry_watch *watch = registry_watch(
		registry, "/a", REGISTRY_WATCH_DATA, answer_take, &first);
	client_wait_calls(&first, 1);
	registry_watch_refresh(watch);
	registry_watch_refresh(watch);
	registry_watch(registry, "/a", REGISTRY_WATCH_DATA, answer_take, &second);
	client_wait_calls(&first, 2);
	cr_assert_eq(second.calls, 1);
	cr_assert_str_eq(second.data, "same");
	answer_clear(&first);
	answer_clear(&second);
}

CONNECTED(the_list_of_a_node_that_was_made_anew_has_changed)
{
	struct answer list = { 0 };
	memory_put(registry, "/t", "");
	registry_watch(registry, "/t", REGISTRY_WATCH_CHILDREN, answer_take, &list);
	client_wait_calls(&list, 1);
	struct registry_stat before = list.stat;
	move_to(registry, REGISTRY_AWAY);
	memory_remove(registry, "/t");
	memory_put(registry, "/t", "");
	move_to(registry, REGISTRY_CONNECTED);
	client_wait_calls(&list, 2);
	cr_assert_neq(list.stat.node_id, before.node_id);
	cr_assert_eq(list.children_count, 0);
	cr_assert(list.changed);
	answer_clear(&list);
}

/* A refresh without a connection is for later; the state that is known serves until then. */
CONNECTED(a_watch_that_comes_during_a_refresh_while_away_gets_the_last_state)
{
	struct answer first = { 0 };
	struct answer second = { 0 };
	memory_put(registry, "/a", "old");
	struct registry_watch *watch = registry_watch(
		registry, "/a", REGISTRY_WATCH_DATA, answer_take, &first);
	client_wait_calls(&first, 1);
	move_to(registry, REGISTRY_AWAY);
	registry_watch_refresh(watch);
	registry_watch(registry, "/a", REGISTRY_WATCH_DATA, answer_take, &second);
	registry_dispatch(registry, clock_monotonic_ms());
	cr_assert_eq(second.calls, 1);
	cr_assert_str_eq(second.data, "old");
	answer_clear(&first);
	answer_clear(&second);
}

/* The backend has one watch for both paths of a node. */
Test(registry_watch, a_path_is_unwatched_after_its_twin)
{
	const struct registry_options options = { .foreign_paths = true };
	struct registry *registry = memory_open("core", &options);
	struct answer by_path = { 0 };
	struct answer by_twin = { 0 };
	client_add(registry);
	client_wait_state(registry, REGISTRY_CONNECTED);
	struct registry_watch *path = registry_watch(
		registry, "/a", REGISTRY_WATCH_DATA, answer_take, &by_path);
	struct registry_watch *twin = registry_watch(
		registry, "//a", REGISTRY_WATCH_DATA, answer_take, &by_twin);
	client_wait_calls(&by_path, 1);
	client_wait_calls(&by_twin, 1);
	cr_assert_eq(memory_armed_watches(registry), 2, "the memory knows no twins");
	registry_unwatch(path);
	cr_assert_eq(memory_armed_watches(registry), 2);
	registry_unwatch(twin);
	cr_assert_eq(memory_armed_watches(registry), 1);
	client_close(registry);
	answer_clear(&by_path);
	answer_clear(&by_twin);
}
