/*
 * One walk finds the entries that all observers of a tree need. It works in slices, as far as the
 * budget of each turn goes, and goes on behind the path that it visited last, whatever has come and
 * gone since.
 */
#ifndef AGENT_CACHE_TREE_H
#define AGENT_CACHE_TREE_H

#include "agent/cache/cache.h"
#include "agent/cache/need.h"
#include "lib/base/limits.h"

struct cache_tree {
	const struct cache_node *root; /* NULL: no walk is under way */
	enum cache_scope scope;
	struct cache_need need;
	size_t arrived; /* entries of the tree, since the walk began */
	bool sliced;
	char at[LIMIT_PATH_BYTES + 1]; /* visited last */
};

/*
 * Begins the walk, or goes on with it, while the turn may work. True when it has ended: `need` says
 * what is missing.
 */
bool cache_tree_walk(struct cache_store *store, struct cache_tree *tree,
	const struct cache_node *root, enum cache_scope scope);
/*
 * The path that a walk of the tree visits behind `at`: below it, then its next sibling. False at
 * the end.
 */
bool cache_tree_next(const struct cache_store *store, const struct cache_node *root,
	enum cache_scope scope, char at[LIMIT_PATH_BYTES + 1]);
/* So many entries of the node have arrived: the walk may have counted them as missing. */
void cache_tree_arrived(struct cache_tree *tree, const struct cache_node *node, size_t count);
/* Nobody observes the node any more. */
void cache_tree_forget(struct cache_tree *tree, const struct cache_node *node);

#endif
