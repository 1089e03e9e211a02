#include <criterion/criterion.h>
#include <criterion/parameterized.h>

#include "agent/base/registry_loop.h"
#include "agent/component/siblings.h"
#include "tests/support/memory_backend.h"

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

static void on_patience(struct ev_loop *loop, ev_timer *timer, int events)
{
	(void)loop;
	(void)timer;
	(void)events;
	cr_assert(false, "it did not come true within a minute");
}

static void run_until(
	struct ev_loop *loop, const struct component_siblings *siblings, int answer, int *refusals)
{
	ev_timer patience;
	ev_timer_init(&patience, on_patience, 60., 0.);
	ev_timer_start(loop, &patience);
	while (component_siblings_answer(siblings) != (unsigned)answer || *refusals > 0) {
		ev_run(loop, EVRUN_ONCE);
	}
	ev_timer_stop(loop, &patience);
}

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
	run_until(loop, siblings, COMPONENT_SIBLINGS_NONE, &refusals);
	memory_put(registry, "/c", "");
	memory_put(registry, "/c/a", "{\"type\":\"JSONServiceRecord\"}");
	memory_on_task(registry, refuse_lists, &refusals);
	run_until(loop, siblings, COMPONENT_SIBLINGS_SOME, &refusals);
	/* A list that is refused changes nothing; the next one counts. */
	refusals = 1;
	memory_remove(registry, "/c/a");
	run_until(loop, siblings, COMPONENT_SIBLINGS_SOME, &refusals);
	memory_put(registry, "/c/d", "");
	run_until(loop, siblings, COMPONENT_SIBLINGS_NONE, &refusals);
	cr_assert_eq(answers, 3);
	component_siblings_destroy(siblings);
	component_siblings_destroy(NULL);
	registry_loop_finish(&driver);
	registry_close(registry);
	ev_loop_destroy(loop);
}
