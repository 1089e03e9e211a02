/*
 * Deletes a node with everything below it. A delete that spares foreign names
 * (REGISTRY_DELETE_TREE) lists the whole tree first, and then walks over it again to remove it.
 */
#include "lib/registry/walk.h"

#include <stdio.h>
#include <string.h>

#include "lib/base/limits.h"
#include "lib/base/text.h"

enum { MOST_NAMED = 8, NAMED_BYTES = 400 };

struct tree_delete {
	struct walk walk;
	bool surveying;            /* looks for foreign names, and removes nothing yet */
	size_t foreign_count;      /* how many foreign names it found */
	char foreign[NAMED_BYTES]; /* the first of them */
	bool has_expected;         /* of the first node */
	struct registry_stat expected;
};

static struct tree_delete *delete_of(const struct walk_node *node)
{
	return (struct tree_delete *)node->walk;
}

static void on_start(struct walk_node *node)
{
	node->remove = !delete_of(node)->surveying;
}

static bool ignores(const struct walk_node *node, int code)
{
	(void)node;
	return code == BERTH_PATH_NOT_FOUND;
}

static void note_foreign(struct tree_delete *tree, const struct registry_children *children)
{
	for (size_t i = 0; i < children->foreign_count; i++) {
		if (tree->foreign_count++ < MOST_NAMED) {
			size_t used = strlen(tree->foreign);
			text_printf(tree->foreign + used, sizeof(tree->foreign) - used, "%s%s",
				used ? ", " : "", children->foreign[i]);
		}
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

/* The first node may be meant in one version only. */
static bool is_expected(const struct walk_node *node)
{
	const struct tree_delete *tree = delete_of(node);
	return !tree->has_expected || node->parent ||
		(node->stat.node_id == tree->expected.node_id &&
			node->stat.version == tree->expected.version);
}

static void on_listed(struct walk_node *node, const struct registry_children *children)
{
	struct tree_delete *tree = delete_of(node);
	if (!is_expected(node)) {
		err_set(&tree->walk.err, BERTH_FILE_ALREADY_EXISTS,
			"%s: the node or its version is another one", node->path);
	} else if (tree->surveying) {
		note_foreign(tree, children);
	} else if (!node->unreachable) {
		check_lengths(&tree->walk, children);
	}
}

static bool prepare_removal(struct walk_node *node, struct registry_task *task)
{
	task->all = node->walk->kind->visits_foreign;
	task->has_expected = delete_of(node)->has_expected && !node->parent;
	task->expected = node->stat;
	return true;
}

static enum walk_crowded on_crowded(struct walk_node *node)
{
	return node->unreachable || node->call.task.ret_childless ? WALK_FAILS : WALK_LISTS_AGAIN;
}

/* Nothing was removed so far: removes everything, or refuses to. */
static void on_done(struct walk *walk)
{
	struct tree_delete *tree = (struct tree_delete *)walk;
	if (!tree->surveying) {
		return;
	}
	tree->surveying = false;
	if (tree->foreign_count == 0) {
		(void)walk_begin(walk);
		return;
	}
	char more[32] = "";
	if (tree->foreign_count > MOST_NAMED) {
		snprintf(more, sizeof(more), " and %zu more", tree->foreign_count - MOST_NAMED);
	}
	err_set(&walk->err, BERTH_PATH_IS_NOT_EMPTY_DIRECTORY,
		"%s: nothing was deleted, because no path can name %s%s", walk->base.path,
		tree->foreign, more);
}

#define KIND_OF_DELETE                                                                             \
	.counts_lists = true, .on_start = on_start, .ignores = ignores, .on_listed = on_listed,    \
	.prepare_removal = prepare_removal, .on_crowded = on_crowded, .on_done = on_done

static const struct walk_kind delete_tree = { KIND_OF_DELETE };
static const struct walk_kind delete_all = { KIND_OF_DELETE, .visits_foreign = true };

struct registry_request *registry_delete_tree(struct registry *registry, const char *path,
	enum registry_delete_mode mode, const struct registry_stat *expected,
	registry_progress *progress, registry_done *done, void *context)
{
	const struct walk_kind *kind = mode == REGISTRY_DELETE_ALL ? &delete_all : &delete_tree;
	struct tree_delete *tree = walk_create(
		registry, sizeof(*tree), kind, path, progress, done, context);
	if (!tree) {
		return NULL;
	}
	tree->surveying = mode == REGISTRY_DELETE_TREE;
	if (expected) {
		tree->has_expected = true;
		tree->expected = *expected;
	}
	return registry_request_refuse_root(&tree->walk.base) ? &tree->walk.base
							      : walk_start(&tree->walk);
}
