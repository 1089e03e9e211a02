#include "agent/cache/listing.h"

#include <assert.h>
#include <string.h>

#include "lib/base/limits.h"
#include "lib/base/path.h"

static struct cache_entry *parents_list(
	const struct cache_table *table, const struct cache_node *node)
{
	const struct cache_node *parent = cache_node_parent(table, node);
	struct cache_entry *list = parent ? parent->entries[CACHE_CHILDREN] : NULL;
	return list && list->value ? list : NULL;
}

bool cache_is_listed(const struct cache_table *table, const struct cache_node *node)
{
	const struct cache_entry *list = parents_list(table, node);
	return list && registry_value_names(list->value, node->path);
}

size_t cache_child_behind(const struct cache_entry *list, const char *after)
{
	size_t low = 0;
	size_t high = after ? cache_child_count(list) : 0;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (strcmp(list->value->children[middle], after) <= 0) {
			low = middle + 1;
		} else {
			high = middle;
		}
	}
	return low;
}

static bool lacks(const struct registry_value *list, const char *path)
{
	return registry_value_is_whole_list(list) && !registry_value_names(list, path);
}

struct cache_entry *cache_list_without(const struct cache_table *table, const char *path)
{
	char child[LIMIT_PATH_BYTES + 1];
	size_t len = strlen(path);
	assert(len < sizeof(child));
	memcpy(child, path, len + 1);
	while ((len = path_parent_len(child)) > 0) {
		const struct cache_node *node = cache_node_find(table, child, len);
		struct cache_entry *list = node ? node->entries[CACHE_CHILDREN] : NULL;
		if (list && list->value) {
			return lacks(list->value, child) ? list : NULL;
		}
		child[len] = '\0';
	}
	return NULL;
}

bool cache_list_holds(const struct cache_entry *list)
{
	return list->state == CACHE_LIVE && !list->awaited && registry_watch_holds(list->watch);
}

static const struct registry_value *reported(const struct cache_entry *entry)
{
	const struct registry_value *news = cache_entry_news(entry);
	return news ? news : entry->value;
}

const struct cache_entry *cache_entry_without(const struct cache_entry *entry)
{
	const struct cache_entry *data = entry->node->entries[CACHE_DATA];
	if (entry->kind == CACHE_CHILDREN && data && data->value) {
		return reported(data)->code == BERTH_PATH_NOT_FOUND ? data : NULL;
	}
	const struct cache_entry *list = parents_list(entry->store->table, entry->node);
	const struct registry_value *value = list ? reported(list) : NULL;
	return value && lacks(value, entry->node->path) ? list : NULL;
}
