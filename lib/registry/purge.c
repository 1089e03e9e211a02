/* Deletes the nodes whose records match, each only in the version that was read. */
#include "lib/registry/walk.h"

#include <string.h>

struct purge {
	struct walk walk;
	struct registry_criteria criteria;
	enum registry_purge_policy policy;
	bool dry_run; /* deletes nothing */
};

static struct purge *purge_of(const struct walk_node *node)
{
	return (struct purge *)node->walk;
}

static bool reads(const struct walk_node *node)
{
	(void)node;
	return true;
}

static bool ignores(const struct walk_node *node, int code)
{
	return node->parent && code == BERTH_PATH_NOT_FOUND;
}

/* The root is never removed. */
static void on_read(struct walk_node *node, struct registry_task *task)
{
	bool matches = find_take(node, task, &purge_of(node)->criteria);
	node->remove = node->remove || (matches && strcmp(node->path, "/") != 0);
}

/* Applies the policy to a match that has children. */
static void apply_policy(struct walk_node *node)
{
	switch (purge_of(node)->policy) {
	case REGISTRY_PURGE_ALL:
		node->remove_below = true;
		break;
	case REGISTRY_PURGE_SKIP_ON_CHILDREN:
		node->remove = false;
		break;
	case REGISTRY_PURGE_FAIL_ON_CHILDREN:
		err_set(&node->walk->err, BERTH_PATH_IS_NOT_EMPTY_DIRECTORY,
			"%s matches, but has children", node->path);
		break;
	}
}

static void on_listed(struct walk_node *node, const struct registry_children *children)
{
	find_on_listed(node, children);
	if (node->remove && children->count + children->foreign_count > 0) {
		apply_policy(node);
	}
}

static void on_removed(struct walk_node *node)
{
	registry_matches_add_purged(&node->walk->matches, node->path, &node->walk->err);
}

static bool prepare_removal(struct walk_node *node, struct registry_task *task)
{
	if (purge_of(node)->dry_run) {
		/* A foreign name below the node prevents its deletion. */
		if (!node->unreachable) {
			on_removed(node);
		}
		return false;
	}
	task->has_expected = true;
	task->expected = node->stat;
	return true;
}

static enum walk_crowded on_crowded(struct walk_node *node)
{
	return purge_of(node)->policy == REGISTRY_PURGE_FAIL_ON_CHILDREN ? WALK_FAILS
									 : WALK_LEAVES_IT;
}

static void release(struct walk *walk)
{
	registry_criteria_finish(&((struct purge *)walk)->criteria);
}

struct registry_request *registry_purge(struct registry *registry,
	const struct registry_criteria *criteria, enum registry_purge_policy policy, bool dry_run,
	registry_progress *progress, registry_done *done, void *context)
{
	static const struct walk_kind kind = { .lists_reads = true,
		.leaves_changed = true,
		.reads = reads,
		.ignores = ignores,
		.on_read = on_read,
		.on_listed = on_listed,
		.prepare_removal = prepare_removal,
		.on_removed = on_removed,
		.on_crowded = on_crowded,
		.release = release };
	const char *under = criteria->under ? criteria->under : "/";
	struct purge *purge = walk_create(
		registry, sizeof(*purge), &kind, under, progress, done, context);
	if (!purge) {
		return NULL;
	}
	if (registry_criteria_copy(&purge->criteria, criteria)) {
		registry_request_free(&purge->walk.base);
		return NULL;
	}
	purge->policy = policy;
	purge->dry_run = dry_run;
	if (!criteria->id || !criteria->persistence) {
		struct err err = ERR_INIT;
		err_set(&err, BERTH_FAILED, "a purge needs both id and persistence");
		registry_call_refuse(registry, &purge->walk.base.call, &err);
		return &purge->walk.base;
	}
	return walk_start(&purge->walk);
}
