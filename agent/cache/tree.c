#include "agent/cache/tree.h"

#include <string.h>

#include "agent/cache/listing.h"
#include "lib/base/path.h"

static bool descends(const struct cache_node *root, enum cache_scope scope, const char *at)
{
	return scope == CACHE_TREE || (scope == CACHE_CHILDREN_TOO && strcmp(at, root->path) == 0);
}

/* Behind `after`, or the first one; NULL: there is none, as far as is known. */
static const char *child_behind(
	const struct cache_store *store, const char *path, const char *after)
{
	const struct cache_node *node = cache_node_find(store->table, path, strlen(path));
	const struct cache_entry *list = node ? node->entries[CACHE_CHILDREN] : NULL;
	if (!list || !list->value || cache_code(list)) {
		return NULL;
	}
	size_t i = cache_child_behind(list, after);
	return i < cache_child_count(list) ? list->value->children[i] : NULL;
}

bool cache_tree_next(const struct cache_store *store, const struct cache_node *root,
	enum cache_scope scope, char at[LIMIT_PATH_BYTES + 1])
{
	char after[LIMIT_PATH_BYTES + 1];
	const char *next = descends(root, scope, at) ? child_behind(store, at, NULL) : NULL;
	while (!next && strcmp(at, root->path) != 0) {
		strcpy(after, at);
		at[path_parent_len(at)] = '\0';
		next = child_behind(store, at, after);
	}
	if (next) {
		strcpy(at, next);
	}
	return next;
}

static void visit(struct cache_store *store, struct cache_tree *tree)
{
	cache_work(store->turn, 1);
	if (strcmp(tree->at, tree->root->path) != 0) {
		/*
		 * A snapshot shows the path with the list that names it: no event is due when the
		 * list is announced.
		 */
		struct cache_node *node = cache_node_get(store->table, tree->at);
		cache_entry_get(store, node, CACHE_DATA)->in_list = true;
	}
	/* Data that are still to be read decide about the list; the walk comes again. */
	const struct cache_entry *data = cache_need(store, &tree->need, tree->at, CACHE_DATA);
	if (data && !cache_entry_is_leaf(data) && descends(tree->root, tree->scope, tree->at)) {
		cache_need_list(store, &tree->need, tree->at);
	}
}

static void begin(struct cache_store *store, struct cache_tree *tree)
{
	tree->need = (struct cache_need){ .missing = 0 };
	tree->arrived = 0;
	tree->sliced = false;
	strcpy(tree->at, tree->root->path);
	visit(store, tree);
}

/*
 * Entries that were known when they were visited may be unconfirmed by now. Those that were missing
 * may have arrived: with fewer left, the observers look again too early rather than never.
 */
static void account(const struct cache_store *store, struct cache_tree *tree)
{
	tree->need.stale = tree->need.stale || (tree->sliced && store->unconfirmed > 0);
	tree->need.missing -= tree->arrived < tree->need.missing ? tree->arrived : 0;
}

static bool is_overtaken(const struct cache_tree *tree)
{
	return tree->need.missing > 0 && tree->arrived >= tree->need.missing;
}

bool cache_tree_walk(struct cache_store *store, struct cache_tree *tree,
	const struct cache_node *root, enum cache_scope scope)
{
	if (tree->root != root || tree->scope != scope) {
		tree->root = root;
		tree->scope = scope;
		begin(store, tree);
	}
	for (;;) {
		if (!cache_may_work(store->turn)) {
			tree->sliced = true;
			return false;
		}
		if (!tree->need.too_large &&
			cache_tree_next(store, tree->root, tree->scope, tree->at)) {
			visit(store, tree);
		} else if (is_overtaken(tree)) {
			begin(store, tree);
		} else {
			account(store, tree);
			tree->root = NULL;
			return true;
		}
	}
}

void cache_tree_arrived(struct cache_tree *tree, const struct cache_node *node, size_t count)
{
	if (count > 0 && tree->root && path_is_under(node->path, tree->root->path)) {
		tree->arrived += count;
	}
}

void cache_tree_forget(struct cache_tree *tree, const struct cache_node *node)
{
	if (tree->root == node) {
		tree->root = NULL;
	}
}
