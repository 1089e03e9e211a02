/* Caches of further registries, below paths of their own; and the end of a cache in use. */
#include "agent/cache/parts.h"

#include <stdlib.h>
#include <string.h>

#include "agent/base/allocate.h"
#include "lib/base/path.h"

struct attached {
	struct list link; /* cache->attached: the longest paths first */
	struct cache *cache;
	char at[];
};

void cache_attach(struct cache *cache, const char *at, struct cache *other)
{
	size_t len = strlen(at);
	struct attached *attached = allocate_zeroed(1, sizeof(*attached) + len + 1);
	memcpy(attached->at, at, len);
	attached->cache = other;
	other->is_attached = true;
	struct list *behind = cache->attached.next;
	while (behind != &cache->attached &&
		strlen(LIST_ITEM(behind, struct attached, link)->at) >= len) {
		behind = behind->next;
	}
	list_append(behind, &attached->link);
}

void cache_detach(struct cache *cache, const struct cache *other)
{
	struct list *next;
	for (struct list *at = cache->attached.next; at != &cache->attached; at = next) {
		struct attached *attached = LIST_ITEM(at, struct attached, link);
		next = at->next;
		if (attached->cache == other) {
			list_remove(&attached->link);
			free(attached);
		}
	}
}

struct cache *cache_at(struct cache *cache, const char *path)
{
	for (struct list *at = cache->attached.next; at != &cache->attached; at = at->next) {
		struct attached *attached = LIST_ITEM(at, struct attached, link);
		if (path_is_under(path, attached->at)) {
			return attached->cache;
		}
	}
	return cache;
}

bool cache_enter(struct cache *cache, struct err *err)
{
	if (cache->is_attached && cache->waiting >= CACHE_MAX_WAITING) {
		err_set(err, BERTH_LIMIT_EXCEEDED,
			"%d clients wait for this registry already, which is %s", CACHE_MAX_WAITING,
			registry_state_name(cache->heard.state));
		return false;
	}
	cache->waiting++;
	return true;
}

void cache_leave(struct cache *cache)
{
	cache->waiting--;
}

void cache_refuse_all(struct cache *cache, const struct err *err)
{
	for (struct cache_node *node = cache_node_next(&cache->table, NULL); node;
		node = cache_node_next(&cache->table, node)) {
		cache_answers_end_waits(node, err);
	}
	cache_observers_end(&cache->follow, err);
	cache_heard_set_state(&cache->heard, REGISTRY_LOST);
}
