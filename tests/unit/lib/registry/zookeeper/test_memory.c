/*
 * The ZooKeeper backend without memory, and with system calls that fail: nothing is half done, and
 * no answer is cut.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/array.h"
#include "lib/registry/internal.h"
#include "tests/support/descriptors.h"
#include "tests/support/failing.h"
#include "tests/support/zk_stage.h"

int clock_gettime(clockid_t clock, struct timespec *now)
{
	return zk_stage_clock(clock, now);
}

TestSuite(zk_memory, .init = zk_stage_open_connected, .fini = zk_stage_detach);

static void free_results(struct registry_task *task)
{
	free(task->ret_data);
	for (size_t i = 0; i < task->ret_children_count; i++) {
		free(task->ret_children[i]);
	}
	free(task->ret_children);
}

/* The request is submitted without memory for its allocation of that number. */
static bool submit_without(struct registry_task *task, int number)
{
	failing_arm("alloc", (uint64_t)number, ENOMEM);
	zk_stage_submit(task);
	bool fired = failing_disarm();
	cr_assert(!zk_stage_is_done(task), "never within submit()");
	zk_stage_dispatch();
	return fired;
}

Test(zk_memory, a_read_is_sent_or_fails)
{
	bool fired = true;
	for (int number = 1; fired; number++) {
		struct registry_task task = { .operation = REGISTRY_OP_GET, .path = "/a" };
		fired = submit_without(&task, number);
		const struct zk_request *get = zk_stage_request();
		cr_assert_neq(get != NULL, zk_stage_is_done(&task));
		if (get) {
			zk_stage_answer(get, ZK_RC_OK);
			cr_assert_eq(task.ret_err.code, 0);
		} else {
			cr_assert(fired && task.ret_err.code < 0);
		}
		free_results(&task);
	}
}

/* A write that could not be sent waits for the next connection. */
Test(zk_memory, a_write_is_sent_or_waits_or_fails)
{
	static struct registry_acl_entry entry = {
		.scheme = "world", .id = "anyone", .permissions = 31
	};
	static const struct registry_acl acl = { .entries = &entry, .count = 1 };
	bool fired = true;
	for (int number = 1; fired; number++) {
		struct registry_task task = {
			.operation = REGISTRY_OP_CREATE, .path = "/a/b", .acl = &acl
		};
		fired = submit_without(&task, number);
		if (zk_stage_is_done(&task)) {
			cr_assert(fired && task.ret_err.code == BERTH_FAILED);
			continue;
		}
		const struct zk_request *create = zk_stage_request();
		if (!create) {
			cr_assert(fired);
			zk_stage_pass_ms(1000);
			zk_stage_lose_connection();
			zk_stage_connect();
			create = zk_stage_request();
		}
		cr_assert_eq(create->operation, ZK_CREATE);
		cr_assert_eq(create->acl.count, 1);
		zk_stage_answer(create, ZK_RC_OK);
		cr_assert(zk_stage_is_done(&task));
		cr_assert_eq(task.ret_err.code, 0);
		free_results(&task);
	}
}

/* The task's request is answered, without memory for the allocation of that number. */
static bool answer_without(struct registry_task *task, const struct zk_result *result, int number)
{
	struct buffer frame;
	struct zk_result tagged = *result;
	zk_stage_submit(task);
	tagged.tag = zk_stage_request()->tag;
	buffer_init(&frame, 1 << 16);
	zk_result_encode(&frame, &tagged);
	cr_assert_eq(write(zk_stage.socket, frame.data, frame.len), (ssize_t)frame.len);
	buffer_finish(&frame);
	failing_arm("alloc", (uint64_t)number, ENOMEM);
	registry_zk_ops.dispatch(zk_stage.backend, zk_stage.now_ms);
	bool fired = failing_disarm();
	zk_stage_dispatch();
	return fired;
}

Test(zk_memory, no_list_of_children_is_cut)
{
	const struct zk_result result = { .names = { .packed = "a\0b\0c", .len = 6, .count = 3 } };
	bool fired = true;
	for (int number = 1; fired; number++) {
		struct registry_task task = { .operation = REGISTRY_OP_CHILDREN, .path = "/a" };
		fired = answer_without(&task, &result, number);
		cr_assert(zk_stage_is_done(&task));
		cr_assert(task.ret_err.code == BERTH_FAILED || task.ret_children_count == 3,
			"%d: %zu children", number, task.ret_children_count);
		cr_assert(fired || task.ret_err.code == 0);
		free_results(&task);
	}
}

Test(zk_memory, no_data_are_cut)
{
	const struct zk_result result = { .stat = { .size = 3 }, .data = "abc", .len = 3 };
	bool fired = true;
	for (int number = 1; fired; number++) {
		struct registry_task task = { .operation = REGISTRY_OP_GET, .path = "/a" };
		fired = answer_without(&task, &result, number);
		cr_assert(zk_stage_is_done(&task));
		cr_assert(task.ret_err.code == BERTH_FAILED ||
			(task.ret_data && strcmp(task.ret_data, "abc") == 0));
		cr_assert(fired || task.ret_err.code == 0);
		free_results(&task);
	}
}

/* The second question, for the creation of the node, may not be sent for lack of memory. */
Test(zk_memory, an_absent_node_is_watched_or_the_read_fails)
{
	const struct zk_result result = { .rc = ZK_RC_NO_NODE };
	bool fired = true;
	for (int number = 1; fired; number++) {
		struct registry_task task = {
			.operation = REGISTRY_OP_GET, .path = "/a", .watch = true
		};
		fired = answer_without(&task, &result, number);
		const struct zk_request *look = zk_stage_request();
		cr_assert_neq(look != NULL, zk_stage_is_done(&task));
		if (look) {
			zk_stage_answer(look, ZK_RC_NO_NODE);
		}
		cr_assert(zk_stage_is_done(&task));
		cr_assert_lt(task.ret_err.code, 0);
	}
}

/* So may the creation of the root; if it fails, the write waits. */
Test(zk_memory, the_root_is_made_or_the_write_waits)
{
	const struct zk_result result = { .rc = ZK_RC_NO_NODE };
	bool fired = true;
	for (int number = 1; fired; number++) {
		struct registry_task task = { .operation = REGISTRY_OP_CREATE, .path = "/a" };
		fired = answer_without(&task, &result, number);
		const struct zk_request *next = zk_stage_request();
		cr_assert(!zk_stage_is_done(&task));
		if (!next) {
			zk_stage_pass_ms(1000);
			zk_stage_lose_connection();
			zk_stage_connect();
			next = zk_stage_request();
		}
		cr_assert_str_eq(next->path, fired ? "/registry/a" : "/registry");
		zk_stage_answer(next, fired ? ZK_RC_OK : ZK_RC_NO_AUTH);
		cr_assert(zk_stage_is_done(&task));
	}
}

/* ---- the worker ---- */

static void pass_pause(void)
{
	while (zk_stage.worker == 0) {
		int64_t due_ms = registry_zk_ops.deadline_ms(zk_stage.backend);
		zk_stage_pass_ms(due_ms > zk_stage.now_ms ? due_ms - zk_stage.now_ms : 0);
	}
}

/* The next worker is to start when this call fails. */
static bool start_without(const char *kind, int number)
{
	while (zk_stage.worker != 0) {
		zk_stage_kill_worker();
	}
	zk_stage.now_ms = registry_zk_ops.deadline_ms(zk_stage.backend);
	failing_arm(kind, (uint64_t)number, EMFILE);
	registry_zk_ops.dispatch(zk_stage.backend, zk_stage.now_ms);
	bool fired = failing_disarm();
	zk_stage_dispatch();
	return fired;
}

Test(zk_memory, a_worker_that_cannot_be_started_is_started_later)
{
	static const char *const kinds[] = { "alloc", "socket", "send", "spawn", "epoll" };
	for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
		bool fired = true;
		int number = 0;
		while (fired) {
			int descriptors = descriptors_count();
			fired = start_without(kinds[i], ++number);
			zk_stage_dispatch();
			pass_pause();
			cr_assert_eq(zk_stage.hello.session_id, ZK_STAGE_SESSION);
			zk_stage_connect();
			cr_assert_eq(descriptors_count(), descriptors, "%s %d", kinds[i], number);
		}
		cr_assert_gt(number, 1, "%s", kinds[i]);
	}
}

static int open_and_detach(void *context)
{
	static const struct registry_core core = { .core = NULL };
	struct registry_options options = registry_options_complete(context);
	struct registry_backend *backend;
	struct err err = ERR_INIT;
	if (registry_zk_ops.open(&backend, "one,two/root", &options, &core, &err)) {
		return err.code;
	}
	bool whole = registry_zk_ops.fd(backend) >= 0;
	json_decref(registry_zk_ops.detach(backend));
	return whole ? 0 : FAILING_WRONG;
}

Test(zk_open, a_backend_is_opened_whole_or_not_at_all)
{
	static struct registry_options options = { .url = "zookeeper://one,two/root" };
	failing_check_memory("opening", open_and_detach, &options);
	failing_check("opening", "epoll", EMFILE, open_and_detach, &options);
}

Test(zk_open, descriptor_0_is_given_back_as_any_other)
{
	static struct registry_options options = { .url = "zookeeper://one,two/root" };
	close(STDIN_FILENO);
	cr_assert_eq(open_and_detach(&options), 0);
	cr_assert_lt(fcntl(STDIN_FILENO, F_GETFD), 0);
}

Test(zk_open, servers_keep_their_order_without_memory)
{
	char *addresses = strdup("a:1,b:2");
	failing_arm("alloc", 1, ENOMEM);
	registry_zk_servers_rotate(&addresses);
	bool fired = failing_disarm();
	cr_assert_str_eq(addresses, fired ? "a:1,b:2" : "b:2,a:1");
	free(addresses);
}
