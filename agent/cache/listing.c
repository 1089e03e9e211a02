#include "agent/cache/internal.h"

#include <string.h>

#include "lib/base/limits.h"
#include "lib/base/path.h"

/*
 * Other paths, as the known lists of children have them. The registry keeps lists and the paths in
 * them in agreement (lib/registry/watched.h); the cache adds answers about paths of which it keeps
 * nothing, trust, and news for observers.
 */

static struct cache_entry *parents_list(const struct cache *cache, const struct cache_node *node)
{
	const struct cache_node *parent = cache_node_parent(cache, node);
	struct cache_entry *list = parent ? parent->entries[CACHE_CHILDREN] : NULL;
	return list && list->value ? list : NULL;
}

bool cache_is_listed(const struct cache *cache, const struct cache_node *node)
{
	const struct cache_entry *list = parents_list(cache, node);
	return list && registry_value_names(list->value, node->path);
}

static bool lacks(const struct cache_entry *list, const char *path)
{
	return registry_value_is_whole_list(list->value) &&
		!registry_value_names(list->value, path);
}

struct cache_entry *cache_list_without(const struct cache *cache, const char *path)
{
	char child[LIMIT_PATH_BYTES + 1];
	size_t len = strlen(path);
	if (len >= sizeof(child)) {
		return NULL;
	}
	memcpy(child, path, len + 1);
	while ((len = path_parent_len(child)) > 0) {
		const struct cache_node *node = cache_node_find(cache, child, len);
		struct cache_entry *list = node ? node->entries[CACHE_CHILDREN] : NULL;
		if (list && list->value) {
			return lacks(list, child) ? list : NULL;
		}
		child[len] = '\0';
	}
	return NULL;
}

bool cache_list_holds(const struct cache_entry *list)
{
	return list->state == CACHE_LIVE && !list->awaited && registry_watch_holds(list->watch);
}

/* One in doubt says what the registry has reported of it. */
static const struct registry_value *reported(const struct cache_entry *entry)
{
	bool in_doubt = entry->state == CACHE_DOUBTED || entry->state == CACHE_RECHECKED;
	return in_doubt ? registry_watch_value(entry->watch) : entry->value;
}

const struct cache_entry *cache_entry_without(const struct cache_entry *entry)
{
	const struct cache_entry *data = entry->node->entries[CACHE_DATA];
	if (entry->kind == CACHE_CHILDREN && data && data->value) {
		return reported(data)->code == BERTH_PATH_NOT_FOUND ? data : NULL;
	}
	const struct cache_entry *list = parents_list(entry->cache, entry->node);
	const struct registry_value *value = list ? reported(list) : NULL;
	return value && registry_value_is_whole_list(value) &&
			!registry_value_names(value, entry->node->path)
		? list
		: NULL;
}

/*
 * The next list lacks the path. It is new to observers when it is listed again, even if its value
 * is the same. A path that was kept only because the list named it may go.
 */
static void unlist(struct cache *cache, struct cache_node *child)
{
	struct cache_entry *data = child->entries[CACHE_DATA];
	for (int kind = CACHE_DATA; kind <= CACHE_CHILDREN; kind++) {
		if (child->entries[kind]) {
			cache_entry_end_doubt(child->entries[kind]);
		}
	}
	if (data) {
		data->in_list = false;
	}
	if (data && cache->wide_observers > 0 && data->value && !cache_entry_exists(data)) {
		cache_mark_dirty(cache, child);
	}
}

void cache_list_changes(
	struct cache *cache, const struct cache_entry *list, const struct registry_value *next)
{
	size_t old = 0;
	size_t new = 0;
	while (old < cache_child_count(list) || new < next->stat.children) {
		int order = old == cache_child_count(list) ? 1
			: new == next->stat.children
			? -1
			: strcmp(list->value->children[old], next->children[new]);
		const char *path = order <= 0 ? list->value->children[old] : next->children[new];
		struct cache_node *child = order ? cache_node_find(cache, path, strlen(path))
						 : NULL;
		if (child && order < 0) {
			unlist(cache, child);
		} else if (child) {
			cache_entry_recheck(child->entries[CACHE_DATA]);
		}
		old += order <= 0;
		new += order >= 0;
	}
}
