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

enum {
	MAX_IN_FLIGHT = 256,
	WATCH_BYTES = 192,            /* the cost of a watch in the registry, beside its path */
	VALUE_BYTES = 2 * 1024 * 1024 /* the largest record with escapes */
};

static const enum registry_watch_kind watch_kinds[] = { REGISTRY_WATCH_DATA,
	REGISTRY_WATCH_CHILDREN };

static size_t entry_bytes(const struct cache_entry *entry)
{
	size_t bytes = sizeof(*entry) + CACHE_ALLOCATION_BYTES;
	if (entry->blob) {
		bytes += sizeof(*entry->blob) + entry->blob->len + 1 + CACHE_ALLOCATION_BYTES;
	}
	if (entry->children) {
		bytes += entry->children_bytes + CACHE_ALLOCATION_BYTES;
	}
	if (entry->why) {
		bytes += strlen(entry->why) + 1 + CACHE_ALLOCATION_BYTES;
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
		list_init(&entry->link);
		node->entries[kind] = entry;
		cache->entry_count++;
		cache_charge(cache, 0, entry_bytes(entry));
	}
	return entry;
}

bool cache_children_fit(struct cache *cache, const struct cache_entry *children)
{
	const size_t each = sizeof(struct cache_node) + sizeof(struct cache_entry) + WATCH_BYTES +
		2 * CACHE_ALLOCATION_BYTES;
	size_t least = 0;
	for (size_t i = 0; i < children->children_count; i++) {
		/* its node and its watch have the path */
		least += each + 2 * strlen(children->children[i]);
	}
	bool fits = least <= cache->options.max_size_bytes;
	if (!fits) {
		cache_refused_note(cache, children->node->path, children->children_count);
	}
	return fits;
}

/* ---- states ---- */

static bool is_unconfirmed(const struct cache_entry *entry)
{
	return entry->known && entry->watch && entry->state != CACHE_LIVE;
}

static void set_state(struct cache_entry *entry, enum cache_entry_state state)
{
	struct cache *cache = entry->cache;
	cache->generation += (entry->state == CACHE_LIVE) != (state == CACHE_LIVE);
	cache->unconfirmed -= is_unconfirmed(entry);
	if (entry->state == CACHE_READING && state != CACHE_READING) {
		cache->in_flight--;
		ev_prepare_start(cache->loop, &cache->flush); /* which starts the next one */
	}
	list_remove(&entry->link);
	entry->state = state;
	cache->in_flight += state == CACHE_READING;
	if (state == CACHE_DOUBTED) {
		list_append(&cache->doubted, &entry->link);
		ev_timer_start(cache->loop, &cache->doubt_timer);
	}
	cache->unconfirmed += is_unconfirmed(entry);
}

int64_t cache_entry_true_at_ms(const struct cache_entry *entry)
{
	return entry->state == CACHE_LIVE ? cache_heard_ms(entry->cache, clock_monotonic_ms())
					  : entry->true_at_ms;
}

/* ---- values ---- */

static void forget_value(struct cache_entry *entry)
{
	cache_body_release(entry->blob);
	entry->blob = NULL;
	free(entry->why);
	entry->why = NULL;
	free(entry->children);
	entry->children = NULL;
	entry->children_count = 0;
	entry->foreign_count = 0;
	entry->content = CACHE_CONTENT_UNSEEN;
	entry->cache->generation++;
}

/* Data as clients get it: as stored, unless it would play tricks on their terminals. */
static struct cache_blob *make_blob(const char *data, size_t len)
{
	if (!data || !json_has_hidden(data, len)) {
		return cache_blob_create(data ? data : "", len);
	}
	struct buffer visible;
	buffer_init(&visible, VALUE_BYTES);
	json_append_visible(&visible, data, len);
	struct cache_blob *blob = visible.failed
		? cache_blob_create(data, len)
		: cache_blob_create(buffer_text(&visible), visible.len);
	buffer_finish(&visible);
	return blob;
}

/* The registry keeps foreign children behind the others. */
static void set_children(
	struct cache_entry *entry, char *const *children, size_t known_count, size_t foreign_count)
{
	size_t count = known_count + foreign_count;
	size_t bytes = count * sizeof(char *);
	for (size_t i = 0; i < count; i++) {
		bytes += strlen(children[i]) + 1;
	}
	entry->children_bytes = bytes;
	entry->children_count = known_count;
	entry->foreign_count = foreign_count;
	if (count == 0) {
		return;
	}
	entry->children = allocate_zeroed(1, bytes);
	char *at = (char *)(entry->children + count);
	for (size_t i = 0; i < count; i++) {
		entry->children[i] = at;
		at = stpcpy(at, children[i]) + 1;
	}
}

static void set_value(struct cache_entry *entry, const struct registry_result *result)
{
	size_t before = entry_bytes(entry);
	forget_value(entry);
	entry->code = result->err.code;
	if (entry->code && cache_entry_exists(entry) && *result->err.msg) {
		entry->why = allocate_text(result->err.msg);
	}
	if (!entry->code && entry->kind == CACHE_DATA) {
		entry->blob = make_blob(result->data, result->data_len);
	} else if (!entry->code) {
		set_children(
			entry, result->children, result->children_count, result->foreign_count);
	}
	cache_charge(entry->cache, before, entry_bytes(entry));
}

static bool same_data(const struct cache_entry *entry, const struct registry_result *result)
{
	struct cache_blob *blob = make_blob(result->data, result->data_len);
	bool same = entry->blob && entry->blob->len == blob->len &&
		memcmp(entry->blob->data, blob->data, blob->len) == 0;
	cache_body_release(blob);
	return same;
}

static bool same_children(const struct cache_entry *entry, const struct registry_result *result)
{
	bool same = entry->children_count == result->children_count &&
		entry->foreign_count == result->foreign_count;
	for (size_t i = 0; same && i < entry->children_count + entry->foreign_count; i++) {
		same = strcmp(entry->children[i], result->children[i]) == 0;
	}
	return same;
}

static bool same_value(const struct cache_entry *entry, const struct registry_result *result)
{
	return entry->known && entry->code == result->err.code &&
		(!entry->why || strcmp(entry->why, result->err.msg) == 0) &&
		(entry->code ||
			(entry->kind == CACHE_DATA ? same_data(entry, result)
						   : same_children(entry, result)));
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
		bool valid = !entry->code &&
			!allocated_code(
				record_decode(&record, entry->blob->data, entry->blob->len, NULL));
		record_free(record);
		entry->content = valid ? CACHE_CONTENT_RECORD : CACHE_CONTENT_OTHER;
	}
	return entry->content == CACHE_CONTENT_RECORD;
}

void cache_entry_restore(struct cache *cache, struct cache_entry *entry,
	const struct registry_result *value, int64_t true_at_ms)
{
	set_value(entry, value);
	entry->stat = value->stat;
	entry->known = true;
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
	return entry->known && !entry->code &&
		(entry->kind == CACHE_DATA || entry->children_count + entry->foreign_count > 0);
}

/* Nobody has heard a contradiction: the state, and so the time of its truth, stay. */
void cache_entry_imply_absent(struct cache *cache, struct cache_entry *entry)
{
	const struct registry_result absent = { .err.code = BERTH_PATH_NOT_FOUND };
	if (entry->kind == CACHE_CHILDREN) {
		cache_list_changes(cache, entry, &absent);
	}
	set_value(entry, &absent);
	entry->stat = absent.stat;
	entry->changed = true;
	entry->learnt = ++cache->states;
	cache_answers_drop(cache, entry->node);
	cache_mark_dirty(cache, entry->node);
}

static bool is_doubtful(const struct cache_entry *entry, const struct registry_result *result)
{
	bool first = entry->state == CACHE_UNCONFIRMED || entry->state == CACHE_READING;
	return (first || entry->state == CACHE_DOUBTED) && was_something(entry) &&
		is_nothing(entry, result);
}

/* A read can fail here, for lack of memory: what is known is no less true for it. */
static bool is_no_answer(const struct cache_entry *entry, int code)
{
	return code == BERTH_REGISTRY_UNAVAILABLE || code == BERTH_TIMEOUT ||
		(code == BERTH_FAILED && entry->known);
}

/*
 * The value is stale until the registry's next report, and answers that waited to have it confirmed
 * do without. A value that was never known is waited for further.
 */
static void distrust(struct cache *cache, struct cache_entry *entry, enum cache_entry_state state)
{
	bool matters = entry->known && (entry->state == CACHE_LIVE || entry->awaited);
	entry->true_at_ms = entry->known ? cache_entry_true_at_ms(entry) : 0;
	entry->awaited = false;
	set_state(entry, state);
	if (matters) {
		cache_answers_drop(cache, entry->node);
		cache_mark_dirty(cache, entry->node);
	}
}

static void on_state(
	struct cache *cache, struct cache_entry *entry, const struct registry_result *result)
{
	bool changed = !same_value(entry, result);
	bool news = changed || entry->awaited || entry->state != CACHE_LIVE ||
		!same_stat(&entry->stat, &result->stat);
	if (changed) {
		cache->change_time_s = cache->change_time_s > 0 ? cache->change_time_s
								: clock_monotonic_s();
		if (entry->kind == CACHE_CHILDREN) {
			cache_list_changes(cache, entry, result);
		}
		set_value(entry, result);
		entry->changed = true;
	}
	entry->stat = result->stat;
	entry->awaited = false;
	entry->learnt = ++cache->states;
	cache->unconfirmed -= is_unconfirmed(entry);
	entry->known = true;
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
		set_state(entry, CACHE_DOUBTED);
	} else if (entry->kind == CACHE_DATA && cache_list_comes_first(cache, entry, result)) {
		distrust(cache, entry, CACHE_DOUBTED);
	} else {
		on_state(cache, entry, result);
	}
	if (cache_is_full(cache)) {
		cache_flush(cache); /* which may free the entry */
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
	cache_charge(cache, entry_bytes(entry), 0);
	registry_unwatch(entry->watch);
	forget_value(entry);
	cache->entry_count--;
	free(entry);
}

static void start(struct cache *cache, struct cache_entry *entry)
{
	size_t before = entry_bytes(entry);
	entry->watch = allocated(registry_watch(
		cache->registry, entry->node->path, watch_kinds[entry->kind], on_change, entry));
	cache_charge(cache, before, entry_bytes(entry));
	cache->unconfirmed += is_unconfirmed(entry);
	set_state(entry, CACHE_READING);
	cache->loads++;
}

void cache_queue_run(struct cache *cache)
{
	while (!list_empty(&cache->queue) && cache->in_flight < MAX_IN_FLIGHT &&
		!cache_is_full(cache) && cache_reachable(cache)) {
		start(cache, LIST_ITEM(cache->queue.next, struct cache_entry, link));
	}
}

void cache_entry_load(struct cache *cache, struct cache_entry *entry, bool urgent)
{
	if (entry->watch || (entry->state == CACHE_QUEUED && !urgent)) {
		return;
	}
	struct cache_entry *data = entry->node->entries[CACHE_DATA];
	set_state(entry, CACHE_QUEUED);
	if (urgent && entry->kind == CACHE_CHILDREN && data && data->state == CACHE_QUEUED) {
		/*
		 * Behind the data: the data of an ephemeral node implies that it has no children.
		 */
		list_prepend(&data->link, &entry->link);
	} else if (urgent) {
		list_prepend(&cache->queue, &entry->link);
	} else {
		list_append(&cache->queue, &entry->link);
	}
	cache_queue_run(cache);
}

void cache_entry_refresh(struct cache *cache, struct cache_entry *entry)
{
	if (entry->watch && entry->known && !entry->awaited && cache->state == REGISTRY_CONNECTED) {
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
	return entry->known &&
		(max_stale_ms <= 0 ||
			clock_monotonic_ms() - cache_entry_true_at_ms(entry) <= max_stale_ms);
}

/* Clients have seen a list without the path since its value came. */
static void end_unlisted(struct cache *cache, struct cache_entry *entry)
{
	if (entry->state != CACHE_LIVE && entry->known && cache_entry_exists(entry)) {
		const struct cache_entry *list = cache_list_without(cache, entry->node->path);
		if (list && list->learnt > entry->learnt) {
			cache_entry_imply_absent(cache, entry);
		}
	}
}

struct cache_entry *cache_need(
	struct cache *cache, struct cache_need *need, const char *path, enum cache_kind kind)
{
	struct cache_entry *entry = cache_entry_get(cache, cache_node_get(cache, path), kind);
	if (entry->state == CACHE_LIVE && !entry->awaited) {
		return entry;
	}
	end_unlisted(cache, entry);
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
		need->outdated = need->outdated || entry->known;
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
	if (!(held && held->known) && cache_refused(cache, path)) {
		need->too_large = true;
		return NULL;
	}
	struct cache_entry *children = cache_need(cache, need, path, CACHE_CHILDREN);
	if (children &&
		(children->code == BERTH_LIMIT_EXCEEDED ||
			(!children->code && !cache_children_fit(cache, children)))) {
		need->too_large = true;
	}
	return children;
}

/*
 * The loads that this starts all run beside each other; the reader of the data finds them by
 * cache_data_of().
 */
void cache_need_children(struct cache *cache, struct cache_need *need, const char *path)
{
	const struct cache_entry *children = cache_need_list(cache, need, path);
	size_t count = children && !children->code ? children->children_count : 0;
	cache_work(cache, count);
	for (size_t i = 0; !need->too_large && i < count; i++) {
		cache_need(cache, need, children->children[i], CACHE_DATA);
	}
}
