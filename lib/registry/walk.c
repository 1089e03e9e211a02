#include "lib/registry/walk.h"

#include <stdlib.h>

enum { PROGRESS_EVERY_NODES = 64 };

static void on_step(struct registry_call *call);

static void submit(struct walk_node *node, enum walk_step step, enum registry_operation operation)
{
	struct registry *registry = node->walk->base.registry;
	node->step = step;
	node->call.task.operation = operation;
	node->call.task.path = node->path;
	node->walk->in_flight++;
	registry_call_submit(registry, &node->call, registry_call_deadline_ms(registry));
}

static void list(struct walk_node *node)
{
	registry_call_clear(&node->call);
	submit(node, WALK_LIST, REGISTRY_OP_CHILDREN);
}

/* Starts to delete a node that is marked for it; false when there is nothing to wait for. */
static bool start_removal(struct walk_node *node)
{
	if (!node->remove) {
		return false;
	}
	registry_call_clear(&node->call);
	bool sends = node->walk->kind->prepare_removal(node, &node->call.task);
	if (sends) {
		submit(node, WALK_REMOVE, REGISTRY_OP_DELETE);
	}
	return sends;
}

/* ---- nodes ---- */

static struct walk_node *node_start(struct walk *walk, struct walk_node *parent, const char *path)
{
	struct walk_node *node = calloc(1, sizeof(*node));
	if (!node) {
		err_set(&walk->err, BERTH_FAILED, "no memory to visit %s", path);
		return NULL;
	}
	node->walk = walk;
	node->parent = parent;
	node->path = path;
	node->call.owner = node;
	node->call.completed = on_step;
	node->remove = parent && parent->remove_below;
	if (walk->kind->on_start) {
		walk->kind->on_start(node);
	}
	node->remove_below = node->remove;
	list_init(&node->open_link);
	list_append(&walk->nodes, &node->link);
	if (walk->kind->reads && walk->kind->reads(node)) {
		submit(node, WALK_READ, REGISTRY_OP_GET);
	} else {
		list(node);
	}
	return node;
}

static void node_free(struct walk_node *node)
{
	registry_call_finish(&node->call);
	list_remove(&node->link);
	list_remove(&node->open_link);
	free(node->children);
	free(node);
}

static bool children_done(const struct walk_node *node)
{
	return node->next_child == node->children_count && node->children_under_way == 0;
}

/* The node needs nothing more: frees it, and goes on with those above whose last child it was. */
static void node_done(struct walk_node *node)
{
	struct walk *walk = node->walk;
	struct walk_node *parent = node->parent;
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
		struct walk_node *above = parent->parent;
		node_free(parent);
		if (!above) {
			walk->done = true;
			return;
		}
		above->children_under_way--;
		parent = above;
	}
}

/* ---- steps ---- */

/* The node holds no record, but nodes below it may. */
static bool is_no_record(const struct walk_node *node, int code)
{
	return node->step == WALK_READ && (code == BERTH_NO_RECORD || code == BERTH_INVALID_RECORD);
}

/* Known without listing it, which is half of the work in a tree of many leaves. */
static bool is_childless(const struct walk_node *node)
{
	return node->stat.ephemeral || node->call.task.ret_childless;
}

static void remove_or_end(struct walk_node *node)
{
	if (!start_removal(node)) {
		node_done(node);
	}
}

static void on_read(struct walk_node *node)
{
	struct walk *walk = node->walk;
	node->stat = node->call.task.ret_stat;
	walk->visited++;
	walk->kind->on_read(node, &node->call.task);
	if (walk->err.code) {
		return;
	}
	if (walk->kind->lists_reads && !is_childless(node)) {
		list(node);
	} else {
		remove_or_end(node);
	}
}

/* A directory's foreign entries go with the node; a server's are nodes of their own. */
static bool visits_foreign(const struct walk *walk)
{
	return walk->kind->visits_foreign && !walk->base.registry->ops->deletes_all;
}

/* Stores the listed names as the node's children. */
static void take_children(struct walk_node *node)
{
	struct walk *walk = node->walk;
	bool foreign_too = visits_foreign(walk);
	struct registry_children children;
	if (registry_children_init(&children, node->path, &node->call.task, foreign_too)) {
		err_set(&walk->err, BERTH_FAILED, "no memory to list %s", node->path);
		return;
	}
	free(node->children);
	node->children = children.paths;
	node->children_count = children.count + (foreign_too ? children.foreign_count : 0);
	node->next_child = 0;
	node->unreachable = children.foreign_count > 0 && !foreign_too;
	if (walk->kind->on_listed) {
		walk->kind->on_listed(node, &children);
	}
}

static void on_children(struct walk_node *node)
{
	struct walk *walk = node->walk;
	if (walk->kind->counts_lists) {
		node->stat = node->call.task.ret_stat;
		walk->visited++;
	}
	take_children(node);
	if (walk->err.code) {
		return;
	}
	if (node->children_count > 0) {
		list_prepend(&walk->open, &node->open_link);
	} else {
		remove_or_end(node);
	}
}

/* Another client made children while ours were deleted. */
static void on_crowded(struct walk_node *node)
{
	struct walk *walk = node->walk;
	switch (walk->kind->on_crowded(node)) {
	case WALK_LEAVES_IT:
		node_done(node);
		break;
	case WALK_FAILS:
		walk->err = node->call.task.ret_err;
		break;
	case WALK_LISTS_AGAIN:
		if (++node->rounds < REGISTRY_MAX_ROUNDS) {
			list(node);
			break;
		}
		err_set(&walk->err, BERTH_TIMEOUT,
			"%s: gave up: others keep making nodes below it (contention)", node->path);
		break;
	}
}

static void on_removed(struct walk_node *node)
{
	struct walk *walk = node->walk;
	int code = node->call.task.ret_err.code;
	if (code == BERTH_PATH_IS_NOT_EMPTY_DIRECTORY) {
		on_crowded(node);
		return;
	}
	bool stays = code == BERTH_FILE_ALREADY_EXISTS && walk->kind->leaves_changed;
	if (code && code != BERTH_PATH_NOT_FOUND && !stays) {
		walk->err = node->call.task.ret_err;
		return;
	}
	walk->deleted += code == 0;
	if (code == 0 && walk->kind->on_removed) {
		walk->kind->on_removed(node);
	}
	node_done(node);
}

static void take_step(struct walk_node *node)
{
	int code = node->call.task.ret_err.code;
	if (node->step == WALK_REMOVE) {
		on_removed(node);
	} else if (code && node->walk->kind->ignores(node, code)) {
		node_done(node);
	} else if (code && !is_no_record(node, code)) {
		node->walk->err = node->call.task.ret_err;
	} else if (node->step == WALK_READ) {
		on_read(node);
	} else {
		on_children(node);
	}
}

/* ---- the walk ---- */

static void start_children(struct walk *walk)
{
	while (!list_empty(&walk->open) && walk->in_flight < WALK_MAX_IN_FLIGHT) {
		struct walk_node *node = LIST_ITEM(walk->open.next, struct walk_node, open_link);
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

static void on_step(struct registry_call *call)
{
	struct walk_node *node = call->owner;
	struct walk *walk = node->walk;
	walk->in_flight--;
	take_step(node);
	if (walk->done && !walk->err.code && walk->kind->on_done) {
		walk->kind->on_done(walk);
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
		node_free(LIST_ITEM(walk->nodes.next, struct walk_node, link));
	}
	registry_matches_finish(&walk->matches);
	if (walk->kind->release) {
		walk->kind->release(walk);
	}
}

void *walk_create(struct registry *registry, size_t size, const struct walk_kind *kind,
	const char *path, registry_progress *progress, registry_done *done, void *context)
{
	struct walk *walk = registry_request_create(registry, size, path, done, context);
	if (walk) {
		list_init(&walk->nodes);
		list_init(&walk->open);
		walk->base.release = release;
		walk->base.call.completed = on_refused;
		walk->kind = kind;
		walk->progress = progress;
	}
	return walk;
}

int walk_begin(struct walk *walk)
{
	walk->done = false;
	walk->visited = 0;
	walk->reported = 0;
	return node_start(walk, NULL, walk->base.path) ? 0 : -1;
}

struct registry_request *walk_start(struct walk *walk)
{
	if (!registry_request_refuse_path(&walk->base) && walk_begin(walk)) {
		registry_request_free(&walk->base);
		return NULL;
	}
	return &walk->base;
}
