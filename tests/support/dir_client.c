#include "tests/support/dir_client.h"

#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "tests/support/scratch.h"
#include "lib/base/clock.h"
#include "lib/base/limits.h"

enum { GENEROUS_MS = 30000 };

void dir_die(const char *message)
{
	fprintf(stderr, "%s\n", message);
	abort();
}

static char last_root[SCRATCH_PATH];

const char *dir_root_make(void)
{
	scratch_folder(last_root);
	return last_root;
}

static int remove_entry(const char *path, const struct stat *stat, int type, struct FTW *ftw)
{
	(void)stat;
	(void)type;
	(void)ftw;
	remove(path);
	return 0;
}

const char *dir_root_make_in_memory(void)
{
	scratch_memory_folder(last_root);
	return last_root;
}

void dir_root_remove(const char *made)
{
	nftw(made, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

const char *on_disk(const char *path)
{
	static char full[SCRATCH_PATH + LIMIT_PATH_BYTES];
	snprintf(full, sizeof(full), "%s%s", last_root, path);
	return full;
}

bool is_on_disk(const char *path)
{
	return faccessat(AT_FDCWD, on_disk(path), F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

static void on_completed(void *core, struct registry_task *task)
{
	((struct dir_client *)core)->completed = task;
}

static void on_notified(void *core, const char *path, enum registry_watch_kind kind, bool gone)
{
	struct dir_client *client = core;

	(void)gone;
	client->notified[kind]++;
	snprintf(client->notified_path, sizeof(client->notified_path), "%s", path);
}

static void on_state(void *core, enum registry_state state, const char *why)
{
	(void)why;
	((struct dir_client *)core)->state = state;
}

static void on_log(void *core, enum registry_log_level level, const char *message)
{
	(void)level;
	(void)message;
	((struct dir_client *)core)->logged++;
}

void dir_client_open(struct dir_client *client, const char *root, const json_t *session)
{
	const struct registry_core core = { .core = client,
		.completed = on_completed,
		.notified = on_notified,
		.state = on_state,
		.log = on_log };
	const struct registry_options options = { .session = session };
	struct err err = ERR_INIT;

	*client = (struct dir_client){ .state = REGISTRY_CONNECTING };
	if (registry_dir_ops.open(&client->backend, root, &options, &core, &err) != 0) {
		dir_die(err.msg);
	}
	DIR_CLIENT_UNTIL(client, client->state != REGISTRY_CONNECTING);
}

void dir_client_close(struct dir_client *client)
{
	registry_dir_ops.close(client->backend);
	client->backend = NULL;
}

void dir_client_turn(struct dir_client *client, int wait_ms)
{
	struct pollfd poll_fd = { .fd = registry_dir_ops.fd(client->backend), .events = POLLIN };
	int64_t left_ms = registry_dir_ops.deadline_ms(client->backend) - clock_monotonic_ms();

	if (left_ms < wait_ms) {
		wait_ms = left_ms > 0 ? (int)left_ms : 0;
	}
	poll(&poll_fd, 1, wait_ms);
	registry_dir_ops.dispatch(client->backend, clock_monotonic_ms());
}

void dir_client_clear(struct dir_client *client)
{
	client->notified[0] = 0;
	client->notified[1] = 0;
	client->notified_path[0] = '\0';
}

int dir_client_run(struct dir_client *client, struct registry_task *task)
{
	if (task->deadline_ms == 0) {
		task->deadline_ms = clock_monotonic_ms() + GENEROUS_MS;
	}
	client->completed = NULL;
	registry_dir_ops.submit(client->backend, task);
	DIR_CLIENT_UNTIL(client, client->completed == task);
	return task->ret_err.code;
}

void dir_task_finish(struct registry_task *task)
{
	free(task->ret_data);
	for (size_t i = 0; i < task->ret_children_count; i++) {
		free(task->ret_children[i]);
	}
	free(task->ret_children);
	for (size_t i = 0; i < task->ret_foreign_count; i++) {
		free(task->ret_foreign[i]);
	}
	free(task->ret_foreign);
}

static int run_and_finish(
	struct dir_client *client, struct registry_task *task, struct registry_stat *ret_stat)
{
	int result = dir_client_run(client, task);

	if (result == 0 && ret_stat != NULL) {
		*ret_stat = task->ret_stat;
	}
	dir_task_finish(task);
	return result;
}

static void expect(struct registry_task *task, const struct registry_stat *expected)
{
	if (expected != NULL) {
		task->has_expected = true;
		task->expected = *expected;
	}
}

int dir_create(struct dir_client *client, const char *path, const char *data, bool ephemeral)
{
	struct registry_task task = { .operation = REGISTRY_OP_CREATE,
		.path = path,
		.data = data,
		.len = strlen(data),
		.ephemeral = ephemeral };

	return run_and_finish(client, &task, NULL);
}

int dir_get(struct dir_client *client, const char *path, char data[], size_t size,
	struct registry_stat *ret_stat)
{
	struct registry_task task = { .operation = REGISTRY_OP_GET, .path = path };
	int result = dir_client_run(client, &task);

	if (result == 0) {
		snprintf(data, size, "%s", task.ret_data);
		if (ret_stat != NULL) {
			*ret_stat = task.ret_stat;
		}
	}
	dir_task_finish(&task);
	return result;
}

int dir_stat(struct dir_client *client, const char *path, struct registry_stat *ret_stat)
{
	struct registry_task task = { .operation = REGISTRY_OP_STAT, .path = path };

	return run_and_finish(client, &task, ret_stat);
}

int dir_set(struct dir_client *client, const char *path, const char *data,
	const struct registry_stat *expected)
{
	struct registry_task task = {
		.operation = REGISTRY_OP_SET, .path = path, .data = data, .len = strlen(data)
	};

	expect(&task, expected);
	return run_and_finish(client, &task, NULL);
}

int dir_replace(struct dir_client *client, const char *path, const char *data, bool ephemeral,
	const struct registry_stat *expected)
{
	struct registry_task task = { .operation = REGISTRY_OP_REPLACE,
		.path = path,
		.data = data,
		.len = strlen(data),
		.ephemeral = ephemeral };

	expect(&task, expected);
	return run_and_finish(client, &task, NULL);
}

int dir_delete(struct dir_client *client, const char *path, const struct registry_stat *expected)
{
	struct registry_task task = { .operation = REGISTRY_OP_DELETE, .path = path };

	expect(&task, expected);
	return run_and_finish(client, &task, NULL);
}

static int by_name(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

const char *dir_list(struct dir_client *client, const char *path)
{
	static char names[8192];
	struct registry_task task = { .operation = REGISTRY_OP_CHILDREN, .path = path };
	size_t len = 0;

	names[0] = '\0';
	if (dir_client_run(client, &task) != 0) {
		return berth_error_name(task.ret_err.code);
	}
	qsort(task.ret_children, task.ret_children_count, sizeof(char *), by_name);
	for (size_t i = 0; i < task.ret_children_count && len < sizeof(names); i++) {
		len += (size_t)snprintf(names + len, sizeof(names) - len, "%s%s", i > 0 ? " " : "",
			task.ret_children[i]);
	}
	dir_task_finish(&task);
	return names;
}

int dir_watch(struct dir_client *client, const char *path, enum registry_watch_kind kind)
{
	struct registry_task task = {
		.operation = kind == REGISTRY_WATCH_DATA ? REGISTRY_OP_GET : REGISTRY_OP_CHILDREN,
		.path = path,
		.watch = true
	};

	return run_and_finish(client, &task, NULL);
}
