#include "agent/cache/internal.h"

#include <stdlib.h>
#include <string.h>

#include "agent/base/allocate.h"
#include "lib/base/clock.h"
#include "lib/base/json_visible.h"
#include "lib/record/record.h"

/*
 * Entries: values from the registry's watches, and how far they can be trusted. The states and
 * their diagram are in internal.h; every change of state goes through set_state(), which keeps the
 * lists and the counters.
 */

enum { DOUBT_MS = 1000 };

static const enum registry_watch_kind watch_kinds[] = { REGISTRY_WATCH_DATA,
	REGISTRY_WATCH_CHILDREN };

/* Two blocks and one of the registry's index. */
static size_t watch_bytes(const struct registry_watch *watch)
{
	return registry_watch_bytes(watch) + 3 * CACHE_ALLOCATION_BYTES;
}

static size_t value_bytes(const struct registry_value *value)
{
	size_t of_list = value->children ? CACHE_ALLOCATION_BYTES : 0;
	return value->bytes ? value->bytes + of_list + CACHE_ALLOCATION_BYTES : 0;
}

/* The value counts with each entry: the registry and the answers hold the same one. */
static size_t entry_bytes(const struct cache_entry *entry)
{
	return sizeof(*entry) + CACHE_ALLOCATION_BYTES +
		(entry->value ? value_bytes(entry->value) : 0) +
		(entry->watch ? watch_bytes(entry->watch) : 0);
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
		list_init(&entry->link);
		node->entries[kind] = entry;
		cache->entry_count++;
		cache_charge(cache, 0, entry_bytes(entry));
	}
	return entry;
}

bool cache_children_fit(struct cache *cache, const struct cache_entry *children)
{
	const size_t each = sizeof(struct cache_node) + sizeof(struct cache_entry) +
		sizeof(struct registry_value) + watch_bytes(NULL) + 3 * CACHE_ALLOCATION_BYTES;
	size_t least = 0;
	for (size_t i = 0; i < cache_child_count(children); i++) {
		/* its node and its watch have the path */
		least += each + 2 * strlen(children->value->children[i]);
	}
	bool fits = least <= cache->options.max_size_bytes;
	if (!fits) {
		cache_refused_note(cache, children->node->path, cache_child_count(children));
	}
	return fits;
}

/* ---- states ---- */

static bool is_unconfirmed(const struct cache_entry *entry)
{
	return entry->value && entry->watch && entry->state != CACHE_LIVE;
}

static void set_state(struct cache_entry *entry, enum cache_entry_state state)
{
	struct cache *cache = entry->cache;
	cache->generation += (entry->state == CACHE_LIVE) != (state == CACHE_LIVE);
	cache->unconfirmed -= is_unconfirmed(entry);
	list_remove(&entry->link);
	entry->state = state;
	if (state == CACHE_DOUBTED) {
		list_append(&cache->doubted, &entry->link);
		if (!timer_runs(&cache->doubt_timer)) {
			timer_start(&cache->doubt_timer, DOUBT_MS);
		}
	}
	cache->unconfirmed += is_unconfirmed(entry);
}

int64_t cache_entry_true_at_ms(const struct cache_entry *entry)
{
	return entry->state == CACHE_LIVE ? cache_heard_ms(entry->cache, clock_monotonic_ms())
					  : entry->true_at_ms;
}

/* ---- values ---- */

/* Shares it with the registry. `is_another`: its content is not that of the one before. */
static void set_value(
	struct cache_entry *entry, const struct registry_value *value, bool is_another)
{
	size_t before = entry_bytes(entry);
	const struct registry_value *old = entry->value;
	entry->value = registry_value_hold(value);
	registry_value_release(old);
	if (is_another) {
		entry->content = CACHE_CONTENT_UNSEEN;
		entry->hidden = entry->kind == CACHE_DATA && value->data &&
			json_has_hidden(value->data, value->data_len);
		entry->cache->generation++;
		cache_data_changed(entry, !value->code);
	}
	cache_charge(entry->cache, before, entry_bytes(entry));
}

/* Nobody sees the data of a node that cannot be read as a record. */
static bool same_value(const struct cache_entry *entry, const struct registry_value *value)
{
	const struct registry_value *old = entry->value;
	if (!old || old->code != value->code || !old->code) {
		return old && registry_value_same(old, value);
	}
	bool has_reasons = cache_is_there(old->code) && old->why && value->why;
	return !has_reasons || strcmp(old->why, value->why) == 0;
}

/* As far as answers show it. */
static bool same_stat(const struct registry_stat *a, const struct registry_stat *b)
{
	return a->created_ms == b->created_ms && a->size == b->size && a->node_id == b->node_id;
}

bool cache_entry_is_record(struct cache_entry *entry)
{
	if (entry->content == CACHE_CONTENT_UNSEEN) {
		struct record *record = NULL;
		bool valid = !cache_code(entry) &&
			!allocated_code(record_decode(
				&record, entry->value->data, entry->value->data_len, NULL));
		record_free(record);
		entry->content = valid ? CACHE_CONTENT_RECORD : CACHE_CONTENT_OTHER;
	}
	return entry->content == CACHE_CONTENT_RECORD;
}

void cache_entry_append_data(const struct cache_entry *data, struct buffer *out)
{
	if (data->hidden) {
		json_append_visible(out, data->value->data, data->value->data_len);
	} else {
		buffer_append(out, data->value->data, data->value->data_len);
	}
}

void cache_entry_restore(struct cache *cache, struct cache_entry *entry,
	const struct registry_result *saved, int64_t true_at_ms)
{
	const struct registry_value *value = registry_value_copy(saved);
	allocated((void *)(uintptr_t)value);
	set_value(entry, value, true);
	registry_value_release(value);
	/* Observers get it with their first picture, and hear when it goes. */
	entry->existed = cache_entry_exists(entry);
	entry->true_at_ms = true_at_ms;
	cache_entry_load(cache, entry, false);
}

/* ---- states from the registry ---- */

static bool is_nothing(const struct cache_entry *entry, const struct registry_result *result)
{
	return result->err.code == BERTH_PATH_NOT_FOUND ||
		(!result->err.code && entry->kind == CACHE_CHILDREN &&
			result->children_count + result->foreign_count == 0);
}

static bool was_something(const struct cache_entry *entry)
{
	const struct registry_value *value = entry->value;
	return value && !value->code &&
		(entry->kind == CACHE_DATA || value->stat.children + value->stat.foreign > 0);
}

static bool is_in_doubt(const struct cache_entry *entry)
{
	return entry->state == CACHE_DOUBTED || entry->state == CACHE_RECHECKED;
}

static bool is_doubtful(const struct cache_entry *entry, const struct registry_result *result)
{
	if (!is_nothing(entry, result)) {
		return false;
	}
	const struct cache_entry *without = result->err.code == BERTH_PATH_NOT_FOUND
		? cache_entry_without(entry)
		: NULL;
	if (without) {
		return is_in_doubt(without);
	}
	bool first = entry->state == CACHE_UNCONFIRMED || entry->state == CACHE_READING;
	return (first || entry->state == CACHE_DOUBTED) && was_something(entry);
}

/* A read can fail here, for lack of memory: what is known is no less true for it. */
static bool is_no_answer(const struct cache_entry *entry, int code)
{
	return code == BERTH_REGISTRY_UNAVAILABLE || code == BERTH_TIMEOUT ||
		(code == BERTH_FAILED && entry->value);
}

/*
 * The value is stale until the registry's next report, and answers that waited to have it confirmed
 * do without. A value that was never known is waited for further.
 */
static void distrust(struct cache *cache, struct cache_entry *entry, enum cache_entry_state state)
{
	bool matters = entry->value && (entry->state == CACHE_LIVE || entry->awaited);
	entry->true_at_ms = entry->value ? cache_entry_true_at_ms(entry) : 0;
	entry->awaited = false;
	set_state(entry, state);
	if (matters) {
		cache_answers_drop(cache, entry->node);
		cache_mark_dirty(cache, entry->node);
	}
}

static void on_state(
	struct cache *cache, struct cache_entry *entry, const struct registry_value *value)
{
	bool changed = !same_value(entry, value);
	bool news = changed || entry->awaited || entry->state != CACHE_LIVE ||
		!same_stat(&entry->value->stat, &value->stat);
	if (changed) {
		cache->change_time_s = cache->change_time_s > 0 ? cache->change_time_s
								: clock_monotonic_s();
		if (entry->kind == CACHE_CHILDREN) {
			cache_list_changes(cache, entry, value);
		}
		entry->changed = true;
	}
	entry->awaited = false;
	cache->unconfirmed -= is_unconfirmed(entry);
	set_value(entry, value, changed);
	cache->unconfirmed += is_unconfirmed(entry);
	if (cache->state == REGISTRY_CONNECTED) {
		set_state(entry, CACHE_LIVE);
	} else { /* it was on its way when the registry went away */
		entry->true_at_ms = cache_heard_ms(cache, clock_monotonic_ms());
		set_state(entry, CACHE_UNCONFIRMED);
	}
	if (news) {
		entry->node->arrived |= (uint8_t)(1u << entry->kind);
		cache_answers_drop(cache, entry->node);
		cache_mark_dirty(cache, entry->node);
	}
}

static void on_change(void *context, const struct registry_result *result)
{
	struct cache_entry *entry = context;
	struct cache *cache = entry->cache;
	if (is_no_answer(entry, result->err.code)) {
		distrust(cache, entry, CACHE_UNCONFIRMED); /* it may have armed no notification */
	} else if (is_doubtful(entry, result)) {
		distrust(cache, entry, CACHE_DOUBTED);
	} else {
		on_state(cache, entry, result->value);
	}
	if (cache_is_full(cache)) {
		cache_flush(cache); /* which may free the entry */
	}
}

void cache_entry_end_doubt(struct cache_entry *entry)
{
	const struct registry_value *value = is_in_doubt(entry) ? registry_watch_value(entry->watch)
								: NULL;
	if (value && value->code == BERTH_PATH_NOT_FOUND) {
		on_state(entry->cache, entry, value);
	}
}

void cache_entry_away(struct cache_entry *entry, int64_t heard_ms)
{
	entry->awaited = false;
	if (entry->state == CACHE_LIVE) {
		entry->true_at_ms = heard_ms;
	}
	if (entry->state > CACHE_READING) {
		set_state(entry, CACHE_UNCONFIRMED);
	}
}

void cache_entry_recheck(struct cache_entry *entry)
{
	if (entry && entry->state == CACHE_DOUBTED) {
		set_state(entry, CACHE_RECHECKED);
		registry_watch_refresh(entry->watch);
	}
}

void cache_recheck_doubted(struct cache *cache)
{
	while (!list_empty(&cache->doubted)) {
		cache_entry_recheck(LIST_ITEM(cache->doubted.next, struct cache_entry, link));
	}
}

/* ---- watches ---- */

void cache_entry_free(struct cache *cache, struct cache_entry *entry)
{
	if (!entry) {
		return;
	}
	set_state(entry, CACHE_IDLE);
	cache->unconfirmed -= is_unconfirmed(entry);
	cache_data_changed(entry, false);
	cache_charge(cache, entry_bytes(entry), 0);
	registry_unwatch(entry->watch);
	registry_value_release(entry->value);
	cache->generation++;
	cache->entry_count--;
	free(entry);
}

static void start(struct cache *cache, struct cache_entry *entry)
{
	size_t before = entry_bytes(entry);
	entry->watch = allocated(registry_watch_known(cache->registry, entry->node->path,
		watch_kinds[entry->kind], entry->value, on_change, entry));
	cache_charge(cache, before, entry_bytes(entry));
	cache->unconfirmed += is_unconfirmed(entry);
	set_state(entry, CACHE_READING);
	cache->loads++;
}

void cache_queue_run(struct cache *cache)
{
	while (!list_empty(&cache->queue) && !cache_is_full(cache) && cache_reachable(cache)) {
		start(cache, LIST_ITEM(cache->queue.next, struct cache_entry, link));
	}
}

void cache_entry_load(struct cache *cache, struct cache_entry *entry, bool urgent)
{
	if (!entry->watch && (urgent || entry->state != CACHE_QUEUED)) {
		set_state(entry, CACHE_QUEUED);
		if (urgent) {
			list_prepend(&cache->queue, &entry->link);
		} else {
			list_append(&cache->queue, &entry->link);
		}
		cache_queue_run(cache);
	}
	if (entry->watch && urgent) {
		registry_watch_hurry(entry->watch);
	}
}

void cache_entry_refresh(struct cache *cache, struct cache_entry *entry)
{
	if (entry->watch && entry->value && !entry->awaited && cache->state == REGISTRY_CONNECTED) {
		entry->awaited = true;
		if (entry->state == CACHE_DOUBTED) {
			set_state(entry, CACHE_RECHECKED);
		}
		registry_watch_refresh(entry->watch);
	}
}

/* ---- the entries of an answer ---- */

static bool is_usable(const struct cache_entry *entry)
{
	int64_t max_stale_ms = entry->cache->options.max_stale_ms;
	return entry->value &&
		(max_stale_ms <= 0 ||
			clock_monotonic_ms() - cache_entry_true_at_ms(entry) <= max_stale_ms);
}

struct cache_entry *cache_need(
	struct cache *cache, struct cache_need *need, const char *path, enum cache_kind kind)
{
	struct cache_entry *entry = cache_entry_get(cache, cache_node_get(cache, path), kind);
	if (entry->state == CACHE_LIVE && !entry->awaited) {
		return entry;
	}
	if (entry->state == CACHE_UNCONFIRMED) {
		registry_watch_hurry(entry->watch);
	}
	bool usable = is_usable(entry);
	/* A stale value is given while the registry is away, or is about to confirm it. */
	bool confirming = !entry->awaited && entry->state != CACHE_IDLE;
	if (cache_reachable(cache) &&
		!(usable && (confirming || cache->state != REGISTRY_CONNECTED))) {
		cache_entry_load(cache, entry, true);
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

struct cache_entry *cache_need_list(struct cache *cache, struct cache_need *need, const char *path)
{
	const struct cache_node *node = cache_node_find(cache, path, strlen(path));
	const struct cache_entry *held = node ? node->entries[CACHE_CHILDREN] : NULL;
	if (!(held && held->value) && cache_refused(cache, path)) {
		need->too_large = true;
		return NULL;
	}
	struct cache_entry *children = cache_need(cache, need, path, CACHE_CHILDREN);
	if (children &&
		(cache_code(children) == BERTH_LIMIT_EXCEEDED ||
			(!cache_code(children) && !cache_children_fit(cache, children)))) {
		need->too_large = true;
	}
	return children;
}

/*
 * The loads that this starts all run at the same time; the reader of the data finds them by
 * cache_data_of().
 */
void cache_need_children(struct cache *cache, struct cache_need *need, const char *path)
{
	const struct cache_entry *children = cache_need_list(cache, need, path);
	size_t count = children && !cache_code(children) ? cache_child_count(children) : 0;
	cache_work(cache, count);
	for (size_t i = 0; !need->too_large && i < count; i++) {
		cache_need(cache, need, children->value->children[i], CACHE_DATA);
	}
}
