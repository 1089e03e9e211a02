/* Writes that the registry refuses, and writes that the throttle delays. */
#include "lib/base/array.h"
#include "tests/unit/agent/component/announce_stage.h"

static void refuse_some(void *context, const struct registry_task *task, struct err *err)
{
	int *left = context;
	if (task->operation == REGISTRY_OP_CREATE && strcmp(task->path, PATH) == 0 && *left > 0) {
		(*left)--;
		err_set(err, BERTH_NO_PATH_PERMISSIONS, "not for you");
	}
}

STAGED(tries_again_what_the_registry_refused, true, 0)
{
	int refusals = 2;
	memory_on_task(stage->registry, refuse_some, &refusals);
	make_wish(stage, ANNOUNCE_UP, "c_1", "one");
	RUN_UNTIL(stage, state_of(stage) == ANNOUNCE_FAILED);
	cr_assert(strstr(announce_why(stage->announce), "NoPathPermissions") != NULL);
	RUN_UNTIL(stage, state_of(stage) == ANNOUNCE_REGISTERED);
	cr_assert(eq(int, refusals, 0));
}

static void refuse_all(void *context, const struct registry_task *task, struct err *err)
{
	int *refused = context;
	if (strcmp(task->path, PATH) == 0) {
		(*refused)++;
		err_set(err, BERTH_NO_PATH_PERMISSIONS, "not for you");
	}
}

static void on_second_over(struct ev_loop *loop, ev_timer *timer, int events)
{
	(void)timer;
	(void)events;
	ev_break(loop, EVBREAK_ALL);
}

/* A slow machine makes fewer attempts in a second, never more. */
STAGED(does_not_hammer_a_registry_that_refuses, true, 0)
{
	int refused = 0;
	memory_on_task(stage->registry, refuse_all, &refused);
	make_wish(stage, ANNOUNCE_UP, "c_1", "one");
	ev_timer second;
	ev_timer_init(&second, on_second_over, 1.0, 0.0);
	ev_timer_start(stage->loop, &second);
	ev_run(stage->loop, 0);
	cr_assert(le(int, refused, 12), "%d attempts in a second", refused);
	RUN_UNTIL(stage, refused >= 2);
	RUN_UNTIL(stage, state_of(stage) == ANNOUNCE_FAILED);
}

static void refuse_writes(void *context, const struct registry_task *task, struct err *err)
{
	if (task->operation == REGISTRY_OP_CREATE) {
		refuse_all(context, task, err);
	}
}

STAGED(does_not_hammer_a_registry_that_refuses_writes, true, 0)
{
	int refused = 0;
	memory_on_task(stage->registry, refuse_writes, &refused);
	make_wish(stage, ANNOUNCE_UP, "c_1", "one");
	ev_timer second;
	ev_timer_init(&second, on_second_over, 1.0, 0.0);
	ev_timer_start(stage->loop, &second);
	ev_run(stage->loop, 0);
	cr_assert(le(int, refused, 12), "%d attempts in a second", refused);
	RUN_UNTIL(stage, refused >= 2);
}

static void count_writes(void *context, const struct registry_task *task, struct err *err)
{
	(void)err;
	int *writes = context;
	*writes += task->operation == REGISTRY_OP_SET || task->operation == REGISTRY_OP_CREATE;
}

STAGED(throttles_writes_and_the_latest_wins, true, 300)
{
	make_wish(stage, ANNOUNCE_UP, "c_1", "0");
	RUN_UNTIL(stage, state_of(stage) == ANNOUNCE_REGISTERED);
	int writes = 0;
	memory_on_task(stage->registry, count_writes, &writes);
	for (int i = 1; i <= 100; i++) {
		char text[16];
		snprintf(text, sizeof(text), "%d", i);
		make_wish(stage, ANNOUNCE_UP, "c_1", text);
	}
	RUN_UNTIL(stage, stands_with(stage, "\"100\""));
	cr_assert(le(int, writes, 2), "%d writes for a hundred wishes", writes);
}

STAGED(a_record_whose_change_the_throttle_delays_is_outdated, true, 300)
{
	register_one(stage);
	make_wish(stage, ANNOUNCE_UP, "c_1", "two");
	cr_assert(eq(int, state_of(stage), ANNOUNCE_OUTDATED));
	cr_assert(not(announce_settled(stage->announce)));
	RUN_UNTIL(stage, state_of(stage) == ANNOUNCE_REGISTERED);
	cr_assert(stands_with(stage, "\"two\""));
}

STAGED(a_deleted_record_is_not_registered_while_the_throttle_delays_its_return, true, 3600 * 1000)
{
	register_one(stage);
	memory_remove(stage->registry, PATH);
	RUN_UNTIL(stage, state_of(stage) == ANNOUNCE_WRITING);
	cr_assert(not(stands_with(stage, "")));
}

STAGED(a_record_that_is_deleted_while_the_throttle_delays_its_change_is_not_registered, true,
	3600 * 1000)
{
	register_one(stage);
	make_wish(stage, ANNOUNCE_UP, "c_1", "two");
	cr_assert(eq(int, state_of(stage), ANNOUNCE_OUTDATED));
	memory_remove(stage->registry, PATH);
	RUN_UNTIL(stage, state_of(stage) == ANNOUNCE_WRITING);
	cr_assert(not(announce_registered(stage->announce)));
}

STAGED(never_delays_a_removal, true, 3600 * 1000)
{
	register_one(stage);
	/* The news of our own write ends a pause, too: it comes before this answer. */
	cr_assert(stands_with(stage, "\"one\""));
	make_wish(stage, ANNOUNCE_UP, "c_1", "two");
	cr_assert(eq(int, state_of(stage), ANNOUNCE_OUTDATED));
	make_wish(stage, ANNOUNCE_DOWN, "c_1", "two");
	cr_assert(eq(int, state_of(stage), ANNOUNCE_WITHDRAWING));
	RUN_UNTIL(stage, state_of(stage) == ANNOUNCE_WITHDRAWN);
}

struct refusal {
	enum registry_operation operation;
	int code;
	int times;
};

static void refuse_with(void *context, const struct registry_task *task, struct err *err)
{
	struct refusal *refusal = context;
	if (task->operation == refusal->operation && strcmp(task->path, PATH) == 0 &&
		refusal->times > 0) {
		refusal->times--;
		err_set(err, refusal->code, "not now");
	}
}

/* Another client was faster, or nobody knows: the node is looked at again, and written. */
STAGED(a_write_that_came_too_late_is_made_again, true, 0)
{
	struct refusal refusals[] = { { REGISTRY_OP_CREATE, BERTH_FILE_ALREADY_EXISTS, 1 },
		{ REGISTRY_OP_SET, BERTH_PATH_NOT_FOUND, 1 },
		{ REGISTRY_OP_SET, BERTH_TIMEOUT, 1 } };
	static const char *const texts[] = { "one", "two", "three" };
	for (size_t i = 0; i < ARRAY_LEN(refusals); i++) {
		memory_on_task(stage->registry, refuse_with, &refusals[i]);
		make_wish(stage, ANNOUNCE_UP, "c_1", texts[i]);
		RUN_UNTIL(stage, stands_with(stage, texts[i]));
		RUN_UNTIL(stage, state_of(stage) == ANNOUNCE_REGISTERED);
		cr_assert(eq(int, refusals[i].times, 0));
		bool failed = strstr(stage->trail, "failed") != NULL;
		cr_assert(eq(int, failed, refusals[i].code == BERTH_TIMEOUT));
	}
	memory_on_task(stage->registry, NULL, NULL);
}

STAGED(a_record_that_was_removed_is_not_there_while_the_throttle_delays_its_return, true,
	3600 * 1000)
{
	register_one(stage);
	make_wish(stage, ANNOUNCE_DOWN, "c_1", "one");
	make_wish(stage, ANNOUNCE_UP, "c_1", "one");
	RUN_UNTIL(stage, !stage->announce->may_be_registered);
	cr_assert(not(stands_with(stage, "")));
	memory_set_state(stage->registry, REGISTRY_AWAY);
	RUN_UNTIL(stage, state_of(stage) == ANNOUNCE_WAITING);
	cr_assert(not(announce_outlasts_outage(stage->announce)));
}
