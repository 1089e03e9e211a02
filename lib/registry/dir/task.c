#include "lib/registry/dir/task.h"

#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/path.h"
#include "lib/base/quote.h"

/* A reader looks again when a node was swapped for another under its hands; see node.c. */
enum { LOOK_AGAIN = 64 };

static int not_found(struct registry_task *task)
{
	return err_set(&task->ret_err, BERTH_PATH_NOT_FOUND, "%s does not exist", task->path);
}

static int stat_node(
	const struct dir_context *context, struct registry_task *task, const struct dir_node *node)
{
	int result = dir_node_stat(node, task->path, &task->ret_stat, &task->ret_err);
	task->ret_stat.own = result == 0 && dir_session_owns(&context->session, node);
	return result;
}

static int read_once(struct dir_context *context, struct registry_task *task, struct dir_node *node)
{
	int result = dir_node_open(
		node, context->store.root_fd, task->path, strlen(task->path), &task->ret_err);
	if (result == 0 && !dir_kind_live(node->kind)) {
		return not_found(task);
	}
	if (result == 0) {
		result = stat_node(context, task, node);
	}
	if (result == 0 && task->operation == REGISTRY_OP_GET) {
		result = dir_node_read(node, task->path, &task->ret_data, &task->ret_len,
			&task->ret_stat, &task->ret_err);
	}
	return result;
}

/*
 * Opens a live node with its stat, and its data for GET. A node without a record may have been
 * taken apart just now.
 */
static int read_node(struct dir_context *context, struct registry_task *task, struct dir_node *node)
{
	int result = read_once(context, task, node);
	for (int i = 0; i < LOOK_AGAIN && result == 0 && task->ret_stat.version == 0; i++) {
		if (dir_node_current(node, context->store.root_fd, task->path)) {
			break;
		}
		free(task->ret_data);
		task->ret_data = NULL;
		dir_node_close(node);
		result = read_once(context, task, node);
	}
	return result;
}

static void do_get(struct dir_context *context, struct registry_task *task)
{
	struct dir_node node = { .fd = -1 };
	int result = 0;
	if (task->watch) {
		result = dir_watches_arm(
			context->watches, task->path, REGISTRY_WATCH_DATA, &task->ret_err);
	}
	if (result == 0) {
		read_node(context, task, &node);
	}
	dir_node_close(&node);
}

static void do_stat(struct dir_context *context, struct registry_task *task)
{
	struct dir_children children = { 0 };
	struct dir_node node = { .fd = -1 };
	if (read_node(context, task, &node) == 0) {
		(void)!dir_node_children(&node, task->path, &children, &task->ret_err);
	}
	task->ret_stat.children = children.live + children.foreign_count;
	dir_children_free(&children);
	dir_node_close(&node);
}

/*
 * Puts a mark on each ephemeral child, and looks again whether it lives: it may have died before
 * the mark was there.
 */
static int watch_children(struct dir_context *context, struct registry_task *task,
	const struct dir_node *node, struct dir_children *children)
{
	int result = 0;
	for (size_t i = 0; result == 0 && i < children->count; i++) {
		struct dir_child *child = &children->entries[i];
		struct dir_node again;
		if (child->kind != DIR_EPHEMERAL) {
			continue;
		}
		result = dir_watches_arm_child(
			context->watches, task->path, child->name, &task->ret_err);
		if (result == 0) {
			result = dir_node_open_child(
				&again, node->fd, child->name, task->path, &task->ret_err);
			child->kind = result == 0 ? again.kind : child->kind;
			dir_node_close(&again);
		}
	}
	dir_watches_children_known(context->watches, task->path);
	return result;
}

static void hand_out_children(struct registry_task *task, struct dir_children *children)
{
	task->ret_children = calloc(children->live + 1, sizeof(char *));
	if (!task->ret_children) {
		err_set(&task->ret_err, BERTH_FAILED, "no memory for the children of %s",
			task->path);
		return;
	}
	for (size_t i = 0; i < children->count; i++) {
		struct dir_child *child = &children->entries[i];
		if (dir_kind_live(child->kind)) {
			task->ret_children[task->ret_children_count++] = child->name;
			child->name = NULL;
		}
	}
	task->ret_foreign = children->foreign;
	task->ret_foreign_count = children->foreign_count;
	children->foreign = NULL;
	children->foreign_count = 0;
	task->ret_stat.children = task->ret_children_count + task->ret_foreign_count;
}

static void do_children(struct dir_context *context, struct registry_task *task)
{
	struct dir_children children = { 0 };
	struct dir_node node = { .fd = -1 };
	int result = 0;
	if (task->watch) {
		result = dir_watches_arm(
			context->watches, task->path, REGISTRY_WATCH_CHILDREN, &task->ret_err);
	}
	if (result == 0) {
		result = read_node(context, task, &node);
	}
	if (result == 0) {
		result = dir_node_children(&node, task->path, &children, &task->ret_err);
	}
	if (result == 0 && task->watch) {
		result = watch_children(context, task, &node, &children);
	}
	if (result == 0) {
		hand_out_children(task, &children);
	}
	dir_children_free(&children);
	dir_node_close(&node);
}

/* The parent of a node that is to be created or removed. */
static int open_parent(
	const struct dir_context *context, struct registry_task *task, struct dir_node *parent)
{
	int result = dir_node_open(parent, context->store.root_fd, task->path,
		path_parent_len(task->path), &task->ret_err);
	if (result == 0 && !dir_kind_live(parent->kind)) {
		return err_set(&task->ret_err, BERTH_PATH_NOT_FOUND,
			"the parent of %s does not exist", task->path);
	}
	return result;
}

static int64_t version_of(const struct dir_node *node)
{
	struct registry_stat stat = { 0 };
	struct err ignored = ERR_INIT;
	return node->kind != DIR_ABSENT && dir_node_stat(node, "", &stat, &ignored) == 0
		? stat.version
		: 0;
}

static int check_expected(
	const struct dir_context *context, struct registry_task *task, const struct dir_node *node)
{
	if (!dir_kind_live(node->kind)) {
		return not_found(task);
	}
	if (stat_node(context, task, node) != 0) {
		return task->ret_err.code;
	}
	if (task->has_expected &&
		(task->ret_stat.node_id != task->expected.node_id ||
			task->ret_stat.version != task->expected.version)) {
		return err_set(&task->ret_err, BERTH_FILE_ALREADY_EXISTS,
			"another client has changed %s", task->path);
	}
	return 0;
}

/* Reads the stat of the node at the path after a write. */
static int stat_written(struct dir_context *context, struct registry_task *task)
{
	struct dir_node node;
	int result = dir_node_open(
		&node, context->store.root_fd, task->path, strlen(task->path), &task->ret_err);
	if (result == 0) {
		result = node.kind == DIR_ABSENT ? not_found(task)
						 : stat_node(context, task, &node);
	}
	dir_node_close(&node);
	return result;
}

/*
 * /users and /services are open to all users when the root is so and is sticky (a user may remove
 * only the own entries there); the nodes below them belong to their makers. 0 for all other nodes.
 */
static mode_t shared_mode(const struct dir_context *context, const struct registry_task *task)
{
	static const mode_t shared = S_ISVTX | S_IWOTH;
	struct stat root;
	bool is_top = path_depth(task->path) == 1 && task->len == 0 && !task->ephemeral;
	return is_top && fstat(context->store.root_fd, &root) == 0 &&
			(root.st_mode & shared) == shared
		? root.st_mode & 07777
		: 0;
}

/* The node will belong to task->home_of, who can write only in a root that everybody may write. */
static int give_away(
	const struct dir_context *context, struct registry_task *task, struct dir_write *write)
{
	struct stat root;
	if (fstat(context->store.root_fd, &root) != 0 || !(root.st_mode & S_IWOTH)) {
		return err_set(&task->ret_err, BERTH_FAILED,
			"%s would be of no use to its owner %s: the registry's directory is not "
			"one that everybody may write (mode 1777)",
			task->path, task->home_of);
	}
	const struct passwd *user = getpwnam(task->home_of);
	if (!user) {
		return err_set(&task->ret_err, BERTH_FAILED,
			"there is no user %s on this machine; the owner of a node on dir: is one",
			quote_text(task->home_of).text);
	}
	write->given_away = true;
	write->user = user->pw_uid;
	write->group = user->pw_gid;
	return 0;
}

static int place(struct dir_context *context, struct registry_task *task,
	const struct dir_node *parent, struct dir_node *old)
{
	struct dir_write write = { .path = task->path,
		.data = task->data,
		.len = task->len,
		.ephemeral = task->ephemeral,
		.container = task->container,
		.previous_version = version_of(old),
		.mode = shared_mode(context, task) };
	int owner_fd = -1;
	if (task->home_of && give_away(context, task, &write) != 0) {
		return task->ret_err.code;
	}
	int result = dir_store_place(&context->store, parent, &write, old->kind != DIR_ABSENT,
		&owner_fd, &task->ret_err);
	if (result != 0) {
		return result;
	}
	dir_session_drop(&context->session, old);
	if (task->ephemeral &&
		dir_session_add(&context->session, task->path, owner_fd, &task->ret_err) != 0) {
		return task->ret_err.code;
	}
	return stat_written(context, task);
}

/*
 * Dead ephemeral nodes are invisible but take room. A process that adds an ephemeral node removes
 * its dead siblings once: containers come and go, and their names do not come back.
 */
static void sweep_siblings(
	struct dir_context *context, struct registry_task *task, const struct dir_node *parent)
{
	struct dir_children children = { 0 };
	struct err ignored = ERR_INIT;
	size_t len = path_parent_len(task->path);
	if (context->swept_path && strlen(context->swept_path) == len &&
		strncmp(context->swept_path, task->path, len) == 0) {
		return;
	}
	free(context->swept_path);
	context->swept_path = strndup(task->path, len);
	if (dir_node_children(parent, task->path, &children, &ignored) != 0) {
		return;
	}
	for (size_t i = 0; i < children.count; i++) {
		const char *name = children.entries[i].name;
		err_clear(&ignored);
		if (children.entries[i].kind == DIR_DEAD) {
			(void)!dir_store_remove(
				&context->store, parent, name, name, false, &ignored);
		}
	}
	dir_children_free(&children);
}

static int create_below(
	struct dir_context *context, struct registry_task *task, const struct dir_node *parent)
{
	struct dir_node old;
	if (parent->kind == DIR_EPHEMERAL) {
		return err_set(&task->ret_err, BERTH_NO_CHILDREN_FOR_EPHEMERALS,
			"the parent of %s is ephemeral and can have no children", task->path);
	}
	int result = dir_node_open_child(
		&old, parent->fd, path_name(task->path), task->path, &task->ret_err);
	if (result == 0 && dir_kind_live(old.kind)) {
		result = err_set(
			&task->ret_err, BERTH_FILE_ALREADY_EXISTS, "%s exists already", task->path);
	}
	if (result == 0) {
		result = place(context, task, parent, &old);
	}
	if (result == 0 && task->ephemeral) {
		sweep_siblings(context, task, parent);
	}
	dir_node_close(&old);
	return result;
}

/* Gives the task the path of the next sequential node, until it is made. */
static void create_numbered(
	struct dir_context *context, struct registry_task *task, const struct dir_node *parent)
{
	const char *prefix = task->path;
	unsigned number;
	char *path;
	if (dir_store_next_number(parent, prefix, &number, &task->ret_err) != 0) {
		return;
	}
	if (asprintf(&path, "%s%010u", prefix, number) < 0) {
		err_set(&task->ret_err, BERTH_FAILED, "no memory for a name of %s", prefix);
		return;
	}
	task->path = path;
	int result = create_below(context, task, parent);
	task->path = prefix;
	if (result != 0) {
		free(path);
		return;
	}
	task->ret_data = path;
	task->ret_len = strlen(path);
}

static void do_create(struct dir_context *context, struct registry_task *task)
{
	struct dir_node parent;
	if (path_parent_len(task->path) == 0) {
		err_set(&task->ret_err, BERTH_FILE_ALREADY_EXISTS, "/ exists already");
		return;
	}
	if (open_parent(context, task, &parent) == 0) {
		if (task->sequential) {
			create_numbered(context, task, &parent);
		} else {
			create_below(context, task, &parent);
		}
	}
	dir_node_close(&parent);
}

static void do_set(struct dir_context *context, struct registry_task *task)
{
	struct dir_node node;
	int result = dir_node_open(
		&node, context->store.root_fd, task->path, strlen(task->path), &task->ret_err);
	if (result == 0) {
		result = check_expected(context, task, &node);
	}
	if (result == 0) {
		const struct dir_write write = { .path = task->path,
			.data = task->data,
			.len = task->len,
			.ephemeral = node.kind == DIR_EPHEMERAL,
			.previous_version = task->ret_stat.version };
		result = dir_store_set(&context->store, &node, &write, &task->ret_err);
	}
	if (result == 0) {
		stat_node(context, task, &node);
	}
	dir_node_close(&node);
}

/* A node goes only without live children, and only if nothing goes with it that is not Berth's. */
static int check_childless(struct registry_task *task, const struct dir_node *node)
{
	struct dir_children children = { 0 };
	int result = dir_node_children(node, task->path, &children, &task->ret_err);
	if (result == 0 && children.live > 0) {
		result = err_set(&task->ret_err,
			task->ephemeral ? BERTH_NO_CHILDREN_FOR_EPHEMERALS
					: BERTH_PATH_IS_NOT_EMPTY_DIRECTORY,
			"%s has %zu %s", task->path, children.live,
			children.live == 1 ? "child" : "children");
	} else if (result == 0 && children.foreign_count > 0) {
		task->ret_childless = true;
		result = err_set(&task->ret_err, BERTH_PATH_IS_NOT_EMPTY_DIRECTORY,
			"the directory of %s holds %s, which is not Berth's", task->path,
			quote_text(children.foreign[0]).text);
	}
	dir_children_free(&children);
	return result;
}

/* DELETE and REPLACE: the node must be there, the expected one, and without children. */
static int open_doomed(struct dir_context *context, struct registry_task *task,
	struct dir_node *parent, struct dir_node *node)
{
	if (path_parent_len(task->path) == 0) {
		return err_set(&task->ret_err, BERTH_NO_PATH_PERMISSIONS,
			"the root of a registry cannot be removed");
	}
	int result = open_parent(context, task, parent);
	if (result == 0) {
		result = dir_node_open_child(
			node, parent->fd, path_name(task->path), task->path, &task->ret_err);
	}
	if (result == 0) {
		result = check_expected(context, task, node);
	}
	return result == 0 && !task->all ? check_childless(task, node) : result;
}

static bool is_spent_container(const struct dir_node *node)
{
	struct dir_children children = { 0 };
	struct registry_stat stat;
	struct err ignored = ERR_INIT;
	bool spent = node->kind == DIR_PERSISTENT &&
		faccessat(node->fd, DIR_CONTAINER, F_OK, 0) == 0 &&
		dir_node_stat(node, "", &stat, &ignored) == 0 && stat.version == 0 &&
		dir_node_children(node, "", &children, &ignored) == 0 && children.live == 0 &&
		children.foreign_count == 0;
	dir_children_free(&children);
	return spent;
}

/* The container nodes above a node that has gone, as far as it was their last child. */
static void reap_containers(struct dir_context *context, const char *path)
{
	struct err ignored = ERR_INIT;
	char above[LIMIT_PATH_BYTES + 1];
	bool reaped = true;
	snprintf(above, sizeof(above), "%s", path);
	for (size_t len; reaped && (len = path_parent_len(above)) > 1;) {
		struct dir_node node = { .fd = -1 }, parent = { .fd = -1 };
		above[len] = '\0';
		reaped = dir_node_open(&node, context->store.root_fd, above, len, &ignored) == 0 &&
			is_spent_container(&node) &&
			dir_node_open(&parent, context->store.root_fd, above,
				path_parent_len(above), &ignored) == 0 &&
			dir_store_remove(&context->store, &parent, path_name(above), above, false,
				&ignored) == 0;
		dir_node_close(&node);
		dir_node_close(&parent);
	}
}

static void do_delete(struct dir_context *context, struct registry_task *task)
{
	struct dir_node parent = { .fd = -1 }, node = { .fd = -1 };
	int result = open_doomed(context, task, &parent, &node);
	if (result == 0) {
		result = dir_store_remove(&context->store, &parent, path_name(task->path),
			task->path, task->all, &task->ret_err);
	}
	if (result == 0) {
		dir_session_drop(&context->session, &node);
		reap_containers(context, task->path);
	}
	dir_node_close(&node);
	dir_node_close(&parent);
}

static void do_replace(struct dir_context *context, struct registry_task *task)
{
	struct dir_node parent = { .fd = -1 }, node = { .fd = -1 };
	if (open_doomed(context, task, &parent, &node) == 0) {
		place(context, task, &parent, &node);
	}
	dir_node_close(&node);
	dir_node_close(&parent);
}

static const struct {
	void (*run)(struct dir_context *context, struct registry_task *task);
	bool writes;
} operations[] = {
	[REGISTRY_OP_GET] = { do_get, false },
	[REGISTRY_OP_CHILDREN] = { do_children, false },
	[REGISTRY_OP_STAT] = { do_stat, false },
	[REGISTRY_OP_CREATE] = { do_create, true },
	[REGISTRY_OP_SET] = { do_set, true },
	[REGISTRY_OP_DELETE] = { do_delete, true },
	[REGISTRY_OP_REPLACE] = { do_replace, true },
};

bool dir_task_end_own(struct dir_context *context, struct registry_task *task)
{
	struct dir_node node = { .fd = -1 };
	struct err ignored = ERR_INIT;
	struct registry_stat stat = { 0 };
	bool ends = task->operation == REGISTRY_OP_DELETE && context->session.count > 0 &&
		dir_node_open(&node, context->store.root_fd, task->path, strlen(task->path),
			&ignored) == 0 &&
		dir_session_owns(&context->session, &node) &&
		dir_node_stat(&node, task->path, &stat, &ignored) == 0 &&
		(!task->has_expected ||
			(stat.node_id == task->expected.node_id &&
				stat.version == task->expected.version));
	if (ends) {
		dir_session_drop(&context->session, &node);
	}
	dir_node_close(&node);
	return ends;
}

void dir_task_clear_dead(struct dir_context *context, const char *path)
{
	struct err ignored = ERR_INIT;
	struct dir_node parent, node = { .fd = -1 };
	if (dir_node_open(&parent, context->store.root_fd, path, path_parent_len(path), &ignored) ==
			0 &&
		dir_node_open_child(&node, parent.fd, path_name(path), path, &ignored) == 0 &&
		node.kind == DIR_DEAD) {
		(void)!dir_store_remove(
			&context->store, &parent, path_name(path), path, false, &ignored);
		reap_containers(context, path);
	}
	dir_node_close(&node);
	dir_node_close(&parent);
}

bool dir_task_writes(const struct registry_task *task)
{
	return operations[task->operation].writes;
}

/* 0, or what keeps an element of a foreign path from being a directory's name. */
static int check_names(const struct registry_task *task, struct err *err)
{
	for (const char *element = task->path + 1; *element;) {
		size_t len = (size_t)(strchrnul(element, '/') - element);
		if (len > DIR_NAME_BYTES || element[0] == '_' || element[0] == '.') {
			return err_set(err, BERTH_INVALID_PATHNAME,
				"%s: in a directory, no element of a path begins with _ or a dot "
				"or has more than %d bytes",
				quote_text(task->path).text, DIR_NAME_BYTES);
		}
		element += element[len] == '/' ? len + 1 : len;
	}
	return 0;
}

bool dir_task_lasts(const struct dir_context *context, const struct registry_task *task)
{
	struct err ignored = ERR_INIT;
	struct dir_node node = { .fd = -1 };
	if (!dir_task_writes(task) || check_names(task, &ignored)) {
		return false;
	}
	if (task->operation == REGISTRY_OP_CREATE || task->operation == REGISTRY_OP_REPLACE) {
		return !task->ephemeral;
	}
	bool lasts = dir_node_open(&node, context->store.root_fd, task->path, strlen(task->path),
			     &ignored) == 0 &&
		node.kind == DIR_PERSISTENT;
	dir_node_close(&node);
	return lasts;
}

void dir_task_run(struct dir_context *context, struct registry_task *task)
{
	if (check_names(task, &task->ret_err)) {
		return;
	}
	operations[task->operation].run(context, task);
}
