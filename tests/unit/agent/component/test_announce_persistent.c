/* Persistent nodes: whose they are over outages and restarts, and how they go. */
#include "tests/support/watch_count.h"
#include "tests/unit/agent/component/announce_stage.h"

STAGED(a_persistent_record_may_change_its_id, false, 0)
{
	register_one(stage);
	make_wish(stage, ANNOUNCE_UP, "c_2", "one");
	RUN_UNTIL(stage, strstr(stage->trail, "registered outdated registered"));
	cr_assert(stands_with(stage, "\"c_2\""));
	make_wish(stage, ANNOUNCE_DOWN, "c_3", "one");
	RUN_UNTIL(stage, state_of(stage) == ANNOUNCE_WITHDRAWN);
	cr_assert(not(stands_with(stage, "")));
}

/* The disk hangs: neither the record nor its change is written before it is noted. */
STAGED(a_record_waits_until_it_is_noted, false, 0)
{
	stage->disk_hangs = true;
	make_wish(stage, ANNOUNCE_UP, "c_1", "one");
	RUN_UNTIL(stage, stage->left != NULL);
	cr_assert(not(stands_with(stage, "")));
	cr_assert(not(stage->announce->may_be_registered));
	announce_noted(stage->announce); /* of another record */
	cr_assert(not(stands_with(stage, "")));
	stage->disk_hangs = false;
	announce_noted(stage->announce);
	RUN_UNTIL(stage, state_of(stage) == ANNOUNCE_REGISTERED);
	stage->disk_hangs = true;
	make_wish(stage, ANNOUNCE_UP, "c_1", "two");
	make_wish(stage, ANNOUNCE_DOWN, "c_1", "two"); /* needs no note */
	RUN_UNTIL(stage, state_of(stage) == ANNOUNCE_WITHDRAWN);
	announce_noted(stage->announce);
	cr_assert(state_of(stage) == ANNOUNCE_WITHDRAWN);
	cr_assert(not(stands_with(stage, "")));
}

STAGED(a_persistent_record_that_another_wrote_meanwhile_is_the_others, false, 0)
{
	register_one(stage);
	memory_put(stage->registry, PATH, "{\"type\":\"JSONServiceRecord\",\"yarn:id\":\"c_2\"}");
	RUN_UNTIL(stage, state_of(stage) == ANNOUNCE_CONFLICT);
	cr_assert(stands_with(stage, "\"c_2\""));
}

/* A predecessor that ended after the write, and before it noted its version. */
STAGED(the_record_that_a_predecessor_was_writing_at_its_end_is_ours, false, 0)
{
	make_wish(stage, ANNOUNCE_UP, "c_1", "one");
	RUN_UNTIL(stage, stands_with(stage, "\"one\""));
	announce_destroy(stage->announce);
	json_t *left = json_incref(stage->left);
	announce_anew(stage, false, 0, left);
	make_wish(stage, ANNOUNCE_UP, "c_2", "two");
	RUN_UNTIL(stage, stands_with(stage, "\"two\""));
	announce_destroy(stage->announce);
	announce_anew(stage, false, 0, left);
	make_wish(stage, ANNOUNCE_UP, "c_3", "three");
	RUN_UNTIL(stage, state_of(stage) == ANNOUNCE_CONFLICT);
	json_decref(left);
}

/* A predecessor's node stays known until the first verdict, which may be a life later. */
STAGED(the_node_of_a_predecessor_is_noted_again_before_the_first_write, false, 0)
{
	register_one(stage);
	json_t *left = announce_persistent(stage->announce);
	announce_destroy(stage->announce);
	announce_anew(stage, false, 0, left);
	make_wish(stage, ANNOUNCE_KEEP, "c_2", "two");
	RUN_UNTIL(stage, state_of(stage) == ANNOUNCE_OUTDATED);
	json_t *again = announce_persistent(stage->announce);
	cr_assert(json_equal(again, left));
	json_decref(again);
	json_decref(left);
}

STAGED(a_persistent_record_without_a_verdict_is_registered_while_it_stands, false, 0)
{
	memory_put(stage->registry, PATH,
		"{\"type\":\"JSONServiceRecord\",\"yarn:id\":\"c_1\",\"description\":\"one\"}");
	make_wish(stage, ANNOUNCE_KEEP, "c_1", "two");
	RUN_UNTIL(stage, state_of(stage) == ANNOUNCE_OUTDATED);
	cr_assert(announce_settled(stage->announce));
	cr_assert(stands_with(stage, "\"one\""));
	make_wish(stage, ANNOUNCE_UP, "c_1", "two");
	RUN_UNTIL(stage, stands_with(stage, "\"two\""));
	make_wish(stage, ANNOUNCE_KEEP, "c_1", "three");
	memory_remove(stage->registry, PATH);
	RUN_UNTIL(stage, state_of(stage) == ANNOUNCE_WITHDRAWN);
	cr_assert(announce_settled(stage->announce));
}

static const char CHILD[] = "/users/joe/web/one/components/c1/below";

STAGED(a_node_with_children_loses_its_record_and_goes_after_the_last_child, false, 0)
{
	register_one(stage);
	memory_put(stage->registry, CHILD, "");
	withdraw_one(stage);
	cr_assert(announce_settled(stage->announce));
	cr_assert(not(announce_finished(stage->announce)));
	cr_assert(strstr(announce_why(stage->announce), "children") != NULL);
	struct answer answer = { 0 };
	cr_assert(eq(str, (char *)standing(stage, &answer), ""));
	answer_clear(&answer);
	memory_remove(stage->registry, CHILD);
	RUN_UNTIL(stage, announce_finished(stage->announce));
	cr_assert(not(stands_with(stage, "")));
	cr_assert(eq(str, stage->trail, "writing registered withdrawing withdrawn "));
}

struct deletions {
	struct stage *stage;
	int count;
	int children; /* still to come just before a deletion */
};

static void count_deletions(void *context, const struct registry_task *task, struct err *err)
{
	struct deletions *deletions = context;
	(void)err;
	if (task->operation == REGISTRY_OP_DELETE && strcmp(task->path, PATH) == 0) {
		deletions->count++;
		if (deletions->children > 0) {
			deletions->children--;
			memory_put(deletions->stage->registry, CHILD, "");
		}
	}
}

STAGED(an_emptied_node_is_left_alone_while_it_has_children, false, 0)
{
	struct deletions deletions = { .stage = stage };
	register_one(stage);
	memory_put(stage->registry, CHILD, "");
	withdraw_one(stage);
	memory_on_task(stage->registry, count_deletions, &deletions);
	memory_put(stage->registry, "/users/joe/web/one/components/c1/another", "");
	for (int i = 0; i < 5; i++) {
		cr_assert(stands_with(stage, ""));
	}
	cr_assert(eq(int, deletions.count, 0));
	/* A child that comes back at the last moment. */
	deletions.children = 1;
	size_t watches = watch_count(stage->registry);
	memory_remove(stage->registry, "/users/joe/web/one/components/c1/another");
	memory_remove(stage->registry, CHILD);
	RUN_UNTIL(stage, deletions.count > 0);
	for (int i = 0; i < 5; i++) {
		cr_assert(stands_with(stage, ""));
	}
	cr_assert(eq(sz, watch_count(stage->registry), watches));
	cr_assert(not(announce_finished(stage->announce)));
	memory_remove(stage->registry, CHILD);
	RUN_UNTIL(stage, announce_finished(stage->announce));
	cr_assert(not(stands_with(stage, "")));
}

/* A callback that comes later would meet freed memory. */
STAGED(an_announcement_may_end_before_the_last_child, false, 0)
{
	register_one(stage);
	memory_put(stage->registry, CHILD, "");
	withdraw_one(stage);
	announce_destroy(stage->announce);
	stage->announce = NULL;
	memory_remove(stage->registry, CHILD);
	cr_assert(stands_with(stage, ""));
	cr_assert(eq(sz, watch_count(stage->registry), 0));
}

STAGED(an_emptied_node_that_another_client_writes_is_the_others, false, 0)
{
	register_one(stage);
	memory_put(stage->registry, CHILD, "");
	withdraw_one(stage);
	memory_put(stage->registry, PATH, "host-a:1234");
	RUN_UNTIL(stage, stands_with(stage, "host-a"));
	memory_remove(stage->registry, CHILD);
	make_wish(stage, ANNOUNCE_UP, "c_1", "one");
	RUN_UNTIL(stage, state_of(stage) == ANNOUNCE_CONFLICT);
	cr_assert(stands_with(stage, "host-a"));
}

STAGED(an_emptied_node_takes_the_record_again, false, 0)
{
	register_one(stage);
	memory_put(stage->registry, CHILD, "");
	withdraw_one(stage);
	make_wish(stage, ANNOUNCE_UP, "c_1", "two");
	RUN_UNTIL(stage, state_of(stage) == ANNOUNCE_REGISTERED);
	cr_assert(stands_with(stage, "\"two\""));
	memory_remove(stage->registry, CHILD);
	cr_assert(stands_with(stage, "\"two\""));
}

STAGED(a_state_that_a_predecessor_was_in_keeps_its_time_once, false, 0)
{
	register_one(stage);
	cr_assert(announce_since(stage->announce) > 1000);
	json_t *left = announce_persistent(stage->announce);
	announce_destroy(stage->announce);
	stage->saved_since = 1000;
	announce_anew(stage, false, 0, left);
	json_decref(left);
	register_one(stage);
	cr_assert(announce_since(stage->announce) == 1000);
	make_wish(stage, ANNOUNCE_UP, "c_1", "two");
	RUN_UNTIL(stage, stands_with(stage, "\"two\"") && state_of(stage) == ANNOUNCE_REGISTERED);
	cr_assert(announce_since(stage->announce) > 1000);
}

STAGED(a_record_of_another_client_is_not_noted_as_ours, false, 0)
{
	memory_put(stage->registry, PATH, "{\"type\":\"JSONServiceRecord\",\"yarn:id\":\"c_2\"}");
	make_wish(stage, ANNOUNCE_UP, "c_1", "one");
	RUN_UNTIL(stage, state_of(stage) == ANNOUNCE_CONFLICT);
	cr_assert(announce_persistent(stage->announce) == NULL);
}

STAGED(an_ephemeral_record_is_not_noted_for_a_successor, true, 0)
{
	register_one(stage);
	cr_assert(announce_persistent(stage->announce) == NULL);
	cr_assert(stage->left == NULL);
}

STAGED(a_note_before_a_write_holds_the_data_and_one_after_it_does_not, false, 0)
{
	register_one(stage);
	const char *sent = json_string_value(json_object_get(stage->left, "sent"));
	cr_assert(sent && strstr(sent, "\"one\""));
	json_t *after = announce_persistent(stage->announce);
	cr_assert(json_object_get(after, "sent") == NULL);
	cr_assert(json_integer_value(json_object_get(after, "node")) != 0);
	json_decref(after);
}

/* Its node and version are those of another client: alone they would make the record ours. */
STAGED(a_note_that_is_damaged_counts_for_nothing, false, 0)
{
	struct answer answer = { 0 };
	memory_put(stage->registry, PATH, "{\"type\":\"JSONServiceRecord\",\"yarn:id\":\"c_2\"}");
	announce_destroy(stage->announce);
	stage->announce = NULL;
	cr_assert(standing(stage, &answer) != NULL);
	json_t *left = json_pack("{s:I, s:I, s:i}", "node", (json_int_t)answer.stat.node_id,
		"version", (json_int_t)answer.stat.version, "sent", 1);
	announce_anew(stage, false, 0, left);
	json_decref(left);
	answer_clear(&answer);
	make_wish(stage, ANNOUNCE_UP, "c_1", "one");
	RUN_UNTIL(stage, state_of(stage) == ANNOUNCE_CONFLICT);
	cr_assert(stands_with(stage, "\"c_2\""));
}

/* Without an id only the version says whose a record is, and a lost session forgets it. */
STAGED(a_record_without_id_that_another_wrote_during_an_outage_is_the_others, false, 0)
{
	make_wish(stage, ANNOUNCE_UP, "", "one");
	RUN_UNTIL(stage, state_of(stage) == ANNOUNCE_REGISTERED);
	memory_set_state(stage->registry, REGISTRY_LOST);
	RUN_UNTIL(stage, state_of(stage) == ANNOUNCE_WAITING);
	memory_put(stage->registry, PATH,
		"{\"type\":\"JSONServiceRecord\",\"description\":\"another\"}");
	memory_set_state(stage->registry, REGISTRY_CONNECTED);
	RUN_UNTIL(stage, state_of(stage) == ANNOUNCE_CONFLICT);
	cr_assert(stands_with(stage, "\"another\""));
}

STAGED(an_ephemeral_record_is_not_noted_while_it_is_written, true, 0)
{
	register_one(stage);
	make_wish(stage, ANNOUNCE_UP, "c_1", "two");
	cr_assert(eq(int, state_of(stage), ANNOUNCE_OUTDATED));
	cr_assert(announce_persistent(stage->announce) == NULL);
}

STAGED(a_session_that_is_lost_before_anything_was_written_takes_nothing_along, false, 0)
{
	memory_set_state(stage->registry, REGISTRY_LOST);
	RUN_UNTIL(stage, registry_state(stage->registry) == REGISTRY_LOST);
	cr_assert(not(stage->announce->may_be_registered));
	memory_set_state(stage->registry, REGISTRY_CONNECTED);
	register_one(stage);
}
