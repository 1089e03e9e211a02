/*
 * Watches behind a reconnect: the order of their confirmations, while the clock of the registry is
 * stopped.
 */
#include "tests/support/core_stage.h"

#include <stdio.h>
#include <string.h>

#include "lib/base/clock.h"

#define CONNECTED(name) CONNECTED_TO(registry_reconnect, name)

enum { TURNS = 10, OTHERS = 5, LONG_MS = 60000 };

/* Dispatches until nothing more can happen at this time. */
static void stand_still(struct registry *registry, int64_t now_ms)
{
	for (int i = 0; i < TURNS; i++) {
		registry_dispatch(registry, now_ms);
	}
}

/* Away at one time, and connected at another one. */
static void reconnect(struct registry *registry, int64_t away_ms, int64_t back_ms)
{
	memory_set_state(registry, REGISTRY_AWAY);
	registry_dispatch(registry, away_ms);
	memory_set_state(registry, REGISTRY_CONNECTED);
	registry_dispatch(registry, back_ms);
}

/* Paths that are known, and confirmed before those that a test watches later. */
static void watch_others(struct registry *registry, struct answer *others)
{
	for (int i = 0; i < OTHERS; i++) {
		char path[64];
		snprintf(path, sizeof(path), "/other%d", i);
		memory_put(registry, path, "x");
		registry_watch(registry, path, REGISTRY_WATCH_DATA, answer_take, &others[i]);
		client_wait_calls(&others[i], 1);
	}
}

static size_t confirmed(const struct answer *others)
{
	size_t count = 0;
	for (int i = 0; i < OTHERS; i++) {
		count += others[i].calls > 1;
	}
	return count;
}

static void clear_others(struct answer *others)
{
	for (int i = 0; i < OTHERS; i++) {
		answer_clear(&others[i]);
	}
}

CONNECTED(the_window_of_confirmations_begins_with_the_connection)
{
	struct answer others[OTHERS] = { 0 };
	int64_t now_ms = clock_monotonic_ms();
	watch_others(registry, others);
	reconnect(registry, now_ms, now_ms + LONG_MS);
	stand_still(registry, now_ms + LONG_MS);
	cr_assert_eq(confirmed(others), 1);
	stand_still(registry, now_ms + LONG_MS + LONG_MS);
	cr_assert_eq(confirmed(others), OTHERS);
	clear_others(others);
}

/* The list of an ephemeral node's children follows its data, even when these are read later. */
CONNECTED(a_hurry_for_a_list_is_one_for_the_data_that_imply_it)
{
	struct answer made = { 0 };
	struct answer list = { 0 };
	struct answer data = { 0 };
	int64_t now_ms = clock_monotonic_ms() + LONG_MS;
	client_put(registry, "/e", "x", REGISTRY_BIND_CREATE, true, &made);
	struct registry_watch *watch = registry_watch(
		registry, "/e", REGISTRY_WATCH_CHILDREN, answer_take, &list);
	client_wait_calls(&list, 1);
	registry_watch(registry, "/e", REGISTRY_WATCH_DATA, answer_take, &data);
	client_wait_calls(&data, 1);
	reconnect(registry, now_ms, now_ms);
	stand_still(registry, now_ms);
	cr_assert_eq(list.calls + data.calls, 2, "the list waits for the data");
	registry_watch_hurry(watch);
	stand_still(registry, now_ms);
	cr_assert_eq(data.calls, 2);
	cr_assert_eq(list.calls, 2);
	cr_assert_eq(list.children_count, 0);
	cr_assert_eq(memory_armed_watches(registry), 1);
	answer_clear(&made);
	answer_clear(&list);
	answer_clear(&data);
}

CONNECTED(a_list_without_a_state_waits_for_no_window)
{
	struct answer others[OTHERS] = { 0 };
	struct answer made = { 0 };
	struct answer data = { 0 };
	struct answer list = { 0 };
	int64_t now_ms = clock_monotonic_ms() + LONG_MS;
	watch_others(registry, others);
	client_put(registry, "/e", "x", REGISTRY_BIND_CREATE, true, &made);
	registry_watch(registry, "/e", REGISTRY_WATCH_DATA, answer_take, &data);
	client_wait_calls(&data, 1);
	memory_set_state(registry, REGISTRY_AWAY);
	registry_dispatch(registry, now_ms);
	registry_watch(registry, "/e", REGISTRY_WATCH_CHILDREN, answer_take, &list);
	stand_still(registry, now_ms);
	cr_assert_eq(list.calls, 0);
	memory_set_state(registry, REGISTRY_CONNECTED);
	stand_still(registry, now_ms);
	cr_assert_eq(list.calls, 1);
	cr_assert_eq(confirmed(others), 1);
	clear_others(others);
	answer_clear(&made);
	answer_clear(&data);
	answer_clear(&list);
}

static void count_tasks(void *context, const struct registry_task *task, struct err *err)
{
	(void)task;
	(void)err;
	++*(size_t *)context;
}

CONNECTED(a_list_without_a_state_waits_for_the_data_that_imply_it)
{
	struct answer made = { 0 };
	struct answer data = { 0 };
	struct answer list = { 0 };
	size_t tasks = 0;
	int64_t now_ms = clock_monotonic_ms() + LONG_MS;
	client_put(registry, "/e", "x", REGISTRY_BIND_CREATE, true, &made);
	registry_watch(registry, "/e", REGISTRY_WATCH_DATA, answer_take, &data);
	client_wait_calls(&data, 1);
	memory_set_state(registry, REGISTRY_AWAY);
	registry_dispatch(registry, now_ms);
	registry_watch(registry, "/e", REGISTRY_WATCH_CHILDREN, answer_take, &list);
	memory_on_task(registry, count_tasks, &tasks);
	memory_set_state(registry, REGISTRY_CONNECTED);
	stand_still(registry, now_ms);
	assert_answer(&list, "OK");
	cr_assert_eq(data.calls, 2);
	cr_assert_eq(tasks, 1, "the list is not read");
	answer_clear(&made);
	answer_clear(&data);
	answer_clear(&list);
}

CONNECTED(a_path_that_is_none_is_not_read_behind_a_reconnect)
{
	struct answer invalid = { 0 };
	struct answer valid = { 0 };
	size_t tasks = 0;
	int64_t now_ms = clock_monotonic_ms() + LONG_MS;
	registry_watch(registry, "no path", REGISTRY_WATCH_DATA, answer_take, &invalid);
	registry_watch(registry, "/a", REGISTRY_WATCH_DATA, answer_take, &valid);
	client_wait_calls(&invalid, 1);
	client_wait_calls(&valid, 1);
	assert_answer(&invalid, "InvalidPathname");
	memory_on_task(registry, count_tasks, &tasks);
	reconnect(registry, now_ms, now_ms);
	stand_still(registry, now_ms + LONG_MS);
	cr_assert_eq(valid.calls, 2);
	cr_assert_eq(tasks, 1);
	cr_assert_eq(invalid.calls, 1);
	answer_clear(&invalid);
	answer_clear(&valid);
}

CONNECTED(a_refresh_of_an_implied_list_while_away_is_answered_behind_the_reconnect)
{
	struct answer made = { 0 };
	struct answer data = { 0 };
	struct answer first = { 0 };
	struct answer second = { 0 };
	int64_t now_ms = clock_monotonic_ms() + LONG_MS;
	client_put(registry, "/e", "x", REGISTRY_BIND_CREATE, true, &made);
	registry_watch(registry, "/e", REGISTRY_WATCH_DATA, answer_take, &data);
	client_wait_calls(&data, 1);
	struct registry_watch *watch = registry_watch(
		registry, "/e", REGISTRY_WATCH_CHILDREN, answer_take, &first);
	client_wait_calls(&first, 1);
	memory_set_state(registry, REGISTRY_AWAY);
	registry_dispatch(registry, now_ms);
	registry_watch_refresh(watch);
	registry_watch(registry, "/e", REGISTRY_WATCH_CHILDREN, answer_take, &second);
	stand_still(registry, now_ms);
	cr_assert_eq(second.calls, 1, "the last state");
	cr_assert_eq(first.calls, 1);
	memory_set_state(registry, REGISTRY_CONNECTED);
	stand_still(registry, now_ms);
	stand_still(registry, now_ms + LONG_MS);
	cr_assert_eq(first.calls, 2);
	cr_assert_eq(second.calls, 2);
	cr_assert_eq(memory_armed_watches(registry), 1, "the list is not read");
	answer_clear(&made);
	answer_clear(&data);
	answer_clear(&first);
	answer_clear(&second);
}
