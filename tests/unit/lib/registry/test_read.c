/* The requests that read one node: what they ask of a backend, and their answers to its errors. */
#include "tests/support/core_stage.h"

#include <string.h>

#define RECORD "{\"type\":\"JSONServiceRecord\"}"

#define CONNECTED(name) CONNECTED_TO(registry_read, name)

/* The tasks that a backend got, and how it fails those of one operation. */
struct backend {
	enum registry_operation fails;
	int code; /* 0: none fails */
	size_t tasks;
};

static void on_task(void *context, const struct registry_task *task, struct err *err)
{
	struct backend *backend = context;
	backend->tasks++;
	if (backend->code && task->operation == backend->fails) {
		err_set(err, backend->code, "%s: not now", task->path);
	}
}

CONNECTED(a_record_that_cannot_be_read_is_named_by_its_path)
{
	struct answer answer = { 0 };
	memory_put(registry, "/bad", "no record");
	memory_put(registry, "/good", RECORD);
	client_resolve(registry, "/bad", &answer);
	assert_answer(&answer, "NoRecord");
	cr_assert_eq(strncmp(answer.err.msg, "/bad: ", 6), 0, "%s", answer.err.msg);
	client_resolve(registry, "/good", &answer);
	assert_answer(&answer, "OK");
	cr_assert_str_eq(answer.data, RECORD);
	answer_clear(&answer);
}

/* ---- stat ---- */

CONNECTED(a_stat_counts_children_whose_names_are_good)
{
	struct answer answer = { 0 };
	memory_put(registry, "/a", "12345");
	memory_put(registry, "/a/My Node", "");
	client_stat(registry, "/a", &answer);
	assert_answer(&answer, "OK");
	cr_assert_eq(answer.stat.children, 0);
	cr_assert_eq(answer.stat.foreign, 1);
	memory_put(registry, "/a/b", "");
	memory_put(registry, "/a/c", "");
	client_stat(registry, "/a", &answer);
	cr_assert_eq(answer.stat.children, 2);
	cr_assert_eq(answer.stat.foreign, 1);
	cr_assert_eq(answer.stat.size, 5);
	answer_clear(&answer);
}

CONNECTED(a_node_that_may_not_be_listed_has_a_stat)
{
	struct backend backend = { REGISTRY_OP_CHILDREN, BERTH_NO_PATH_PERMISSIONS, 0 };
	struct answer answer = { 0 };
	memory_put(registry, "/a", "12345");
	memory_put(registry, "/a/b", "");
	memory_put(registry, "/a/c", "");
	memory_on_task(registry, on_task, &backend);
	client_stat(registry, "/a", &answer);
	assert_answer(&answer, "OK");
	cr_assert_eq(answer.stat.size, 5);
	cr_assert_eq(answer.stat.children, 2);
	backend.code = BERTH_TIMEOUT;
	client_stat(registry, "/a", &answer);
	assert_answer(&answer, "Timeout");
	cr_assert_str_eq(answer.err.msg, "/a: not now");
	answer_clear(&answer);
}
