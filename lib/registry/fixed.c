/* The backend of registry_fixed.h. */
#include "lib/registry/registry_fixed.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "lib/base/clock.h"
#include "lib/registry/internal.h"

struct fixed_node {
	char *name;
	struct registry_stat stat;
};

struct fixed {
	struct registry_backend base;
	struct list tasks;
	int fd; /* never readable */
	bool is_connected;
	struct registry_stat stat; /* of the root; its version counts the changes of the list */
	struct fixed_node *nodes;
	size_t count;
	uint64_t last_id;
	/* until the next dispatch: the nodes before the last change; NULL: nothing has changed */
	struct fixed_node *before;
	size_t before_count;
};

static struct fixed *fixed_of(const struct registry_backend *backend)
{
	return (struct fixed *)(uintptr_t)backend;
}

static void free_nodes(struct fixed_node *nodes, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		free(nodes[i].name);
	}
	free(nodes);
}

static const struct fixed_node *find(const struct fixed_node *nodes, size_t count, const char *name)
{
	for (size_t i = 0; i < count; i++) {
		if (strcmp(nodes[i].name, name) == 0) {
			return &nodes[i];
		}
	}
	return NULL;
}

/* ---- tasks ---- */

static void out_of_memory(struct registry_task *task)
{
	err_set(&task->ret_err, BERTH_FAILED, "%s: no memory", task->path);
}

static void list_root(const struct fixed *fixed, struct registry_task *task)
{
	task->ret_children = calloc(fixed->count + 1, sizeof(*task->ret_children));
	for (size_t i = 0; task->ret_children && i < fixed->count; i++) {
		char *name = strdup(fixed->nodes[i].name);
		if (!name) {
			break;
		}
		task->ret_children[task->ret_children_count++] = name;
	}
	if (task->ret_children_count < fixed->count || !task->ret_children) {
		out_of_memory(task);
	}
}

static void carry_out(const struct fixed *fixed, struct registry_task *task)
{
	bool is_root = strcmp(task->path, "/") == 0;
	const struct fixed_node *node = is_root ? NULL
						: find(fixed->nodes, fixed->count, task->path + 1);
	if (task->operation != REGISTRY_OP_GET && task->operation != REGISTRY_OP_CHILDREN &&
		task->operation != REGISTRY_OP_STAT) {
		err_set(&task->ret_err, BERTH_NO_PATH_PERMISSIONS, "%s can be read only",
			task->path);
		return;
	}
	if (!is_root && !node) {
		err_set(&task->ret_err, BERTH_PATH_NOT_FOUND, "%s: no such path", task->path);
		return;
	}
	task->ret_stat = is_root ? fixed->stat : node->stat;
	task->ret_stat.children = is_root ? fixed->count : 0;
	task->ret_childless = task->ret_stat.children == 0;
	if (task->operation == REGISTRY_OP_CHILDREN && is_root) {
		list_root(fixed, task);
	}
	if (task->operation == REGISTRY_OP_GET && !(task->ret_data = calloc(1, 1))) {
		out_of_memory(task);
	}
}

static void submit(struct registry_backend *backend, struct registry_task *task)
{
	list_append(&fixed_of(backend)->tasks, &task->link);
}

static void abandon(struct registry_backend *backend, struct registry_task *task)
{
	(void)backend;
	list_remove(&task->link);
}

/* ---- what has come and gone ---- */

static void notify(const struct fixed *fixed, const char *name, bool gone)
{
	char path[LIMIT_PATH_BYTES + 1] = "/";
	const struct registry_core *core = &fixed->base.core;
	strncat(path, name, sizeof(path) - 2);
	core->notified(core->core, path, REGISTRY_WATCH_DATA, gone);
	core->notified(core->core, path, REGISTRY_WATCH_CHILDREN, gone);
}

static void notify_all(struct fixed *fixed)
{
	const struct registry_core *core = &fixed->base.core;
	struct fixed_node *before = fixed->before;
	size_t count = fixed->before_count;
	if (!before) {
		return;
	}
	fixed->before = NULL;
	core->notified(core->core, "/", REGISTRY_WATCH_CHILDREN, false);
	for (size_t i = 0; i < count; i++) {
		if (!find(fixed->nodes, fixed->count, before[i].name)) {
			notify(fixed, before[i].name, true);
		}
	}
	for (size_t i = 0; i < fixed->count; i++) {
		if (!find(before, count, fixed->nodes[i].name)) {
			notify(fixed, fixed->nodes[i].name, false);
		}
	}
	free_nodes(before, count);
}

static void dispatch(struct registry_backend *backend, int64_t now_ms)
{
	struct fixed *fixed = fixed_of(backend);
	const struct registry_core *core = &backend->core;
	struct list tasks;
	(void)now_ms;
	if (!fixed->is_connected) {
		fixed->is_connected = true;
		core->state(core->core, REGISTRY_CONNECTED, "it is in the agent's memory");
	}
	notify_all(fixed);
	list_init(&tasks);
	list_move_all(&tasks, &fixed->tasks);
	while (!list_empty(&tasks)) {
		struct registry_task *task = LIST_ITEM(tasks.next, struct registry_task, link);
		list_remove(&task->link);
		carry_out(fixed, task);
		core->completed(core->core, task);
	}
}

static int64_t deadline_ms(const struct registry_backend *backend)
{
	const struct fixed *fixed = fixed_of(backend);
	bool is_due = !fixed->is_connected || fixed->before || !list_empty(&fixed->tasks);
	return is_due ? 0 : INT64_MAX;
}

/* A copy of the names; those that there were before keep their stat. NULL without memory. */
static struct fixed_node *copy(struct fixed *fixed, const char *const *names, size_t count)
{
	struct fixed_node *nodes = calloc(count + 1, sizeof(*nodes));
	int64_t now_ms = (int64_t)(clock_wall_s() * 1e3);
	for (size_t i = 0; nodes && i < count; i++) {
		const struct fixed_node *same = find(fixed->nodes, fixed->count, names[i]);
		nodes[i].name = strdup(names[i]);
		if (!nodes[i].name) {
			free_nodes(nodes, count);
			return NULL;
		}
		nodes[i].stat = same ? same->stat
				     : (struct registry_stat){ .created_ms = now_ms,
					       .modified_ms = now_ms,
					       .node_id = ++fixed->last_id };
	}
	return nodes;
}

int registry_fixed_set(
	struct registry *registry, const char *const *names, size_t count, struct err *err)
{
	struct fixed *fixed = fixed_of(registry->backend);
	struct fixed_node *nodes = copy(fixed, names, count);
	if (!nodes) {
		return err_set(err, BERTH_FAILED, "no memory for the names of registries");
	}
	if (fixed->before) { /* no watch has heard of those in between */
		free_nodes(fixed->nodes, fixed->count);
	} else {
		fixed->before = fixed->nodes;
		fixed->before_count = fixed->count;
	}
	fixed->nodes = nodes;
	fixed->count = count;
	fixed->stat.version++;
	return 0;
}

/* ---- life ---- */

static void close_fixed(struct registry_backend *backend)
{
	struct fixed *fixed = fixed_of(backend);
	free_nodes(fixed->nodes, fixed->count);
	if (fixed->before) {
		free_nodes(fixed->before, fixed->before_count);
	}
	close(fixed->fd);
	free(fixed);
}

static json_t *detach(struct registry_backend *backend)
{
	close_fixed(backend);
	return NULL;
}

static json_t *session(const struct registry_backend *backend)
{
	(void)backend;
	return NULL;
}

static int fd_of(const struct registry_backend *backend)
{
	return fixed_of(backend)->fd;
}

static void unwatch(
	struct registry_backend *backend, const char *path, enum registry_watch_kind kind)
{
	(void)backend;
	(void)path;
	(void)kind;
}

static const char *session_name(const struct registry_backend *backend)
{
	(void)backend;
	return "";
}

static int session_timeout_ms(const struct registry_backend *backend)
{
	(void)backend;
	return 0;
}

static int open_fixed(struct registry_backend **ret_backend, const char *rest,
	const struct registry_options *options, const struct registry_core *core, struct err *err)
{
	(void)rest;
	(void)options;
	struct fixed *fixed = calloc(1, sizeof(*fixed));
	int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	struct fixed_node *nodes = calloc(1, sizeof(*nodes));
	if (!fixed || fd < 0 || !nodes) {
		err_set(err, BERTH_FAILED, "cannot make a registry in memory: %s", strerror(errno));
		if (fd >= 0) {
			close(fd);
		}
		free(nodes);
		free(fixed);
		return err->code;
	}
	fixed->base.core = *core;
	fixed->fd = fd;
	fixed->nodes = nodes;
	fixed->stat.created_ms = fixed->stat.modified_ms = (int64_t)(clock_wall_s() * 1e3);
	list_init(&fixed->tasks);
	*ret_backend = &fixed->base;
	return 0;
}

static const struct registry_backend_ops ops = {
	.scheme = "fixed",
	.open = open_fixed,
	.close = close_fixed,
	.detach = detach,
	.session = session,
	.fd = fd_of,
	.deadline_ms = deadline_ms,
	.dispatch = dispatch,
	.submit = submit,
	.abandon = abandon,
	.unwatch = unwatch,
	.session_name = session_name,
	.session_timeout_ms = session_timeout_ms,
};

int registry_open_fixed(
	struct registry **ret_registry, const struct registry_options *options, struct err *err)
{
	return registry_open_backend(ret_registry, &ops, "", options, err);
}
