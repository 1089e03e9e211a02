#include "agent/cache/internal.h"

#include <stdlib.h>
#include <string.h>

#include "agent/base/allocate.h"
#include "lib/base/clock.h"

enum {
	MAX_IN_FLIGHT = 256,
	OVERDRAFT = 20,    /* a twentieth of the limit may come in within one turn */
	WATCH_BYTES = 192, /* what a watch costs the registry, beside its path */
	ALLOCATION_BYTES = 16
};

static const enum registry_watch_kind watch_kinds[] = { REGISTRY_WATCH_DATA,
	REGISTRY_WATCH_CHILDREN };

static size_t children_bytes(char *const *children, size_t count)
{
	size_t bytes = 0;
	for (size_t i = 0; i < count; i++) {
		bytes += sizeof(char *) + strlen(children[i]) + 1;
	}
	return bytes;
}

size_t cache_entry_bytes(const struct cache_entry *entry)
{
	size_t bytes = sizeof(*entry) + ALLOCATION_BYTES;
	if (entry->blob) {
		bytes += sizeof(*entry->blob) + entry->blob->len + 1 + ALLOCATION_BYTES;
	}
	if (entry->children) {
		bytes += children_bytes(
				 entry->children, entry->children_count + entry->foreign_count) +
			ALLOCATION_BYTES;
	}
	if (entry->watch) {
		bytes += WATCH_BYTES + entry->node->path_len;
	}
	return bytes;
}

struct cache_entry *cache_entry_get(
	struct cache *cache, struct cache_node *node, enum cache_kind kind)
{
	struct cache_entry *entry = node->entries[kind];
	if (!entry) {
		entry = allocate_zeroed(1, sizeof(*entry));
		entry->cache = cache;
		entry->node = node;
		entry->kind = kind;
		node->entries[kind] = entry;
		cache->entry_count++;
		cache_charge(cache, 0, cache_entry_bytes(entry));
	}
	return entry;
}

/* ---- lists ---- */

static void list_remove(struct entry_list *list, struct cache_entry *entry)
{
	*(entry->queue_prev ? &entry->queue_prev->queue_next : &list->first) = entry->queue_next;
	*(entry->queue_next ? &entry->queue_next->queue_prev : &list->last) = entry->queue_prev;
}

static void list_append(struct entry_list *list, struct cache_entry *entry)
{
	entry->queue_next = NULL;
	entry->queue_prev = list->last;
	*(list->last ? &list->last->queue_next : &list->first) = entry;
	list->last = entry;
}

static void list_prepend(struct entry_list *list, struct cache_entry *entry)
{
	entry->queue_prev = NULL;
	entry->queue_next = list->first;
	*(list->first ? &list->first->queue_prev : &list->last) = entry;
	list->first = entry;
}

static void list_insert_behind(
	struct entry_list *list, struct cache_entry *earlier, struct cache_entry *entry)
{
	entry->queue_prev = earlier;
	entry->queue_next = earlier->queue_next;
	*(earlier->queue_next ? &earlier->queue_next->queue_prev : &list->last) = entry;
	earlier->queue_next = entry;
}

static void leave_lists(struct cache *cache, struct cache_entry *entry)
{
	if (entry->queued) {
		list_remove(&cache->queue, entry);
		entry->queued = false;
	}
	if (entry->guard_listed) {
		list_remove(&cache->guarded, entry);
		entry->guard_listed = false;
	}
}

/* ---- values ---- */

static void forget_value(struct cache_entry *entry)
{
	cache_body_release(entry->blob);
	entry->blob = NULL;
	free(entry->children);
	entry->children = NULL;
	entry->children_count = 0;
	entry->foreign_count = 0;
}

void cache_entry_set_data(
	struct cache *cache, struct cache_entry *entry, const char *data, size_t len)
{
	size_t before = cache_entry_bytes(entry);
	forget_value(entry);
	entry->blob = cache_blob_create(data ? data : "", len);
	cache_charge(cache, before, cache_entry_bytes(entry));
}

void cache_entry_set_children(struct cache *cache, struct cache_entry *entry, char *const *children,
	size_t count, size_t foreign_count)
{
	size_t before = cache_entry_bytes(entry);
	size_t all = count + foreign_count;
	forget_value(entry);
	if (all > 0) {
		entry->children = allocate_zeroed(1, children_bytes(children, all));
		char *at = (char *)(entry->children + all);
		for (size_t i = 0; i < all; i++) {
			entry->children[i] = at;
			at = stpcpy(at, children[i]) + 1;
		}
	}
	entry->children_count = count;
	entry->foreign_count = foreign_count;
	cache_charge(cache, before, cache_entry_bytes(entry));
}

static bool same_value(const struct cache_entry *entry, const struct registry_result *result)
{
	if (entry->code != result->err.code) {
		return false;
	}
	if (entry->code) {
		return true;
	}
	if (entry->kind == CACHE_DATA) {
		return entry->blob && entry->blob->len == result->data_len &&
			(result->data_len == 0 ||
				memcmp(entry->blob->data, result->data, result->data_len) == 0);
	}
	if (entry->children_count != result->children_count ||
		entry->foreign_count != result->foreign_count) {
		return false;
	}
	for (size_t i = 0; i < entry->children_count + entry->foreign_count; i++) {
		if (strcmp(entry->children[i], result->children[i]) != 0) {
			return false;
		}
	}
	return true;
}

static void set_value(
	struct cache *cache, struct cache_entry *entry, const struct registry_result *result)
{
	entry->code = result->err.code;
	if (entry->code) {
		size_t before = cache_entry_bytes(entry);
		forget_value(entry);
		cache_charge(cache, before, cache_entry_bytes(entry));
	} else if (entry->kind == CACHE_DATA) {
		cache_entry_set_data(cache, entry, result->data, result->data_len);
	} else {
		/* The registry keeps foreign children behind the others. */
		cache_entry_set_children(cache, entry, result->children, result->children_count,
			result->foreign_count);
	}
}

/* ---- states from the registry ---- */

void cache_entry_set_unconfirmed(struct cache *cache, struct cache_entry *entry, bool unconfirmed)
{
	if (entry->unconfirmed != unconfirmed) {
		entry->unconfirmed = unconfirmed;
		cache->unconfirmed += unconfirmed ? 1 : (size_t)-1;
	}
}

static void landed(struct cache *cache, struct cache_entry *entry)
{
	if (entry->in_flight) {
		entry->in_flight = false;
		cache->in_flight--;
		if (cache->queue.first) {
			ev_prepare_start(cache->loop, &cache->flush);
		}
	}
}

static bool was_something(const struct cache_entry *entry)
{
	return entry->loaded && !entry->code &&
		(entry->kind == CACHE_DATA || entry->children_count > 0);
}

static bool is_nothing(const struct cache_entry *entry, const struct registry_result *result)
{
	return result->err.code == BERTH_PATH_NOT_FOUND ||
		(!result->err.code && entry->kind == CACHE_CHILDREN && result->children_count == 0);
}

/* Something that is nothing in the first state after a reconnect may be a server that lags, or one just set up anew. */
static bool guard(
	struct cache *cache, struct cache_entry *entry, const struct registry_result *result)
{
	if (!entry->unconfirmed || entry->guarded || !was_something(entry) ||
		!is_nothing(entry, result)) {
		entry->guarded = false;
		return false;
	}
	entry->guarded = true;
	entry->guard_listed = true;
	list_append(&cache->guarded, entry);
	ev_timer_start(cache->loop, &cache->guard_timer);
	return true;
}

/*
 * A read that got no answer has perhaps armed no notification: what it was to confirm is stale until the registry's next try,
 * and whoever waited for it has that. What was never known is waited for further.
 */
static void on_no_answer(struct cache *cache, struct cache_entry *entry)
{
	if (!entry->loaded || (!entry->live && !entry->loading)) {
		return;
	}
	entry->known_true = entry->live ? clock_monotonic_s() : entry->known_true;
	entry->live = false;
	entry->loading = false;
	cache_entry_set_unconfirmed(cache, entry, true);
	cache_answers_drop(cache, entry->node);
	cache_mark_dirty(cache, entry->node);
}

static void on_change(void *context, const struct registry_result *result)
{
	struct cache_entry *entry = context;
	struct cache *cache = entry->cache;
	landed(cache, entry);
	int code = result->err.code;
	if (code == BERTH_REGISTRY_UNAVAILABLE || code == BERTH_TIMEOUT) {
		on_no_answer(cache, entry);
		return;
	}
	if (entry->guard_listed || guard(cache, entry, result)) {
		return;
	}
	bool changed = !entry->loaded || !same_value(entry, result);
	bool confirmed = !entry->live;
	if (changed) {
		cache->noticed = cache->noticed > 0 ? cache->noticed : clock_monotonic_s();
		set_value(cache, entry, result);
		entry->changed = true;
	}
	bool stat_changed = memcmp(&entry->stat, &result->stat, sizeof(entry->stat)) != 0;
	entry->stat = result->stat;
	cache_entry_set_unconfirmed(cache, entry, false);
	if (changed || confirmed || stat_changed || entry->loading) {
		entry->loaded = true;
		entry->live = true;
		entry->loading = false;
		entry->node->landed |= (uint8_t)(1u << entry->kind);
		cache_answers_drop(cache, entry->node);
		cache_mark_dirty(cache, entry->node);
	}
	size_t limit = cache->options.max_size_bytes;
	if (cache->bytes > limit + limit / OVERDRAFT) {
		cache_flush(cache); /* which may free the entry */
	}
}

void cache_entry_away(struct cache *cache, struct cache_entry *entry, double now)
{
	if (entry->live) {
		entry->live = false;
		entry->known_true = now;
	}
	if (entry->loaded) {
		entry->loading = false;
	}
	if (entry->guard_listed) {
		list_remove(&cache->guarded, entry);
		entry->guard_listed = false;
	}
	entry->guarded = false;
	cache_entry_set_unconfirmed(cache, entry, entry->watch && entry->loaded);
}

/* ---- watches ---- */

static void drop_watch(struct cache *cache, struct cache_entry *entry)
{
	landed(cache, entry);
	leave_lists(cache, entry);
	cache_entry_set_unconfirmed(cache, entry, false);
	if (entry->watch) {
		size_t before = cache_entry_bytes(entry);
		registry_unwatch(entry->watch);
		entry->watch = NULL;
		cache_charge(cache, before, cache_entry_bytes(entry));
	}
}

void cache_entry_free(struct cache *cache, struct cache_entry *entry)
{
	if (!entry) {
		return;
	}
	drop_watch(cache, entry);
	cache_charge(cache, cache_entry_bytes(entry), 0);
	forget_value(entry);
	cache->entry_count--;
	free(entry);
}

static void start(struct cache *cache, struct cache_entry *entry)
{
	size_t before = cache_entry_bytes(entry);
	entry->watch = allocated(registry_watch(
		cache->registry, entry->node->path, watch_kinds[entry->kind], on_change, entry));
	entry->in_flight = true;
	cache->in_flight++;
	cache->loads++;
	cache_charge(cache, before, cache_entry_bytes(entry));
	cache_entry_set_unconfirmed(cache, entry, entry->loaded);
}

void cache_queue_run(struct cache *cache)
{
	while (cache->queue.first && cache->in_flight < MAX_IN_FLIGHT && cache_reachable(cache)) {
		struct cache_entry *entry = cache->queue.first;
		list_remove(&cache->queue, entry);
		entry->queued = false;
		start(cache, entry);
	}
}

void cache_entry_load(struct cache *cache, struct cache_entry *entry, bool urgent)
{
	if (entry->watch || (entry->queued && !urgent)) {
		return;
	}
	if (entry->queued) {
		list_remove(&cache->queue, entry);
	}
	entry->queued = true;
	struct cache_entry *data = entry->node->entries[CACHE_DATA];
	if (urgent && entry->kind == CACHE_CHILDREN && data && data->queued) {
		/* Behind the data: those of an ephemeral node tell that there is no child. */
		list_insert_behind(&cache->queue, data, entry);
	} else if (urgent) {
		list_prepend(&cache->queue, entry);
	} else {
		list_append(&cache->queue, entry);
	}
	cache_queue_run(cache);
}

void cache_entry_refresh(struct cache *cache, struct cache_entry *entry)
{
	leave_lists(cache, entry);
	if (entry->watch) {
		registry_watch_refresh(entry->watch);
	}
}

const struct cache_entry *cache_need(
	struct cache *cache, struct cache_need *need, const char *path, enum cache_kind kind)
{
	struct cache_entry *entry = cache_entry_get(cache, cache_node_get(cache, path), kind);
	if (entry->live && !entry->loading) {
		return entry;
	}
	bool usable = entry->loaded &&
		(cache->options.max_stale_ms <= 0 ||
			clock_monotonic_s() - entry->known_true <=
				(double)cache->options.max_stale_ms / 1000.);
	bool confirming = !entry->loading && (entry->watch || entry->queued);
	if (cache_reachable(cache) &&
		!(usable && (confirming || cache->state != REGISTRY_CONNECTED))) {
		if (!entry->loading) {
			entry->loading = true;
			cache_entry_load(cache, entry, true);
		}
		need->missing++;
		return NULL;
	}
	if (entry->unconfirmed) {
		registry_watch_hurry(entry->watch);
	}
	if (!usable) {
		need->unavailable++;
		need->outdated = need->outdated || entry->loaded;
		return NULL;
	}
	if (!need->stale || entry->known_true < need->known_true) {
		need->known_true = entry->known_true;
	}
	need->stale = true;
	return entry;
}
