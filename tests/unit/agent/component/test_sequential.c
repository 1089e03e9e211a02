/* Nodes whose number the registry chooses: who makes, finds, replaces and removes them. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/registry_loop.h"
#include "agent/component/announce.h"
#include "agent/component/own_search.h"
#include "lib/base/array.h"
#include "tests/support/memory_backend.h"
#include "tests/support/registry_client.h"
#include "tests/support/run_until.h"
#include "tests/support/staged.h"

struct stage {
	struct ev_loop *loop;
	struct registry *registry;
	struct registry_loop driver;
	struct announce *announce;
	struct answer list;
};

static const char PARENT[] = "/group";
static const char PREFIX[] = "/group/member";

static void on_change(
	void *context, enum announce_state from, enum announce_state to, const char *why)
{
	(void)context;
	(void)from;
	(void)to;
	(void)why;
}

static void on_registry_state(void *context, enum registry_state state, const char *why)
{
	struct stage *stage = context;
	if (stage->announce) {
		announce_on_registry_state(stage->announce, state, why);
	}
}

static void announce_anew(struct stage *stage, bool ephemeral, bool may_be_registered)
{
	const struct announce_options options = {
		.type = DIALECT_SERVERSET,
		.kind = DIALECT_NODE_SEQUENTIAL,
		.path = PREFIX,
		.ephemeral = ephemeral,
		.may_be_registered = may_be_registered,
		.on_change = on_change,
		.context = stage,
	};
	announce_destroy(stage->announce);
	stage->announce = announce_create(stage->loop, stage->registry, &options);
}

static struct stage *stage_begin(struct stage *stage, bool ephemeral)
{
	stage->loop = ev_loop_new(EVFLAG_AUTO);
	const struct registry_options registry = { .on_state = on_registry_state,
		.context = stage };
	stage->registry = memory_open("sequential", &registry);
	registry_loop_init(&stage->driver, stage->loop, stage->registry);
	memory_put(stage->registry, PARENT, "");
	announce_anew(stage, ephemeral, false);
	return stage;
}

static void stage_end(struct stage *stage)
{
	answer_clear(&stage->list);
	announce_destroy(stage->announce);
	registry_loop_finish(&stage->driver);
	registry_close(stage->registry);
	ev_loop_destroy(stage->loop);
}

#define STAGED(name, ephemeral)                                                                    \
	STAGED_TEST(announce_sequential, name, struct stage *, stage,                              \
		stage_begin(&(struct stage){ 0 }, ephemeral), stage_end)

static void wish(struct stage *stage, enum announce_wish wish, const char *data)
{
	struct dialect_node node = {
		.path = (char *)PREFIX,
		.data = (char *)data,
		.len = strlen(data),
		.kind = DIALECT_NODE_SEQUENTIAL,
		.change = DIALECT_CHANGE_REJOIN,
	};
	announce_wish(stage->announce, wish, &node, "test");
}

static bool is_registered(const struct stage *stage)
{
	return announce_finished(stage->announce) &&
		announce_get_state(stage->announce) == ANNOUNCE_REGISTERED;
}

static size_t members(struct stage *stage)
{
	answer_clear(&stage->list);
	cr_assert(registry_list(stage->registry, PARENT, answer_take, &stage->list) != NULL);
	RUN_UNTIL(stage->loop, stage->list.calls > 0);
	return stage->list.children_count;
}

#define ONE "{\"serviceEndpoint\":{\"host\":\"a\",\"port\":1},\"status\":\"ALIVE\"}"
#define TWO "{\"serviceEndpoint\":{\"host\":\"a\",\"port\":2},\"status\":\"ALIVE\"}"

STAGED(a_changed_member_joins_anew_before_the_old_one_leaves, true)
{
	wish(stage, ANNOUNCE_UP, ONE);
	RUN_UNTIL(stage->loop, is_registered(stage));
	char *old = strdup(announce_path(stage->announce));
	wish(stage, ANNOUNCE_UP, TWO);
	RUN_UNTIL(stage->loop, strcmp(announce_path(stage->announce), old) != 0);
	RUN_UNTIL(stage->loop, is_registered(stage));
	cr_assert_eq(members(stage), 1);
	cr_assert_str_eq(announce_path(stage->announce), stage->list.children[0]);
	cr_assert_str_neq(announce_path(stage->announce), old);
	free(old);
}

static void count_calls(void *context, const struct registry_task *task, struct err *err)
{
	size_t *deletions = context;
	(void)err;
	*deletions += task->operation == REGISTRY_OP_DELETE;
}

/* Nodes below a member are not ours, and never go with it. */
STAGED(a_replaced_member_with_children_keeps_them, false)
{
	wish(stage, ANNOUNCE_UP, ONE);
	RUN_UNTIL(stage->loop, is_registered(stage));
	char child[200];
	snprintf(child, sizeof(child), "%s/below", announce_path(stage->announce));
	memory_put(stage->registry, child, "another's");
	size_t deletions = 0;
	memory_on_task(stage->registry, count_calls, &deletions);
	wish(stage, ANNOUNCE_UP, TWO);
	RUN_UNTIL(stage->loop, announce_get_state(stage->announce) == ANNOUNCE_FAILED);
	cr_assert_eq(deletions, 1);
	cr_assert_eq(members(stage), 2);
	struct answer answer = { 0 };
	cr_assert(registry_get(stage->registry, child, answer_take, &answer) != NULL);
	RUN_UNTIL(stage->loop, answer.calls > 0);
	cr_assert_eq(answer.err.code, 0);
	answer_clear(&answer);
	/* It goes when it can. */
	memory_remove(stage->registry, child);
	RUN_UNTIL(stage->loop, is_registered(stage));
	cr_assert_eq(members(stage), 1);
}

STAGED(a_successor_finds_the_member_of_its_session, true)
{
	wish(stage, ANNOUNCE_UP, ONE);
	RUN_UNTIL(stage->loop, is_registered(stage));
	char *old = strdup(announce_path(stage->announce));
	memory_put(stage->registry, "/group/member0000000000", TWO);
	memory_put(stage->registry, "/group/memberx", TWO);
	announce_anew(stage, true, true);
	wish(stage, ANNOUNCE_UP, ONE);
	RUN_UNTIL(stage->loop, is_registered(stage));
	cr_assert_str_eq(announce_path(stage->announce), old);
	cr_assert_eq(members(stage), 3);
	free(old);
}

STAGED(of_two_members_of_its_session_a_successor_keeps_one, true)
{
	wish(stage, ANNOUNCE_UP, ONE);
	RUN_UNTIL(stage->loop, is_registered(stage));
	announce_anew(stage, true, false);
	wish(stage, ANNOUNCE_UP, ONE);
	RUN_UNTIL(stage->loop, is_registered(stage));
	cr_assert_eq(members(stage), 2);
	announce_anew(stage, true, true);
	wish(stage, ANNOUNCE_UP, ONE);
	RUN_UNTIL(stage->loop, is_registered(stage));
	cr_assert_eq(members(stage), 1);
	cr_assert_str_eq(announce_path(stage->announce), stage->list.children[0]);
}

STAGED(joins_once_in_a_new_session, true)
{
	wish(stage, ANNOUNCE_UP, ONE);
	RUN_UNTIL(stage->loop, is_registered(stage));
	memory_set_state(stage->registry, REGISTRY_LOST);
	RUN_UNTIL(stage->loop, announce_get_state(stage->announce) == ANNOUNCE_WAITING);
	cr_assert_null(announce_path(stage->announce));
	memory_set_state(stage->registry, REGISTRY_CONNECTED);
	RUN_UNTIL(stage->loop, is_registered(stage));
	cr_assert_eq(members(stage), 1);
}

/* The server was not heard for the session's timeout, and had kept the session nevertheless. */
STAGED(joins_no_second_time_when_the_session_was_only_presumed_over, true)
{
	wish(stage, ANNOUNCE_UP, ONE);
	RUN_UNTIL(stage->loop, is_registered(stage));
	memory_keep_session(stage->registry);
	for (int i = 0; i < 2; i++) {
		memory_set_state(stage->registry, REGISTRY_LOST);
		RUN_UNTIL(stage->loop, announce_get_state(stage->announce) == ANNOUNCE_WAITING);
		memory_set_state(stage->registry, REGISTRY_CONNECTED);
		RUN_UNTIL(stage->loop, is_registered(stage));
		cr_assert_eq(members(stage), 1);
	}
}

struct lost {
	size_t answers; /* to be lost */
};

static void lose_answer(void *context, const struct registry_task *task, struct err *err)
{
	struct lost *lost = context;
	if (task->operation == REGISTRY_OP_CREATE && lost->answers > 0) {
		lost->answers--;
		err_set(err, BERTH_TIMEOUT, "no answer");
	}
}

/* The write may have been done, so the session's own nodes are looked at before the next one. */
STAGED(searches_after_a_write_without_an_answer, true)
{
	struct lost lost = { .answers = 1 };
	memory_on_task(stage->registry, lose_answer, &lost);
	wish(stage, ANNOUNCE_UP, ONE);
	RUN_UNTIL(stage->loop, announce_get_state(stage->announce) == ANNOUNCE_FAILED);
	announce_anew(stage, true, true);
	wish(stage, ANNOUNCE_UP, ONE);
	RUN_UNTIL(stage->loop, is_registered(stage));
	cr_assert_eq(members(stage), 1);
}

struct refusal {
	enum registry_operation operation;
	int code;
	size_t times;
};

static void refuse_task(void *context, const struct registry_task *task, struct err *err)
{
	struct refusal *refusal = context;
	if (task->operation == refusal->operation && refusal->times > 0) {
		refusal->times--;
		err_set(err, refusal->code, "not now");
	}
}

/* Each step of the search in turn. */
STAGED(a_search_that_the_registry_refuses_is_made_again, true)
{
	wish(stage, ANNOUNCE_UP, ONE);
	RUN_UNTIL(stage->loop, is_registered(stage));
	char *old = strdup(announce_path(stage->announce));
	struct refusal refusals[] = { { REGISTRY_OP_CHILDREN, BERTH_NO_PATH_PERMISSIONS, 1 },
		{ REGISTRY_OP_STAT, BERTH_NO_PATH_PERMISSIONS, 1 },
		{ REGISTRY_OP_STAT, BERTH_REGISTRY_UNAVAILABLE, 1 } };
	for (size_t i = 0; i < ARRAY_LEN(refusals); i++) {
		announce_anew(stage, true, true);
		memory_on_task(stage->registry, refuse_task, &refusals[i]);
		wish(stage, ANNOUNCE_UP, ONE);
		RUN_UNTIL(stage->loop, is_registered(stage));
		cr_assert_eq(refusals[i].times, 0);
		cr_assert_str_eq(announce_path(stage->announce), old);
		cr_assert_eq(members(stage), 1);
	}
	free(old);
}

STAGED(a_search_that_an_outage_ends_begins_anew, true)
{
	wish(stage, ANNOUNCE_UP, ONE);
	RUN_UNTIL(stage->loop, is_registered(stage));
	announce_anew(stage, true, true);
	wish(stage, ANNOUNCE_UP, ONE);
	memory_set_state(stage->registry, REGISTRY_AWAY);
	RUN_UNTIL(stage->loop, registry_state(stage->registry) == REGISTRY_AWAY);
	for (int i = 0; i < 3; i++) {
		ev_run(stage->loop, EVRUN_NOWAIT);
	}
	cr_assert_eq(announce_get_state(stage->announce), ANNOUNCE_WAITING);
	cr_assert_str_eq(announce_why(stage->announce), "the registry is away: the test wants it");
	memory_set_state(stage->registry, REGISTRY_CONNECTED);
	RUN_UNTIL(stage->loop, is_registered(stage));
	cr_assert_eq(members(stage), 1);
}

STAGED(a_lost_session_takes_the_old_member_along, true)
{
	wish(stage, ANNOUNCE_UP, ONE);
	RUN_UNTIL(stage->loop, is_registered(stage));
	char *old = strdup(announce_path(stage->announce));
	struct refusal refusal = { REGISTRY_OP_DELETE, BERTH_NO_PATH_PERMISSIONS, 1 };
	memory_on_task(stage->registry, refuse_task, &refusal);
	wish(stage, ANNOUNCE_UP, TWO);
	RUN_UNTIL(stage->loop, announce_get_state(stage->announce) == ANNOUNCE_FAILED);
	memory_set_state(stage->registry, REGISTRY_LOST);
	RUN_UNTIL(stage->loop, announce_get_state(stage->announce) == ANNOUNCE_WAITING);
	cr_assert_eq(refusal.times, 0);
	memory_put(stage->registry, old, "another's");
	memory_set_state(stage->registry, REGISTRY_CONNECTED);
	RUN_UNTIL(stage->loop, is_registered(stage));
	cr_assert_eq(members(stage), 2, "ours, and one of another client at the old path");
	free(old);
}

static void count_lists(void *context, const struct registry_task *task, struct err *err)
{
	(void)err;
	*(size_t *)context += task->operation == REGISTRY_OP_CHILDREN;
}

struct joining {
	int code;
	size_t times;
	size_t lists;
};

static void refuse_joining(void *context, const struct registry_task *task, struct err *err)
{
	struct joining *joining = context;
	joining->lists += task->operation == REGISTRY_OP_CHILDREN;
	if (task->operation == REGISTRY_OP_CREATE && joining->times > 0) {
		joining->times--;
		err_set(err, joining->code, "not now");
	}
}

/* Only a write without an answer may have been done. */
STAGED(searches_after_a_lost_answer_and_not_after_a_refusal, true)
{
	struct joining joinings[] = { { BERTH_NO_PATH_PERMISSIONS, 1, 0 }, { BERTH_TIMEOUT, 1, 0 },
		{ BERTH_FAILED, 1, 0 } };
	for (size_t i = 0; i < ARRAY_LEN(joinings); i++) {
		memory_on_task(stage->registry, refuse_joining, &joinings[i]);
		wish(stage, ANNOUNCE_UP, ONE);
		RUN_UNTIL(stage->loop, is_registered(stage));
		memory_on_task(stage->registry, NULL, NULL);
		cr_assert_eq(joinings[i].times, 0);
		cr_assert_eq(joinings[i].lists, i > 0, "%d", joinings[i].code);
		cr_assert_eq(members(stage), 1);
		wish(stage, ANNOUNCE_DOWN, ONE);
		RUN_UNTIL(stage->loop, announce_get_state(stage->announce) == ANNOUNCE_WITHDRAWN);
	}
}

STAGED(a_search_is_made_once_whatever_is_wished_meanwhile, true)
{
	size_t lists = 0;
	wish(stage, ANNOUNCE_UP, ONE);
	RUN_UNTIL(stage->loop, is_registered(stage));
	memory_on_task(stage->registry, count_lists, &lists);
	announce_anew(stage, true, true);
	wish(stage, ANNOUNCE_UP, ONE);
	wish(stage, ANNOUNCE_KEEP, ONE);
	wish(stage, ANNOUNCE_UP, ONE);
	RUN_UNTIL(stage->loop, is_registered(stage));
	cr_assert_eq(lists, 1);
	cr_assert_eq(members(stage), 1);
}
