/* A handle on a registry in memory: how long it waits for an answer, and why there is none. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/array.h"
#include "lib/client/handle.h"
#include "tests/support/failing.h"
#include "tests/support/memory_backend.h"
#include "tests/support/shifted_clock.h"
#include "tests/support/staged.h"

enum { NODES = 200, STEP_MS = 700, TIMEOUT_MS = 1000, PATIENT_MS = 60000 };

struct stage {
	struct berth *berth;
	struct berth_failure failure;
	char accessors[256]; /* of the last node that was made */
};

static void note_accessors(void *context, const struct registry_task *task, struct err *err)
{
	struct stage *stage = context;
	(void)err;
	failing_pause(); /* the registry in memory has what it needs */
	if (!task->acl) {
		return;
	}
	stage->accessors[0] = '\0';
	for (size_t i = 0; i < task->acl->count; i++) {
		size_t used = strlen(stage->accessors);
		snprintf(stage->accessors + used, sizeof(stage->accessors) - used, "%s ",
			task->acl->entries[i].id);
	}
}

static void on_answer(void *context, int code, double duration_s)
{
	(void)context;
	(void)code;
	(void)duration_s;
	failing_resume();
}

static struct stage *begin(struct stage *stage)
{
	const struct registry_options options = { .auth = "digest",
		.secure = true,
		.system_accounts = "",
		.request_timeout_ms = 10 * PATIENT_MS,
		.on_answer = on_answer };
	struct err err = ERR_INIT;
	cr_assert_eq(handle_create(&stage->berth, &err), 0, "%s", err.msg);
	stage->berth->ops = &handle_registry_ops;
	stage->berth->registry = memory_open("outcome", &options);
	memory_on_task(stage->berth->registry, note_accessors, stage);
	berth_set_timeout(stage->berth, PATIENT_MS);
	cr_assert_eq(
		berth_exists(stage->berth, "/a", &stage->failure), 0, "%s", stage->failure.message);
	memory_put(stage->berth->registry, "/a", "{\"type\":\"JSONServiceRecord\"}");
	return stage;
}

static void end(struct stage *stage)
{
	berth_close(stage->berth);
}

#define STAGED(name)                                                                               \
	STAGED_TEST(outcome, name, struct stage *, stage, begin(&(struct stage){ .berth = NULL }), \
		end)

static int resolve(struct stage *stage)
{
	struct berth_answer answer;
	int code = berth_resolve(stage->berth, "/a", &answer, &stage->failure);
	if (code == 0) {
		cr_expect_str_eq(answer.json, "{\"type\":\"JSONServiceRecord\"}");
		berth_answer_finish(&answer);
	}
	return code;
}

STAGED(a_registry_that_does_not_answer_is_given_up_and_asked_again_later)
{
	berth_set_timeout(stage->berth, 20);
	memory_set_answering(stage->berth->registry, false);
	cr_assert_eq(resolve(stage), BERTH_TIMEOUT);
	cr_expect(strstr(stage->failure.message, "did not answer in time"), "%s",
		stage->failure.message);
	memory_set_answering(stage->berth->registry, true);
	berth_set_timeout(stage->berth, PATIENT_MS);
	cr_expect_eq(resolve(stage), 0, "%s", stage->failure.message);
}

STAGED(a_registry_that_has_gone_and_does_not_answer_cannot_be_reached)
{
	memory_set_state(stage->berth->registry, REGISTRY_CONNECTING);
	cr_assert_eq(berth_dispatch(stage->berth, 0, NULL), 0);
	memory_set_answering(stage->berth->registry, false);
	berth_set_timeout(stage->berth, 20);
	cr_assert_eq(resolve(stage), BERTH_REGISTRY_UNAVAILABLE);
	cr_expect(
		strstr(stage->failure.message, "cannot be reached"), "%s", stage->failure.message);
}

/* The handle gives up a long search that makes no progress. */
static void step(void *context, size_t visited, size_t matches)
{
	size_t *steps = context;
	cr_expect_geq(visited, matches);
	clock_shift_ms += STEP_MS;
	(*steps)++;
}

STAGED(progress_is_a_sign_of_life)
{
	struct berth_answer answer;
	struct berth_purge purge = { .criteria = { .id = "x", .persistence = "container" },
		.dry_run = true,
		.on_progress = step };
	char path[32];
	size_t steps = 0;
	for (int i = 0; i < NODES; i++) {
		snprintf(path, sizeof(path), "/a/n%d", i);
		memory_put(stage->berth->registry, path, "{\"type\":\"JSONServiceRecord\"}");
	}
	clock_shift_ms = 1000;
	clock_stands = true;
	berth_set_timeout(stage->berth, TIMEOUT_MS);
	int code = berth_find(stage->berth, NULL, step, &steps, &answer, &stage->failure);
	cr_assert_eq(code, 0, "%s", stage->failure.message);
	cr_expect_gt(steps * STEP_MS, TIMEOUT_MS);
	berth_answer_finish(&answer);
	steps = 0;
	purge.context = &steps;
	code = berth_purge(stage->berth, &purge, NULL, NULL, &stage->failure);
	cr_assert_eq(code, 0, "%s", stage->failure.message);
	cr_expect_gt(steps * STEP_MS, TIMEOUT_MS);
}

static void on_event(void *context, const struct berth_event *event)
{
	(void)context;
	(void)event;
}

STAGED(a_watch_says_whether_the_registry_is_away_or_refuses_the_handle)
{
	static const struct {
		enum registry_state state;
		int code;
		const char *message;
	} rows[] = {
		{ REGISTRY_AWAY, BERTH_REGISTRY_UNAVAILABLE, "cannot be reached" },
		{ REGISTRY_DENIED, BERTH_AUTHENTICATION_FAILED, "refused the credentials" },
		{ REGISTRY_CONNECTED, BERTH_TIMEOUT, "nodes and lists so far" },
	};
	struct berth_watch *watch;
	cr_assert_eq(berth_watch(stage->berth, "/a", true, on_event, NULL, &watch, NULL), 0);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		stage->failure.message[0] = '\0';
		memory_set_state(stage->berth->registry, rows[i].state);
		cr_assert_eq(berth_dispatch(stage->berth, 0, NULL), 0);
		cr_expect_eq(berth_watch_trouble(watch, &stage->failure), rows[i].code, "%zu", i);
		cr_expect(strstr(stage->failure.message, rows[i].message), "%s",
			stage->failure.message);
	}
	berth_unwatch(watch);
}
