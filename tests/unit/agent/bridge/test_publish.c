/* One announcement for each path, of one container. */
#include "agent/bridge/publish.h"

#include "agent/base/log.h"

#include "tests/unit/agent/bridge/bridge_stage.h"

struct stage {
	struct bridge_stage common;
	struct bridge_publish *publish;
	int tasks; /* that change the path under test */
	char visited[256];
};

static void on_registry_state(void *context, enum registry_state state, const char *why)
{
	struct stage *stage = context;
	if (stage->publish) {
		bridge_publish_on_registry_state(stage->publish, state, why);
	}
}

static void open_publish(struct stage *stage, const json_t *inherited)
{
	const struct bridge_publish_environment environment = {
		.loop = stage->common.loop,
		.registry = stage->common.registry,
		.book = stage->common.book,
		.inherited = inherited,
		.session_is_saved = stage_session_is_saved,
		.is_taken = stage_is_taken,
		.on_change = stage_on_change,
		.context = &stage->common,
	};
	stage->publish = bridge_publish_create(&environment);
}

static struct stage *begin(struct stage *stage)
{
	const struct registry_options options = { .on_state = on_registry_state, .context = stage };
	stage_open(&stage->common, &options);
	open_publish(stage, NULL);
	return stage;
}

static void end(struct stage *stage)
{
	bridge_publish_destroy(stage->publish);
	bridge_publish_destroy(NULL);
	stage_close(&stage->common);
}

#define PUBLISH_TEST(name)                                                                         \
	STAGED_TEST(bridge_publish, name, struct stage *, stage, begin(&(struct stage){ 0 }), end)

/* Runs the loop until the condition holds; the bridge goes on after each turn. */
#define GO_ON_UNTIL(stage, condition)                                                              \
	RUN_UNTIL((stage)->common.loop, (bridge_publish_proceed((stage)->publish), (condition)))

/* Without a call of its own, for a condition that makes it. */
#define RUN_PUBLISH_UNTIL(stage, condition) RUN_UNTIL((stage)->common.loop, (condition))

static int claim(struct stage *stage, const char *path, const char *container, const char *data,
	struct err *err)
{
	err_clear(err);
	return bridge_publish_claim(stage->publish, path, container, data, strlen(data), err);
}

static enum announce_state state_of(
	const struct stage *stage, const char *path, const char *container)
{
	const struct announce *announce = bridge_publish_find(stage->publish, path, container);
	cr_assert(announce != NULL, "%s of %s", path, container);
	return announce_get_state(announce);
}

static void hold(struct stage *stage, const char *path, const char *container, const char *data)
{
	struct err err = ERR_INIT;
	cr_assert_eq(claim(stage, path, container, data, &err), 0, "%s", err.msg);
	GO_ON_UNTIL(stage, state_of(stage, path, container) == ANNOUNCE_REGISTERED);
}

PUBLISH_TEST(a_claim_is_announced_changed_and_given_up)
{
	hold(stage, "/services/db", "web-1", RECORD("one"));
	cr_expect(stage_has(&stage->common, "/services/db", "one"));
	cr_expect_str_eq(bridge_book_find(stage->common.book, "/services/db"), "web-1");
	cr_expect_gt(stage->common.changes, 0);
	hold(stage, "/services/db", "web-1", RECORD("two"));
	GO_ON_UNTIL(stage, stage_has(&stage->common, "/services/db", "two"));
	bridge_publish_release(stage->publish, "/services/db", "web-1", "it is over");
	cr_expect_str_eq(announce_why(bridge_publish_find(stage->publish, "/services/db", "web-1")),
		"it is over");
	int changes = 0;
	RUN_PUBLISH_UNTIL(stage,
		(changes = stage->common.changes, bridge_publish_proceed(stage->publish),
			!bridge_publish_find(stage->publish, "/services/db", "web-1")));
	cr_expect_eq(stage->common.changes, changes + 1, "the path is free");
	cr_expect_null(stage_node(&stage->common, "/services/db"));
	cr_expect_null(bridge_book_find(stage->common.book, "/services/db"));
}

PUBLISH_TEST(a_path_has_one_container)
{
	struct err err = ERR_INIT;
	hold(stage, "/services/db", "web-1", RECORD("one"));
	cr_expect_eq(claim(stage, "/services/db", "web-2", RECORD("two"), &err),
		BERTH_FILE_ALREADY_EXISTS);
	cr_expect_str_eq(err.msg, "container web-1 of this host has /services/db");
	cr_expect_null(bridge_publish_find(stage->publish, "/services/db", "web-2"));
	cr_expect_null(bridge_publish_find(stage->publish, "/services/none", "web-1"));
	bridge_publish_release(stage->publish, "/services/db", "web-2", "not its own");
	bridge_publish_release(stage->publish, "/services/none", "web-1", "none");
	bridge_publish_proceed(stage->publish);
	cr_expect_eq(state_of(stage, "/services/db", "web-1"), ANNOUNCE_REGISTERED);
	bridge_publish_release(stage->publish, "/services/db", "web-1", "over");
	bridge_publish_release(stage->publish, "/services/db", "web-1", "over twice");
	cr_expect_str_eq(
		announce_why(bridge_publish_find(stage->publish, "/services/db", "web-1")), "over");
	cr_expect_eq(claim(stage, "/services/db", "web-2", RECORD("two"), &err),
		BERTH_FILE_ALREADY_EXISTS);
	cr_expect_str_eq(err.msg, "container web-1 of this host is leaving /services/db");
	GO_ON_UNTIL(stage, claim(stage, "/services/db", "web-2", RECORD("two"), &err) == 0);
	GO_ON_UNTIL(stage, state_of(stage, "/services/db", "web-2") == ANNOUNCE_REGISTERED);
	cr_expect(stage_has(&stage->common, "/services/db", "two"));
	cr_expect_str_eq(bridge_book_find(stage->common.book, "/services/db"), "web-2");
}

PUBLISH_TEST(a_path_of_the_host_itself_is_taken)
{
	struct err err = ERR_INIT;
	stage->common.taken = "/services/db";
	cr_expect_eq(claim(stage, "/services/db", "web-1", RECORD("one"), &err),
		BERTH_FILE_ALREADY_EXISTS);
	cr_expect_str_eq(err.msg, "a component of the host's agent has /services/db");
	cr_expect_null(bridge_book_find(stage->common.book, "/services/db"));
	cr_expect_eq(claim(stage, "/services/x", "web-1", RECORD("one"), &err), 0);
}

PUBLISH_TEST(a_container_may_take_again_a_path_that_it_gives_up)
{
	struct err err = ERR_INIT;
	hold(stage, "/services/db", "web-1", RECORD("one"));
	bridge_publish_release(stage->publish, "/services/db", "web-1", "over");
	cr_expect_eq(claim(stage, "/services/db", "web-1", RECORD("two"), &err), 0);
	GO_ON_UNTIL(stage, state_of(stage, "/services/db", "web-1") == ANNOUNCE_REGISTERED);
	bridge_publish_proceed(stage->publish);
	cr_expect(stage_has(&stage->common, "/services/db", "two"));
	cr_expect_str_eq(bridge_book_find(stage->common.book, "/services/db"), "web-1");
}

static void expect_counts(const struct stage *stage, size_t registered, size_t writing)
{
	size_t counts[ANNOUNCE_STATE_COUNT];
	memset(counts, 7, sizeof(counts));
	bridge_publish_count(stage->publish, counts);
	cr_expect_eq(counts[ANNOUNCE_REGISTERED], registered);
	cr_expect_eq(counts[ANNOUNCE_WRITING], writing);
	cr_expect_eq(counts[ANNOUNCE_CONFLICT], 0);
	cr_expect_eq(counts[ANNOUNCE_FAILED], 0);
}

/* A node in the session, as a predecessor left it, with its entry in the book. */
static json_t *leave(struct stage *stage, const char *path, const char *container)
{
	hold(stage, path, container, RECORD("old"));
	bridge_publish_destroy(stage->publish);
	stage->publish = NULL;
	return json_pack("{s:s, s:i}", path, container, "/services/none", 7);
}

PUBLISH_TEST(an_inherited_path_is_its_containers)
{
	struct err err = ERR_INIT;
	json_t *inherited = leave(stage, "/services/db", "web-1");
	open_publish(stage, inherited);
	json_decref(inherited);
	cr_expect(bridge_publish_inherits(stage->publish, "/services/db", "web-1"));
	cr_expect_not(bridge_publish_inherits(stage->publish, "/services/db", "web-2"));
	cr_expect_not(bridge_publish_inherits(stage->publish, "/services/none", "web-1"));
	cr_expect_eq(claim(stage, "/services/db", "web-2", RECORD("two"), &err),
		BERTH_FILE_ALREADY_EXISTS);
	cr_expect_eq(claim(stage, "/services/db", "web-1", RECORD("old"), &err), 0);
	cr_expect_not(bridge_publish_inherits(stage->publish, "/services/db", "web-1"));
	bridge_publish_forsake(stage->publish);
	GO_ON_UNTIL(stage, state_of(stage, "/services/db", "web-1") == ANNOUNCE_REGISTERED);
	cr_expect(stage_has(&stage->common, "/services/db", "old"));
	expect_counts(stage, 1, 0);
}

PUBLISH_TEST(an_inherited_path_that_nobody_claims_is_taken_out)
{
	json_t *inherited = leave(stage, "/services/db", "web-1");
	open_publish(stage, inherited);
	json_decref(inherited);
	bridge_publish_proceed(stage->publish);
	cr_expect(stage_has(&stage->common, "/services/db", "old"));
	bridge_publish_forsake(stage->publish);
	GO_ON_UNTIL(stage, !bridge_publish_find(stage->publish, "/services/db", "web-1"));
	cr_expect_null(stage_node(&stage->common, "/services/db"));
	cr_expect_null(bridge_book_find(stage->common.book, "/services/db"));
}

PUBLISH_TEST(a_node_waits_for_the_book_and_the_session)
{
	struct err err = ERR_INIT;
	stage->common.session_hangs = true;
	cr_assert_eq(claim(stage, "/services/db", "web-1", RECORD("one"), &err), 0);
	GO_ON_UNTIL(stage, stage->common.saved > 0);
	for (int i = 0; i < 20; i++) {
		bridge_publish_proceed(stage->publish);
		ev_run(stage->common.loop, EVRUN_NOWAIT);
	}
	cr_expect_null(stage_node(&stage->common, "/services/db"), "the session is not saved");
	stage->common.session_hangs = false;
	GO_ON_UNTIL(stage, state_of(stage, "/services/db", "web-1") == ANNOUNCE_REGISTERED);
}

static void note_order(void *context, const struct registry_task *task, struct err *err)
{
	struct stage *stage = context;
	(void)err;
	if (task->operation == REGISTRY_OP_CREATE && strcmp(task->path, "/services/db") == 0) {
		cr_expect(stage->common.saved > 0, "the node is made before the book is saved");
		stage->tasks++;
	}
}

PUBLISH_TEST(the_book_is_on_the_disk_before_the_node_is_made)
{
	memory_on_task(stage->common.registry, note_order, stage);
	hold(stage, "/services/db", "web-1", RECORD("one"));
	cr_expect_eq(stage->tasks, 1);
	memory_on_task(stage->common.registry, NULL, NULL);
}

static void note_change(void *context, const struct registry_task *task, struct err *err)
{
	struct stage *stage = context;
	size_t len = strlen(stage->visited);
	(void)err;
	if (strcmp(task->path, "/services/db") == 0 && task->operation != REGISTRY_OP_GET &&
		task->operation != REGISTRY_OP_STAT) {
		snprintf(stage->visited + len, sizeof(stage->visited) - len, "%s ",
			task->operation == REGISTRY_OP_SET ? "set" : "other");
	}
}

PUBLISH_TEST(a_record_is_changed_in_its_place)
{
	struct err err = ERR_INIT;
	hold(stage, "/services/db", "web-1", RECORD("one"));
	memory_on_task(stage->common.registry, note_change, stage);
	cr_assert_eq(claim(stage, "/services/db", "web-1", RECORD("two"), &err), 0);
	GO_ON_UNTIL(stage, stage_has(&stage->common, "/services/db", "two"));
	memory_on_task(stage->common.registry, NULL, NULL);
	cr_expect_eq(strncmp(stage->visited, "set ", 4), 0, "%s", stage->visited);
	cr_expect_null(strstr(stage->visited, "other"), "%s", stage->visited);
}

PUBLISH_TEST(a_conflict_is_told_once)
{
	struct err err = ERR_INIT;
	memory_put(stage->common.registry, "/services/db",
		"{\"type\":\"JSONServiceRecord\",\"yarn:id\":\"c_2\"}");
	int log = stage_begin_log();
	log_set(LOG_LEVEL_DEBUG, false);
	cr_assert_eq(claim(stage, "/services/db", "web-1", RECORD("one"), &err), 0);
	GO_ON_UNTIL(stage, state_of(stage, "/services/db", "web-1") == ANNOUNCE_CONFLICT);
	cr_expect_eq(
		stage_logged(log, "warn  bridge: container web-1: /services/db is conflict: "), 1);
	memory_put(stage->common.registry, "/services/db",
		"{\"type\":\"JSONServiceRecord\",\"yarn:id\":\"c_2\",\"x\":\"y\"}");
	for (int i = 0; i < 30; i++) {
		bridge_publish_proceed(stage->publish);
		ev_run(stage->common.loop, EVRUN_NOWAIT);
	}
	cr_expect_eq(stage_logged(log, "warn  bridge: container"), 0);
	memory_remove(stage->common.registry, "/services/db");
	GO_ON_UNTIL(stage, state_of(stage, "/services/db", "web-1") == ANNOUNCE_REGISTERED);
	cr_expect_eq(stage_logged(log, " bridge: container"), 1, "no step on the way");
	close(log);
}

static void visit(void *context, const char *path, const struct announce *announce)
{
	struct stage *stage = context;
	size_t len = strlen(stage->visited);
	snprintf(stage->visited + len, sizeof(stage->visited) - len, "%s=%s ", path,
		announce_why(announce));
}

PUBLISH_TEST(paths_that_a_container_gives_up_are_named)
{
	hold(stage, "/services/a", "web-1", RECORD("a"));
	hold(stage, "/services/b", "web-1", RECORD("b"));
	hold(stage, "/services/c", "web-2", RECORD("c"));
	expect_counts(stage, 3, 0);
	bridge_publish_each_leaving(stage->publish, "web-1", visit, stage);
	cr_expect_str_eq(stage->visited, "");
	bridge_publish_release(stage->publish, "/services/b", "web-1", "over");
	bridge_publish_release(stage->publish, "/services/c", "web-2", "over");
	bridge_publish_each_leaving(stage->publish, "web-1", visit, stage);
	cr_expect_str_eq(stage->visited, "/services/b=over ");
	GO_ON_UNTIL(stage,
		!bridge_publish_find(stage->publish, "/services/b", "web-1") &&
			!bridge_publish_find(stage->publish, "/services/c", "web-2"));
	expect_counts(stage, 1, 0);
	cr_expect(stage_has(&stage->common, "/services/a", "a"), "its neighbours stay");
	int changes = stage->common.changes;
	bridge_publish_proceed(stage->publish);
	cr_expect_eq(stage->common.changes, changes, "nothing has gone any more");
}

PUBLISH_TEST(a_node_that_may_still_be_there_keeps_its_path)
{
	struct err err = ERR_INIT;
	hold(stage, "/services/db", "web-1", RECORD("one"));
	memory_set_state(stage->common.registry, REGISTRY_AWAY);
	GO_ON_UNTIL(stage, state_of(stage, "/services/db", "web-1") == ANNOUNCE_WAITING);
	bridge_publish_release(stage->publish, "/services/db", "web-1", "over");
	for (int i = 0; i < 20; i++) {
		bridge_publish_proceed(stage->publish);
		ev_run(stage->common.loop, EVRUN_NOWAIT);
	}
	cr_expect_eq(claim(stage, "/services/db", "web-2", RECORD("two"), &err),
		BERTH_FILE_ALREADY_EXISTS);
	memory_set_state(stage->common.registry, REGISTRY_CONNECTED);
	GO_ON_UNTIL(stage, !bridge_publish_find(stage->publish, "/services/db", "web-1"));
	cr_expect_null(stage_node(&stage->common, "/services/db"));
}

/* A node of another client in the way is a conflict, which the record outlives. */
PUBLISH_TEST(a_foreign_node_is_a_conflict)
{
	struct err err = ERR_INIT;
	memory_put(stage->common.registry, "/services/db",
		"{\"type\":\"JSONServiceRecord\",\"yarn:id\":\"c_2\"}");
	cr_assert_eq(claim(stage, "/services/db", "web-1", RECORD("one"), &err), 0);
	GO_ON_UNTIL(stage, state_of(stage, "/services/db", "web-1") == ANNOUNCE_CONFLICT);
	size_t counts[ANNOUNCE_STATE_COUNT];
	bridge_publish_count(stage->publish, counts);
	cr_expect_eq(counts[ANNOUNCE_CONFLICT], 1);
	memory_remove(stage->common.registry, "/services/db");
	GO_ON_UNTIL(stage, state_of(stage, "/services/db", "web-1") == ANNOUNCE_REGISTERED);
}

static void count_sets(void *context, const struct registry_task *task, struct err *err)
{
	(void)err;
	((struct stage *)context)->tasks += task->operation == REGISTRY_OP_SET;
}

/* A change within the interval waits: of new announcements, and of those that are there. */
PUBLISH_TEST(changes_keep_the_update_interval)
{
	struct err err = ERR_INIT;
	hold(stage, "/services/a", "web-1", RECORD("one"));
	bridge_publish_set_update_interval(stage->publish, 3600000);
	hold(stage, "/services/b", "web-1", RECORD("one"));
	memory_on_task(stage->common.registry, count_sets, stage);
	cr_assert_eq(claim(stage, "/services/a", "web-1", RECORD("two"), &err), 0);
	cr_assert_eq(claim(stage, "/services/b", "web-1", RECORD("two"), &err), 0);
	for (int i = 0; i < 50; i++) {
		bridge_publish_proceed(stage->publish);
		ev_run(stage->common.loop, EVRUN_NOWAIT);
	}
	cr_expect_eq(stage->tasks, 0);
	cr_expect_eq(state_of(stage, "/services/a", "web-1"), ANNOUNCE_OUTDATED);
	cr_expect_eq(state_of(stage, "/services/b", "web-1"), ANNOUNCE_OUTDATED);
	memory_on_task(stage->common.registry, NULL, NULL);
}
