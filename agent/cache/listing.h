/*
 * Other paths as the known lists of children show them. The registry keeps lists and the paths in
 * them in agreement (lib/registry/watched.h); the cache adds answers about paths of which it keeps
 * nothing, and trust.
 */
#ifndef AGENT_CACHE_LISTING_H
#define AGENT_CACHE_LISTING_H

#include "agent/cache/entry.h"

/* Does the parent's list, as far as it is known, name the node? */
bool cache_is_listed(const struct cache_table *table, const struct cache_node *node);
/*
 * Children are sorted: the index of the first one behind `after`, whether or not that is one of
 * them, or of the first of all. At the end: their number.
 */
size_t cache_child_behind(const struct cache_entry *list, const char *after);
/*
 * The nearest known list above the path, if it does not name the path, or the directory that the
 * path is in: as far as the list goes, the path is absent. Else NULL.
 */
struct cache_entry *cache_list_without(const struct cache_table *table, const char *path);
/* The list is known to be the registry's present one. */
bool cache_list_holds(const struct cache_entry *list);
/* The entry by which the path is absent: its data, or its parent's list. Else NULL. */
const struct cache_entry *cache_entry_without(const struct cache_entry *entry);

#endif
