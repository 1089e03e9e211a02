#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <time.h>
#include <unistd.h>

#include "agent/base/registry_loop.h"
#include "agent/component/siblings.h"
#include "lib/base/array.h"
#include "tests/support/clock_call.h"
#include "tests/support/memory_backend.h"
#include "tests/support/run_until.h"
#include "tests/support/staged.h"
#include "tests/support/watch_count.h"

/* The component is b. The nodes next to it, and their meaning for it. */
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
	return cr_make_param_array(struct row, rows, ARRAY_LEN(rows));
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

/* ---- on a registry ---- */

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

/* ---- a component next to others, with a clock that the test moves ---- */

static time_t moved_s;

int clock_gettime(clockid_t clock, struct timespec *now)
{
	int code = (int)syscall(CLOCK_CALL, clock, now);
	now->tv_sec += moved_s;
	return code;
}

struct stage {
	struct ev_loop *loop;
	struct registry *registry;
	struct registry_loop driver;
	struct component_siblings *siblings;
	int answers;
	int lists; /* of the nodes next to it */
	bool joins_meanwhile;
};

static void count_lists(void *context, const struct registry_task *task, struct err *err)
{
	struct stage *stage = context;
	(void)err;
	if (task->operation == REGISTRY_OP_CHILDREN && !task->watch) {
		stage->lists++;
		if (stage->joins_meanwhile) {
			stage->joins_meanwhile = false;
			memory_put(stage->registry, "/c/f", "");
		}
	}
}

static struct stage *stage_begin(struct stage *stage)
{
	const struct registry_options options = { 0 };
	stage->loop = ev_loop_new(EVFLAG_AUTO);
	stage->registry = memory_open("siblings", &options);
	registry_loop_init(&stage->driver, stage->loop, stage->registry);
	stage->siblings = component_siblings_create(
		stage->loop, stage->registry, "/c/b", on_answer, &stage->answers);
	memory_put(stage->registry, "/c", "");
	memory_on_task(stage->registry, count_lists, stage);
	return stage;
}

static void stage_end(struct stage *stage)
{
	component_siblings_destroy(stage->siblings);
	registry_loop_finish(&stage->driver);
	registry_close(stage->registry);
	ev_loop_destroy(stage->loop);
}

#define STAGED(name)                                                                               \
	STAGED_TEST(component_siblings, name, struct stage *, stage,                               \
		stage_begin(&(struct stage){ 0 }), stage_end)

#define RUN_TO(stage, expected)                                                                    \
	RUN_UNTIL((stage)->loop, component_siblings_answer((stage)->siblings) == (expected))

#define RECORD(more) "{\"type\":\"JSONServiceRecord\"" more "}"

static void pass(struct stage *stage, time_t seconds)
{
	moved_s += seconds;
	for (int i = 0; i < 20; i++) {
		ev_run(stage->loop, EVRUN_NOWAIT);
	}
}

/* No node comes or goes, so no watch reports it. */
STAGED(one_that_recovers_is_noticed)
{
	memory_put(stage->registry, "/c/d", RECORD(",\"berth:health\":\"failing\""));
	RUN_TO(stage, COMPONENT_SIBLINGS_LESSER);
	memory_put(stage->registry, "/c/d", RECORD(""));
	pass(stage, 10);
	RUN_TO(stage, COMPONENT_SIBLINGS_SOME);
}

STAGED(the_component_hears_of_news_alone)
{
	memory_put(stage->registry, "/c/a", RECORD(""));
	RUN_TO(stage, COMPONENT_SIBLINGS_SOME);
	int answers = stage->answers;
	int lists = stage->lists;
	memory_put(stage->registry, "/c/d", RECORD(""));
	RUN_UNTIL(stage->loop, stage->lists > lists);
	pass(stage, 10);
	RUN_UNTIL(stage->loop, stage->lists > lists + 1);
	pass(stage, 0);
	cr_assert_eq(stage->answers, answers);
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
