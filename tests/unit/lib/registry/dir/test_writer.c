/* The dir: backend whose children do what waits for the disk, on a disk that the test stops. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/base/array.h"
#include "lib/base/limits.h"
#include "lib/registry/backend.h"
#include "lib/registry/dir/store.h"
#include "tests/support/dir_client.h"

enum { PATIENT_MS = 60000, TASK_MS = 60000 };

static char root[512];
static struct registry_backend *backend;
static int64_t now_ms;
static struct registry_task *completed; /* the last one */
static int completions;
static int foreign_fd; /* of this process, not of its children */

/* ---- the disk ---- */

static enum { WORKS, HANGS, KILLS, KEEPS_LEAVING } disk;

int fsync(int fd)
{
	if (disk == HANGS) {
		pause();
	}
	if (disk == KILLS || fcntl(foreign_fd, F_GETFD) != -1) {
		raise(SIGKILL);
	}
	return (int)syscall(SYS_fsync, fd);
}

/* A child whose end takes a while. */
void _exit(int status)
{
	if (disk == KEEPS_LEAVING) {
		poll(NULL, 0, 20);
	}
	for (;;) {
		syscall(SYS_exit_group, status);
	}
}

/* ---- the stage ---- */

static void on_completed(void *context, struct registry_task *task)
{
	(void)context;
	completed = task;
	completions++;
}

static void on_notified(void *context, const char *path, enum registry_watch_kind kind, bool gone)
{
	(void)context;
	(void)path;
	(void)kind;
	(void)gone;
}

static void on_state(void *context, enum registry_state state, const char *why)
{
	(void)context;
	(void)state;
	(void)why;
}

static void dispatch(void)
{
	registry_dir_ops.dispatch(backend, now_ms);
}

static void set_up(void)
{
	static const struct registry_core functions = {
		.completed = on_completed, .notified = on_notified, .state = on_state
	};
	const struct registry_options options = { .forks = true };
	struct err err = ERR_INIT;
	snprintf(root, sizeof(root), "%s", dir_root_make());
	now_ms = 1000000;
	disk = WORKS;
	/* Files that a child opens take no such number. */
	foreign_fd = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 500);
	cr_assert_geq(foreign_fd, 500);
	cr_assert_eq(registry_dir_ops.open(&backend, root, &options, &functions, &err), 0);
	dispatch();
}

static void close_it(void)
{
	registry_dir_ops.close(backend);
	backend = NULL;
}

static void tear_down(void)
{
	if (backend) {
		close_it();
	}
	close(foreign_fd);
	dir_root_remove(root);
}

TestSuite(dir_writer, .init = set_up, .fini = tear_down, .timeout = 120);

static struct registry_task task_of(
	enum registry_operation operation, const char *path, bool ephemeral)
{
	return (struct registry_task){ .operation = operation,
		.path = path,
		.data = "x",
		.len = operation != REGISTRY_OP_DELETE,
		.ephemeral = ephemeral,
		.deadline_ms = now_ms + TASK_MS };
}

static void begin(struct registry_task *task)
{
	completed = NULL;
	registry_dir_ops.submit(backend, task);
	dispatch();
}

/* Until it is done; its code. The child's report wakes the loop. */
static int finish(struct registry_task *task)
{
	struct pollfd poller = { .fd = registry_dir_ops.fd(backend), .events = POLLIN };
	while (completed != task) {
		cr_assert_eq(poll(&poller, 1, PATIENT_MS), 1, "nothing wakes the loop");
		dispatch();
	}
	dir_task_finish(task);
	return task->ret_err.code;
}

static int run(enum registry_operation operation, const char *path, bool ephemeral)
{
	struct registry_task task = task_of(operation, path, ephemeral);
	begin(&task);
	return finish(&task);
}

static bool has_children(void)
{
	return waitpid(-1, NULL, WNOHANG) >= 0 || errno != ECHILD;
}

/* Nothing is left in the work directory: it can be removed. */
static bool is_clean(void)
{
	return rmdir(on_disk("/_tmp")) == 0 || errno == ENOENT;
}

/* ---- what a child does ---- */

Test(dir_writer, a_child_writes_and_reports)
{
	struct registry_task task = task_of(REGISTRY_OP_CREATE, "/a", false);
	begin(&task);
	cr_assert_null(completed, "its child works");
	cr_assert_gt(registry_dir_ops.deadline_ms(backend), now_ms);
	cr_assert_leq(registry_dir_ops.deadline_ms(backend), now_ms + 250);
	cr_assert_eq(finish(&task), 0, "%s", task.ret_err.msg);
	cr_expect(is_on_disk("/a/_record"));
	cr_expect_eq(task.ret_stat.size, 1);
	cr_expect_gt(task.ret_stat.version, 0);
	cr_expect_eq(run(REGISTRY_OP_CREATE, "/a", false), BERTH_FILE_ALREADY_EXISTS);
	cr_expect_eq(run(REGISTRY_OP_SET, "/a", false), 0);
	cr_expect_eq(run(REGISTRY_OP_DELETE, "/a", false), 0);
	cr_expect_not(is_on_disk("/a"));
	cr_expect(is_clean());
}

/* Only its process can own an ephemeral node, and the disk need not have it. */
Test(dir_writer, a_write_that_needs_no_disk_is_done_at_once)
{
	struct registry_task task = task_of(REGISTRY_OP_CREATE, "/e", true);
	begin(&task);
	cr_assert_eq(completed, &task);
	cr_assert_eq(task.ret_err.code, 0, "%s", task.ret_err.msg);
	task = task_of(REGISTRY_OP_SET, "/e", false);
	begin(&task);
	cr_assert_eq(completed, &task);
	cr_assert_eq(task.ret_err.code, 0, "%s", task.ret_err.msg);
	task = task_of(REGISTRY_OP_SET, "/none", false);
	begin(&task);
	cr_assert_eq(completed, &task);
	cr_assert_eq(task.ret_err.code, BERTH_PATH_NOT_FOUND);
	task = task_of(REGISTRY_OP_DELETE, "/e", false);
	begin(&task);
	cr_assert_eq(completed, &task);
	cr_assert_eq(task.ret_err.code, 0, "%s", task.ret_err.msg);
	cr_assert_not(has_children());
}

Test(dir_writer, each_write_that_waits_for_the_disk_is_a_childs)
{
	static const enum registry_operation operations[] = { REGISTRY_OP_SET, REGISTRY_OP_REPLACE,
		REGISTRY_OP_DELETE };
	cr_assert_eq(run(REGISTRY_OP_CREATE, "/a", false), 0);
	for (size_t i = 0; i < ARRAY_LEN(operations); i++) {
		struct registry_task task = task_of(operations[i], "/a", false);
		begin(&task);
		cr_assert_null(completed, "%zu", i);
		cr_assert_eq(finish(&task), 0, "%zu: %s", i, task.ret_err.msg);
	}
}

Test(dir_writer, an_own_node_that_a_child_has_replaced_is_no_longer_owned)
{
	cr_assert_eq(run(REGISTRY_OP_CREATE, "/e", true), 0);
	cr_assert_eq(run(REGISTRY_OP_CREATE, "/other", true), 0);
	cr_assert_eq(run(REGISTRY_OP_REPLACE, "/e", false), 0);
	cr_assert_eq(run(REGISTRY_OP_CREATE, "/p", false), 0);
	json_t *session = registry_dir_ops.detach(backend);
	backend = NULL;
	const json_t *locks = json_object_get(session, "locks");
	cr_assert_eq(json_array_size(locks), 1);
	cr_expect_str_eq(
		json_string_value(json_object_get(json_array_get(locks, 0), "path")), "/other");
	json_decref(session);
}

/* ---- a child that does not come to its end ---- */

Test(dir_writer, a_disk_that_does_not_answer_in_time_leaves_the_write_unknown)
{
	struct registry_task task = task_of(REGISTRY_OP_CREATE, "/a", false);
	disk = HANGS;
	begin(&task);
	now_ms = task.deadline_ms - 1;
	dispatch();
	cr_assert_null(completed);
	now_ms = task.deadline_ms;
	dispatch();
	cr_assert_eq(completed, &task);
	cr_expect_eq(task.ret_err.code, BERTH_TIMEOUT);
	cr_expect(strstr(task.ret_err.msg, "has not answered in time"), "%s", task.ret_err.msg);
	disk = WORKS;
	cr_expect_eq(run(REGISTRY_OP_CREATE, "/b", false), 0);
	cr_expect_not(has_children());
	cr_expect(is_clean(), "what the child has left is swept");
}

Test(dir_writer, a_child_that_is_killed_leaves_the_write_unknown)
{
	struct registry_task task = task_of(REGISTRY_OP_CREATE, "/a", false);
	disk = KILLS;
	begin(&task);
	cr_expect_eq(finish(&task), BERTH_TIMEOUT);
	cr_expect(strstr(task.ret_err.msg, "was killed"), "%s", task.ret_err.msg);
	disk = WORKS;
	cr_expect_eq(run(REGISTRY_OP_CREATE, "/b", false), 0);
	cr_expect_not(has_children());
	cr_expect(is_clean(), "what the child has left is swept");
}

Test(dir_writer, other_writes_wait_for_the_child_and_reads_of_other_paths_do_not)
{
	struct registry_task first = task_of(REGISTRY_OP_CREATE, "/a", false);
	struct registry_task second = task_of(REGISTRY_OP_CREATE, "/e", true);
	struct registry_task other = task_of(REGISTRY_OP_GET, "/other", false);
	struct registry_task same = task_of(REGISTRY_OP_GET, "/a", false);
	disk = HANGS;
	begin(&first);
	begin(&second);
	cr_assert_null(completed);
	begin(&same);
	cr_assert_null(completed);
	begin(&other);
	cr_assert_eq(completed, &other);
	cr_assert_eq(other.ret_err.code, BERTH_PATH_NOT_FOUND);
	registry_dir_ops.abandon(backend, &first);
	disk = WORKS;
	while (completions < 3) {
		poll(NULL, 0, 1);
		dispatch();
	}
	cr_expect_eq(same.ret_err.code, BERTH_PATH_NOT_FOUND);
	cr_expect_eq(second.ret_err.code, 0, "%s", second.ret_err.msg);
	cr_expect(is_on_disk("/e"));
	cr_expect_not(is_on_disk("/a"));
}

Test(dir_writer, a_registry_that_is_closed_ends_its_child)
{
	struct registry_task task = task_of(REGISTRY_OP_CREATE, "/a", false);
	disk = HANGS;
	begin(&task);
	registry_dir_ops.abandon(backend, &task);
	close_it();
	cr_expect_not(has_children());
	cr_expect_not(is_on_disk("/a"));
}
