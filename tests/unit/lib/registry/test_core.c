/* Requests to the registry core, races between their steps, and its opening. */
#include "lib/base/array.h"
#include "tests/support/core_stage.h"

#include <stdio.h>
#include <string.h>

#include "lib/base/clock.h"
#include "lib/registry/internal.h"
#include "lib/registry/walk.h"

#define CONNECTED(name) CONNECTED_TO(registry_core, name)

/* ---- requests ---- */

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

/* ---- races, decided by the test ---- */

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

static struct registry *open_interfered(struct interference *interference)
{
	interference->registry = open_connected();
	memory_on_task(interference->registry, on_task, interference);
	return interference->registry;
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
	cr_assert_eq(memory_most_tasks(registry), WALK_MAX_IN_FLIGHT);
	answer_clear(&answer);
}

/* ---- opening ---- */

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
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct registry *registry = NULL;
		struct err err = ERR_INIT;
		cr_assert_neq(registry_open(&registry, &bad[i], &err), 0, "%zu", i);
		cr_assert_neq(err.code, 0);
		cr_assert_null(registry);
	}
}
