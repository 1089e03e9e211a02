/* The reading of nodes, and the names of their children. */
#include <string.h>

#include "lib/base/array.h"
#include "lib/registry/internal.h"
#include "tests/support/core_stage.h"

/* ---- read ---- */

/* The requests that read one node: what they ask of a backend, and their answers to its errors. */

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

/* ---- children ---- */

CONNECTED(names_are_sorted_into_those_that_paths_can_hold_and_others)
{
	struct answer answer = { 0 };
	static const char *const names[] = { "/t/b", "/t/B", "/t/a", "/t/A", "/t/c" };
	memory_put(registry, "/t", "");
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		memory_put(registry, names[i], "");
	}
	client_list(registry, "/t", &answer);
	assert_answer(&answer, "OK");
	cr_assert_str_eq(answer_children(&answer), "/t/a /t/b /t/c");
	cr_assert_str_eq(answer_foreign(&answer), "/t/A /t/B");
	cr_assert_eq(answer.stat.children, 3);
	cr_assert_eq(answer.stat.foreign, 2);
	answer_clear(&answer);
}

Test(registry_children, names_that_a_server_repeats_are_told_once)
{
	char *names[] = { "b", "a", "b", "B", "B", "a" };
	const struct registry_task task = { .ret_children = names, .ret_children_count = 6 };
	struct registry_children children;
	cr_assert_eq(registry_children_init(&children, "/t", &task, false), 0);
	cr_assert_eq(children.count, 2);
	cr_assert_str_eq(children.paths[0], "/t/a");
	cr_assert_str_eq(children.paths[1], "/t/b");
	cr_assert_eq(children.foreign_count, 1);
	cr_assert_str_eq(children.foreign[0], "/t/B");
	free(children.paths);
}

CONNECTED(a_list_that_is_read_again_is_unchanged)
{
	struct answer list = { 0 };
	memory_put(registry, "/t", "");
	memory_put(registry, "/t/a", "");
	memory_put(registry, "/t/b", "");
	memory_put(registry, "/t/B", "");
	struct registry_watch *watch = registry_watch(
		registry, "/t", REGISTRY_WATCH_CHILDREN, answer_take, &list);
	client_wait_calls(&list, 1);
	cr_assert(list.changed);
	registry_watch_refresh(watch);
	client_wait_calls(&list, 2);
	cr_assert_not(list.changed);
	answer_clear(&list);
}

/* One name gives way to another, unseen, so that the number of names stays. */
static void exchange(const char *old, const char *new)
{
	struct answer list = { 0 };
	struct registry *registry = open_connected();
	memory_put(registry, "/t", "");
	memory_put(registry, "/t/a", "");
	memory_put(registry, "/t/A", "");
	memory_put(registry, old, "");
	registry_watch(registry, "/t", REGISTRY_WATCH_CHILDREN, answer_take, &list);
	client_wait_calls(&list, 1);
	move_to(registry, REGISTRY_AWAY);
	memory_remove(registry, old);
	memory_put(registry, new, "");
	move_to(registry, REGISTRY_CONNECTED);
	client_wait_calls(&list, 2);
	cr_assert(list.changed, "%s for %s", new, old);
	client_close(registry);
	answer_clear(&list);
}

Test(registry_children, another_name_in_the_place_of_one_is_a_change)
{
	exchange("/t/b", "/t/c");
	exchange("/t/B", "/t/C");
}
