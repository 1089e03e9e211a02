#include "agent/cache/need.h"

#include <string.h>

#include "lib/base/clock.h"

static bool is_usable(const struct cache_entry *entry)
{
	int64_t max_stale_ms = entry->store->max_stale_ms;
	return entry->value &&
		(max_stale_ms <= 0 ||
			clock_monotonic_ms() - cache_entry_true_at_ms(entry) <= max_stale_ms);
}

struct cache_entry *cache_need(
	struct cache_store *store, struct cache_need *need, const char *path, enum cache_kind kind)
{
	struct cache_entry *entry = cache_entry_get(
		store, cache_node_get(store->table, path), kind);
	if (entry->state == CACHE_LIVE && !entry->awaited) {
		return entry;
	}
	if (entry->state == CACHE_UNCONFIRMED) {
		registry_watch_hurry(entry->watch);
	}
	bool usable = is_usable(entry);
	/* A stale value is given while the registry is away, or is about to confirm it. */
	if (cache_reachable(store->heard) &&
		!(usable && (!entry->awaited || store->heard->state != REGISTRY_CONNECTED))) {
		cache_entry_load(entry, true);
		need->missing++;
		return NULL;
	}
	if (!usable) {
		need->unavailable++;
		need->outdated = need->outdated || entry->value;
		return NULL;
	}
	if (!need->stale || entry->true_at_ms < need->true_at_ms) {
		need->true_at_ms = entry->true_at_ms;
	}
	need->stale = true;
	return entry;
}

struct cache_entry *cache_need_list(
	struct cache_store *store, struct cache_need *need, const char *path)
{
	const struct cache_node *node = cache_node_find(store->table, path, strlen(path));
	const struct cache_entry *held = node ? node->entries[CACHE_CHILDREN] : NULL;
	if (!(held && held->value) && cache_refused(&store->refusals, path)) {
		need->too_large = true;
		return NULL;
	}
	struct cache_entry *children = cache_need(store, need, path, CACHE_CHILDREN);
	if (children &&
		(cache_code(children) == BERTH_LIMIT_EXCEEDED ||
			(!cache_code(children) && !cache_children_fit(children)))) {
		need->too_large = true;
	}
	return children;
}

void cache_need_children(struct cache_store *store, struct cache_need *need, const char *path)
{
	const struct cache_entry *children = cache_need_list(store, need, path);
	size_t count = children && !cache_code(children) ? cache_child_count(children) : 0;
	cache_work(store->turn, count);
	for (size_t i = 0; !need->too_large && i < count; i++) {
		cache_need(store, need, children->value->children[i], CACHE_DATA);
	}
}
