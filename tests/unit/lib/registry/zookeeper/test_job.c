/* Tasks, from the request that does them to the answer that the core gets. */
#include <criterion/criterion.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/array.h"
#include "lib/base/limits.h"
#include "tests/support/zk_task.h"

int clock_gettime(clockid_t clock, struct timespec *now)
{
	return zk_stage_clock(clock, now);
}

enum { SECOND_MS = 1000 };

static void end_stage(void)
{
	free_results(&task);
	zk_stage_detach();
}

TestSuite(zk_job, .init = zk_stage_open_connected, .fini = end_stage);
TestSuite(zk_job_secure, .fini = end_stage);

/* ---- answers ---- */

Test(zk_job, data_come_with_what_is_known_of_their_node)
{
	begin(REGISTRY_OP_GET, "/a");
	task.watch = true;
	const struct zk_request *get = submitted(ZK_GET, "/registry/a");
	cr_assert(get->watch);
	cr_assert_eq(get->version, -1);
	zk_stage_result(&(struct zk_result){ .tag = get->tag,
		.stat = { .czxid = 9, .owner = ZK_STAGE_SESSION, .version = 3, .size = 5 },
		.data = "b\0c\0d",
		.len = 5 });
	check_code(&task, 0);
	cr_assert_eq(task.ret_len, 5);
	cr_assert_eq(memcmp(task.ret_data, "b\0c\0d", 6), 0);
	cr_assert(task.ret_stat.own && task.ret_stat.ephemeral);
	cr_assert_eq(task.ret_stat.node_id, 9);
	cr_assert_eq(task.ret_stat.version, 3);
	cr_assert(task.ret_childless);
}

/* A server may send any number of names: each becomes a path, which is larger than the name. */
Test(zk_job, a_list_that_is_too_large_is_refused_before_it_is_kept)
{
	enum { NAMES = 20000, DEPTH = 30, ELEMENT_BYTES = 30 };
	static char packed[2 * NAMES];
	static char deep[DEPTH * ELEMENT_BYTES + 1];
	static char asked[sizeof("/registry") + sizeof(deep)];
	for (size_t i = 0; i < NAMES; i++) {
		packed[2 * i] = 'a';
	}
	memset(deep, 'd', sizeof(deep) - 1);
	for (size_t i = 0; i < DEPTH; i++) {
		deep[i * ELEMENT_BYTES] = '/';
	}
	strcat(strcpy(asked, "/registry"), deep);
	begin(REGISTRY_OP_CHILDREN, deep);
	const struct zk_request *list = submitted(ZK_CHILDREN, asked);
	zk_stage_result(&(struct zk_result){ .tag = list->tag,
		.names = { .packed = packed, .len = sizeof(packed), .count = NAMES } });
	check_code(&task, BERTH_LIMIT_EXCEEDED);
	cr_assert_not_null(strstr(task.ret_err.msg, "a list of 20000 children is larger"));
	cr_assert_null(task.ret_children);
	cr_assert_eq(task.ret_children_count, 0);
	begin(REGISTRY_OP_CHILDREN, "/a");
	list = submitted(ZK_CHILDREN, "/registry/a");
	zk_stage_result(&(struct zk_result){ .tag = list->tag,
		.names = { .packed = packed, .len = sizeof(packed), .count = NAMES } });
	check_code(&task, 0);
	cr_assert_eq(task.ret_children_count, NAMES);
	free_results(&task);
}

/* The worker leaves out what is too long, but for the beginning of a record. */
static void check_large(uint32_t size, const char *data, int code)
{
	begin(REGISTRY_OP_GET, "/a");
	const struct zk_request *get = submitted(ZK_GET, "/registry/a");
	zk_stage_result(&(struct zk_result){
		.tag = get->tag, .stat = { .size = size }, .data = data, .len = strlen(data) });
	check_code(&task, code);
	cr_assert_eq(task.ret_data != NULL, code == 0);
	free_results(&task);
}

Test(zk_job, data_beyond_the_limit_are_an_error)
{
	check_large(LIMIT_RECORD_BYTES, "x", 0);
	check_large(LIMIT_RECORD_BYTES + 1, "", BERTH_NO_RECORD);
	check_large(LIMIT_RECORD_BYTES + 1, "JSONServiceRecord", BERTH_INVALID_RECORD);
}

Test(zk_job, an_answer_that_nobody_waits_for_is_ignored)
{
	static const uint32_t tags[] = { 0, 5, 64, 4711 };
	begin(REGISTRY_OP_STAT, "/a");
	uint32_t tag = submitted(ZK_EXISTS, "/registry/a")->tag;
	answer(&(struct zk_request){ .tag = tag }, ZK_RC_OK);
	check_code(&task, 0);
	for (size_t i = 0; i < ARRAY_LEN(tags); i++) {
		answer(&(struct zk_request){ .tag = tags[i] }, ZK_RC_OK);
	}
	cr_assert_eq(zk_stage.workers, 1);
}

/* ---- absent nodes that are watched ---- */

static void check_watch_of_absence(
	enum registry_operation operation, enum zk_operation first, enum zk_operation then)
{
	begin(operation, "/a");
	task.watch = true;
	answer(submitted(first, "/registry/a"), ZK_RC_NO_NODE);
	cr_assert(!zk_stage_is_done(&task));
	const struct zk_request *look = request(then, "/registry/a");
	cr_assert(look->watch);
	answer(look, ZK_RC_OK);
	/* It appeared in between. */
	answer(request(first, "/registry/a"), ZK_RC_NO_NODE);
	answer(request(then, "/registry/a"), ZK_RC_NO_NODE);
	check_code(&task, BERTH_PATH_NOT_FOUND);
}

Test(zk_job, the_creation_of_an_absent_node_is_watched_instead)
{
	check_watch_of_absence(REGISTRY_OP_GET, ZK_GET, ZK_EXISTS);
	check_watch_of_absence(REGISTRY_OP_CHILDREN, ZK_CHILDREN, ZK_EXISTS_FOR_CHILDREN);
	begin(REGISTRY_OP_GET, "/a");
	answer(submitted(ZK_GET, "/registry/a"), ZK_RC_NO_NODE);
	check_code(&task, BERTH_PATH_NOT_FOUND);
	begin(REGISTRY_OP_GET, "/a");
	task.watch = true;
	answer(submitted(ZK_GET, "/registry/a"), ZK_RC_NO_AUTH);
	check_code(&task, BERTH_NO_PATH_PERMISSIONS);
}

/* ---- the connection is lost ---- */

static void connect_again(void)
{
	while (zk_stage.worker == 0) {
		zk_stage_pass_ms(SECOND_MS);
	}
	zk_stage_connect();
}

static void reconnect(void)
{
	zk_stage_lose_connection();
	connect_again();
}

Test(zk_job, a_read_fails_with_its_connection)
{
	begin(REGISTRY_OP_GET, "/a");
	answer(submitted(ZK_GET, "/registry/a"), ZK_RC_CONNECTION_LOSS);
	check_code(&task, BERTH_REGISTRY_UNAVAILABLE);
	struct registry_task other = { .operation = REGISTRY_OP_GET, .path = "/b" };
	zk_stage_submit(&other);
	uint32_t tag = request(ZK_GET, "/registry/b")->tag;
	begin(REGISTRY_OP_GET, "/a");
	cr_assert_neq(submitted(ZK_GET, "/registry/a")->tag, tag);
	reconnect();
	check_code(&task, BERTH_REGISTRY_UNAVAILABLE);
	check_code(&other, BERTH_REGISTRY_UNAVAILABLE);
	cr_assert_null(zk_stage_request());
}

/* The write whose answer was lost; returns the question about its node. */
static const struct zk_request *lost_write(enum registry_operation operation)
{
	static const enum zk_operation operations[] = { [REGISTRY_OP_CREATE] = ZK_CREATE,
		[REGISTRY_OP_SET] = ZK_SET,
		[REGISTRY_OP_DELETE] = ZK_DELETE,
		[REGISTRY_OP_REPLACE] = ZK_REPLACE };
	begin(operation, "/a/b");
	task.data = "x";
	task.len = 1;
	task.ephemeral = true;
	task.has_expected = operation != REGISTRY_OP_CREATE;
	task.expected = (struct registry_stat){ .node_id = 5, .version = 1 };
	submitted(operations[operation], "/registry/a/b");
	reconnect();
	cr_assert(!zk_stage_is_done(&task));
	return request(operation == REGISTRY_OP_DELETE ? ZK_EXISTS : ZK_GET, "/registry/a/b");
}

Test(zk_job, a_write_whose_answer_was_lost_is_looked_up)
{
	const struct zk_request *look = lost_write(REGISTRY_OP_CREATE);
	cr_assert(!look->watch);
	zk_stage_result(&(struct zk_result){ .tag = look->tag,
		.stat = { .owner = ZK_STAGE_SESSION, .czxid = 8, .size = 1 },
		.data = "x",
		.len = 1 });
	check_code(&task, 0);
	cr_assert_eq(task.ret_stat.node_id, 8);
	cr_assert(task.ret_stat.own);
}

Test(zk_job, a_write_that_the_library_gives_up_waits_for_the_next_connection)
{
	begin(REGISTRY_OP_CREATE, "/a/b");
	answer(submitted(ZK_CREATE, "/registry/a/b"), ZK_RC_CONNECTION_LOSS);
	cr_assert(!zk_stage_is_done(&task));
	reconnect();
	answer(request(ZK_GET, "/registry/a/b"), ZK_RC_NO_NODE);
	answer(request(ZK_CREATE, "/registry/a/b"), ZK_RC_OK);
	check_code(&task, 0);
}

Test(zk_job, every_kind_of_write_is_looked_up)
{
	const struct zk_request *look = lost_write(REGISTRY_OP_SET);
	zk_stage_result(&(struct zk_result){ .tag = look->tag,
		.stat = { .czxid = 5, .version = 2, .size = 1 },
		.data = "x",
		.len = 1 });
	check_code(&task, 0);
	answer(lost_write(REGISTRY_OP_DELETE), ZK_RC_NO_NODE);
	check_code(&task, 0);
	answer(lost_write(REGISTRY_OP_REPLACE), ZK_RC_NO_NODE);
	check_code(&task, BERTH_PATH_NOT_FOUND);
}

Test(zk_job, a_write_is_lost_with_the_first_element_of_its_root_and_sent_again)
{
	begin(REGISTRY_OP_CREATE, "/a");
	answer(submitted(ZK_CREATE, "/registry/a"), ZK_RC_NO_NODE);
	request(ZK_CREATE, "/registry");
	reconnect();
	/* It has come to nothing before: there is nothing to look up. */
	answer(request(ZK_CREATE, "/registry/a"), ZK_RC_OK);
	check_code(&task, 0);
}

/* ---- without a connection ---- */

static void check_refused(int code, const char *words)
{
	begin(REGISTRY_OP_GET, "/a");
	zk_stage_submit(&task);
	cr_assert(!zk_stage_is_done(&task), "never within submit()");
	cr_assert_eq(registry_zk_ops.deadline_ms(zk_stage.backend), 0);
	zk_stage_dispatch();
	check_code(&task, code);
	assert_words(task.ret_err.msg, words);
	cr_assert_gt(registry_zk_ops.deadline_ms(zk_stage.backend), 0);
}

Test(zk_job, tasks_are_refused_with_the_credentials)
{
	zk_stage_session(&(struct zk_session){
		.state = ZK_SESSION_AUTH_FAILED, .server = "", .addresses = "" });
	check_refused(BERTH_AUTHENTICATION_FAILED, "/a: the server refuses our credentials");
	connect_again();
	cr_assert_null(zk_stage_request(), "what was refused is not sent later");
}

/* ---- deadlines ---- */

static int64_t due_in_ms(void)
{
	return registry_zk_ops.deadline_ms(zk_stage.backend) - zk_stage.now_ms;
}

Test(zk_job, a_task_without_an_answer_ends_at_its_deadline)
{
	struct registry_task later = { .operation = REGISTRY_OP_GET, .path = "/b" };
	begin(REGISTRY_OP_GET, "/a");
	task.deadline_ms = zk_stage.now_ms + 100;
	later.deadline_ms = zk_stage.now_ms + 300;
	uint32_t tag = submitted(ZK_GET, "/registry/a")->tag;
	zk_stage_submit(&later);
	uint32_t other_tag = request(ZK_GET, "/registry/b")->tag;
	cr_assert_eq(due_in_ms(), 100);
	zk_stage_pass_ms(99);
	cr_assert(!zk_stage_is_done(&task));
	zk_stage_pass_ms(1);
	check_code(&task, BERTH_TIMEOUT);
	assert_words(task.ret_err.msg, "/a: no answer in time");
	cr_assert(!zk_stage_is_done(&later));
	cr_assert_eq(due_in_ms(), 200);
	/* The late answer is nobody's, and frees its slot. */
	begin(REGISTRY_OP_STAT, "/c");
	const struct zk_request *third = submitted(ZK_EXISTS, "/registry/c");
	cr_assert(third->tag != tag && third->tag != other_tag);
	answer(&(struct zk_request){ .tag = tag }, ZK_RC_OK);
	cr_assert(!zk_stage_is_done(&task));
	zk_stage_pass_ms(200);
	check_code(&later, BERTH_TIMEOUT);
	cr_assert(!zk_stage_is_done(&task));
}

Test(zk_job, an_abandoned_task_is_touched_by_no_answer)
{
	begin(REGISTRY_OP_GET, "/a");
	const struct zk_request *get = submitted(ZK_GET, "/registry/a");
	uint32_t tag = get->tag;
	registry_zk_ops.abandon(zk_stage.backend, &task);
	struct registry_task next = { .operation = REGISTRY_OP_GET, .path = "/b" };
	zk_stage_submit(&next);
	cr_assert_neq(request(ZK_GET, "/registry/b")->tag, tag);
	answer(&(struct zk_request){ .tag = tag }, ZK_RC_OK);
	cr_assert(!zk_stage_is_done(&task) && !zk_stage_is_done(&next));
	struct registry_task third = { .operation = REGISTRY_OP_GET, .path = "/c" };
	zk_stage_submit(&third);
	cr_assert_eq(request(ZK_GET, "/registry/c")->tag, tag);
	/* A lost connection ends what is still waited for, and only that. */
	reconnect();
	check_code(&next, BERTH_REGISTRY_UNAVAILABLE);
	check_code(&third, BERTH_REGISTRY_UNAVAILABLE);
	cr_assert(!zk_stage_is_done(&task));
}

Test(zk_job, slots_of_abandoned_tasks_are_used_again_after_a_loss)
{
	begin(REGISTRY_OP_GET, "/a");
	uint32_t tag = submitted(ZK_GET, "/registry/a")->tag;
	registry_zk_ops.abandon(zk_stage.backend, &task);
	reconnect();
	begin(REGISTRY_OP_GET, "/b");
	cr_assert_eq(submitted(ZK_GET, "/registry/b")->tag, tag);
}
