/*
 * Walking a tree: recursive delete, records, find and purge.
 *
 * Every node under way goes through these steps, at most one task each, REGISTRY_MAX_IN_FLIGHT in
 * all:
 *
 *     READ (not for delete) --> LIST --> its children, in the same way --> REMOVE --> done
 *              |                  ^---------(new children meanwhile)---------' ^
 *              '---(known to have no children)-------------------------------'
 *
 * Only delete and purge remove. A delete that spares foreign names (REGISTRY_DELETE_TREE) lists the
 * whole tree first, and then walks over it again to remove it.
 *
 * Children are started from the directory that was opened last, so that only the lists of children
 * on a few branches are in memory, never a whole level of the tree.
 */
#include "lib/registry/internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/limits.h"
#include "lib/base/text.h"
#include "lib/record/record.h"
#include "lib/registry/search.h"

enum { PROGRESS_EVERY_NODES = 64, MOST_NAMED = 8, NAMED_BYTES = 400 };

enum purpose { PURPOSE_DELETE, PURPOSE_RECORDS, PURPOSE_FIND, PURPOSE_PURGE };
enum step { STEP_READ, STEP_LIST, STEP_REMOVE };

struct walk {
	struct registry_request base;
	enum purpose purpose;
	enum registry_purge_policy policy;
	bool dry_run;                   /* purge: delete nothing */
	enum registry_delete_mode mode; /* delete */
	bool surveying;            /* delete: looks for foreign names, and removes nothing yet */
	size_t foreign_count;      /* how many foreign names it found */
	char foreign[NAMED_BYTES]; /* the first of them */
	struct registry_criteria criteria;
	bool has_expected; /* delete: of the first node */
	struct registry_stat expected;
	registry_progress *progress;
	size_t visited;
	size_t reported; /* nodes visited and deleted at the last progress */
	size_t deleted;
	size_t in_flight;
	struct registry_matches matches;
	struct list nodes; /* all nodes under way */
	struct list open;  /* those with children that were not started yet, the newest first */
	struct err err;    /* ends the walk */
	bool done;
};

struct node {
	struct walk *walk;
	struct node *parent; /* NULL: the first */
	struct list link;
	struct list open_link;
	const char *path; /* the request's, or in the parent's `children` */
	enum step step;
	struct registry_call call;
	char **children;
	size_t children_count;
	size_t next_child;
	size_t children_under_way;
	bool unreachable;          /* it has children whose names are not path elements */
	struct registry_stat stat; /* as read; only this version is removed */
	bool remove;               /* when the children are done */
	bool remove_below;         /* the children too */
	int rounds;
};

static void on_step(struct registry_call *call);

static void submit(struct node *node, enum step step, enum registry_operation operation)
{
	struct registry_task *task = &node->call.task;
	registry_call_clear(&node->call);
	node->step = step;
	task->operation = operation;
	task->path = node->path;
	if (step == STEP_REMOVE) {
		const struct walk *walk = node->walk;
		task->all = walk->purpose == PURPOSE_DELETE && walk->mode == REGISTRY_DELETE_ALL;
		task->has_expected = walk->purpose == PURPOSE_PURGE ||
			(walk->has_expected && !node->parent);
		task->expected = node->stat;
	}
	node->walk->in_flight++;
	registry_call_submit(node->walk->base.registry, &node->call,
		registry_call_deadline_ms(node->walk->base.registry));
}

static void list(struct node *node)
{
	submit(node, STEP_LIST, REGISTRY_OP_CHILDREN);
}

/* Starts to delete a node that is marked for it; false when there is nothing to wait for. */
static bool start_removal(struct node *node)
{
	struct walk *walk = node->walk;
	if (!node->remove) {
		return false;
	}
	if (!walk->dry_run) {
		submit(node, STEP_REMOVE, REGISTRY_OP_DELETE);
		return true;
	}
	/* A foreign name below the node prevents its deletion. */
	if (!node->unreachable) {
		registry_matches_add_purged(&walk->matches, node->path, &walk->err);
	}
	return false;
}

/* --- Nodes --- */

static struct node *node_start(struct walk *walk, struct node *parent, const char *path)
{
	struct node *node = calloc(1, sizeof(*node));
	if (!node) {
		err_set(&walk->err, BERTH_FAILED, "no memory to visit %s", path);
		return NULL;
	}
	node->walk = walk;
	node->parent = parent;
	node->path = path;
	node->call.owner = node;
	node->call.completed = on_step;
	node->remove = (walk->purpose == PURPOSE_DELETE && !walk->surveying) ||
		(parent && parent->remove_below);
	node->remove_below = node->remove;
	list_init(&node->open_link);
	list_append(&walk->nodes, &node->link);
	bool read = walk->purpose != PURPOSE_DELETE &&
		(walk->purpose != PURPOSE_RECORDS || parent != NULL);
	if (read) {
		submit(node, STEP_READ, REGISTRY_OP_GET);
	} else {
		list(node);
	}
	return node;
}

static void node_free(struct node *node)
{
	registry_call_finish(&node->call);
	list_remove(&node->link);
	list_remove(&node->open_link);
	free(node->children);
	free(node);
}

static bool children_done(const struct node *node)
{
	return node->next_child == node->children_count && node->children_under_way == 0;
}

/* The node needs nothing more: frees it, and goes on with those above whose last child it was. */
static void node_done(struct node *node)
{
	struct walk *walk = node->walk;
	struct node *parent = node->parent;
	node_free(node);
	if (!parent) {
		walk->done = true;
		return;
	}
	parent->children_under_way--;
	while (parent && children_done(parent)) {
		if (start_removal(parent)) {
			return;
		}
		struct node *above = parent->parent;
		node_free(parent);
		if (!above) {
			walk->done = true;
			return;
		}
		above->children_under_way--;
		parent = above;
	}
}

/* A reader ignores a node below a node that is gone or that this client may not see. */
static bool is_ignored(const struct node *node, int code)
{
	if (code == BERTH_PATH_NOT_FOUND) {
		return node->parent || node->walk->purpose == PURPOSE_DELETE;
	}
	return code == BERTH_NO_PATH_PERMISSIONS && node->parent &&
		(node->walk->purpose == PURPOSE_FIND || node->walk->purpose == PURPOSE_RECORDS);
}

/* The node holds no record, but nodes below it may. */
static bool is_no_record(const struct node *node, int code)
{
	return node->step == STEP_READ && (code == BERTH_NO_RECORD || code == BERTH_INVALID_RECORD);
}

/* --- Steps --- */

/* A record that matches is kept for the result, and marked when it is to be purged. */
static void match(struct node *node, struct registry_task *task)
{
	struct walk *walk = node->walk;
	struct record *record = NULL;
	struct err err = ERR_INIT;
	if (task->ret_err.code) {
		return;
	}
	if (record_decode(&record, task->ret_data, task->ret_len, &err)) {
		if (err.code == BERTH_FAILED) {
			walk->err = err; /* no memory: it may match */
		}
		return;
	}
	if (registry_criteria_match(&walk->criteria, record)) {
		/* The root is never removed. */
		node->remove = node->remove ||
			(walk->purpose == PURPOSE_PURGE && strcmp(node->path, "/") != 0);
		registry_matches_add_found(
			&walk->matches, node->path, task, walk->criteria.max_bytes, &walk->err);
	}
	record_free(record);
}

/* Known without listing it, which is half of the work in a tree of many leaves. */
static bool is_childless(const struct node *node)
{
	return node->stat.ephemeral || node->call.task.ret_childless;
}

static void on_read(struct node *node)
{
	struct walk *walk = node->walk;
	node->stat = node->call.task.ret_stat;
	walk->visited++;
	match(node, &node->call.task);
	if (walk->err.code) {
		return;
	}
	if (walk->purpose != PURPOSE_RECORDS && !is_childless(node)) {
		list(node);
	} else if (!start_removal(node)) {
		node_done(node);
	}
}

/* Applies the purge's policy to a match that has children. */
static void apply_policy(struct node *node)
{
	struct walk *walk = node->walk;
	switch (walk->policy) {
	case REGISTRY_PURGE_ALL:
		node->remove_below = true;
		break;
	case REGISTRY_PURGE_SKIP_ON_CHILDREN:
		node->remove = false;
		break;
	case REGISTRY_PURGE_FAIL_ON_CHILDREN:
		err_set(&walk->err, BERTH_PATH_IS_NOT_EMPTY_DIRECTORY,
			"%s matches, but has children", node->path);
		break;
	}
}

/* The first node of a delete may be meant in one version only. */
static bool is_expected(const struct node *node)
{
	const struct walk *walk = node->walk;
	return !walk->has_expected || node->parent ||
		(node->stat.node_id == walk->expected.node_id &&
			node->stat.version == walk->expected.version);
}

static void note_foreign(struct walk *walk, const struct registry_children *children)
{
	for (size_t i = 0; i < children->foreign_count; i++) {
		if (walk->foreign_count++ < MOST_NAMED) {
			size_t used = strlen(walk->foreign);
			text_printf(walk->foreign + used, sizeof(walk->foreign) - used, "%s%s",
				used ? ", " : "", children->foreign[i]);
		}
	}
}

static void log_too_long(const struct node *node, size_t count)
{
	const struct registry *registry = node->walk->base.registry;
	if (count > 0 && registry->on_log) {
		char message[LIMIT_PATH_BYTES + 128];
		snprintf(message, sizeof(message),
			"%s: %zu %s passed over: a path of more than %d bytes", node->path, count,
			count == 1 ? "child is" : "children are", LIMIT_PATH_BYTES);
		registry->on_log(registry->context, REGISTRY_LOG_WARN, message);
	}
}

/* A foreign name with too long a path cannot be sent to a server. */
static void check_lengths(struct walk *walk, const struct registry_children *children)
{
	for (size_t i = 0; i < children->foreign_count; i++) {
		if (strlen(children->foreign[i]) > LIMIT_PATH_BYTES) {
			err_set(&walk->err, BERTH_LIMIT_EXCEEDED,
				"%.64s… cannot be deleted: its path has more than %d bytes",
				children->foreign[i], LIMIT_PATH_BYTES);
		}
	}
}

/* Stores the listed names as the node's children. 0, or the code of walk->err. */
static int take_children(struct node *node)
{
	struct walk *walk = node->walk;
	const struct registry_task *task = &node->call.task;
	/* A directory's foreign entries go with the node; a server's are nodes of their own. */
	bool visit_foreign = walk->purpose == PURPOSE_DELETE && walk->mode == REGISTRY_DELETE_ALL &&
		!walk->base.registry->ops->deletes_all;
	struct registry_children children;
	if (registry_children_init(&children, node->path, task, visit_foreign)) {
		return err_set(&walk->err, BERTH_FAILED, "no memory to list %s", node->path);
	}
	free(node->children);
	node->children = children.paths;
	node->children_count = children.count;
	node->next_child = 0;
	node->unreachable = children.foreign_count > 0 && !visit_foreign;
	if (visit_foreign) {
		node->children_count += children.foreign_count;
		check_lengths(walk, &children);
	} else if (walk->surveying) {
		note_foreign(walk, &children);
	} else if (walk->purpose != PURPOSE_DELETE) {
		log_too_long(node, children.too_long);
	}
	return walk->err.code;
}

static void on_children(struct node *node)
{
	struct walk *walk = node->walk;
	size_t count = node->call.task.ret_children_count + node->call.task.ret_foreign_count;
	if (walk->purpose == PURPOSE_DELETE) {
		node->stat = node->call.task.ret_stat;
		walk->visited++;
	}
	if (!is_expected(node)) {
		err_set(&walk->err, BERTH_FILE_ALREADY_EXISTS,
			"%s: the node or its version is another one", node->path);
		return;
	}
	if (take_children(node)) {
		return;
	}
	if (walk->purpose == PURPOSE_PURGE && node->remove && count > 0) {
		apply_policy(node);
	}
	if (node->children_count > 0) {
		list_prepend(&walk->open, &node->open_link);
	} else if (!start_removal(node)) {
		node_done(node);
	}
}

/* Another client made children while ours were deleted. */
static void on_not_empty(struct node *node)
{
	struct walk *walk = node->walk;
	if (walk->purpose == PURPOSE_PURGE && walk->policy != REGISTRY_PURGE_FAIL_ON_CHILDREN) {
		node_done(node);
	} else if (walk->purpose == PURPOSE_PURGE || node->unreachable ||
		node->call.task.ret_childless) {
		walk->err = node->call.task.ret_err;
	} else if (++node->rounds < REGISTRY_MAX_ROUNDS) {
		list(node);
	} else {
		err_set(&walk->err, BERTH_TIMEOUT,
			"%s: gave up: others keep making nodes below it (contention)", node->path);
	}
}

static void on_removed(struct node *node)
{
	struct walk *walk = node->walk;
	int code = node->call.task.ret_err.code;
	if (code == BERTH_PATH_IS_NOT_EMPTY_DIRECTORY) {
		on_not_empty(node);
		return;
	}
	/* A purge leaves a record that was registered again in the meantime. */
	bool survives = code == BERTH_FILE_ALREADY_EXISTS && walk->purpose == PURPOSE_PURGE;
	if (code && code != BERTH_PATH_NOT_FOUND && !survives) {
		walk->err = node->call.task.ret_err;
		return;
	}
	walk->deleted += code == 0;
	if (code == 0 && walk->purpose == PURPOSE_PURGE) {
		registry_matches_add_purged(&walk->matches, node->path, &walk->err);
	}
	node_done(node);
}

static void take_step(struct node *node)
{
	int code = node->call.task.ret_err.code;
	if (node->step == STEP_REMOVE) {
		on_removed(node);
	} else if (code && is_ignored(node, code)) {
		node_done(node);
	} else if (code && !is_no_record(node, code)) {
		node->walk->err = node->call.task.ret_err;
	} else if (node->step == STEP_READ) {
		on_read(node);
	} else {
		on_children(node);
	}
}

/* --- The walk --- */

static void start_children(struct walk *walk)
{
	while (!list_empty(&walk->open) && walk->in_flight < REGISTRY_MAX_IN_FLIGHT) {
		struct node *node = LIST_ITEM(walk->open.next, struct node, open_link);
		if (!node_start(walk, node, node->children[node->next_child])) {
			return;
		}
		node->children_under_way++;
		if (++node->next_child == node->children_count) {
			list_remove(&node->open_link);
		}
	}
}

static void complete(struct walk *walk)
{
	registry_matches_sort(&walk->matches);
	struct registry_result result = {
		.err = walk->err,
		.found = walk->matches.found,
		.found_count = walk->matches.found_count,
		.purged = walk->matches.purged,
		.purged_count = walk->matches.purged_count,
		.count = walk->deleted,
	};
	registry_request_complete(&walk->base, &result);
}

/* Nothing was removed so far: removes everything, or refuses to. */
static void end_survey(struct walk *walk)
{
	walk->surveying = false;
	walk->done = false;
	if (walk->foreign_count > 0) {
		char more[32] = "";
		if (walk->foreign_count > MOST_NAMED) {
			snprintf(more, sizeof(more), " and %zu more",
				walk->foreign_count - MOST_NAMED);
		}
		err_set(&walk->err, BERTH_PATH_IS_NOT_EMPTY_DIRECTORY,
			"%s: nothing was deleted, because no path can name %s%s", walk->base.path,
			walk->foreign, more);
		return;
	}
	walk->visited = 0;
	walk->reported = 0;
	node_start(walk, NULL, walk->base.path);
}

static void on_step(struct registry_call *call)
{
	struct node *node = call->owner;
	struct walk *walk = node->walk;
	walk->in_flight--;
	take_step(node);
	if (walk->done && walk->surveying && !walk->err.code) {
		end_survey(walk);
	}
	if (!walk->err.code) {
		start_children(walk);
	}
	if (walk->err.code || walk->done) {
		complete(walk);
	} else if (walk->progress &&
		walk->visited + walk->deleted - walk->reported >= PROGRESS_EVERY_NODES) {
		walk->reported = walk->visited + walk->deleted;
		walk->progress(walk->base.context, walk->visited, walk->matches.found_count);
	}
}

static void on_refused(struct registry_call *call)
{
	registry_request_fail(call->owner, &call->task.ret_err);
}

static void release(struct registry_request *request)
{
	struct walk *walk = (struct walk *)request;
	while (!list_empty(&walk->nodes)) {
		node_free(LIST_ITEM(walk->nodes.next, struct node, link));
	}
	registry_criteria_finish(&walk->criteria);
	registry_matches_finish(&walk->matches);
}

static struct walk *walk_create(struct registry *registry, enum purpose purpose, const char *path,
	registry_progress *progress, registry_done *done, void *context)
{
	struct walk *walk = registry_request_create(registry, sizeof(*walk), path, done, context);
	if (!walk) {
		return NULL;
	}
	list_init(&walk->nodes);
	list_init(&walk->open);
	walk->base.release = release;
	walk->base.call.completed = on_refused;
	walk->purpose = purpose;
	walk->progress = progress;
	return walk;
}

static struct registry_request *walk_start(struct walk *walk)
{
	if (registry_request_refuse_path(&walk->base)) {
		return &walk->base;
	}
	if (!node_start(walk, NULL, walk->base.path)) {
		registry_request_free(&walk->base);
		return NULL;
	}
	return &walk->base;
}

struct registry_request *registry_delete_tree(struct registry *registry, const char *path,
	enum registry_delete_mode mode, const struct registry_stat *expected,
	registry_progress *progress, registry_done *done, void *context)
{
	struct walk *walk = walk_create(registry, PURPOSE_DELETE, path, progress, done, context);
	if (!walk) {
		return NULL;
	}
	walk->mode = mode;
	walk->surveying = mode == REGISTRY_DELETE_TREE;
	if (expected) {
		walk->has_expected = true;
		walk->expected = *expected;
	}
	if (registry_request_refuse_root(&walk->base)) {
		return &walk->base;
	}
	return walk_start(walk);
}

struct registry_request *registry_records(struct registry *registry, const char *path,
	registry_progress *progress, registry_done *done, void *context)
{
	struct walk *walk = walk_create(registry, PURPOSE_RECORDS, path, progress, done, context);
	return walk ? walk_start(walk) : NULL;
}

static struct walk *walk_create_with(struct registry *registry, enum purpose purpose,
	const struct registry_criteria *criteria, registry_progress *progress, registry_done *done,
	void *context)
{
	const char *under = criteria->under ? criteria->under : "/";
	struct walk *walk = walk_create(registry, purpose, under, progress, done, context);
	if (!walk) {
		return NULL;
	}
	if (registry_criteria_copy(&walk->criteria, criteria)) {
		registry_request_free(&walk->base);
		return NULL;
	}
	return walk;
}

struct registry_request *registry_find(struct registry *registry,
	const struct registry_criteria *criteria, registry_progress *progress, registry_done *done,
	void *context)
{
	struct walk *walk = walk_create_with(
		registry, PURPOSE_FIND, criteria, progress, done, context);
	return walk ? walk_start(walk) : NULL;
}

struct registry_request *registry_purge(struct registry *registry,
	const struct registry_criteria *criteria, enum registry_purge_policy policy, bool dry_run,
	registry_progress *progress, registry_done *done, void *context)
{
	struct walk *walk = walk_create_with(
		registry, PURPOSE_PURGE, criteria, progress, done, context);
	if (!walk) {
		return NULL;
	}
	walk->policy = policy;
	walk->dry_run = dry_run;
	if (!criteria->id || !criteria->persistence) {
		struct err err = ERR_INIT;
		err_set(&err, BERTH_FAILED, "a purge needs both id and persistence");
		registry_call_refuse(registry, &walk->base.call, &err);
		return &walk->base;
	}
	return walk_start(walk);
}
