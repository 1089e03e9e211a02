/* Delete and withdraw of one node, with others that write between their steps. */
#include "tests/support/core_stage.h"

#include <stdio.h>

#define CONNECTED(name) CONNECTED_TO(registry_delete, name)

/* Another client acts before the first task of this operation. */
struct between {
	struct registry *registry;
	enum registry_operation operation;
	void (*act)(struct registry *registry, const char *path); /* NULL: nothing any more */
	size_t writes;                                            /* sent since then */
};

static void on_task(void *context, const struct registry_task *task, struct err *err)
{
	struct between *between = context;
	(void)err;
	between->writes += task->operation == REGISTRY_OP_SET;
	if (task->operation == between->operation && between->act) {
		between->act(between->registry, task->path);
		between->act = NULL;
	}
}

static void rewrite(struct registry *registry, const char *path)
{
	memory_put(registry, path, "somebody else's");
}

/* A node with a child. */
static struct registry_stat make_parent(struct registry *registry, const char *path)
{
	struct answer answer = { 0 };
	char child[64];
	client_put(registry, path, "x", REGISTRY_BIND_CREATE, false, &answer);
	assert_answer(&answer, "OK");
	struct registry_stat stat = answer.stat;
	snprintf(child, sizeof(child), "%s/child", path);
	memory_put(registry, child, "y");
	answer_clear(&answer);
	return stat;
}

CONNECTED(a_deletion_counts_nothing_but_a_node_that_it_took_away)
{
	struct answer answer = { 0 };
	make_parent(registry, "/a");
	client_delete(registry, "/a", REGISTRY_DELETE_NODE, NULL, &answer);
	assert_answer(&answer, "PathIsNotEmptyDirectory");
	cr_assert_eq(answer.count, 0);
	client_delete(registry, "/a/child", REGISTRY_DELETE_NODE, NULL, &answer);
	assert_answer(&answer, "OK");
	cr_assert_eq(answer.count, 1);
	client_delete(registry, "/a/child", REGISTRY_DELETE_NODE, NULL, &answer);
	assert_answer(&answer, "OK");
	cr_assert_eq(answer.count, 0);
	answer_clear(&answer);
}

CONNECTED(a_withdrawal_empties_no_version_but_the_expected_one)
{
	struct answer answer = { 0 };
	struct between between = { registry, REGISTRY_OP_SET, rewrite, 0 };
	struct registry_stat stat = make_parent(registry, "/a");
	memory_on_task(registry, on_task, &between);
	client_withdraw(registry, "/a", &stat, &answer);
	assert_answer(&answer, "FileAlreadyExists");
	cr_assert_not(answer.emptied);
	client_get(registry, "/a", &answer);
	cr_assert_str_eq(answer.data, "somebody else's");
	answer_clear(&answer);
}

CONNECTED(a_second_withdrawal_of_an_emptied_node_writes_nothing)
{
	struct answer answer = { 0 };
	struct between between = { registry, REGISTRY_OP_SET, NULL, 0 };
	struct registry_stat stat = make_parent(registry, "/a");
	memory_on_task(registry, on_task, &between);
	client_withdraw(registry, "/a", &stat, &answer);
	assert_answer(&answer, "OK");
	cr_assert(answer.emptied);
	cr_assert_eq(answer.stat.size, 0);
	struct registry_stat emptied = answer.stat;
	client_withdraw(registry, "/a", &emptied, &answer);
	assert_answer(&answer, "OK");
	cr_assert(answer.emptied);
	cr_assert_eq(answer.stat.version, emptied.version);
	cr_assert_eq(between.writes, 1);
	answer_clear(&answer);
}
