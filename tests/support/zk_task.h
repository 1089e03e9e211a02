/* A task on the ZooKeeper stage, and the dialogue with the worker that it leads to. */
#ifndef TESTS_SUPPORT_ZK_TASK_H
#define TESTS_SUPPORT_ZK_TASK_H

#include <criterion/criterion.h>
#include <stdlib.h>

#include "tests/support/zk_stage.h"

static struct registry_task task;

static inline void begin(enum registry_operation operation, const char *path)
{
	task = (struct registry_task){ .operation = operation, .path = path };
}

static inline void free_results(struct registry_task *of)
{
	free(of->ret_data);
	for (size_t i = 0; i < of->ret_children_count; i++) {
		free(of->ret_children[i]);
	}
	free(of->ret_children);
	of->ret_data = NULL;
	of->ret_children = NULL;
	of->ret_children_count = 0;
}

/* The only request that was made meanwhile. */
static inline const struct zk_request *request(enum zk_operation operation, const char *path)
{
	const struct zk_request *found = zk_stage_request();
	cr_assert(found, "there is no request");
	cr_assert_eq(found->operation, operation, "%d", found->operation);
	cr_assert_str_eq(found->path, path);
	return found;
}

static inline const struct zk_request *submitted(enum zk_operation operation, const char *path)
{
	zk_stage_submit(&task);
	cr_assert(!zk_stage_is_done(&task));
	return request(operation, path);
}

static inline void answer(const struct zk_request *to, int32_t rc)
{
	zk_stage_answer(to, rc);
}

static inline void check_code(const struct registry_task *of, int code)
{
	cr_assert(zk_stage_is_done(of));
	cr_assert_eq(of->ret_err.code, code, "%d: %s", of->ret_err.code, of->ret_err.msg);
}

#define assert_words(text, words) cr_assert(strstr(text, words), "%s", text)

#endif
