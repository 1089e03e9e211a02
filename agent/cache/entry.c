#include "agent/cache/entry.h"

#include <stdlib.h>
#include <string.h>

#include "agent/base/allocate.h"
#include "agent/cache/listing.h"
#include "lib/base/clock.h"
#include "lib/base/json_visible.h"
#include "lib/base/path.h"
#include "lib/record/record.h"

/*
 * Entries: values from the registry's watches, and how far they can be trusted. The states and
 * their diagram are in entry.h; every change of state goes through set_state(), which keeps the
 * lists and the counters.
 */

enum { DOUBT_MS = 1000, CHANGES_BYTES = 8 * 1024 * 1024 };

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

struct cache_entry *cache_data_of(const struct cache_store *store, const char *path)
{
	const struct cache_node *node = cache_node_find(store->table, path, strlen(path));
	return node ? node->entries[CACHE_DATA] : NULL;
}

struct cache_entry *cache_entry_get(
	struct cache_store *store, struct cache_node *node, enum cache_kind kind)
{
	struct cache_entry *entry = node->entries[kind];
	if (!entry) {
		entry = allocate_zeroed(1, sizeof(*entry));
		entry->store = store;
		entry->node = node;
		entry->kind = kind;
		list_init(&entry->link);
		node->entries[kind] = entry;
		store->entry_count++;
		cache_charge(store->table, 0, entry_bytes(entry));
	}
	return entry;
}

bool cache_children_fit(const struct cache_entry *children)
{
	struct cache_store *store = children->store;
	const size_t each = sizeof(struct cache_node) + sizeof(struct cache_entry) +
		sizeof(struct registry_value) + watch_bytes(NULL) + 3 * CACHE_ALLOCATION_BYTES;
	size_t least = 0;
	for (size_t i = 0; i < cache_child_count(children); i++) {
		/* its node and its watch have the path */
		least += each + 2 * strlen(children->value->children[i]);
	}
	bool fits = least <= store->table->max_bytes;
	if (!fits) {
		cache_refused_note(
			&store->refusals, children->node->path, cache_child_count(children));
	}
	return fits;
}

/* ---- states ---- */

static bool is_unconfirmed(const struct cache_entry *entry)
{
	return entry->value ? entry->watch && entry->state != CACHE_LIVE : entry->expected;
}

void cache_entry_expect(struct cache_entry *entry)
{
	struct cache_store *store = entry->store;
	store->unconfirmed -= is_unconfirmed(entry);
	entry->expected = true;
	store->unconfirmed += is_unconfirmed(entry);
}

/* The registry has reported that there is nothing, and the value from before counts still. */
static bool is_denied(const struct cache_entry *entry)
{
	return entry->state >= CACHE_UNCONFIRMED && !list_empty(&entry->link);
}

static void set_state(struct cache_entry *entry, enum cache_entry_state state)
{
	struct cache_store *store = entry->store;
	bool denied = state == CACHE_DOUBTED || state == CACHE_RECHECKED ||
		(state == CACHE_UNCONFIRMED && is_denied(entry));
	store->generation += (entry->state == CACHE_LIVE) != (state == CACHE_LIVE);
	store->unconfirmed -= is_unconfirmed(entry);
	list_remove(&entry->link);
	entry->state = state;
	if (denied) {
		list_append(&store->doubted, &entry->link);
	}
	if (state == CACHE_DOUBTED && !timer_runs(&store->doubt)) {
		timer_start(&store->doubt, DOUBT_MS);
	}
	store->unconfirmed += is_unconfirmed(entry);
}

int64_t cache_entry_true_at_ms(const struct cache_entry *entry)
{
	return entry->state == CACHE_LIVE
		? cache_heard_ms(entry->store->heard, clock_monotonic_ms())
		: entry->true_at_ms;
}

static void report_change(const struct cache_entry *entry)
{
	const struct cache_store_events *events = &entry->store->events;
	events->on_change(events->context, entry->node, entry->kind);
}

/* ---- values ---- */

static void report_data(const struct cache_entry *entry, bool known)
{
	const struct cache_store *store = entry->store;
	if (store->on_data && entry->kind == CACHE_DATA) {
		store->on_data(store->on_data_context, entry->node->path, known);
	}
}

/* As far as answers show it. */
static bool same_stat(const struct registry_stat *a, const struct registry_stat *b)
{
	return a->created_ms == b->created_ms && a->size == b->size && a->node_id == b->node_id;
}

/* A successor must not get it from the file that is being written, see snapshot.h. */
static void note_change(struct cache_entry *entry)
{
	struct cache_saving *saving = &entry->store->saving;
	if (entry->save != saving->count) {
		entry->save = saving->count;
		saving->changed++;
		buffer_printf(&saving->changes, "%d%s\n", (int)entry->kind, entry->node->path);
	}
}

/* Shares it with the registry. `is_another`: its content is not that of the one before. */
static void set_value(
	struct cache_entry *entry, const struct registry_value *value, bool is_another)
{
	struct cache_store *store = entry->store;
	size_t before = entry_bytes(entry);
	const struct registry_value *old = entry->value;
	if (is_another || !same_stat(&old->stat, &value->stat)) {
		note_change(entry);
	}
	store->unconfirmed -= is_unconfirmed(entry);
	entry->value = registry_value_hold(value);
	store->unconfirmed += is_unconfirmed(entry);
	registry_value_release(old);
	if (is_another) {
		entry->content = CACHE_CONTENT_UNSEEN;
		entry->hidden = entry->kind == CACHE_DATA && value->data &&
			json_has_hidden(value->data, value->data_len);
		store->generation++;
		report_data(entry, !value->code);
	}
	cache_charge(store->table, before, entry_bytes(entry));
}

/* Nobody sees the data of a node that cannot be read as a record. */
static bool same_value(const struct cache_entry *entry, const struct registry_value *value)
{
	const struct registry_value *old = entry->value;
	if (!old || old->code != value->code || !old->code) {
		return old && registry_value_same(old, value);
	}
	bool has_reasons = registry_value_exists(old) && old->why && value->why;
	return !has_reasons || strcmp(old->why, value->why) == 0;
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

void cache_entry_restore(
	struct cache_entry *entry, const struct registry_result *saved, int64_t true_at_ms)
{
	const struct registry_value *value = registry_value_copy(saved);
	allocated((void *)(uintptr_t)value);
	set_value(entry, value, true);
	registry_value_release(value);
	/* Observers get it with their first picture, and hear when it goes. */
	entry->existed = cache_entry_exists(entry);
	entry->true_at_ms = true_at_ms;
	cache_entry_load(entry, false);
}

/* ---- lists ---- */

/* Accepts NULL, and an entry that is not DOUBTED. */
static void recheck(struct cache_entry *entry)
{
	if (entry && entry->state == CACHE_DOUBTED) {
		set_state(entry, CACHE_RECHECKED);
		registry_watch_refresh(entry->watch);
	}
}

/* If its absence is doubted: believes it, since the list that lacks the path is believed. */
static void end_doubt(struct cache_entry *entry);

/*
 * The next list lacks the path. It is new to observers when it is listed again, even if its value
 * is the same. A path that was kept only because the list named it may go.
 */
static void unlist(const struct cache_store *store, struct cache_node *child)
{
	struct cache_entry *data = child->entries[CACHE_DATA];
	for (int kind = CACHE_DATA; kind <= CACHE_CHILDREN; kind++) {
		if (child->entries[kind]) {
			end_doubt(child->entries[kind]);
		}
	}
	if (data) {
		data->in_list = false;
	}
	if (data && data->value && !cache_entry_exists(data)) {
		cache_mark_dirty(store->turn, child);
	}
}

/* There was no list before to compare with: what it lacks may be doubted since then. */
static void end_doubts(const struct cache_entry *list, const struct registry_value *next)
{
	struct cache_store *store = list->store;
	struct list all;
	list_init(&all);
	list_move_all(&all, &store->doubted);
	while (!list_empty(&all)) { /* the end of one may be that of others */
		struct cache_entry *entry = LIST_ITEM(all.next, struct cache_entry, link);
		list_remove(&entry->link);
		list_append(&store->doubted, &entry->link);
		if (path_is_child(entry->node->path, list->node->path) &&
			!registry_value_names(next, entry->node->path)) {
			end_doubt(entry);
		}
	}
}

static bool is_whole_list(const struct registry_value *value)
{
	return value && registry_value_is_whole_list(value);
}

/* The list of children is about to have this state: news of those that it lacks, or names first. */
static void list_changes(const struct cache_entry *list, const struct registry_value *next)
{
	const struct cache_store *store = list->store;
	if (is_whole_list(next) && !is_whole_list(list->value)) {
		end_doubts(list, next);
	}
	size_t old = 0;
	size_t new = 0;
	while (old < cache_child_count(list) || new < next->stat.children) {
		int order = old == cache_child_count(list) ? 1
			: new == next->stat.children
			? -1
			: strcmp(list->value->children[old], next->children[new]);
		const char *path = order <= 0 ? list->value->children[old] : next->children[new];
		struct cache_node *child = order ? cache_node_find(store->table, path, strlen(path))
						 : NULL;
		if (child && order < 0) {
			unlist(store, child);
		} else if (child) {
			recheck(child->entries[CACHE_DATA]);
		}
		old += order <= 0;
		new += order >= 0;
	}
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

static bool is_doubtful(const struct cache_entry *entry, const struct registry_result *result)
{
	if (!is_nothing(entry, result)) {
		return false;
	}
	const struct cache_entry *without = result->err.code == BERTH_PATH_NOT_FOUND
		? cache_entry_without(entry)
		: NULL;
	if (without) {
		return cache_entry_news(without) != NULL;
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
static void distrust(struct cache_entry *entry, enum cache_entry_state state)
{
	bool matters = entry->value && (entry->state == CACHE_LIVE || entry->awaited);
	entry->true_at_ms = entry->value ? cache_entry_true_at_ms(entry) : 0;
	entry->awaited = false;
	set_state(entry, state);
	if (matters) {
		report_change(entry);
	}
}

static void on_state(
	struct cache_store *store, struct cache_entry *entry, const struct registry_value *value)
{
	bool changed = !same_value(entry, value);
	bool news = changed || entry->awaited || entry->state != CACHE_LIVE ||
		!same_stat(&entry->value->stat, &value->stat);
	if (changed && !entry->changed && entry->value) {
		entry->was_true_at_ms = cache_entry_true_at_ms(entry);
	}
	if (changed) {
		store->change_time_s = store->change_time_s > 0 ? store->change_time_s
								: clock_monotonic_s();
		if (entry->kind == CACHE_CHILDREN) {
			list_changes(entry, value);
		}
		entry->changed = true;
	}
	entry->awaited = false;
	list_remove(&entry->link); /* no doubt is left */
	set_value(entry, value, changed);
	if (store->heard->state == REGISTRY_CONNECTED) {
		set_state(entry, CACHE_LIVE);
	} else { /* it was on its way when the registry went away */
		entry->true_at_ms = cache_heard_ms(store->heard, clock_monotonic_ms());
		set_state(entry, CACHE_UNCONFIRMED);
	}
	if (news) {
		entry->node->arrived |= (uint8_t)(1u << entry->kind);
		report_change(entry);
	}
}

static void end_doubt(struct cache_entry *entry)
{
	const struct registry_value *value = cache_entry_news(entry);
	bool is_absent = value && value->code == BERTH_PATH_NOT_FOUND;
	bool denied = value && is_denied(entry);
	if (is_absent || denied) {
		on_state(entry->store, entry, registry_value_absent());
	}
	if (denied && !is_absent) { /* nobody has answered since */
		distrust(entry, CACHE_UNCONFIRMED);
	}
}

static void on_change(void *context, const struct registry_result *result)
{
	struct cache_entry *entry = context;
	struct cache_store *store = entry->store;
	if (is_no_answer(entry, result->err.code)) {
		distrust(entry, CACHE_UNCONFIRMED); /* it may have armed no notification */
	} else if (is_doubtful(entry, result)) {
		distrust(entry, CACHE_DOUBTED);
	} else {
		on_state(store, entry, result->value);
	}
	/* Nobody gets a list before the ends of the paths that it lacks. */
	if (cache_is_full(store->table) && !registry_watch_is_followed(entry->watch)) {
		store->events.on_full(store->events.context); /* which may free the entry */
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

static void on_doubt(void *context)
{
	const struct cache_store *store = context;
	struct list *next;
	for (struct list *at = store->doubted.next; at != &store->doubted; at = next) {
		next = at->next; /* a RECHECKED one goes to the end, and comes again */
		recheck(LIST_ITEM(at, struct cache_entry, link));
	}
}

/* ---- watches ---- */

void cache_entry_free(struct cache_entry *entry)
{
	if (!entry) {
		return;
	}
	struct cache_store *store = entry->store;
	set_state(entry, CACHE_IDLE);
	store->unconfirmed -= is_unconfirmed(entry);
	report_data(entry, false);
	if (entry->value) {
		note_change(entry);
	}
	cache_charge(store->table, entry_bytes(entry), 0);
	registry_unwatch(entry->watch);
	registry_value_release(entry->value);
	store->generation++;
	store->entry_count--;
	free(entry);
}

static void start(struct cache_store *store, struct cache_entry *entry)
{
	size_t before = entry_bytes(entry);
	store->unconfirmed -= is_unconfirmed(entry);
	entry->watch = allocated(registry_watch_known(store->registry, entry->node->path,
		watch_kinds[entry->kind], entry->value, on_change, entry));
	cache_charge(store->table, before, entry_bytes(entry));
	store->unconfirmed += is_unconfirmed(entry);
	set_state(entry, CACHE_READING);
	store->loads++;
}

static bool may_start(const struct cache_store *store)
{
	return !cache_is_full(store->table) && cache_reachable(store->heard);
}

void cache_queue_run(struct cache_store *store)
{
	while (!list_empty(&store->queue) && may_start(store)) {
		if (!cache_may_work(store->turn)) {
			cache_go_on(store->turn);
			return;
		}
		cache_work(store->turn, CACHE_EVENT_STEPS);
		start(store, LIST_ITEM(store->queue.next, struct cache_entry, link));
	}
}

void cache_entry_load(struct cache_entry *entry, bool urgent)
{
	struct cache_store *store = entry->store;
	if (!entry->watch && (urgent || entry->state != CACHE_QUEUED)) {
		set_state(entry, CACHE_QUEUED);
		if (urgent) {
			list_prepend(&store->queue, &entry->link);
		} else {
			list_append(&store->queue, &entry->link);
		}
		if (urgent && may_start(store)) {
			start(store, entry); /* however much this turn has begun */
		} else {
			cache_queue_run(store);
		}
	}
	if (entry->watch && urgent) {
		registry_watch_hurry(entry->watch);
	}
}

void cache_entry_refresh(struct cache_entry *entry)
{
	if (entry->watch && entry->value && !entry->awaited &&
		entry->store->heard->state == REGISTRY_CONNECTED) {
		entry->awaited = true;
		if (entry->state == CACHE_DOUBTED) {
			set_state(entry, CACHE_RECHECKED);
		}
		registry_watch_refresh(entry->watch);
	}
}

/* ---- making and ending ---- */

void cache_store_init(struct cache_store *store, struct registry *registry,
	struct cache_table *table, struct cache_turn *turn, struct cache_heard *heard,
	struct cache_store_events events)
{
	*store = (struct cache_store){
		.registry = registry, .table = table, .turn = turn, .heard = heard, .events = events
	};
	list_init(&store->queue);
	list_init(&store->doubted);
	buffer_init(&store->saving.changes, CHANGES_BYTES);
	timer_init(&store->doubt, turn->loop, "doubted paths", on_doubt, store);
}

void cache_store_finish(struct cache_store *store)
{
	cache_refused_forget(&store->refusals);
	buffer_finish(&store->saving.changes);
	timer_stop(&store->doubt);
}
