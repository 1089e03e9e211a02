#include "agent/cache/internal.h"

#include <stdlib.h>
#include <string.h>

#include "lib/base/limits.h"
#include "lib/base/path.h"

/*
 * A list of children is news of the children themselves, and of all that is below them. A path that
 * it does not name is absent: clients have seen the list without it, so that no answer may show
 * what the path held before, even if the next list names it again and the registry goes away before
 * its data is read. The other way round, nobody sees a path before a known list names it: clients
 * would see the list without it afterwards.
 */

static int compare_path(const void *path, const void *child)
{
	return strcmp(path, *(char *const *)child);
}

static bool names(const struct registry_value *list, const char *path)
{
	return list->stat.children > 0 &&
		bsearch(path, list->children, list->stat.children, sizeof(*list->children),
			compare_path) != NULL;
}

static struct cache_entry *parents_list(const struct cache *cache, const struct cache_node *node)
{
	const struct cache_node *parent = cache_node_parent(cache, node);
	struct cache_entry *list = parent ? parent->entries[CACHE_CHILDREN] : NULL;
	return list && list->value ? list : NULL;
}

bool cache_is_listed(const struct cache *cache, const struct cache_node *node)
{
	const struct cache_entry *list = parents_list(cache, node);
	return list && names(list->value, node->path);
}

static bool names_all(int code)
{
	return code == 0 || code == BERTH_PATH_NOT_FOUND;
}

static bool lacks(const struct cache_entry *list, const char *path)
{
	return names_all(cache_code(list)) && !names(list->value, path);
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

bool cache_list_comes_first(struct cache *cache, const struct cache_entry *data, int next_code)
{
	struct cache_entry *list = parents_list(cache, data->node);
	if (!list || !cache_is_there(next_code) || !lacks(list, data->node->path)) {
		return false;
	}
	if (!cache_list_holds(list)) {
		cache_entry_load(cache, list, true);
		if (list->watch) {
			registry_watch_hurry(list->watch);
		}
		return true;
	}
	/* Its notification is late, or no list of this registry names the path. */
	if (data->state != CACHE_RECHECKED) {
		cache_entry_refresh(cache, list);
		return true;
	}
	return false;
}

/* A value of which no change was announced may be newer than the list, whose next read names it. */
static bool may_have_ended(const struct cache_entry *entry)
{
	return entry && entry->value && cache_entry_exists(entry) &&
		(entry->state != CACHE_LIVE || !registry_watch_holds(entry->watch));
}

/*
 * The next list lacks the path. It is new to observers when it is listed again, even if its value
 * is the same. A path that was kept only because the list named it may go.
 */
static void unlist(struct cache *cache, struct cache_node *child, bool absent)
{
	struct cache_entry *data = child->entries[CACHE_DATA];
	for (int kind = CACHE_DATA; absent && kind <= CACHE_CHILDREN; kind++) {
		if (may_have_ended(child->entries[kind])) {
			cache_entry_imply_absent(cache, child->entries[kind]);
		}
	}
	if (data) {
		data->in_list = false;
	}
	if (data && cache->wide_observers > 0 && data->value && !cache_entry_exists(data)) {
		cache_mark_dirty(cache, child);
	}
}

/* The next list has the path, and this one lacks it: what was known before this one has ended. */
static void relist(struct cache *cache, struct cache_node *child, const struct cache_entry *list)
{
	for (int kind = CACHE_DATA; kind <= CACHE_CHILDREN; kind++) {
		struct cache_entry *entry = child->entries[kind];
		if (may_have_ended(entry) && entry->learnt < list->learnt) {
			cache_entry_imply_absent(cache, entry);
		}
	}
}

void cache_list_changes(
	struct cache *cache, const struct cache_entry *list, const struct registry_value *next)
{
	bool was_whole = list->value && names_all(cache_code(list));
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
			unlist(cache, child, names_all(next->code));
		} else if (child && was_whole) {
			relist(cache, child, list);
			cache_entry_recheck(child->entries[CACHE_DATA]);
		}
		old += order <= 0;
		new += order >= 0;
	}
}
