#include "agent/cache/tree.h"

#include <string.h>

#include "agent/cache/listing.h"
#include "lib/base/path.h"

static bool is_root(const struct cache_tree *tree)
{
	return strcmp(tree->at, tree->root->path) == 0;
}

static bool descends(const struct cache_tree *tree)
{
	return tree->scope == CACHE_TREE || (tree->scope == CACHE_CHILDREN_TOO && is_root(tree));
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

/* The node, then what is below it, then its next sibling. False at the end. */
static bool advance(const struct cache_store *store, struct cache_tree *tree)
{
	char after[sizeof(tree->at)];
	const char *next = descends(tree) ? child_behind(store, tree->at, NULL) : NULL;
	while (!next && !is_root(tree)) {
		strcpy(after, tree->at);
		tree->at[path_parent_len(tree->at)] = '\0';
		next = child_behind(store, tree->at, after);
	}
	if (next) {
		strcpy(tree->at, next);
	}
	return next;
}

static void visit(struct cache_store *store, struct cache_tree *tree)
{
	cache_work(store->turn, 1);
	if (!is_root(tree)) {
		/*
		 * A snapshot shows the path with the list that names it: no event is due when the
		 * list is announced.
		 */
		struct cache_node *node = cache_node_get(store->table, tree->at);
		cache_entry_get(store, node, CACHE_DATA)->in_list = true;
	}
	cache_need(store, &tree->need, tree->at, CACHE_DATA);
	if (descends(tree)) {
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
		if (!tree->need.too_large && advance(store, tree)) {
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
