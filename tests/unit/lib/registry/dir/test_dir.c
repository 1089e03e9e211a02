/*
 * The dir: backend under a clock of the test: its state, its timers, the queue of its tasks, and
 * the nodes that it inherits.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/array.h"
#include "lib/registry/backend.h"
#include "tests/support/descriptors.h"
#include "tests/support/dir_client.h"
#include "tests/support/failing.h"

static char root[512];
static struct registry_backend *backend;
static int64_t now_ms;

/* All that the backend has told its core. */
static struct {
	enum registry_state state;
	int states;
	int notified;
	int logged;
	char why[512];     /* of the last state */
	char message[512]; /* that was logged last */
	struct registry_task *completed[8];
	size_t count;
} core;

static void on_completed(void *context, struct registry_task *task)
{
	(void)context;
	core.completed[core.count++] = task;
}

static void on_notified(void *context, const char *path, enum registry_watch_kind kind, bool gone)
{
	(void)context;
	(void)path;
	(void)kind;
	(void)gone;
	core.notified++;
}

static void on_state(void *context, enum registry_state state, const char *why)
{
	(void)context;
	snprintf(core.why, sizeof(core.why), "%s", why);
	core.state = state;
	core.states++;
}

static void on_log(void *context, enum registry_log_level level, const char *message)
{
	(void)context;
	cr_expect_eq(level, REGISTRY_LOG_WARN);
	snprintf(core.message, sizeof(core.message), "%s", message);
	core.logged++;
}

static int open_at(const char *path, const json_t *session)
{
	static const struct registry_core functions = {
		.completed = on_completed, .notified = on_notified, .state = on_state, .log = on_log
	};
	const struct registry_options options = { .session = session };
	struct err err = ERR_INIT;
	memset(&core, 0, sizeof(core));
	backend = NULL;
	return registry_dir_ops.open(&backend, path, &options, &functions, &err);
}

static void dispatch(void)
{
	registry_dir_ops.dispatch(backend, now_ms);
}

static int64_t deadline(void)
{
	return registry_dir_ops.deadline_ms(backend);
}

static void close_it(void)
{
	registry_dir_ops.close(backend);
	backend = NULL;
}

static void set_up(void)
{
	snprintf(root, sizeof(root), "%s", dir_root_make());
	now_ms = 1000000;
	cr_assert_eq(open_at(root, NULL), 0);
	dispatch();
}

static void tear_down(void)
{
	if (backend) {
		close_it();
	}
	dir_root_remove(root);
}

TestSuite(dir_backend, .init = set_up, .fini = tear_down, .timeout = 120);

/* A task with a minute of time. */
static struct registry_task task_of(enum registry_operation operation, const char *path)
{
	return (struct registry_task){ .operation = operation,
		.path = path,
		.data = "x",
		.len = operation == REGISTRY_OP_CREATE || operation == REGISTRY_OP_SET,
		.deadline_ms = now_ms + 60000 };
}

static void submit(struct registry_task *task)
{
	registry_dir_ops.submit(backend, task);
}

/* Does the task at once; its code. */
static int run(enum registry_operation operation, const char *path, bool ephemeral)
{
	struct registry_task task = task_of(operation, path);
	task.ephemeral = ephemeral;
	size_t count = core.count = 0;
	submit(&task);
	dispatch();
	cr_assert_eq(core.count, count + 1);
	cr_assert_eq(core.completed[count], &task);
	dir_task_finish(&task);
	return task.ret_err.code;
}

/* Arms a watch of a node by reading it. */
static int watch(const char *path)
{
	struct registry_task task = task_of(REGISTRY_OP_GET, path);
	task.watch = true;
	core.count = 0;
	submit(&task);
	dispatch();
	cr_assert_eq(core.count, 1);
	dir_task_finish(&task);
	return task.ret_err.code;
}

static void open_below(const char *path)
{
	close_it();
	cr_assert_eq(open_at(on_disk(path), NULL), 0);
	dispatch();
}

static int lock_tree(void)
{
	int fd = open(on_disk("/_tmp"), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	cr_assert_eq(flock(fd, LOCK_EX), 0);
	return fd;
}

static void expect_wait(int64_t wait_ms)
{
	cr_assert_eq(deadline(), now_ms + wait_ms);
	now_ms += wait_ms;
	dispatch();
}

Test(dir_backend, a_held_lock_is_tried_again_after_twice_the_time)
{
	cr_assert_eq(run(REGISTRY_OP_CREATE, "/a", false), 0);
	for (int i = 0; i < 2; i++) {
		int lock_fd = lock_tree();
		struct registry_task task = task_of(REGISTRY_OP_SET, "/a");
		core.count = 0;
		submit(&task);
		dispatch();
		expect_wait(1);
		expect_wait(2);
		expect_wait(4);
		expect_wait(8);
		expect_wait(16);
		expect_wait(16);
		cr_assert_eq(core.count, 0);
		struct registry_task read = task_of(REGISTRY_OP_GET, "/b");
		submit(&read);
		cr_assert_leq(deadline(), now_ms, "a new task does not wait for that");
		dispatch();
		cr_assert_eq(core.count, 1);
		core.count = 0;
		close(lock_fd);
		expect_wait(16);
		cr_assert_eq(core.count, 1);
		cr_assert_eq(task.ret_err.code, 0);
	}
}

Test(dir_backend, reads_wait_for_earlier_writes_of_what_they_read)
{
	cr_assert_eq(run(REGISTRY_OP_CREATE, "/a", false), 0);
	cr_assert_eq(run(REGISTRY_OP_CREATE, "/a/b", false), 0);
	cr_assert_eq(run(REGISTRY_OP_CREATE, "/c", false), 0);
	int lock_fd = lock_tree();
	struct registry_task write = task_of(REGISTRY_OP_CREATE, "/a/new");
	struct registry_task above = task_of(REGISTRY_OP_CHILDREN, "/a");
	struct registry_task same = task_of(REGISTRY_OP_GET, "/a/new");
	struct registry_task below = task_of(REGISTRY_OP_GET, "/a/new/x");
	struct registry_task beside = task_of(REGISTRY_OP_GET, "/a/b");
	struct registry_task other = task_of(REGISTRY_OP_GET, "/c");
	struct registry_task *const all[] = { &write, &beside, &above, &same, &below, &other };
	core.count = 0;
	for (size_t i = 0; i < ARRAY_LEN(all); i++) {
		submit(all[i]);
	}
	dispatch();
	cr_assert_eq(core.count, 2);
	cr_assert_eq(core.completed[0], &beside);
	cr_assert_eq(core.completed[1], &other);
	close(lock_fd);
	now_ms += 16;
	dispatch();
	cr_assert_eq(core.count, 6);
	cr_assert_eq(write.ret_err.code, 0);
	cr_assert_eq(above.ret_children_count, 2, "with the new one");
	cr_assert_eq(same.ret_err.code, 0);
	cr_assert_eq(below.ret_err.code, BERTH_PATH_NOT_FOUND);
	for (size_t i = 0; i < ARRAY_LEN(all); i++) {
		dir_task_finish(all[i]);
	}
}

Test(dir_backend, a_read_behind_a_waiting_write_ends_at_its_deadline)
{
	cr_assert_eq(run(REGISTRY_OP_CREATE, "/a", false), 0);
	int lock_fd = lock_tree();
	struct registry_task write = task_of(REGISTRY_OP_SET, "/a");
	struct registry_task read = task_of(REGISTRY_OP_GET, "/a");
	read.deadline_ms = now_ms + 100;
	core.count = 0;
	submit(&write);
	submit(&read);
	now_ms = read.deadline_ms - 1;
	dispatch();
	cr_assert_eq(core.count, 0);
	now_ms++;
	dispatch();
	cr_assert_eq(core.count, 1);
	cr_assert_eq(core.completed[0], &read);
	cr_assert_eq(read.ret_err.code, BERTH_TIMEOUT);
	now_ms = write.deadline_ms - 1;
	dispatch();
	cr_assert_eq(core.count, 1);
	now_ms++;
	dispatch();
	cr_assert_eq(write.ret_err.code, BERTH_TIMEOUT);
	close(lock_fd);
}

Test(dir_backend, a_root_that_is_away_is_looked_for_after_twice_the_time)
{
	char aside[600];
	snprintf(aside, sizeof(aside), "%s-aside", root);
	cr_assert_eq(rename(root, aside), 0);
	dispatch();
	cr_assert_eq(core.state, REGISTRY_AWAY);
	cr_assert_eq(run(REGISTRY_OP_GET, "/a", false), BERTH_REGISTRY_UNAVAILABLE);
	for (int wait_ms = 50; wait_ms <= 1600; wait_ms *= 2) {
		expect_wait(wait_ms);
	}
	expect_wait(2000);
	expect_wait(2000);
	cr_assert_eq(core.states, 2);
	cr_assert_eq(rename(aside, root), 0);
	dispatch();
	cr_assert_eq(core.state, REGISTRY_AWAY, "it was not due");
	expect_wait(2000);
	cr_assert_eq(core.state, REGISTRY_CONNECTED);
	cr_assert_eq(core.states, 3);
	cr_assert_eq(rename(root, aside), 0);
	dispatch();
	expect_wait(50);
	cr_assert_eq(rename(aside, root), 0);
}

Test(dir_backend, a_later_write_does_not_overtake_one_that_waits_for_the_lock)
{
	char data[8] = "";
	cr_assert_eq(run(REGISTRY_OP_CREATE, "/a", false), 0);
	struct registry_task first = task_of(REGISTRY_OP_SET, "/a");
	struct registry_task second = task_of(REGISTRY_OP_SET, "/a");
	struct registry_task read = task_of(REGISTRY_OP_GET, "/a");
	first.data = "1";
	second.data = "2";
	core.count = 0;
	submit(&first);
	submit(&second);
	submit(&read);
	failing_arm("lock", 1, EWOULDBLOCK);
	dispatch();
	cr_assert(failing_disarm());
	cr_assert_eq(core.count, 0);
	now_ms++;
	dispatch();
	cr_assert_eq(core.count, 3);
	cr_assert_eq(core.completed[0], &first);
	cr_assert_eq(core.completed[1], &second);
	snprintf(data, sizeof(data), "%s", read.ret_data);
	cr_assert_str_eq(data, "2");
	dir_task_finish(&read);
}

/* ---- the root ---- */

Test(dir_backend, a_root_says_why_it_can_be_used_or_cannot)
{
	char expected[600];
	cr_expect_str_eq(core.why, "the directory can be used");
	close_it();
	cr_assert_eq(open_at(on_disk("/new"), NULL), 0);
	dispatch();
	cr_expect_str_eq(core.why, "the first write makes the directory");
	close_it();
	cr_assert_eq(close(creat(on_disk("/file"), 0644)), 0);
	cr_assert_eq(open_at(on_disk("/file"), NULL), 0);
	dispatch();
	cr_expect_eq(core.state, REGISTRY_AWAY);
	snprintf(expected, sizeof(expected), "cannot use %s/file: Not a directory", root);
	cr_expect_str_eq(core.why, expected);
}

Test(dir_backend, only_a_new_node_at_the_top_makes_the_root)
{
	open_below("/root");
	cr_expect_eq(run(REGISTRY_OP_SET, "/a", false), BERTH_PATH_NOT_FOUND);
	cr_expect_eq(run(REGISTRY_OP_DELETE, "/a", false), BERTH_PATH_NOT_FOUND);
	cr_expect_eq(run(REGISTRY_OP_REPLACE, "/a", false), BERTH_PATH_NOT_FOUND);
	cr_expect_eq(run(REGISTRY_OP_CREATE, "/a/b", false), BERTH_PATH_NOT_FOUND);
	cr_expect_not(is_on_disk("/root"));
	cr_expect_eq(run(REGISTRY_OP_CREATE, "/a", false), 0);
	cr_expect(is_on_disk("/root/a"));
}

/* Another directory at the place of the root, with this mode. */
static void swap_root(mode_t mode)
{
	char aside[600];
	snprintf(aside, sizeof(aside), "%s-aside", root);
	cr_assert_eq(rename(root, aside), 0);
	dir_root_remove(aside);
	cr_assert_eq(mkdir(root, 0755), 0);
	cr_assert_eq(chmod(root, mode), 0);
}

Test(dir_backend, a_root_in_which_all_may_remove_the_records_of_others_is_warned_of_once)
{
	static const struct {
		mode_t mode;
		int logged;
	} rows[] = { { 0777, 1 }, { 0755, 0 }, { 01777, 0 }, { 02770, 0 }, { 0703, 1 } };
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		swap_root(rows[i].mode);
		core.logged = 0;
		dispatch();
		dispatch();
		cr_expect_eq(core.logged, rows[i].logged, "%o", rows[i].mode);
		cr_assert_eq(chmod(root, 0777), 0);
		dispatch();
		cr_expect_eq(core.logged, rows[i].logged, "it is looked at once");
	}
	cr_expect(strstr(core.message, "should be 1777") && strstr(core.message, root), "%s",
		core.message);
}

Test(dir_backend, leftovers_of_a_crash_in_another_root_are_swept)
{
	cr_assert_eq(run(REGISTRY_OP_CREATE, "/a", false), 0);
	swap_root(0755);
	cr_assert_eq(mkdir(on_disk("/_tmp"), 0700), 0);
	cr_assert_eq(mkdir(on_disk("/_tmp/1-1"), 0700), 0);
	dispatch();
	cr_assert_eq(run(REGISTRY_OP_CREATE, "/a", false), 0);
	cr_expect_not(is_on_disk("/_tmp/1-1"));
}

/* ---- descriptors of others ---- */

Test(dir_backend, another_directory_in_the_place_of_the_root_is_another_registry)
{
	char aside[600];
	cr_assert_eq(run(REGISTRY_OP_CREATE, "/a", false), 0);
	cr_assert_eq(watch("/a"), 0);
	dispatch();
	cr_assert_eq(watch("/a"), 0);
	core.notified = 0;
	snprintf(aside, sizeof(aside), "%s-aside", root);
	cr_assert_eq(rename(root, aside), 0);
	cr_assert_eq(mkdir(root, 0755), 0);
	dispatch();
	cr_assert_eq(core.state, REGISTRY_CONNECTED);
	cr_assert_eq(core.notified, 1);
	cr_assert_eq(run(REGISTRY_OP_GET, "/a", false), BERTH_PATH_NOT_FOUND);
	cr_assert_eq(run(REGISTRY_OP_CREATE, "/b", false), 0);
	cr_assert(is_on_disk("/b"));
	dir_root_remove(aside);
}

Test(dir_backend, a_place_for_the_root_that_is_back_tells_all_watches)
{
	cr_assert_eq(mkdir(on_disk("/place"), 0755), 0);
	open_below("/place/root");
	cr_assert_eq(core.state, REGISTRY_CONNECTED, "the first write makes it");
	cr_assert_eq(watch("/a"), BERTH_PATH_NOT_FOUND);
	cr_assert_eq(rmdir(on_disk("/place")), 0);
	now_ms += 60000;
	dispatch();
	cr_assert_eq(core.state, REGISTRY_AWAY);
	core.notified = 0;
	cr_assert_eq(mkdir(on_disk("/place"), 0755), 0);
	now_ms += 60000;
	dispatch();
	cr_assert_eq(core.state, REGISTRY_CONNECTED);
	cr_assert_eq(core.notified, 1);
}

Test(dir_backend, a_root_that_another_process_has_just_made_is_used)
{
	open_below("/root");
	struct registry_task task = task_of(REGISTRY_OP_CREATE, "/a");
	core.count = 0;
	submit(&task);
	cr_assert_eq(mkdir(on_disk("/root"), 0755), 0);
	failing_arm("open", 1, ENOENT); /* the look before it was there */
	dispatch();
	cr_assert(failing_disarm());
	cr_assert_eq(core.count, 1);
	cr_assert_eq(task.ret_err.code, 0, "%s", task.ret_err.msg);
	cr_assert(is_on_disk("/root/a"));
}

Test(dir_backend, a_root_that_may_not_be_made_is_an_error_of_the_write)
{
	open_below("/root");
	struct registry_task task = task_of(REGISTRY_OP_CREATE, "/a");
	core.count = 0;
	submit(&task);
	failing_arm("mkdir", 1, EACCES);
	dispatch();
	cr_assert(failing_disarm());
	cr_assert_eq(core.count, 1);
	cr_assert_eq(task.ret_err.code, BERTH_NO_PATH_PERMISSIONS);
}

Test(dir_backend, a_reader_writes_nothing)
{
	cr_assert_eq(run(REGISTRY_OP_GET, "/a", false), BERTH_PATH_NOT_FOUND);
	close_it();
	cr_assert(!is_on_disk("/_tmp"));
}

Test(dir_backend, an_own_node_ends_though_there_can_be_no_lock)
{
	cr_assert_eq(run(REGISTRY_OP_CREATE, "/e", true), 0);
	cr_assert_eq(rmdir(on_disk("/_tmp")), 0);
	cr_assert_eq(close(creat(on_disk("/_tmp"), 0644)), 0);
	cr_assert_eq(run(REGISTRY_OP_DELETE, "/e", false), 0);
	cr_assert_eq(run(REGISTRY_OP_GET, "/e", false), BERTH_PATH_NOT_FOUND);
	cr_assert_neq(run(REGISTRY_OP_CREATE, "/f", true), 0);
}

/* ---- the end ---- */

static int held_lock = -1;
static int naps; /* until the lock is free */

int nanosleep(const struct timespec *time, struct timespec *rest)
{
	(void)time;
	(void)rest;
	if (--naps == 0) {
		close(held_lock);
	}
	return 0;
}

Test(dir_backend, a_lock_that_is_free_soon_is_waited_for_at_the_close)
{
	cr_assert_eq(run(REGISTRY_OP_CREATE, "/e", true), 0);
	cr_assert_eq(run(REGISTRY_OP_CREATE, "/f", true), 0);
	held_lock = lock_tree();
	naps = 49;
	close_it();
	cr_expect_leq(naps, 0, "and the lock was free");
	cr_expect_not(is_on_disk("/e"));
	cr_expect_not(is_on_disk("/f"));
	int lock_fd = lock_tree();
	close(lock_fd);
}

/* The next writer that has the lock removes its directory. */
Test(dir_backend, an_own_node_ends_at_the_close_though_another_process_has_the_lock)
{
	cr_assert_eq(run(REGISTRY_OP_CREATE, "/e", true), 0);
	int lock_fd = lock_tree();
	close_it();
	cr_assert(is_on_disk("/e"), "nobody removes anything without the lock");
	cr_assert_eq(open_at(root, NULL), 0);
	dispatch();
	cr_assert_eq(run(REGISTRY_OP_GET, "/e", false), BERTH_PATH_NOT_FOUND);
	close(lock_fd);
}

Test(dir_backend, a_successor_takes_over_a_session)
{
	cr_assert_eq(run(REGISTRY_OP_CREATE, "/e", true), 0);
	json_t *session = registry_dir_ops.detach(backend);
	cr_assert_eq(open_at(root, session), 0);
	json_decref(session);
	dispatch();
	cr_assert_eq(run(REGISTRY_OP_GET, "/e", false), 0);
	close_it();
	cr_assert(!is_on_disk("/e"));
}

/* The nodes that a process was to take over end with it, also when it never saw them. */
Test(dir_backend, inherited_nodes_end_with_their_heir_though_it_never_saw_the_root)
{
	char aside[600];
	snprintf(aside, sizeof(aside), "%s-aside", root);
	int descriptors = descriptors_count();
	cr_assert_eq(run(REGISTRY_OP_CREATE, "/e", true), 0);
	json_t *session = registry_dir_ops.detach(backend);
	cr_assert_eq(rename(root, aside), 0);
	cr_assert_eq(open_at(root, session), 0);
	dispatch();
	close_it();
	cr_assert_eq(rename(aside, root), 0);
	cr_assert_eq(open_at(root, NULL), 0);
	dispatch();
	cr_assert_eq(run(REGISTRY_OP_GET, "/e", false), BERTH_PATH_NOT_FOUND);
	cr_assert_eq(descriptors_count(), descriptors);
	json_decref(session);
}

Test(dir_backend, a_session_that_no_root_was_seen_for_is_handed_on)
{
	char aside[600];
	snprintf(aside, sizeof(aside), "%s-aside", root);
	cr_assert_eq(run(REGISTRY_OP_CREATE, "/e", true), 0);
	json_t *session = registry_dir_ops.detach(backend);
	cr_assert_eq(rename(root, aside), 0);
	cr_assert_eq(open_at(root, session), 0);
	dispatch();
	json_t *again = registry_dir_ops.detach(backend);
	cr_assert(json_equal(again, session));
	cr_assert_eq(rename(aside, root), 0);
	cr_assert_eq(open_at(root, again), 0);
	dispatch();
	cr_assert_eq(run(REGISTRY_OP_GET, "/e", false), 0);
	json_decref(again);
	json_decref(session);
}

Test(dir_backend, a_url_has_an_absolute_path_and_may_end_with_slashes)
{
	close_it();
	cr_assert_eq(open_at(NULL, NULL), BERTH_FAILED);
	cr_assert_eq(open_at("", NULL), BERTH_FAILED);
	cr_assert_eq(open_at("relative", NULL), BERTH_FAILED);
	cr_assert_eq(open_at("/", NULL), 0);
	dispatch();
	cr_assert_eq(core.state, REGISTRY_CONNECTED);
	close_it();
	cr_assert_eq(open_at(on_disk("//"), NULL), 0);
	dispatch();
	cr_assert_eq(run(REGISTRY_OP_CREATE, "/a", false), 0);
	cr_assert(is_on_disk("/a"));
	cr_assert_eq(watch("/a"), 0);
	open_below("/new//");
	cr_assert_eq(core.state, REGISTRY_CONNECTED);
	cr_assert_eq(run(REGISTRY_OP_CREATE, "/a", false), 0);
	cr_assert(is_on_disk("/new/a"));
}

Test(dir_backend, access_control_lists_are_refused)
{
	const struct registry_options secure = { .secure = true };
	const struct registry_options open = { .secure = false };
	const char *option = NULL;
	struct err err = ERR_INIT;
	cr_assert_eq(registry_dir_ops.check(&open, &option, &err), 0);
	cr_assert_null(option);
	cr_assert_eq(registry_dir_ops.check(&secure, &option, &err), BERTH_FAILED);
	cr_assert_str_eq(option, "secure");
}
