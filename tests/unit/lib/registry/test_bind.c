/*
 * mknode and bind on a registry in memory: what other clients do between two steps, what the
 * registry refuses at each of them, and what happens without memory. tests/registry has the rest.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/array.h"
#include "lib/base/limits.h"
#include "lib/base/path.h"
#include "lib/registry/internal.h"
#include "tests/support/memory_backend.h"
#include "tests/support/failing.h"
#include "tests/support/registry_client.h"
#include "tests/support/staged.h"

static struct registry *open_with(const struct registry_options *options)
{
	struct registry *registry = memory_open("bind", options);
	client_add(registry);
	client_wait_state(registry, REGISTRY_CONNECTED);
	return registry;
}

#define CONNECTED(name)                                                                            \
	STAGED_TEST(bind, name, struct registry *, registry,                                       \
		open_with(&(struct registry_options){ 0 }), client_close)

static void expect(const struct answer *answer, const char *name, const char *words)
{
	cr_assert_str_eq(answer_name(answer), name, "%s", answer->err.msg);
	cr_assert(strstr(answer->err.msg, words), "%s", answer->err.msg);
}

/* ---- between two steps ---- */

/* An event just before a task of this operation is carried out. */
struct moment {
	struct registry *registry;
	enum registry_operation operation;
	const char *path; /* of the task; NULL: any */
	int refusal;      /* the task's result, or 0 */
	const char *put;  /* a node that another client writes, or NULL */
	size_t times;
	bool no_memory; /* the next allocation fails */
};

static void on_task(void *context, const struct registry_task *task, struct err *err)
{
	struct moment *moment = context;
	bool due = task->operation == moment->operation && moment->times > 0 &&
		(!moment->path || strcmp(moment->path, task->path) == 0);
	if (!due) {
		return;
	}
	moment->times--;
	if (moment->refusal) {
		err_set(err, moment->refusal, "not now");
	}
	if (moment->put) {
		memory_put(moment->registry, moment->put, "somebody else's");
	}
	if (moment->no_memory) {
		failing_arm("alloc", 1, ENOMEM);
	}
}

/* Binds "new" at the path while that happens. */
static void put_at(struct registry *registry, struct moment *moment, const char *path,
	enum registry_bind_mode mode, bool ephemeral, struct answer *answer)
{
	moment->registry = registry;
	moment->times = moment->times ? moment->times : 1;
	memory_on_task(registry, on_task, moment);
	client_put(registry, path, "new", mode, ephemeral, answer);
	(void)failing_disarm();
	memory_on_task(registry, NULL, NULL);
	cr_assert_eq(moment->times, 0);
}

static void count_swaps(void *context, const struct registry_task *task, struct err *err)
{
	(void)err;
	*(size_t *)context += task->operation == REGISTRY_OP_REPLACE;
}

CONNECTED(a_node_that_appears_before_ours_is_swapped_for_ours)
{
	struct answer answer = { 0 };
	struct moment moment = { .operation = REGISTRY_OP_CREATE, .put = "/a" };
	put_at(registry, &moment, "/a", REGISTRY_BIND_OVERWRITE, true, &answer);
	cr_assert_eq(answer.err.code, 0, "%s", answer.err.msg);
	cr_assert(answer.stat.own);
	client_get(registry, "/a", &answer);
	cr_assert_str_eq(answer.data, "new");
	answer_clear(&answer);
}

CONNECTED(a_node_that_gets_a_child_before_the_swap_keeps_its_record)
{
	struct answer answer = { 0 };
	struct moment moment = { .operation = REGISTRY_OP_REPLACE, .put = "/a/child" };
	memory_put(registry, "/a", "old");
	put_at(registry, &moment, "/a", REGISTRY_BIND_OVERWRITE, true, &answer);
	expect(&answer, "NoChildrenForEphemerals", "has children");
	client_get(registry, "/a", &answer);
	cr_assert_str_eq(answer.data, "old");
	answer_clear(&answer);
}

CONNECTED(an_ephemeral_record_is_not_even_sent_for_a_node_with_children)
{
	struct answer answer = { 0 };
	size_t writes = 0;
	memory_put(registry, "/a", "old");
	memory_put(registry, "/a/child", "");
	memory_on_task(registry, count_swaps, &writes);
	client_put(registry, "/a", "new", REGISTRY_BIND_OVERWRITE, true, &answer);
	expect(&answer, "NoChildrenForEphemerals", "has children");
	cr_assert_eq(writes, 0);
	answer_clear(&answer);
}

CONNECTED(a_step_that_the_registry_refuses_is_the_result)
{
	static const struct {
		enum registry_operation operation;
		enum registry_bind_mode mode;
		bool ephemeral;
	} steps[] = {
		{ REGISTRY_OP_STAT, REGISTRY_BIND_OVERWRITE, false },
		{ REGISTRY_OP_SET, REGISTRY_BIND_OVERWRITE, false },
		{ REGISTRY_OP_REPLACE, REGISTRY_BIND_OVERWRITE, true },
		{ REGISTRY_OP_CREATE, REGISTRY_BIND_CREATE, false },
	};
	struct answer answer = { 0 };
	memory_put(registry, "/a", "old");
	for (size_t i = 0; i < ARRAY_LEN(steps); i++) {
		struct moment moment = { .operation = steps[i].operation,
			.refusal = BERTH_NO_PATH_PERMISSIONS };
		put_at(registry, &moment, "/a", steps[i].mode, steps[i].ephemeral, &answer);
		expect(&answer, "NoPathPermissions", "not now");
	}
	client_get(registry, "/a", &answer);
	cr_assert_str_eq(answer.data, "old");
	answer_clear(&answer);
}

CONNECTED(a_root_that_cannot_be_made_is_named)
{
	struct answer answer = { 0 };
	struct moment moment = { .registry = registry,
		.operation = REGISTRY_OP_CREATE,
		.refusal = BERTH_PATH_NOT_FOUND,
		.times = 2 };
	memory_on_task(registry, on_task, &moment);
	client_mknode(registry, "/a", true, &answer);
	expect(&answer, "PathNotFound", "root does not exist");
	answer_clear(&answer);
}

static int make_home(struct registry *registry, const char *path, struct answer *answer)
{
	answer_clear(answer);
	registry_mknode(registry, path, "", false, answer_take, answer);
	client_wait_calls(answer, 1);
	return answer->err.code;
}

/* Where the backend itself knows who owns a node, it decides which owners there are. */
CONNECTED(an_owner_is_checked_by_the_one_who_knows)
{
	struct answer answer = { 0 };
	cr_assert_eq(make_home(registry, "/a", &answer), BERTH_FAILED);
	struct registry_backend_ops owning = *registry->ops;
	owning.owns = true;
	registry->ops = &owning;
	cr_assert_eq(make_home(registry, "/a", &answer), 0, "%s", answer.err.msg);
	registry->ops = &memory_ops;
	answer_clear(&answer);
}

/* ---- numbers ---- */

CONNECTED(a_number_is_told_behind_the_longest_path)
{
	struct answer answer = { 0 };
	const struct registry_bind bind = {
		.data = "x", .len = 1, .sequential = true, .parents = true
	};
	char path[LIMIT_PATH_BYTES + 1];
	for (size_t i = 0; i < LIMIT_PATH_BYTES; i++) {
		path[i] = i % 50 == 0 ? '/' : 'a';
	}
	path[LIMIT_PATH_BYTES] = '\0';
	cr_assert_eq(client_bind(registry, path, &bind, &answer), 0, "%s", answer.err.msg);
	cr_assert_eq(strncmp(answer.data, path, LIMIT_PATH_BYTES), 0);
	cr_assert_eq(strspn(answer.data + LIMIT_PATH_BYTES, "0123456789"), 10);
	cr_assert_eq(strlen(answer.data), LIMIT_PATH_BYTES + 10);
	answer_clear(&answer);
}

/* ---- without memory ---- */

typedef struct registry_request *begin(
	struct registry *registry, const char *path, struct answer *answer);
