/* A reader whose node another process swaps or removes between the opening and the reading. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "lib/registry/dir/task.h"
#include "tests/support/descriptors.h"
#include "tests/support/dir_client.h"

static char root[512];
static struct dir_client writer;
static struct dir_context reader;

/* Done once, when the reader looks at the owner's lock: its node is open, and not yet read. */
static void (*at_next_look)(void);

int fcntl(int fd, int command, ...)
{
	va_list rest;
	va_start(rest, command);
	long argument = va_arg(rest, long);
	va_end(rest);
	void (*work)(void) = at_next_look;
	if (command == F_OFD_GETLK && work) {
		at_next_look = NULL;
		work();
	}
	return (int)syscall(SYS_fcntl, fd, command, argument);
}

/* Done once, when the reader asks for the stat of its node, which is open. */
static void (*at_next_stat)(void);
static bool knows_no_births; /* as some file systems */

int statx(int fd, const char *restrict path, int flags, unsigned mask,
	struct statx *restrict ret_stat)
{
	void (*work)(void) = at_next_stat;
	at_next_stat = NULL;
	if (work) {
		work();
	}
	int ret = (int)syscall(SYS_statx, fd, path, flags, mask, ret_stat);
	if (knows_no_births) {
		ret_stat->stx_mask &= ~STATX_BTIME;
		ret_stat->stx_btime = (struct statx_timestamp){ 0 };
	}
	return ret;
}

static void set_up(void)
{
	snprintf(root, sizeof(root), "%s", dir_root_make());
	dir_client_open(&writer, root, NULL);
	reader.store.root_fd = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	cr_assert_eq(dir_create(&writer, "/e", "old", true), 0);
	cr_assert_eq(dir_create(&writer, "/p", "old", false), 0);
}

static void tear_down(void)
{
	close(reader.store.root_fd);
	dir_client_close(&writer);
	dir_root_remove(root);
}

TestSuite(dir_reader, .init = set_up, .fini = tear_down, .timeout = 120);

static void replace_it(void)
{
	struct registry_stat stat;
	cr_assert_eq(dir_stat(&writer, "/e", &stat), 0);
	cr_assert_eq(dir_replace(&writer, "/e", "new", true, &stat), 0);
}

static void delete_it(void)
{
	cr_assert_eq(dir_delete(&writer, "/e", NULL), 0);
}

/* Reads while that happens; the code. */
static int read_while(void (*work)(void), struct registry_task *task)
{
	*task = (struct registry_task){ .operation = REGISTRY_OP_GET, .path = "/e" };
	int descriptors = descriptors_count();
	at_next_look = work;
	dir_task_run(&reader, task);
	cr_assert_null(at_next_look);
	cr_assert_leq(descriptors_count(), descriptors);
	return task->ret_err.code;
}

Test(dir_reader, a_swapped_node_is_read_anew)
{
	struct registry_task task;
	cr_assert_eq(read_while(replace_it, &task), 0);
	cr_assert_str_eq(task.ret_data, "new");
	cr_assert(task.ret_stat.ephemeral);
	dir_task_finish(&task);
}

Test(dir_reader, a_removed_node_is_not_one_without_a_record)
{
	struct registry_task task;
	cr_assert_eq(read_while(delete_it, &task), BERTH_PATH_NOT_FOUND);
	cr_assert_null(task.ret_data);
}

/* ---- a node without an owner, whose record goes first ---- */

static void replace_persistent(void)
{
	cr_assert_eq(dir_replace(&writer, "/p", "new", false, NULL), 0);
}

static void delete_persistent(void)
{
	cr_assert_eq(dir_delete(&writer, "/p", NULL), 0);
}

static int read_stat_while(
	void (*work)(void), enum registry_operation operation, struct registry_task *task)
{
	*task = (struct registry_task){ .operation = operation, .path = "/p" };
	int descriptors = descriptors_count();
	at_next_stat = work;
	dir_task_run(&reader, task);
	cr_assert_null(at_next_stat);
	cr_assert_leq(descriptors_count(), descriptors);
	return task->ret_err.code;
}

Test(dir_reader, a_swapped_node_without_an_owner_is_read_anew)
{
	struct registry_task task;
	cr_assert_eq(read_stat_while(replace_persistent, REGISTRY_OP_GET, &task), 0);
	cr_assert_str_eq(task.ret_data, "new");
	cr_assert_eq(task.ret_stat.size, 3);
	dir_task_finish(&task);
}

Test(dir_reader, a_removed_node_without_an_owner_is_not_one_without_a_record)
{
	struct registry_task task;
	cr_assert_eq(
		read_stat_while(delete_persistent, REGISTRY_OP_GET, &task), BERTH_PATH_NOT_FOUND);
	cr_assert_null(task.ret_data);
}

Test(dir_reader, where_no_birth_is_known_a_node_was_made_when_its_directory_changed)
{
	const struct timespec times[2] = { { .tv_sec = 1000, .tv_nsec = 7000000 },
		{ .tv_sec = 1000, .tv_nsec = 7000000 } };
	struct registry_task task = { .operation = REGISTRY_OP_STAT, .path = "/p" };
	cr_assert_eq(utimensat(AT_FDCWD, on_disk("/p"), times, 0), 0);
	knows_no_births = true;
	dir_task_run(&reader, &task);
	knows_no_births = false;
	cr_assert_eq(task.ret_err.code, 0, "%s", task.ret_err.msg);
	cr_expect_eq(task.ret_stat.created_ms, 1000007);
	cr_expect_neq(task.ret_stat.node_id, 0);
}
