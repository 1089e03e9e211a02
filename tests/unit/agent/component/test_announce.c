/* Wishes, the nodes of other clients, and outages. */
#include "tests/unit/agent/component/announce_stage.h"

STAGED(writes_and_removes_what_is_wished, true, 0)
{
	register_one(stage);
	cr_assert(stands_with(stage, "\"one\""));
	withdraw_one(stage);
	cr_assert(not(stands_with(stage, "")));
	cr_assert(eq(str, stage->trail, "writing registered withdrawing withdrawn "));
}

STAGED(writes_nothing_without_a_verdict, true, 0)
{
	make_wish(stage, ANNOUNCE_KEEP, "c_1", "one");
	RUN_UNTIL(stage, state_of(stage) == ANNOUNCE_WITHDRAWN);
	cr_assert(not(stands_with(stage, "")));
}

STAGED(repairs_a_deletion_and_a_change, true, 0)
{
	register_one(stage);
	memory_remove(stage->registry, PATH);
	RUN_UNTIL(stage, strstr(stage->trail, "registered writing registered"));
	cr_assert(stands_with(stage, "\"one\""));
	memory_put(stage->registry, PATH,
		"{\"type\":\"JSONServiceRecord\",\"description\":\"vandal\"}");
	RUN_UNTIL(stage, strstr(stage->trail, "registered writing registered outdated registered"));
	cr_assert(stands_with(stage, "\"one\""));
}

STAGED(a_record_is_registered_while_it_is_written_in_place, true, 0)
{
	register_one(stage);
	make_wish(stage, ANNOUNCE_UP, "c_1", "two");
	cr_assert(announce_registered(stage->announce));
	cr_assert(not(announce_settled(stage->announce)));
	RUN_UNTIL(stage, state_of(stage) == ANNOUNCE_REGISTERED);
	cr_assert(stands_with(stage, "\"two\""));
	cr_assert(eq(str, stage->trail, "writing registered outdated registered "));
}

STAGED(a_node_that_was_emptied_is_not_registered_while_its_record_is_written, true, 0)
{
	register_one(stage);
	memory_put(stage->registry, PATH, "");
	RUN_UNTIL(stage, strstr(stage->trail, "registered writing registered"));
	cr_assert(stands_with(stage, "\"one\""));
}

STAGED(registers_again_in_a_new_session, true, 0)
{
	register_one(stage);
	memory_set_state(stage->registry, REGISTRY_LOST);
	RUN_UNTIL(stage, state_of(stage) == ANNOUNCE_WAITING);
	memory_set_state(stage->registry, REGISTRY_CONNECTED);
	RUN_UNTIL(stage, state_of(stage) == ANNOUNCE_REGISTERED);
	cr_assert(stands_with(stage, "\"one\""));
}

STAGED(waits_while_anothers_record_stands, true, 0)
{
	memory_put(stage->registry, PATH, "{\"type\":\"JSONServiceRecord\",\"yarn:id\":\"c_2\"}");
	make_wish(stage, ANNOUNCE_UP, "c_1", "one");
	RUN_UNTIL(stage, state_of(stage) == ANNOUNCE_CONFLICT);
	cr_assert(strstr(announce_why(stage->announce), "c_2") != NULL);
	memory_remove(stage->registry, PATH);
	RUN_UNTIL(stage, state_of(stage) == ANNOUNCE_REGISTERED);
}

STAGED(leaves_an_unreadable_record_of_somebody_alone, true, 0)
{
	memory_put(stage->registry, PATH, "{\"type\":\"JSONServiceRecord\", oops");
	make_wish(stage, ANNOUNCE_UP, "c_1", "one");
	RUN_UNTIL(stage, state_of(stage) == ANNOUNCE_CONFLICT);
	cr_assert(stands_with(stage, "oops"));
}

/* Until it is registered with this description. */
static void check_reason(struct stage *stage, const char *description, const char *reason)
{
	RUN_UNTIL(stage, state_of(stage) == ANNOUNCE_REGISTERED && stands_with(stage, description));
	cr_assert(eq(str, stage->reason, (char *)reason));
}

STAGED(says_why_it_writes, true, 0)
{
	make_wish(stage, ANNOUNCE_UP, "c_1", "one");
	check_reason(stage, "one", "no node is expected at our path");
	make_wish(stage, ANNOUNCE_UP, "c_1", "two");
	check_reason(stage, "two", "our record is to change");
	memory_put(stage->registry, PATH, "vandal");
	check_reason(stage, "two", "another client changed our record");
	memory_remove(stage->registry, PATH);
	check_reason(stage, "two", "no node is at our path");
}

STAGED(takes_a_free_node, true, 0)
{
	memory_put(stage->registry, PATH, "");
	make_wish(stage, ANNOUNCE_UP, "c_1", "one");
	check_reason(stage, "one", "the node at our path is free");
}

STAGED(takes_over_a_predecessors_node, true, 0)
{
	memory_put(stage->registry, PATH, "{\"type\":\"JSONServiceRecord\",\"yarn:id\":\"c_1\"}");
	make_wish(stage, ANNOUNCE_UP, "c_1", "one");
	check_reason(stage, "one", "taking over the node at our path");
	RUN_UNTIL(stage, state_of(stage) == ANNOUNCE_REGISTERED);
	cr_assert(stands_with(stage, "\"one\""));
}

STAGED(waits_while_the_registry_is_away, true, 0)
{
	register_one(stage);
	memory_set_state(stage->registry, REGISTRY_AWAY);
	RUN_UNTIL(stage, state_of(stage) == ANNOUNCE_WAITING);
	make_wish(stage, ANNOUNCE_DOWN, "c_1", "one");
	cr_assert(eq(int, state_of(stage), ANNOUNCE_WAITING));
	memory_set_state(stage->registry, REGISTRY_CONNECTED);
	RUN_UNTIL(stage, state_of(stage) == ANNOUNCE_WITHDRAWN);
	cr_assert(not(stands_with(stage, "")));
}

STAGED(a_record_outlasts_an_outage, true, 0)
{
	register_one(stage);
	cr_assert(announce_state_is_in(state_of(stage)));
	cr_assert(not(announce_outlasts_outage(stage->announce)));
	memory_set_state(stage->registry, REGISTRY_AWAY);
	RUN_UNTIL(stage, state_of(stage) == ANNOUNCE_WAITING);
	cr_assert(not(announce_state_is_in(state_of(stage))));
	cr_assert(announce_outlasts_outage(stage->announce));
	cr_assert(stage->announce->may_be_registered);
	cr_assert(not(announce_settled(stage->announce)));
	cr_assert(eq(int, strncmp(announce_why(stage->announce), "the registry is ", 16), 0));
	make_wish(stage, ANNOUNCE_DOWN, "c_1", "one");
	cr_assert(not(announce_outlasts_outage(stage->announce)));
	cr_assert(not(announce_settled(stage->announce)));
}

static void lose_session(bool ephemeral)
{
	struct stage stage;
	stage_begin(&stage, ephemeral, 0);
	make_wish(&stage, ANNOUNCE_UP, "c_1", "one");
	RUN_UNTIL(&stage, state_of(&stage) == ANNOUNCE_REGISTERED);
	memory_set_state(stage.registry, REGISTRY_LOST);
	RUN_UNTIL(&stage, state_of(&stage) == ANNOUNCE_WAITING);
	cr_assert(eq(int, stage.announce->may_be_registered, !ephemeral));
	cr_assert(eq(int, announce_outlasts_outage(stage.announce), !ephemeral));
	make_wish(&stage, ANNOUNCE_DOWN, "c_1", "one");
	cr_assert(eq(int, announce_settled(stage.announce), ephemeral));
	stage_end(&stage);
}

Test(announce, an_ephemeral_record_ends_with_its_session)
{
	lose_session(true);
}

Test(announce, a_persistent_record_outlasts_its_session)
{
	lose_session(false);
}

STAGED(a_record_beyond_the_limits_is_refused_and_the_old_wish_stays, true, 0)
{
	make_wish(stage, ANNOUNCE_UP, "c_1", "one");
	char description[2000];
	memset(description, 'x', sizeof(description) - 1);
	description[sizeof(description) - 1] = '\0';
	struct record *record = record_of("c_1", description);
	struct err err = ERR_INIT;
	struct dialect_nodes nodes = { 0 };
	cr_assert(eq(int, write_record(&nodes, record, &err), BERTH_LIMIT_EXCEEDED));
	announce_wish_failed(stage->announce, &err);
	record_free(record);
	RUN_UNTIL(stage, stands_with(stage, "\"one\""));
	cr_assert(stands_with(stage, "\"one\""));
}

STAGED(a_wish_that_cannot_be_made_is_failed_until_one_can, true, 0)
{
	register_one(stage);
	struct err err = ERR_INIT;
	err_set(&err, BERTH_LIMIT_EXCEEDED, "too large");
	announce_wish_failed(stage->announce, &err);
	cr_assert(eq(int, state_of(stage), ANNOUNCE_FAILED));
	cr_assert(eq(str, (char *)announce_why(stage->announce), "LimitExceeded: too large"));
	memory_remove(stage->registry, PATH);
	RUN_UNTIL(stage, stands_with(stage, "\"one\""));
	cr_assert(eq(int, state_of(stage), ANNOUNCE_FAILED));
	make_wish(stage, ANNOUNCE_UP, "c_1", "two");
	RUN_UNTIL(stage, state_of(stage) == ANNOUNCE_REGISTERED);
	cr_assert(stands_with(stage, "\"two\""));
}

STAGED(a_record_that_was_never_written_needs_no_registry_to_be_withdrawn, true, 0)
{
	memory_set_state(stage->registry, REGISTRY_AWAY);
	RUN_UNTIL(stage, registry_state(stage->registry) == REGISTRY_AWAY);
	make_wish(stage, ANNOUNCE_UP, "c_1", "one");
	cr_assert(not(announce_settled(stage->announce)));
	make_wish(stage, ANNOUNCE_DOWN, "c_1", "one");
	cr_assert(announce_settled(stage->announce));
}

STAGED(a_written_record_is_withdrawn_only_by_the_registry, true, 0)
{
	register_one(stage);
	memory_set_state(stage->registry, REGISTRY_AWAY);
	RUN_UNTIL(stage, state_of(stage) == ANNOUNCE_WAITING);
	make_wish(stage, ANNOUNCE_DOWN, "c_1", "one");
	cr_assert(not(announce_settled(stage->announce)));
}

/* A callback that comes later would meet freed memory. */
STAGED(an_announcement_may_end_during_a_write, true, 0)
{
	announce_destroy(NULL);
	register_one(stage);
	make_wish(stage, ANNOUNCE_UP, "c_1", "two");
	cr_assert(eq(int, state_of(stage), ANNOUNCE_OUTDATED));
	announce_destroy(stage->announce);
	stage->announce = NULL;
	cr_assert(stands_with(stage, "c_1"));
	cr_assert(eq(sz, memory_armed_watches(stage->registry), 0));
	cr_assert(eq(str, stage->trail, "writing registered outdated "));
}

STAGED(an_announcement_works_without_listeners, false, 0)
{
	announce_destroy(stage->announce);
	const struct announce_options options = { .path = PATH };
	stage->announce = announce_create(stage->loop, stage->registry, &options);
	register_one(stage);
	cr_assert(stands_with(stage, "\"one\""));
	cr_assert(eq(str, stage->trail, ""));
}

STAGED(the_reason_of_an_outage_is_the_reason_of_the_wait, true, 0)
{
	register_one(stage);
	announce_on_registry_state(stage->announce, REGISTRY_AWAY, "the cable is cut");
	cr_assert(eq(str, (char *)announce_why(stage->announce),
		"the registry is away: the cable is cut"));
	announce_on_registry_state(stage->announce, REGISTRY_AWAY, "");
	cr_assert(eq(str, (char *)announce_why(stage->announce), "the registry is away"));
}

STAGED(a_record_that_is_not_wanted_waits_for_two_reasons, true, 0)
{
	char away[200];
	memory_set_state(stage->registry, REGISTRY_AWAY);
	RUN_UNTIL(stage, strstr(announce_why(stage->announce), "the registry is away") != NULL);
	snprintf(away, sizeof(away), "%s", announce_why(stage->announce));
	cr_assert(strchr(away, ';') == NULL);
	make_wish(stage, ANNOUNCE_UP, "c_1", "one");
	cr_assert(eq(str, (char *)announce_why(stage->announce), away));
	make_wish(stage, ANNOUNCE_DOWN, "c_1", "one");
	strcat(away, "; test");
	cr_assert(eq(str, (char *)announce_why(stage->announce), away));
}

STAGED(an_empty_node_of_another_client_is_no_reason, true, 0)
{
	memory_put(stage->registry, PATH, "");
	withdraw_one(stage);
	cr_assert(eq(str, (char *)announce_why(stage->announce), "test"));
}

static void count_writes(void *context, const struct registry_task *task, struct err *err)
{
	(void)err;
	int *writes = context;
	*writes += strcmp(task->path, PATH) == 0 &&
		(task->operation == REGISTRY_OP_SET || task->operation == REGISTRY_OP_CREATE);
}

STAGED(a_conflict_is_looked_at_again_before_anything_is_written, true, 0)
{
	int writes = 0;
	memory_put(stage->registry, PATH, "{\"type\":\"JSONServiceRecord\",\"yarn:id\":\"c_2\"}");
	memory_on_task(stage->registry, count_writes, &writes);
	make_wish(stage, ANNOUNCE_UP, "c_1", "one");
	RUN_UNTIL(stage, state_of(stage) == ANNOUNCE_CONFLICT);
	cr_assert(eq(int, writes, 1)); /* before the first look */
	make_wish(stage, ANNOUNCE_KEEP, "c_1", "one");
	make_wish(stage, ANNOUNCE_UP, "c_1", "one");
	for (int i = 0; i < 5; i++) {
		cr_assert(stands_with(stage, "c_2"));
	}
	cr_assert(eq(int, writes, 1));
}

STAGED(the_first_record_does_not_wait_for_the_first_look, true, 0)
{
	memory_be_late(stage->registry, PATH);
	make_wish(stage, ANNOUNCE_UP, "c_1", "one");
	RUN_UNTIL(stage, state_of(stage) == ANNOUNCE_REGISTERED);
	cr_assert(stands_with(stage, "\"one\""));
}

/* A predecessor of another session may have left it. */
STAGED(a_persistent_record_waits_for_the_first_look, false, 0)
{
	int writes = 0;
	memory_put(stage->registry, PATH, "{\"type\":\"JSONServiceRecord\",\"yarn:id\":\"c_2\"}");
	memory_on_task(stage->registry, count_writes, &writes);
	make_wish(stage, ANNOUNCE_UP, "c_1", "one");
	RUN_UNTIL(stage, state_of(stage) == ANNOUNCE_CONFLICT);
	cr_assert(eq(int, writes, 0));
}

STAGED(a_successor_in_the_same_session_looks_first, true, 0)
{
	int writes = 0;
	stage->announce->may_be_registered = true;
	memory_put(stage->registry, PATH, "{\"type\":\"JSONServiceRecord\",\"yarn:id\":\"c_2\"}");
	memory_on_task(stage->registry, count_writes, &writes);
	make_wish(stage, ANNOUNCE_UP, "c_1", "one");
	RUN_UNTIL(stage, state_of(stage) == ANNOUNCE_CONFLICT);
	cr_assert(eq(int, writes, 0));
}

STAGED(a_record_that_was_looked_for_is_not_written_unseen_after_an_outage, true, 0)
{
	int writes = 0;
	make_wish(stage, ANNOUNCE_DOWN, "c_1", "one");
	RUN_UNTIL(stage, state_of(stage) == ANNOUNCE_WITHDRAWN);
	memory_set_state(stage->registry, REGISTRY_AWAY);
	RUN_UNTIL(stage, state_of(stage) == ANNOUNCE_WAITING);
	memory_put(stage->registry, PATH, "{\"type\":\"JSONServiceRecord\",\"yarn:id\":\"c_2\"}");
	memory_on_task(stage->registry, count_writes, &writes);
	make_wish(stage, ANNOUNCE_UP, "c_1", "one");
	memory_set_state(stage->registry, REGISTRY_CONNECTED);
	RUN_UNTIL(stage, state_of(stage) == ANNOUNCE_CONFLICT);
	cr_assert(eq(int, writes, 0));
}

STAGED(a_conflict_with_another_record_is_news, true, 0)
{
	memory_put(stage->registry, PATH, "{\"type\":\"JSONServiceRecord\",\"yarn:id\":\"c_2\"}");
	make_wish(stage, ANNOUNCE_UP, "c_1", "one");
	RUN_UNTIL(stage, state_of(stage) == ANNOUNCE_CONFLICT);
	cr_assert(strstr(announce_why(stage->announce), "c_2") != NULL);
	memory_put(stage->registry, PATH, "{\"type\":\"JSONServiceRecord\",\"yarn:id\":\"c_3\"}");
	RUN_UNTIL(stage, strcmp(stage->trail, "writing waiting conflict conflict ") == 0);
	cr_assert(strstr(announce_why(stage->announce), "c_3") != NULL);
}

STAGED(a_wish_without_a_node_keeps_the_last_one, true, 0)
{
	register_one(stage);
	announce_wish(stage->announce, ANNOUNCE_KEEP, NULL, "no verdict");
	cr_assert(announce_settled(stage->announce));
	memory_set_state(stage->registry, REGISTRY_AWAY);
	RUN_UNTIL(stage, state_of(stage) == ANNOUNCE_WAITING);
	cr_assert(not(announce_settled(stage->announce)));
	memory_set_state(stage->registry, REGISTRY_CONNECTED);
	announce_wish(stage->announce, ANNOUNCE_UP, NULL, "passing");
	RUN_UNTIL(stage, state_of(stage) == ANNOUNCE_REGISTERED);
	cr_assert(stands_with(stage, "\"one\""));
}

static void wish_shared(struct stage *stage, const char *data)
{
	const struct dialect_node node = {
		.path = (char *)PATH,
		.data = (char *)data,
		.len = strlen(data),
		.kind = DIALECT_NODE_SHARED,
	};
	announce_wish(stage->announce, ANNOUNCE_UP, &node, "test");
}

#define SERVICE(port)                                                                              \
	"{\"type\":\"service\",\"service\":{\"type\":\"service\",\"service\":{"                    \
	"\"srvce\":\"_http\",\"proto\":\"_tcp\",\"port\":" port ",\"ttl\":60}}}"

static void wish_meanwhile(void *context, const struct registry_task *task, struct err *err)
{
	struct stage *stage = context;
	(void)err;
	if (task->operation == REGISTRY_OP_CREATE && strcmp(task->path, PATH) == 0) {
		wish_shared(stage, SERVICE("81"));
	}
}

static void announce_shared(struct stage *stage)
{
	const struct announce_options options = {
		.type = DIALECT_REGISTRAR, .kind = DIALECT_NODE_SHARED, .path = PATH
	};
	announce_destroy(stage->announce);
	stage->announce = announce_create(stage->loop, stage->registry, &options);
}

STAGED(a_shared_node_gets_each_new_wish, false, 0)
{
	announce_shared(stage);
	wish_shared(stage, SERVICE("80"));
	RUN_UNTIL(stage, state_of(stage) == ANNOUNCE_REGISTERED);
	wish_shared(stage, SERVICE("81"));
	cr_assert(eq(int, state_of(stage), ANNOUNCE_OUTDATED));
	RUN_UNTIL(stage, state_of(stage) == ANNOUNCE_REGISTERED);
	cr_assert(stands_with(stage, "81"));
}

/* Another client may change a shared node, but only after it has had the latest wish. */
STAGED(a_shared_node_gets_the_wish_that_came_during_a_write, false, 0)
{
	announce_shared(stage);
	memory_on_task(stage->registry, wish_meanwhile, stage);
	wish_shared(stage, SERVICE("80"));
	RUN_UNTIL(stage, state_of(stage) == ANNOUNCE_REGISTERED);
	cr_assert(stands_with(stage, "81"));
	memory_put(stage->registry, PATH, SERVICE("82"));
	cr_assert(stands_with(stage, "82"));
	wish_shared(stage, SERVICE("81"));
	cr_assert(stands_with(stage, "82"));
	cr_assert(eq(int, state_of(stage), ANNOUNCE_REGISTERED));
}
