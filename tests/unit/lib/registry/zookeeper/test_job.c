/* Tasks, from the request that does them to the answer that the core gets. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/limits.h"
#include "tests/support/zk_stage.h"

int clock_gettime(clockid_t clock, struct timespec *now)
{
	return zk_stage_clock(clock, now);
}

enum { SECOND_MS = 1000, TASKS = 200 };

/* The lists of a task that has made a node. */
static struct registry_acl_entry entries[] = {
	{ .scheme = "world", .id = "anyone", .permissions = 1 },
	{ .scheme = "sasl", .id = "joe@HOME", .permissions = 31 },
};
static const struct registry_acl acl = { .entries = entries, .count = 2 };

static struct registry_task task;

static void begin(enum registry_operation operation, const char *path)
{
	task = (struct registry_task){ .operation = operation, .path = path };
}

static void free_results(struct registry_task *of)
{
	free(of->ret_data);
	for (size_t i = 0; i < of->ret_children_count; i++) {
		free(of->ret_children[i]);
	}
	free(of->ret_children);
	of->ret_data = NULL;
	of->ret_children = NULL;
	of->ret_children_count = 0;
}

/* The only request that was made meanwhile. */
static const struct zk_request *request(enum zk_operation operation, const char *path)
{
	const struct zk_request *found = zk_stage_request();
	cr_assert(found, "there is no request");
	cr_assert_eq(found->operation, operation, "%d", found->operation);
	cr_assert_str_eq(found->path, path);
	return found;
}

static const struct zk_request *submitted(enum zk_operation operation, const char *path)
{
	zk_stage_submit(&task);
	cr_assert(!zk_stage_is_done(&task));
	return request(operation, path);
}

static void answer(const struct zk_request *to, int32_t rc)
{
	zk_stage_answer(to, rc);
}

static void check_code(const struct registry_task *of, int code)
{
	cr_assert(zk_stage_is_done(of));
	cr_assert_eq(of->ret_err.code, code, "%d: %s", of->ret_err.code, of->ret_err.msg);
}

static void end_stage(void)
{
	free_results(&task);
	zk_stage_detach();
}

#define assert_words(text, words) cr_assert(strstr(text, words), "%s", text)

TestSuite(zk_job, .init = zk_stage_open_connected, .fini = end_stage);
TestSuite(zk_job_secure, .fini = end_stage);

/* --- answers --- */

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

Test(zk_job, a_node_of_another_session_is_not_ours)
{
	begin(REGISTRY_OP_GET, "/a");
	const struct zk_request *get = submitted(ZK_GET, "/registry/a");
	cr_assert(!get->watch);
	zk_stage_result(
		&(struct zk_result){ .tag = get->tag, .stat = { .owner = 7, .children = 1 } });
	check_code(&task, 0);
	cr_assert(!task.ret_stat.own && task.ret_stat.ephemeral);
	cr_assert(!task.ret_childless);
}

Test(zk_job, children_come_as_names)
{
	begin(REGISTRY_OP_CHILDREN, "/");
	const struct zk_request *list = submitted(ZK_CHILDREN, "/registry");
	zk_stage_result(&(struct zk_result){
		.tag = list->tag, .names = { .packed = "a\0bc", .len = 5, .count = 2 } });
	check_code(&task, 0);
	cr_assert_eq(task.ret_children_count, 2);
	cr_assert_str_eq(task.ret_children[0], "a");
	cr_assert_str_eq(task.ret_children[1], "bc");
	cr_assert_null(task.ret_data);
	free_results(&task);
	begin(REGISTRY_OP_CHILDREN, "/a");
	answer(submitted(ZK_CHILDREN, "/registry/a"), ZK_RC_OK);
	check_code(&task, 0);
	cr_assert_eq(task.ret_children_count, 0);
}

Test(zk_job, a_path_outside_of_the_registry_is_the_servers)
{
	begin(REGISTRY_OP_STAT, "//zookeeper/quota");
	answer(submitted(ZK_EXISTS, "/zookeeper/quota"), ZK_RC_NO_NODE);
	check_code(&task, BERTH_PATH_NOT_FOUND);
}

Test(zk_job, a_sequential_node_tells_its_name)
{
	begin(REGISTRY_OP_CREATE, "/a/n");
	task.sequential = true;
	const struct zk_request *create = submitted(ZK_CREATE, "/registry/a/n");
	cr_assert(create->sequential);
	zk_stage_result(&(struct zk_result){
		.tag = create->tag, .data = "/registry/a/n0000000007", .len = 23 });
	check_code(&task, 0);
	cr_assert_str_eq(task.ret_data, "/registry/a/n0000000007");
}

/* The worker leaves out what is too long, but for the beginning of a record. */
static void check_large(uint32_t size, const char *data, int code)
{
	begin(REGISTRY_OP_GET, "/a");
	const struct zk_request *get = submitted(ZK_GET, "/registry/a");
	zk_stage_result(&(struct zk_result){
		.tag = get->tag, .stat = { .size = size }, .data = data, .len = strlen(data) });
	check_code(&task, code);
	free_results(&task);
}

Test(zk_job, data_beyond_the_limit_are_an_error)
{
	check_large(LIMIT_RECORD_BYTES, "x", 0);
	check_large(LIMIT_RECORD_BYTES + 1, "", BERTH_NO_RECORD);
	check_large(LIMIT_RECORD_BYTES + 1, "JSONServiceRecord", BERTH_INVALID_RECORD);
}

Test(zk_job, each_task_gets_its_own_answer)
{
	static struct registry_task tasks[TASKS];
	static uint32_t tags[TASKS];
	static char paths[TASKS][16];
	for (int i = 0; i < TASKS; i++) {
		snprintf(paths[i], sizeof(paths[i]), "/n%d", i);
		tasks[i] = (struct registry_task){ .operation = REGISTRY_OP_GET, .path = paths[i] };
		zk_stage_submit(&tasks[i]);
		tags[i] = zk_stage_request()->tag;
	}
	for (int i = TASKS - 1; i >= 0; i--) {
		cr_assert(!zk_stage_is_done(&tasks[i]));
		zk_stage_result(&(struct zk_result){
			.tag = tags[i], .data = paths[i], .len = strlen(paths[i]) });
		check_code(&tasks[i], 0);
		cr_assert_str_eq(tasks[i].ret_data, paths[i]);
		free_results(&tasks[i]);
	}
	begin(REGISTRY_OP_STAT, "/a");
	cr_assert_lt(submitted(ZK_EXISTS, "/registry/a")->tag, TASKS, "slots are used again");
}

Test(zk_job, an_answer_that_nobody_waits_for_is_ignored)
{
	static const uint32_t tags[] = { 0, 5, 64, 4711 };
	begin(REGISTRY_OP_STAT, "/a");
	uint32_t tag = submitted(ZK_EXISTS, "/registry/a")->tag;
	answer(&(struct zk_request){ .tag = tag }, ZK_RC_OK);
	check_code(&task, 0);
	for (size_t i = 0; i < sizeof(tags) / sizeof(tags[0]); i++) {
		answer(&(struct zk_request){ .tag = tags[i] }, ZK_RC_OK);
	}
	cr_assert_eq(zk_stage.workers, 1);
}

/* --- absent nodes that are watched --- */

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

/* --- the registry's root --- */

Test(zk_job_secure, the_first_write_makes_each_element_of_the_root)
{
	zk_stage_open((struct registry_options){ .url = "zookeeper://one/deep/root/here" });
	zk_stage_connect();
	begin(REGISTRY_OP_CREATE, "/a");
	answer(submitted(ZK_CREATE, "/deep/root/here/a"), ZK_RC_NO_NODE);
	const struct zk_request *first = request(ZK_CREATE, "/deep");
	cr_assert_eq(first->version, -1);
	cr_assert(!first->ephemeral);
	/* Above the nodes that we may change, only the last answer decides. */
	answer(first, ZK_RC_NO_AUTH);
	answer(request(ZK_CREATE, "/deep/root"), ZK_RC_OK);
	answer(request(ZK_CREATE, "/deep/root/here"), ZK_RC_NODE_EXISTS);
	answer(request(ZK_CREATE, "/deep/root/here/a"), ZK_RC_NO_NODE);
	check_code(&task, BERTH_PATH_NOT_FOUND);
}

Test(zk_job, a_root_that_cannot_be_made_is_an_error_of_the_write)
{
	begin(REGISTRY_OP_CREATE, "/a");
	answer(submitted(ZK_CREATE, "/registry/a"), ZK_RC_NO_NODE);
	answer(request(ZK_CREATE, "/registry"), ZK_RC_NO_AUTH);
	check_code(&task, BERTH_NO_PATH_PERMISSIONS);
	assert_words(task.ret_err.msg, "making the registry's root node /registry");
}

Test(zk_job, the_root_is_made_for_no_other_write)
{
	begin(REGISTRY_OP_CREATE, "/a/b");
	answer(submitted(ZK_CREATE, "/registry/a/b"), ZK_RC_NO_NODE);
	check_code(&task, BERTH_PATH_NOT_FOUND);
	begin(REGISTRY_OP_SET, "/a");
	answer(submitted(ZK_SET, "/registry/a"), ZK_RC_NO_NODE);
	check_code(&task, BERTH_PATH_NOT_FOUND);
}

Test(zk_job_secure, the_servers_own_root_need_not_be_made)
{
	zk_stage_open((struct registry_options){ .url = "zookeeper://one/" });
	zk_stage_connect();
	begin(REGISTRY_OP_STAT, "/");
	answer(submitted(ZK_EXISTS, "/"), ZK_RC_OK);
	begin(REGISTRY_OP_CREATE, "/a");
	answer(submitted(ZK_CREATE, "/a"), ZK_RC_NO_NODE);
	check_code(&task, BERTH_PATH_NOT_FOUND);
}

/* --- access --- */

static void check_list(struct zk_list list, const char *first, const char *second)
{
	const char *words[2];
	for (int i = 0; i < 2; i++) {
		words[i] = zk_list_next(&list);
	}
	cr_assert_str_eq(words[0], first);
	cr_assert_str_eq(words[1] ? words[1] : "", second);
	cr_assert_null(zk_list_next(&list));
}

Test(zk_job, accounts_that_the_server_does_not_know_are_left_out)
{
	begin(REGISTRY_OP_CREATE, "/a/b");
	task.acl = &acl;
	const struct zk_request *create = submitted(ZK_CREATE, "/registry/a/b");
	check_list(create->acl, "1:world:anyone", "31:sasl:joe@HOME");
	answer(create, ZK_RC_INVALID_ACL);
	create = request(ZK_CREATE, "/registry/a/b");
	check_list(create->acl, "1:world:anyone", "");
	assert_words(zk_stage.log,
		"warn: the server knows no SASL accounts; these get no rights: sasl:joe@HOME\n");
	answer(create, ZK_RC_INVALID_ACL);
	check_code(&task, BERTH_FAILED);
	begin(REGISTRY_OP_CREATE, "/a/c");
	task.acl = &acl;
	create = submitted(ZK_CREATE, "/registry/a/c");
	check_list(create->acl, "1:world:anyone", "");
}

Test(zk_job, accounts_that_are_required_stay)
{
	struct registry_acl_entry required = { "sasl", "joe@HOME", 31, true };
	const struct registry_acl list = { .entries = &required, .count = 1 };
	begin(REGISTRY_OP_CREATE, "/a/b");
	task.acl = &list;
	answer(submitted(ZK_CREATE, "/registry/a/b"), ZK_RC_INVALID_ACL);
	check_code(&task, BERTH_FAILED);
	assert_words(task.ret_err.msg, "sasl:joe@HOME");
}

Test(zk_job, two_refusals_of_accounts_are_one_line)
{
	struct registry_task other = {
		.operation = REGISTRY_OP_CREATE, .path = "/a/c", .acl = &acl
	};
	begin(REGISTRY_OP_CREATE, "/a/b");
	task.acl = &acl;
	uint32_t first = submitted(ZK_CREATE, "/registry/a/b")->tag;
	zk_stage_submit(&other);
	answer(request(ZK_CREATE, "/registry/a/c"), ZK_RC_INVALID_ACL);
	request(ZK_CREATE, "/registry/a/c");
	zk_stage.log[0] = '\0';
	answer(&(struct zk_request){ .tag = first }, ZK_RC_INVALID_ACL);
	request(ZK_CREATE, "/registry/a/b");
	cr_assert_str_eq(zk_stage.log, "");
}

static void open_with_password(void)
{
	static char path[SCRATCH_PATH];
	int fd = scratch_file(path);
	cr_assert_eq(write(fd, "joe:secret", 10), 10);
	close(fd);
	zk_stage_open((struct registry_options){ .auth = "digest", .auth_file = path });
	unlink(path);
	cr_assert_str_eq(zk_stage.hello.credential, "joe:secret");
	zk_stage_connect();
}

/* What a refusal means, when the node's list is this one. */
static void check_denial(
	enum registry_operation operation, const char *node, struct zk_list list, int code)
{
	static const enum zk_operation operations[] = { [REGISTRY_OP_GET] = ZK_GET,
		[REGISTRY_OP_CREATE] = ZK_CREATE,
		[REGISTRY_OP_SET] = ZK_SET };
	begin(operation, "/a/b");
	answer(submitted(operations[operation], "/registry/a/b"), ZK_RC_NO_AUTH);
	cr_assert(!zk_stage_is_done(&task));
	const struct zk_request *ask = request(ZK_ACL, node);
	cr_assert(!ask->watch);
	zk_stage_result(&(struct zk_result){ .tag = ask->tag, .names = list });
	check_code(&task, code);
}

Test(zk_job_secure, a_refusal_of_a_known_user_is_for_a_wrong_password)
{
	const struct zk_list ours = { .packed = "6:digest:joe:hash", .len = 18, .count = 1 };
	const struct zk_list other = { .packed = "6:digest:jim:hash", .len = 18, .count = 1 };
	open_with_password();
	check_denial(REGISTRY_OP_CREATE, "/registry/a", ours, BERTH_AUTHENTICATION_FAILED);
	assert_words(task.ret_err.msg, "user 'joe' may do this");
	check_denial(REGISTRY_OP_SET, "/registry/a/b", other, BERTH_NO_PATH_PERMISSIONS);
	check_denial(REGISTRY_OP_GET, "/registry/a/b", ours, BERTH_NO_PATH_PERMISSIONS);
}

Test(zk_job_secure, a_refusal_stays_one_when_the_list_cannot_be_read)
{
	open_with_password();
	begin(REGISTRY_OP_SET, "/a/b");
	answer(submitted(ZK_SET, "/registry/a/b"), ZK_RC_NO_AUTH);
	answer(request(ZK_ACL, "/registry/a/b"), ZK_RC_NO_NODE);
	check_code(&task, BERTH_NO_PATH_PERMISSIONS);
	begin(REGISTRY_OP_SET, "/a/b");
	answer(submitted(ZK_SET, "/registry/a/b"), ZK_RC_NO_AUTH);
	answer(request(ZK_ACL, "/registry/a/b"), ZK_RC_CONNECTION_LOSS);
	check_code(&task, BERTH_NO_PATH_PERMISSIONS);
}

/* --- the connection is lost --- */

static void reconnect(void)
{
	zk_stage_lose_connection();
	if (zk_stage.worker == 0) {
		zk_stage_pass_ms(SECOND_MS);
	}
	zk_stage_connect();
}

Test(zk_job, a_read_fails_with_its_connection)
{
	begin(REGISTRY_OP_GET, "/a");
	answer(submitted(ZK_GET, "/registry/a"), ZK_RC_CONNECTION_LOSS);
	check_code(&task, BERTH_REGISTRY_UNAVAILABLE);
	begin(REGISTRY_OP_GET, "/a");
	submitted(ZK_GET, "/registry/a");
	reconnect();
	check_code(&task, BERTH_REGISTRY_UNAVAILABLE);
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

Test(zk_job, a_write_that_has_not_happened_is_sent_again)
{
	answer(lost_write(REGISTRY_OP_CREATE), ZK_RC_NO_NODE);
	cr_assert(!zk_stage_is_done(&task));
	answer(request(ZK_CREATE, "/registry/a/b"), ZK_RC_OK);
	check_code(&task, 0);
}

Test(zk_job, a_write_that_cannot_be_judged_is_an_error)
{
	const struct zk_request *look = lost_write(REGISTRY_OP_CREATE);
	zk_stage_result(&(struct zk_result){
		.tag = look->tag, .stat = { .owner = 99, .size = 1 }, .data = "x", .len = 1 });
	check_code(&task, BERTH_FILE_ALREADY_EXISTS);
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

Test(zk_job, a_look_up_that_is_lost_is_made_again)
{
	lost_write(REGISTRY_OP_CREATE);
	reconnect();
	answer(request(ZK_GET, "/registry/a/b"), ZK_RC_NO_NODE);
	answer(request(ZK_CREATE, "/registry/a/b"), ZK_RC_OK);
	check_code(&task, 0);
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

/* --- without a connection --- */

Test(zk_job_secure, tasks_wait_for_the_first_connection)
{
	zk_stage_open((struct registry_options){ 0 });
	begin(REGISTRY_OP_GET, "/a");
	zk_stage_submit(&task);
	cr_assert_null(zk_stage_request());
	zk_stage_session(&(struct zk_session){ .state = ZK_SESSION_CONNECTED,
		.id = 1,
		.timeout_ms = 1000,
		.server = "",
		.addresses = "" });
	request(ZK_SYNC, "/");
	answer(request(ZK_GET, "/registry/a"), ZK_RC_OK);
	check_code(&task, 0);
}

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

Test(zk_job, tasks_are_refused_while_the_registry_is_away)
{
	zk_stage_lose_connection();
	check_refused(BERTH_REGISTRY_UNAVAILABLE, "/a: ZooKeeper is away");
	zk_stage_pass_ms(ZK_STAGE_TIMEOUT_MS);
	assert_words(zk_stage.states, "lost:");
	check_refused(BERTH_REGISTRY_UNAVAILABLE, "/a: ZooKeeper is away");
}

Test(zk_job, tasks_are_refused_with_the_credentials)
{
	zk_stage_session(&(struct zk_session){
		.state = ZK_SESSION_AUTH_FAILED, .server = "", .addresses = "" });
	check_refused(BERTH_AUTHENTICATION_FAILED, "/a: the server refuses our credentials");
}

Test(zk_job, a_refused_task_can_be_taken_back)
{
	zk_stage_lose_connection();
	begin(REGISTRY_OP_GET, "/a");
	zk_stage_submit(&task);
	registry_zk_ops.abandon(zk_stage.backend, &task);
	zk_stage_dispatch();
	cr_assert(!zk_stage_is_done(&task));
}

/* --- deadlines --- */

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
	/* The late answer is nobody's, and its slot is free then. */
	begin(REGISTRY_OP_STAT, "/c");
	const struct zk_request *third = submitted(ZK_EXISTS, "/registry/c");
	cr_assert(third->tag != tag && third->tag != other_tag);
	answer(&(struct zk_request){ .tag = tag }, ZK_RC_OK);
	cr_assert(!zk_stage_is_done(&task));
	zk_stage_pass_ms(200);
	check_code(&later, BERTH_TIMEOUT);
	cr_assert(!zk_stage_is_done(&task));
}

Test(zk_job_secure, a_task_that_was_not_sent_says_what_the_trouble_is)
{
	zk_stage_open((struct registry_options){ 0 });
	begin(REGISTRY_OP_GET, "/a");
	task.deadline_ms = zk_stage.now_ms + 100;
	zk_stage_submit(&task);
	zk_stage_pass_ms(100);
	check_code(&task, BERTH_REGISTRY_UNAVAILABLE);
	cr_assert_str_eq(task.ret_err.msg, "/a: no connection in time");
	zk_stage_log(ZK_LOG_LIBRARY, "refused");
	begin(REGISTRY_OP_GET, "/a");
	task.deadline_ms = zk_stage.now_ms + 100;
	zk_stage_submit(&task);
	zk_stage_pass_ms(100);
	cr_assert_str_eq(task.ret_err.msg, "/a: no connection in time: refused");
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
