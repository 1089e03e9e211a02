/* Calls at, below and above mounts. */
#include "lib/registry/mount.h"

#include <stdlib.h>
#include <string.h>

#include "lib/base/hash.h"
#include "lib/base/path.h"
#include "lib/base/quote.h"

/* A call that was taken over. */
struct registry_mount_read {
	struct registry *registry;
	struct registry_mount *mount; /* NULL: the path is above mounts */
	struct registry_call *outer;
	struct registry_call inner;
	const char *label; /* of the member, in outer's path; NULL: the path is no member's */
	char *node;        /* the member's foreign path; owned */
	char *group_data; /* owned; NULL: the dialect does not look at it, or the group is absent */
	size_t group_len;
	struct registry_stat group_stat;
};

static void read_free(struct registry_mount_read *read)
{
	registry_call_finish(&read->inner);
	if (read->mount) {
		registry_mount_release(read->mount);
	}
	free(read->group_data);
	free(read->node);
	free(read);
}

void registry_mounts_abandon(struct registry_call *call)
{
	struct registry_mount_read *read = call->mount_read;
	call->mount_read = NULL;
	read_free(read);
}

/* Hands the outer call back; its task has been filled. */
static void complete(struct registry_mount_read *read)
{
	struct registry_call *outer = read->outer;
	outer->mount_read = NULL;
	read_free(read);
	registry_call_completed(&outer->task);
}

static void submit(struct registry_mount_read *read, enum registry_operation operation,
	const char *path, void (*completed)(struct registry_call *call))
{
	registry_call_clear(&read->inner);
	read->inner.completed = completed;
	read->inner.owner = read;
	read->inner.task.operation = operation;
	read->inner.task.path = path;
	read->inner.task.watch = read->outer->task.watch;
	registry_call_send(read->registry, &read->inner, read->outer->task.deadline_ms);
}

static bool is_absent(const struct registry_call *call)
{
	return call->task.ret_err.code == BERTH_PATH_NOT_FOUND;
}

static void out_of_memory(struct registry_task *task)
{
	err_set(&task->ret_err, BERTH_FAILED, "%s: no memory", task->path);
}

/* A node that exists for any content of the backend: without data, and not ephemeral. */
static void make_empty_node(struct registry_task *task)
{
	free(task->ret_data);
	task->ret_data = NULL;
	task->ret_len = 0;
	task->ret_stat.size = 0;
	task->ret_stat.ephemeral = false;
	task->ret_stat.own = false;
	task->ret_childless = false;
	if (task->operation == REGISTRY_OP_GET && !(task->ret_data = calloc(1, 1))) {
		out_of_memory(task);
	}
}

/* ---- above mounts ---- */

/* The element of `as` that comes behind `path`, which is above it. */
static char *next_element(const char *path, const char *as)
{
	const char *rest = as + (strcmp(path, "/") == 0 ? 1 : strlen(path) + 1);
	return strndup(rest, strcspn(rest, "/"));
}

static bool has_child(const struct registry_task *task, const char *name)
{
	for (size_t i = 0; i < task->ret_children_count; i++) {
		if (strcmp(task->ret_children[i], name) == 0) {
			return true;
		}
	}
	return false;
}

/* False without memory. */
static bool add_child(struct registry_task *task, const char *as)
{
	char *name = next_element(task->path, as);
	if (!name || has_child(task, name)) {
		free(name);
		return name != NULL;
	}
	char **grown = reallocarray(
		task->ret_children, task->ret_children_count + 1, sizeof(*grown));
	if (!grown) {
		free(name);
		return false;
	}
	task->ret_children = grown;
	grown[task->ret_children_count++] = name;
	return true;
}

static bool is_above(const char *path, const struct registry_mount *mount)
{
	return path_is_under(mount->as, path) && strcmp(mount->as, path) != 0;
}

static void add_children(const struct registry *registry, struct registry_task *task)
{
	for (size_t i = 0; i < registry->mount_count; i++) {
		if (is_above(task->path, registry->mounts[i]) &&
			!add_child(task, registry->mounts[i]->as)) {
			out_of_memory(task);
		}
	}
	task->ret_stat.children = task->ret_children_count + task->ret_foreign_count;
}

static void on_above(struct registry_call *inner)
{
	struct registry_mount_read *read = inner->owner;
	struct registry_task *task = &read->outer->task;
	bool absent = is_absent(inner);
	registry_task_move_results(&read->outer->task, &read->inner.task);
	if (absent) {
		err_clear(&task->ret_err);
		make_empty_node(task);
	}
	if (!task->ret_err.code && task->operation == REGISTRY_OP_CHILDREN) {
		add_children(read->registry, task);
	}
	task->ret_childless = false;
	task->ret_stat.children += task->operation == REGISTRY_OP_STAT;
	complete(read);
}

/* ---- the mounted group ---- */

/* The children's names become labels. */
static void tell_members(struct registry_task *task, const struct registry_mount *mount)
{
	task->ret_children = calloc(mount->entry_count + 1, sizeof(*task->ret_children));
	for (size_t i = 0; task->ret_children && i < mount->entry_count; i++) {
		char *label = strdup(mount->entries[i].label);
		if (!label) {
			out_of_memory(task);
			return;
		}
		task->ret_children[task->ret_children_count++] = label;
	}
	if (!task->ret_children) {
		out_of_memory(task);
	}
	task->ret_stat.children = task->ret_children_count;
}

/* The mount knows what the inner call has listed. False without memory. */
static bool learn_names(struct registry_mount_read *read)
{
	struct registry_task *task = &read->inner.task;
	char **names = task->ret_children;
	size_t count = task->ret_children_count;
	task->ret_children = NULL;
	task->ret_children_count = 0;
	if (registry_mount_learn_take(read->mount, names, count)) {
		out_of_memory(&read->outer->task);
		return false;
	}
	return true;
}

static void on_group(struct registry_call *inner)
{
	struct registry_mount_read *read = inner->owner;
	struct registry_task *task = &read->outer->task;
	bool lists = task->operation == REGISTRY_OP_CHILDREN;
	bool exists = !inner->task.ret_err.code || is_absent(inner) ||
		inner->task.ret_err.code == BERTH_NO_RECORD ||
		inner->task.ret_err.code == BERTH_INVALID_RECORD;
	if (!exists) {
		registry_task_move_results(&read->outer->task, &read->inner.task);
	} else if (!lists) {
		registry_task_move_results(&read->outer->task, &read->inner.task);
		err_clear(&task->ret_err);
		make_empty_node(task);
	} else if (learn_names(read)) {
		task->ret_stat = inner->task.ret_stat;
		make_empty_node(task);
		tell_members(task, read->mount);
	}
	complete(read);
}

/* ---- a member ---- */

static void complete_absent(struct registry_mount_read *read)
{
	struct registry_task *task = &read->outer->task;
	err_set(&task->ret_err, BERTH_PATH_NOT_FOUND, "%s: no such path", task->path);
	complete(read);
}

static void complete_as_inner(struct registry_mount_read *read)
{
	registry_task_move_results(&read->outer->task, &read->inner.task);
	complete(read);
}

/* The record changes with the group's node, too. */
static void mix_in_group(struct registry_stat *stat, const struct registry_stat *group)
{
	uint64_t mixed = hash_bytes(HASH_INIT, &stat->version, sizeof(stat->version));
	mixed = hash_bytes(mixed, &group->version, sizeof(group->version));
	mixed = hash_bytes(mixed, &group->node_id, sizeof(group->node_id));
	stat->version = (int64_t)(mixed >> 1);
}

/* The member's data become its record's, or the error that says why they cannot. */
static void translate(struct registry_mount_read *read)
{
	struct registry_task *task = &read->outer->task;
	const struct dialect_member member = {
		.service = path_name(read->mount->as),
		.name = path_name(read->node),
		.ephemeral = task->ret_stat.ephemeral,
		.data = task->ret_data,
		.len = task->ret_len,
		.group_data = read->group_data,
		.group_len = read->group_len,
	};
	char *text = NULL;
	size_t len = 0;
	if (dialect_read(&text, &len, read->mount->type, &member, &task->ret_err)) {
		err_wrap(&task->ret_err, "%s", task->path);
	}
	free(task->ret_data);
	task->ret_data = text;
	task->ret_len = len;
	if (!task->ret_err.code) {
		task->ret_stat.size = len;
	}
}

/* A node that can be read as no record exists all the same, and it has no children in any case. */
static void keep_stat_alone(struct registry_task *task)
{
	if (task->ret_err.code == BERTH_NO_RECORD || task->ret_err.code == BERTH_INVALID_RECORD) {
		err_clear(&task->ret_err);
	}
	free(task->ret_data);
	task->ret_data = NULL;
	task->ret_len = 0;
}

static void on_node(struct registry_call *inner)
{
	struct registry_mount_read *read = inner->owner;
	struct registry_task *task = &read->outer->task;
	if (is_absent(inner)) {
		complete_absent(read);
		return;
	}
	registry_task_move_results(&read->outer->task, &read->inner.task);
	task->ret_stat.children = 0;
	task->ret_childless = true;
	if (!task->ret_err.code) {
		translate(read);
	}
	if (read->group_data) {
		mix_in_group(&task->ret_stat, &read->group_stat);
	}
	if (task->operation != REGISTRY_OP_GET) {
		keep_stat_alone(task);
	}
	complete(read);
}

static void read_node(struct registry_mount_read *read)
{
	submit(read, REGISTRY_OP_GET, read->node, on_node);
}

static void on_group_data(struct registry_call *inner)
{
	struct registry_mount_read *read = inner->owner;
	int code = inner->task.ret_err.code;
	if (code == BERTH_REGISTRY_UNAVAILABLE || code == BERTH_TIMEOUT) {
		complete_as_inner(read);
		return;
	}
	/* Members can be read without the group's data. */
	read->group_data = inner->task.ret_data;
	read->group_len = inner->task.ret_len;
	read->group_stat = inner->task.ret_stat;
	inner->task.ret_data = NULL;
	read_node(read);
}

static void on_refused(struct registry_call *inner)
{
	complete_as_inner(inner->owner);
}

/* The call ends with this error at the next dispatch. */
static void refuse(struct registry_mount_read *read, const struct err *err)
{
	registry_call_clear(&read->inner);
	read->inner.completed = on_refused;
	read->inner.owner = read;
	registry_call_refuse(read->registry, &read->inner, err);
}

static void begin_member(struct registry_mount_read *read, const char *name)
{
	struct err err = ERR_INIT;
	if (asprintf(&read->node, "%s/%s", read->mount->group, name) < 0) {
		read->node = NULL;
		err_set(&err, BERTH_FAILED, "%s: no memory", read->outer->task.path);
	} else if (!path_foreign_element_valid(name, strlen(name)) ||
		strlen(read->node) > LIMIT_PATH_BYTES) {
		err_set(&err, BERTH_INVALID_RECORD,
			"%s: the node %s cannot be read under this name", read->outer->task.path,
			quote_text(name).text);
	}
	if (err.code) {
		refuse(read, &err);
	} else if (dialect_reads_group(read->mount->type)) {
		submit(read, REGISTRY_OP_GET, read->mount->group, on_group_data);
	} else {
		read_node(read);
	}
}

static void on_names(struct registry_call *inner)
{
	struct registry_mount_read *read = inner->owner;
	const char *name = NULL;
	if (inner->task.ret_err.code && !is_absent(inner)) {
		complete_as_inner(read);
	} else if (!learn_names(read)) {
		complete(read);
	} else if ((name = registry_mount_listed(read->mount, read->label)) != NULL) {
		begin_member(read, name);
	} else {
		complete_absent(read);
	}
}

/* ---- taking over ---- */

static bool is_read(const struct registry_task *task)
{
	return task->operation == REGISTRY_OP_GET || task->operation == REGISTRY_OP_CHILDREN ||
		task->operation == REGISTRY_OP_STAT;
}

static bool any_below(const struct registry *registry, const char *path)
{
	for (size_t i = 0; i < registry->mount_count; i++) {
		if (is_above(path, registry->mounts[i])) {
			return true;
		}
	}
	return false;
}

static void refuse_write(
	struct registry *registry, struct registry_call *call, const struct registry_mount *mount)
{
	struct err err = ERR_INIT;
	err_set(&err, BERTH_NO_PATH_PERMISSIONS,
		"%s lies in the import of %s, whose nodes are those of other programs: it can be "
		"read only",
		call->task.path, mount->group + 1);
	registry_call_refuse(registry, call, &err);
}

static void refuse_absent(struct registry *registry, struct registry_call *call)
{
	struct err err = ERR_INIT;
	err_set(&err, BERTH_PATH_NOT_FOUND, "%s: no such path", call->task.path);
	registry_call_refuse(registry, call, &err);
}

static void start_member(struct registry_mount_read *read)
{
	char known[DIALECT_LABEL_SIZE];
	const char *name = registry_mount_name(read->mount, read->label, known);
	if (name) {
		begin_member(read, name);
	} else {
		submit(read, REGISTRY_OP_CHILDREN, read->mount->group, on_names);
	}
}

static void start(struct registry_mount_read *read)
{
	const struct registry_task *task = &read->outer->task;
	if (!read->mount) {
		submit(read, task->operation, task->path, on_above);
	} else if (!read->label) {
		submit(read, task->operation, read->mount->group, on_group);
	} else {
		start_member(read);
	}
}

static void take_over(struct registry *registry, struct registry_call *call,
	struct registry_mount *mount, const char *label)
{
	struct registry_mount_read *read = calloc(1, sizeof(*read));
	struct err err = ERR_INIT;
	if (!read) {
		err_set(&err, BERTH_FAILED, "%s: no memory", call->task.path);
		registry_call_refuse(registry, call, &err);
		return;
	}
	read->registry = registry;
	read->outer = call;
	read->label = label;
	read->mount = mount;
	if (mount) {
		mount->users++;
	}
	call->mount_read = read;
	start(read);
}

bool registry_mounts_submit(struct registry *registry, struct registry_call *call)
{
	const char *path = call->task.path;
	struct registry_mount *mount = registry_mount_at(registry, path);
	const char *rest = mount ? path + strlen(mount->as) : "";
	if (!mount && (!is_read(&call->task) || !any_below(registry, path))) {
		return false;
	}
	if (mount && !is_read(&call->task)) {
		refuse_write(registry, call, mount);
	} else if (mount && *rest && strchr(rest + 1, '/')) {
		refuse_absent(registry, call);
	} else {
		take_over(registry, call, mount, *rest ? rest + 1 : NULL);
	}
	return true;
}
