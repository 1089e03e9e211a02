#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <criterion/parameterized.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/component/announce.h"
#include "agent/component/announce_internal.h"
#include "tests/support/memory_backend.h"
#include "tests/support/registry_client.h"
#include "tests/support/staged.h"
#include "agent/base/registry_loop.h"

/* One row a situation: the wish, the node, and the decision. */
struct row {
	char text[96];
	struct announce_view view;
	enum announce_action action;
};

#define UP .wish = ANNOUNCE_UP, .want_ephemeral = true, .has_id = true
#define UP_PERSISTENT .wish = ANNOUNCE_UP, .has_id = true
#define DOWN .wish = ANNOUNCE_DOWN, .want_ephemeral = true, .has_id = true
#define DOWN_PERSISTENT .wish = ANNOUNCE_DOWN, .has_id = true
#define ABSENT .node = ANNOUNCE_NODE_ABSENT
#define EMPTY .node = ANNOUNCE_NODE_EMPTY
#define FOREIGN .node = ANNOUNCE_NODE_FOREIGN
#define RECORD .node = ANNOUNCE_NODE_RECORD
#define OUR_SESSIONS .holder = ANNOUNCE_HOLDER_US
#define ANOTHER_SESSIONS .holder = ANNOUNCE_HOLDER_OTHER
#define WRITTEN .past = ANNOUNCE_PAST_WRITTEN
#define UNTOUCHED .past = ANNOUNCE_PAST_UNTOUCHED
#define SAME_ID .likeness = ANNOUNCE_LIKE_ID
#define SAME_RECORD .likeness = ANNOUNCE_LIKE_RECORD
#define SAME_BYTES .likeness = ANNOUNCE_LIKE_BYTES

static struct row rows[] = {
	{ "the registry has not told yet", { UP }, ANNOUNCE_DO_NOTHING },
	{ "no node: create", { UP, ABSENT }, ANNOUNCE_DO_CREATE },
	{ "ours as it should be", { UP, RECORD, OUR_SESSIONS, SAME_BYTES }, ANNOUNCE_DO_NOTHING },
	{ "ours, changed by another client", { UP, RECORD, OUR_SESSIONS, SAME_ID },
		ANNOUNCE_DO_REWRITE },
	{ "ours, its content replaced by data that is no record", { UP, FOREIGN, OUR_SESSIONS },
		ANNOUNCE_DO_REWRITE },
	{ "ours, emptied by another client", { UP, EMPTY, OUR_SESSIONS }, ANNOUNCE_DO_REWRITE },
	{ "a dead predecessor's", { UP, RECORD, ANOTHER_SESSIONS, SAME_BYTES },
		ANNOUNCE_DO_TAKE_OVER },
	{ "ours, of our session before this one",
		{ UP, RECORD, ANOTHER_SESSIONS, UNTOUCHED, SAME_BYTES }, ANNOUNCE_DO_TAKE_OVER },
	{ "a live twin took ours", { UP, RECORD, ANOTHER_SESSIONS, WRITTEN, SAME_ID },
		ANNOUNCE_DO_REFUSE },
	{ "another's", { UP, RECORD, ANOTHER_SESSIONS }, ANNOUNCE_DO_REFUSE },
	{ "another's, takeover", { UP, RECORD, ANOTHER_SESSIONS, .takeover = true },
		ANNOUNCE_DO_TAKE_OVER },
	{ "another's persistent one", { UP, RECORD }, ANNOUNCE_DO_REFUSE },
	{ "our id on a persistent node", { UP, RECORD, SAME_ID }, ANNOUNCE_DO_TAKE_OVER },
	{ "ours was persistent, and is to be ephemeral now", { UP, RECORD, WRITTEN, SAME_ID },
		ANNOUNCE_DO_TAKE_OVER },
	{ "ours was ephemeral, and is to be persistent now",
		{ UP_PERSISTENT, RECORD, OUR_SESSIONS, SAME_ID }, ANNOUNCE_DO_TAKE_OVER },
	{ "an empty node is free", { UP, EMPTY }, ANNOUNCE_DO_TAKE_OVER },
	{ "an empty node of a live session is not", { UP, EMPTY, ANOTHER_SESSIONS },
		ANNOUNCE_DO_REFUSE },
	{ "another program's node", { UP, FOREIGN }, ANNOUNCE_DO_REFUSE },
	{ "another program's live node", { UP, FOREIGN, ANOTHER_SESSIONS }, ANNOUNCE_DO_REFUSE },
	{ "another program's live node, takeover",
		{ UP, FOREIGN, ANOTHER_SESSIONS, .takeover = true }, ANNOUNCE_DO_TAKE_OVER },
	{ "without id, an equal record of a live session is another's",
		{ .wish = ANNOUNCE_UP,
			.want_ephemeral = true,
			RECORD,
			ANOTHER_SESSIONS,
			SAME_BYTES },
		ANNOUNCE_DO_REFUSE },
	{ "without id, an equal persistent record is a predecessor's",
		{ .wish = ANNOUNCE_UP, .want_ephemeral = true, RECORD, SAME_RECORD },
		ANNOUNCE_DO_TAKE_OVER },
	{ "without id, another record is another's",
		{ .wish = ANNOUNCE_UP, .want_ephemeral = true, RECORD, ANOTHER_SESSIONS, SAME_ID },
		ANNOUNCE_DO_REFUSE },
	{ "persistent: no node", { UP_PERSISTENT, ABSENT }, ANNOUNCE_DO_CREATE },
	{ "persistent: ours by id", { UP_PERSISTENT, RECORD, SAME_BYTES }, ANNOUNCE_DO_NOTHING },
	{ "persistent: ours by id, changed", { UP_PERSISTENT, RECORD, SAME_ID },
		ANNOUNCE_DO_REWRITE },
	{ "persistent: another's", { UP_PERSISTENT, RECORD }, ANNOUNCE_DO_REFUSE },
	{ "persistent: another program's", { UP_PERSISTENT, FOREIGN, WRITTEN },
		ANNOUNCE_DO_REFUSE },
	{ "persistent: what we wrote, under an earlier id", { UP_PERSISTENT, RECORD, UNTOUCHED },
		ANNOUNCE_DO_REWRITE },
	{ "persistent: what we emptied", { UP_PERSISTENT, EMPTY, UNTOUCHED }, ANNOUNCE_DO_REWRITE },
	{ "persistent: another's, where ours was", { UP_PERSISTENT, RECORD, WRITTEN },
		ANNOUNCE_DO_REFUSE },
	{ "what we wrote was persistent, under an earlier id", { UP, RECORD, UNTOUCHED },
		ANNOUNCE_DO_TAKE_OVER },
	{ "persistent, without id: just what we would write",
		{ .wish = ANNOUNCE_UP, RECORD, SAME_BYTES }, ANNOUNCE_DO_NOTHING },
	{ "persistent, without id: ours, changed by another client",
		{ .wish = ANNOUNCE_UP, RECORD, WRITTEN, SAME_ID }, ANNOUNCE_DO_REWRITE },
	{ "persistent, without id: another's without id", { .wish = ANNOUNCE_UP, RECORD, SAME_ID },
		ANNOUNCE_DO_REFUSE },
	{ "persistent, without id: another's with one", { .wish = ANNOUNCE_UP, RECORD, WRITTEN },
		ANNOUNCE_DO_REFUSE },
	{ "down, persistent, without id: ours", { .wish = ANNOUNCE_DOWN, RECORD, WRITTEN, SAME_ID },
		ANNOUNCE_DO_REMOVE },
	{ "down, persistent, without id: another's", { .wish = ANNOUNCE_DOWN, RECORD, SAME_ID },
		ANNOUNCE_DO_NOTHING },
	{ "down, persistent: what we wrote, under an earlier id",
		{ DOWN_PERSISTENT, RECORD, UNTOUCHED }, ANNOUNCE_DO_REMOVE },
	{ "down: no node", { DOWN, ABSENT }, ANNOUNCE_DO_NOTHING },
	{ "down: ours", { DOWN, RECORD, OUR_SESSIONS, SAME_ID }, ANNOUNCE_DO_REMOVE },
	{ "down: a dead predecessor's", { DOWN, RECORD, ANOTHER_SESSIONS, SAME_ID },
		ANNOUNCE_DO_REMOVE },
	{ "down: another's", { DOWN, RECORD, ANOTHER_SESSIONS }, ANNOUNCE_DO_NOTHING },
	{ "down: a twin's", { DOWN, RECORD, ANOTHER_SESSIONS, WRITTEN, SAME_ID },
		ANNOUNCE_DO_NOTHING },
	{ "down: an empty node", { DOWN, EMPTY }, ANNOUNCE_DO_NOTHING },
	{ "down: an empty node without children that is not ours",
		{ DOWN_PERSISTENT, EMPTY, WRITTEN, .childless = true }, ANNOUNCE_DO_NOTHING },
	{ "down: what we emptied has children", { DOWN_PERSISTENT, EMPTY, UNTOUCHED },
		ANNOUNCE_DO_NOTHING },
	{ "down: what we emptied has no children any more",
		{ DOWN_PERSISTENT, EMPTY, UNTOUCHED, .childless = true }, ANNOUNCE_DO_REMOVE },
	{ "no verdict: no node", { .wish = ANNOUNCE_KEEP, .want_ephemeral = true, ABSENT },
		ANNOUNCE_DO_NOTHING },
	{ "no verdict: ours",
		{ .wish = ANNOUNCE_KEEP, .want_ephemeral = true, RECORD, OUR_SESSIONS },
		ANNOUNCE_DO_NOTHING },
};

ParameterizedTestParameters(announce, decides_from_what_is_wanted_and_what_stands)
{
	return cr_make_param_array(struct row, rows, sizeof(rows) / sizeof(rows[0]));
}

ParameterizedTest(struct row *row, announce, decides_from_what_is_wanted_and_what_stands)
{
	cr_assert(eq(int, announce_decide(&row->view), row->action), "%s", row->text);
}

Test(announce, a_shared_node_of_the_same_form_counts_as_registered)
{
	struct announce_view view = { .shared = true, RECORD, SAME_ID };
	cr_assert(announce_is_registered(&view));
	view.likeness = ANNOUNCE_LIKE_NOTHING;
	cr_assert(not(announce_is_registered(&view)));
	view = (struct announce_view){ .shared = true, FOREIGN, SAME_ID };
	cr_assert(not(announce_is_registered(&view)));
}

/* ---- the machine at work, on a registry in memory -------------------------------------------- */

struct stage {
	struct ev_loop *loop;
	struct registry *registry;
	struct registry_loop driver;
	struct announce *announce;
	char trail[512];    /* states that were reported, in order */
	char reason[128];   /* of the last write */
	double saved_since; /* of a predecessor's registered record; 0: there was none */
	json_t *left;       /* announce_persistent() at the last write */
};

static const char PATH[] = "/users/joe/web/one/components/c1";

static void on_change(
	void *context, enum announce_state from, enum announce_state to, const char *why)
{
	(void)from;
	struct stage *stage = context;
	size_t used = strlen(stage->trail);
	if (to == ANNOUNCE_WRITING) {
		snprintf(stage->reason, sizeof(stage->reason), "%s", why);
	}
	snprintf(stage->trail + used, sizeof(stage->trail) - used, "%s ", announce_state_name(to));
}

static void on_write(void *context)
{
	struct stage *stage = context;
	json_decref(stage->left);
	stage->left = announce_persistent(stage->announce);
}

static void on_registry_state(void *context, enum registry_state state, const char *why)
{
	struct stage *stage = context;
	if (stage->announce) {
		announce_on_registry_state(stage->announce, state, why);
	}
}

static void announce_anew(
	struct stage *stage, bool ephemeral, int64_t update_interval_ms, const json_t *left)
{
	const struct announce_options options = {
		.path = PATH,
		.ephemeral = ephemeral,
		.persistent = left,
		.update_interval_ms = update_interval_ms,
		.saved_state = ANNOUNCE_REGISTERED,
		.saved_since = stage->saved_since,
		.on_change = on_change,
		.on_write = on_write,
		.context = stage,
	};
	stage->announce = announce_create(stage->loop, stage->registry, &options);
	cr_assert(stage->announce != NULL);
}

static struct stage *stage_begin(struct stage *stage, bool ephemeral, int64_t update_interval_ms)
{
	*stage = (struct stage){ .loop = ev_loop_new(EVFLAG_AUTO) };
	const struct registry_options registry = { .on_state = on_registry_state,
		.context = stage };
	stage->registry = memory_open("announce", &registry);
	registry_loop_init(&stage->driver, stage->loop, stage->registry);
	announce_anew(stage, ephemeral, update_interval_ms, NULL);
	for (const char *slash = strchr(PATH + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		char *parent = strndup(PATH, (size_t)(slash - PATH));
		memory_put(stage->registry, parent, "");
		free(parent);
	}
	return stage;
}

static void stage_end(struct stage *stage)
{
	announce_destroy(stage->announce);
	json_decref(stage->left);
	registry_loop_finish(&stage->driver);
	registry_close(stage->registry);
	ev_loop_destroy(stage->loop);
}

/* A test with a stage whose announcement is for a node of this kind. */
#define STAGED(name, ephemeral, update_interval_ms)                                                \
	STAGED_TEST(announce, name, struct stage *, stage,                                         \
		stage_begin(&(struct stage){ 0 }, ephemeral, update_interval_ms), stage_end)

static void on_patience(struct ev_loop *loop, ev_timer *timer, int events)
{
	(void)loop;
	(void)events;
	const struct stage *stage = timer->data;
	cr_assert(false, "it did not come true within a minute; states: %s", stage->trail);
}

/* Runs the loop until the condition holds. */
#define RUN_UNTIL(stage, condition)                                                                \
	do {                                                                                       \
		ev_timer patience;                                                                 \
		ev_timer_init(&patience, on_patience, 60.0, 0.0);                                  \
		patience.data = (stage);                                                           \
		ev_timer_start((stage)->loop, &patience);                                          \
		while (!(condition)) {                                                             \
			ev_run((stage)->loop, EVRUN_ONCE);                                         \
		}                                                                                  \
		ev_timer_stop((stage)->loop, &patience);                                           \
	} while (0)

static enum announce_state state_of(const struct stage *stage)
{
	return announce_get_state(stage->announce);
}

static struct record *record_of(const char *id, const char *description)
{
	struct record *record = record_create();
	cr_assert(record != NULL);
	cr_assert(eq(int, record_set_text(record, "yarn:id", id), 0));
	cr_assert(eq(int, record_set_text(record, "description", description), 0));
	return record;
}

static int write_record(
	struct dialect_nodes *ret_nodes, const struct record *record, struct err *err)
{
	const struct dialect_instance instance = {
		.type = DIALECT_YARN, .name = "c", .record = record, .ephemeral = true, .path = PATH
	};
	return dialect_write(ret_nodes, &instance, err);
}

static void make_wish(
	struct stage *stage, enum announce_wish wish, const char *id, const char *description)
{
	struct record *record = record_of(id, description);
	struct err err = ERR_INIT;
	struct dialect_nodes nodes = { 0 };
	cr_assert(eq(int, write_record(&nodes, record, &err), 0), "%s", err.msg);
	announce_wish(stage->announce, wish, nodes.items, "test");
	dialect_nodes_finish(&nodes);
	record_free(record);
}

static void take_get(void *context, const struct registry_result *result)
{
	struct answer *answer = context;
	answer_take(answer, result);
}

/* The node that is in the registry now; NULL for none. Borrowed from `answer`. */
static const char *standing(struct stage *stage, struct answer *answer)
{
	answer_clear(answer);
	cr_assert(registry_get(stage->registry, PATH, take_get, answer) != NULL);
	RUN_UNTIL(stage, answer->calls > 0);
	return answer->err.code == 0 ? answer->data : NULL;
}

static bool stands_with(struct stage *stage, const char *text)
{
	struct answer answer = { 0 };
	const char *data = standing(stage, &answer);
	bool found = data && strstr(data, text);
	answer_clear(&answer);
	return found;
}

STAGED(writes_and_removes_what_is_wished, true, 0)
{
	make_wish(stage, ANNOUNCE_UP, "c_1", "one");
	RUN_UNTIL(stage, state_of(stage) == ANNOUNCE_REGISTERED);
	cr_assert(stands_with(stage, "\"one\""));
	make_wish(stage, ANNOUNCE_DOWN, "c_1", "one");
	RUN_UNTIL(stage, state_of(stage) == ANNOUNCE_WITHDRAWN);
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
	make_wish(stage, ANNOUNCE_UP, "c_1", "one");
	RUN_UNTIL(stage, state_of(stage) == ANNOUNCE_REGISTERED);
	memory_remove(stage->registry, PATH);
	RUN_UNTIL(stage, strstr(stage->trail, "registered writing registered"));
	cr_assert(stands_with(stage, "\"one\""));
	memory_put(stage->registry, PATH,
		"{\"type\":\"JSONServiceRecord\",\"description\":\"vandal\"}");
	RUN_UNTIL(stage, strstr(stage->trail, "registered writing registered writing registered"));
	cr_assert(stands_with(stage, "\"one\""));
}

STAGED(registers_again_in_a_new_session, true, 0)
{
	make_wish(stage, ANNOUNCE_UP, "c_1", "one");
	RUN_UNTIL(stage, state_of(stage) == ANNOUNCE_REGISTERED);
	memory_set_state(stage->registry, REGISTRY_LOST);
	RUN_UNTIL(stage, state_of(stage) == ANNOUNCE_WAITING);
	memory_set_state(stage->registry, REGISTRY_CONNECTED);
	RUN_UNTIL(stage, state_of(stage) == ANNOUNCE_REGISTERED);
	cr_assert(stands_with(stage, "\"one\""));
}

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
	check_reason(stage, "one", "no node is at our path");
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

static void count_writes(void *context, const struct registry_task *task, struct err *err)
{
	(void)err;
	int *writes = context;
	*writes += task->operation == REGISTRY_OP_SET || task->operation == REGISTRY_OP_CREATE;
}

STAGED(a_persistent_record_may_change_its_id, false, 0)
{
	make_wish(stage, ANNOUNCE_UP, "c_1", "one");
	RUN_UNTIL(stage, state_of(stage) == ANNOUNCE_REGISTERED);
	make_wish(stage, ANNOUNCE_UP, "c_2", "one");
	RUN_UNTIL(stage, strstr(stage->trail, "registered writing registered"));
	cr_assert(stands_with(stage, "\"c_2\""));
	make_wish(stage, ANNOUNCE_DOWN, "c_3", "one");
	RUN_UNTIL(stage, state_of(stage) == ANNOUNCE_WITHDRAWN);
	cr_assert(not(stands_with(stage, "")));
}

STAGED(a_persistent_record_that_another_wrote_meanwhile_is_the_others, false, 0)
{
	make_wish(stage, ANNOUNCE_UP, "c_1", "one");
	RUN_UNTIL(stage, state_of(stage) == ANNOUNCE_REGISTERED);
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
	make_wish(stage, ANNOUNCE_UP, "c_1", "one");
	RUN_UNTIL(stage, state_of(stage) == ANNOUNCE_REGISTERED);
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
	make_wish(stage, ANNOUNCE_UP, "c_1", "one");
	RUN_UNTIL(stage, state_of(stage) == ANNOUNCE_REGISTERED);
	make_wish(stage, ANNOUNCE_UP, "c_1", "two");
	cr_assert(eq(int, state_of(stage), ANNOUNCE_OUTDATED));
	cr_assert(not(announce_settled(stage->announce)));
	RUN_UNTIL(stage, state_of(stage) == ANNOUNCE_REGISTERED);
	cr_assert(stands_with(stage, "\"two\""));
}

STAGED(a_deleted_record_is_not_registered_while_the_throttle_delays_its_return, true, 3600 * 1000)
{
	make_wish(stage, ANNOUNCE_UP, "c_1", "one");
	RUN_UNTIL(stage, state_of(stage) == ANNOUNCE_REGISTERED);
	memory_remove(stage->registry, PATH);
	RUN_UNTIL(stage, state_of(stage) == ANNOUNCE_WRITING);
	cr_assert(not(stands_with(stage, "")));
}

STAGED(never_delays_a_removal, true, 3600 * 1000)
{
	make_wish(stage, ANNOUNCE_UP, "c_1", "one");
	RUN_UNTIL(stage, state_of(stage) == ANNOUNCE_REGISTERED);
	make_wish(stage, ANNOUNCE_DOWN, "c_1", "one");
	RUN_UNTIL(stage, state_of(stage) == ANNOUNCE_WITHDRAWN);
}

STAGED(waits_while_the_registry_is_away, true, 0)
{
	make_wish(stage, ANNOUNCE_UP, "c_1", "one");
	RUN_UNTIL(stage, state_of(stage) == ANNOUNCE_REGISTERED);
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
	make_wish(stage, ANNOUNCE_UP, "c_1", "one");
	RUN_UNTIL(stage, state_of(stage) == ANNOUNCE_REGISTERED);
	cr_assert(announce_state_is_in(state_of(stage)));
	cr_assert(not(announce_outlasts_outage(stage->announce)));
	memory_set_state(stage->registry, REGISTRY_AWAY);
	RUN_UNTIL(stage, state_of(stage) == ANNOUNCE_WAITING);
	cr_assert(not(announce_state_is_in(state_of(stage))));
	cr_assert(announce_outlasts_outage(stage->announce));
	cr_assert(announce_may_be_registered(stage->announce));
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
	cr_assert(eq(int, announce_may_be_registered(stage.announce), !ephemeral));
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
	make_wish(stage, ANNOUNCE_UP, "c_1", "one");
	RUN_UNTIL(stage, state_of(stage) == ANNOUNCE_REGISTERED);
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

static const char CHILD[] = "/users/joe/web/one/components/c1/below";

STAGED(a_node_with_children_loses_its_record_and_goes_after_the_last_child, false, 0)
{
	make_wish(stage, ANNOUNCE_UP, "c_1", "one");
	RUN_UNTIL(stage, state_of(stage) == ANNOUNCE_REGISTERED);
	memory_put(stage->registry, CHILD, "");
	make_wish(stage, ANNOUNCE_DOWN, "c_1", "one");
	RUN_UNTIL(stage, state_of(stage) == ANNOUNCE_WITHDRAWN);
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

STAGED(an_emptied_node_that_another_client_writes_is_the_others, false, 0)
{
	make_wish(stage, ANNOUNCE_UP, "c_1", "one");
	RUN_UNTIL(stage, state_of(stage) == ANNOUNCE_REGISTERED);
	memory_put(stage->registry, CHILD, "");
	make_wish(stage, ANNOUNCE_DOWN, "c_1", "one");
	RUN_UNTIL(stage, state_of(stage) == ANNOUNCE_WITHDRAWN);
	memory_put(stage->registry, PATH, "host-a:1234");
	RUN_UNTIL(stage, stands_with(stage, "host-a"));
	memory_remove(stage->registry, CHILD);
	make_wish(stage, ANNOUNCE_UP, "c_1", "one");
	RUN_UNTIL(stage, state_of(stage) == ANNOUNCE_CONFLICT);
	cr_assert(stands_with(stage, "host-a"));
}

STAGED(an_emptied_node_takes_the_record_again, false, 0)
{
	make_wish(stage, ANNOUNCE_UP, "c_1", "one");
	RUN_UNTIL(stage, state_of(stage) == ANNOUNCE_REGISTERED);
	memory_put(stage->registry, CHILD, "");
	make_wish(stage, ANNOUNCE_DOWN, "c_1", "one");
	RUN_UNTIL(stage, state_of(stage) == ANNOUNCE_WITHDRAWN);
	make_wish(stage, ANNOUNCE_UP, "c_1", "two");
	RUN_UNTIL(stage, state_of(stage) == ANNOUNCE_REGISTERED);
	cr_assert(stands_with(stage, "\"two\""));
	memory_remove(stage->registry, CHILD);
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
	make_wish(stage, ANNOUNCE_UP, "c_1", "one");
	RUN_UNTIL(stage, state_of(stage) == ANNOUNCE_REGISTERED);
	memory_set_state(stage->registry, REGISTRY_AWAY);
	RUN_UNTIL(stage, state_of(stage) == ANNOUNCE_WAITING);
	make_wish(stage, ANNOUNCE_DOWN, "c_1", "one");
	cr_assert(not(announce_settled(stage->announce)));
}

STAGED(a_state_that_a_predecessor_was_in_keeps_its_time_once, false, 0)
{
	make_wish(stage, ANNOUNCE_UP, "c_1", "one");
	RUN_UNTIL(stage, state_of(stage) == ANNOUNCE_REGISTERED);
	cr_assert(announce_since(stage->announce) > 1000);
	json_t *left = announce_persistent(stage->announce);
	announce_destroy(stage->announce);
	stage->saved_since = 1000;
	announce_anew(stage, false, 0, left);
	json_decref(left);
	make_wish(stage, ANNOUNCE_UP, "c_1", "one");
	RUN_UNTIL(stage, state_of(stage) == ANNOUNCE_REGISTERED);
	cr_assert(announce_since(stage->announce) == 1000);
	make_wish(stage, ANNOUNCE_UP, "c_1", "two");
	RUN_UNTIL(stage, stands_with(stage, "\"two\"") && state_of(stage) == ANNOUNCE_REGISTERED);
	cr_assert(announce_since(stage->announce) > 1000);
}

/* A callback that comes later would meet freed memory. */
STAGED(an_announcement_may_end_during_a_write, true, 0)
{
	announce_destroy(NULL);
	make_wish(stage, ANNOUNCE_UP, "c_1", "one");
	RUN_UNTIL(stage, state_of(stage) == ANNOUNCE_REGISTERED);
	make_wish(stage, ANNOUNCE_UP, "c_1", "two");
	cr_assert(eq(int, state_of(stage), ANNOUNCE_WRITING));
	announce_destroy(stage->announce);
	stage->announce = NULL;
	cr_assert(stands_with(stage, "c_1"));
	cr_assert(eq(sz, memory_armed_watches(stage->registry), 0));
	cr_assert(eq(str, stage->trail, "writing registered writing "));
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
	make_wish(stage, ANNOUNCE_UP, "c_1", "one");
	RUN_UNTIL(stage, state_of(stage) == ANNOUNCE_REGISTERED);
	cr_assert(announce_persistent(stage->announce) == NULL);
	cr_assert(stage->left == NULL);
}

STAGED(a_note_before_a_write_holds_the_data_and_one_after_it_does_not, false, 0)
{
	make_wish(stage, ANNOUNCE_UP, "c_1", "one");
	RUN_UNTIL(stage, state_of(stage) == ANNOUNCE_REGISTERED);
	const char *sent = json_string_value(json_object_get(stage->left, "sent"));
	cr_assert(sent && strstr(sent, "\"one\""));
	json_t *after = announce_persistent(stage->announce);
	cr_assert(json_object_get(after, "sent") == NULL);
	cr_assert(json_integer_value(json_object_get(after, "node")) != 0);
	json_decref(after);
}

STAGED(a_note_that_is_damaged_counts_for_nothing, false, 0)
{
	memory_put(stage->registry, PATH, "{\"type\":\"JSONServiceRecord\",\"yarn:id\":\"c_2\"}");
	announce_destroy(stage->announce);
	json_t *left = json_pack("{s:s, s:i}", "node", "one", "version", 1);
	announce_anew(stage, false, 0, left);
	json_decref(left);
	make_wish(stage, ANNOUNCE_UP, "c_1", "one");
	RUN_UNTIL(stage, state_of(stage) == ANNOUNCE_CONFLICT);
	cr_assert(stands_with(stage, "\"c_2\""));
}

STAGED(an_announcement_works_without_listeners, false, 0)
{
	announce_destroy(stage->announce);
	const struct announce_options options = { .path = PATH };
	stage->announce = announce_create(stage->loop, stage->registry, &options);
	make_wish(stage, ANNOUNCE_UP, "c_1", "one");
	RUN_UNTIL(stage, state_of(stage) == ANNOUNCE_REGISTERED);
	cr_assert(stands_with(stage, "\"one\""));
	cr_assert(eq(str, stage->trail, ""));
}

STAGED(the_reason_of_an_outage_is_the_reason_of_the_wait, true, 0)
{
	make_wish(stage, ANNOUNCE_UP, "c_1", "one");
	RUN_UNTIL(stage, state_of(stage) == ANNOUNCE_REGISTERED);
	announce_on_registry_state(stage->announce, REGISTRY_AWAY, "the cable is cut");
	cr_assert(eq(str, (char *)announce_why(stage->announce),
		"the registry is away: the cable is cut"));
	announce_on_registry_state(stage->announce, REGISTRY_AWAY, "");
	cr_assert(eq(str, (char *)announce_why(stage->announce), "the registry is away"));
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

STAGED(a_conflict_with_another_record_is_news, true, 0)
{
	memory_put(stage->registry, PATH, "{\"type\":\"JSONServiceRecord\",\"yarn:id\":\"c_2\"}");
	make_wish(stage, ANNOUNCE_UP, "c_1", "one");
	RUN_UNTIL(stage, state_of(stage) == ANNOUNCE_CONFLICT);
	cr_assert(strstr(announce_why(stage->announce), "c_2") != NULL);
	memory_put(stage->registry, PATH, "{\"type\":\"JSONServiceRecord\",\"yarn:id\":\"c_3\"}");
	RUN_UNTIL(stage, strcmp(stage->trail, "conflict conflict ") == 0);
	cr_assert(strstr(announce_why(stage->announce), "c_3") != NULL);
}

STAGED(an_ephemeral_record_is_not_noted_while_it_is_written, true, 0)
{
	make_wish(stage, ANNOUNCE_UP, "c_1", "one");
	RUN_UNTIL(stage, state_of(stage) == ANNOUNCE_REGISTERED);
	make_wish(stage, ANNOUNCE_UP, "c_1", "two");
	cr_assert(eq(int, state_of(stage), ANNOUNCE_WRITING));
	cr_assert(announce_persistent(stage->announce) == NULL);
}

STAGED(a_wish_without_a_node_keeps_the_last_one, true, 0)
{
	make_wish(stage, ANNOUNCE_UP, "c_1", "one");
	RUN_UNTIL(stage, state_of(stage) == ANNOUNCE_REGISTERED);
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

STAGED(a_session_that_is_lost_before_anything_was_written_takes_nothing_along, false, 0)
{
	memory_set_state(stage->registry, REGISTRY_LOST);
	RUN_UNTIL(stage, registry_state(stage->registry) == REGISTRY_LOST);
	cr_assert(not(announce_may_be_registered(stage->announce)));
	memory_set_state(stage->registry, REGISTRY_CONNECTED);
	make_wish(stage, ANNOUNCE_UP, "c_1", "one");
	RUN_UNTIL(stage, state_of(stage) == ANNOUNCE_REGISTERED);
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
	for (size_t i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++) {
		memory_on_task(stage->registry, refuse_with, &refusals[i]);
		make_wish(stage, ANNOUNCE_UP, "c_1", texts[i]);
		RUN_UNTIL(stage, stands_with(stage, texts[i]));
		RUN_UNTIL(stage, state_of(stage) == ANNOUNCE_REGISTERED);
		cr_assert(eq(int, refusals[i].times, 0));
	}
	memory_on_task(stage->registry, NULL, NULL);
}

/* The wall clock was set back since the last write. */
STAGED(a_throttle_does_not_wait_for_a_time_that_was_set_back, true, 3600 * 1000)
{
	make_wish(stage, ANNOUNCE_UP, "c_1", "one");
	RUN_UNTIL(stage, state_of(stage) == ANNOUNCE_REGISTERED);
	stage->announce->written_at = ev_now(stage->loop) + 100000;
	make_wish(stage, ANNOUNCE_UP, "c_1", "two");
	RUN_UNTIL(stage, stands_with(stage, "\"two\""));
}
