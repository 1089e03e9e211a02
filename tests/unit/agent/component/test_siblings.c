#include <criterion/criterion.h>
#include <criterion/parameterized.h>

#include "agent/base/registry_loop.h"
#include "agent/component/siblings.h"
#include "tests/support/memory_backend.h"
#include "tests/support/run_until.h"

/* The component is b. The nodes beside it, and their meaning for it. */
struct row {
	char records[192];
	enum component_siblings_answer answer;
};

#define FAILING "{\"berth:health\":\"failing\"}"

static struct row rows[] = {
	{ "{}", COMPONENT_SIBLINGS_NONE },
	{ "{\"/c/b\":{}}", COMPONENT_SIBLINGS_NONE },
	{ "{\"/c/b\":" FAILING "}", COMPONENT_SIBLINGS_NONE },
	{ "{\"/c/a\":{}}", COMPONENT_SIBLINGS_SOME },
	{ "{\"/c/d\":{}}", COMPONENT_SIBLINGS_SOME },
	{ "{\"/c/d\":{\"berth:health\":\"warning\"}}", COMPONENT_SIBLINGS_SOME },
	{ "{\"/c/d\":{\"berth:health\":1}}", COMPONENT_SIBLINGS_SOME },
	{ "{\"/c/a\":" FAILING ",\"/c/b\":" FAILING "}", COMPONENT_SIBLINGS_SOME },
	{ "{\"/c/b\":" FAILING ",\"/c/d\":" FAILING "}", COMPONENT_SIBLINGS_LESSER },
	{ "{\"/c/d\":" FAILING ",\"/c/e\":{}}", COMPONENT_SIBLINGS_SOME },
	{ "{\"/c/a\":" FAILING ",\"/c/d\":" FAILING "}", COMPONENT_SIBLINGS_SOME },
};

ParameterizedTestParameters(component_siblings, means)
{
	return cr_make_param_array(struct row, rows, sizeof(rows) / sizeof(rows[0]));
}

ParameterizedTest(struct row *row, component_siblings, means)
{
	json_t *records = json_loads(row->records, 0, NULL);
	cr_assert_not_null(records);
	cr_expect_eq(component_siblings_judge(records, "/c/b"), row->answer, "%s", row->records);
	json_decref(records);
}

Test(component_siblings, no_records_at_all_is_nobody)
{
	cr_expect_eq(component_siblings_judge(NULL, "/c/b"), COMPONENT_SIBLINGS_NONE);
}

/* ---- on a registry --------------------------------------------------------------------------- */

static void on_answer(void *context)
{
	(*(int *)context)++;
}

static void refuse_lists(void *context, const struct registry_task *task, struct err *err)
{
	int *left = context;
	if (task->operation == REGISTRY_OP_CHILDREN && !task->watch && *left > 0) {
		(*left)--;
		err_set(err, BERTH_NO_PATH_PERMISSIONS, "not for you");
	}
}

#define IS_NOW(answer)                                                                             \
	RUN_UNTIL(loop, component_siblings_answer(siblings) == (answer) && refusals == 0)

Test(component_siblings, are_looked_at_again_when_one_comes_or_goes)
{
	struct ev_loop *loop = ev_loop_new(EVFLAG_AUTO);
	const struct registry_options options = { 0 };
	struct registry *registry = memory_open("siblings", &options);
	struct registry_loop driver;
	int answers = 0;
	int refusals = 0;
	registry_loop_init(&driver, loop, registry);
	cr_assert_eq(component_siblings_answer(NULL), COMPONENT_SIBLINGS_UNKNOWN);
	struct component_siblings *siblings = component_siblings_create(
		loop, registry, "/c/b", on_answer, &answers);
	IS_NOW(COMPONENT_SIBLINGS_NONE);
	memory_put(registry, "/c", "");
	memory_put(registry, "/c/a", "{\"type\":\"JSONServiceRecord\"}");
	memory_on_task(registry, refuse_lists, &refusals);
	IS_NOW(COMPONENT_SIBLINGS_SOME);
	/* A list that is refused changes nothing; the next one counts. */
	refusals = 1;
	memory_remove(registry, "/c/a");
	IS_NOW(COMPONENT_SIBLINGS_SOME);
	memory_put(registry, "/c/d", "");
	IS_NOW(COMPONENT_SIBLINGS_NONE);
	cr_assert_eq(answers, 3);
	component_siblings_destroy(siblings);
	component_siblings_destroy(NULL);
	registry_loop_finish(&driver);
	registry_close(registry);
	ev_loop_destroy(loop);
}
