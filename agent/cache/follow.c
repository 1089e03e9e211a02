#include "agent/cache/follow.h"

#include <stdlib.h>
#include <string.h>

#include "agent/base/allocate.h"
#include "agent/base/log.h"
#include "agent/cache/listing.h"
#include "agent/cache/need.h"
#include "lib/base/clock.h"
#include "lib/base/path.h"

enum { EVENT_BYTES = 1024 * 1024 };

static bool covers(const struct cache_observer *observer, unsigned levels_below)
{
	return levels_below == 0 || observer->scope == CACHE_TREE ||
		(observer->scope == CACHE_CHILDREN_TOO && levels_below == 1);
}

/* `levels_below`: how far below the observer's path the node is. True ends the visits. */
typedef bool visit_observer(struct cache_observer *observer, unsigned levels_below, void *context);

/* Visits every observer that follows the path; true if a visit ended it. */
static bool each_observer(const struct cache_follow *follow, const struct cache_node *node,
	visit_observer *visit, void *context)
{
	const struct cache_node *at = node;
	size_t len = node->path_len;
	for (unsigned level = 0;; level++) {
		const struct list *head = at ? &at->observers : NULL;
		for (struct list *link = head ? head->next : NULL, *next; link != head;
			link = next) {
			struct cache_observer *observer = LIST_ITEM(
				link, struct cache_observer, link);
			next = link->next;
			if (covers(observer, level) && visit(observer, level, context)) {
				return true;
			}
		}
		if (len <= 1 || follow->wide == 0) {
			return false;
		}
		do {
			len--;
		} while (node->path[len] != '/');
		len = len > 0 ? len : 1;
		at = cache_node_find(follow->table, node->path, len);
	}
}

/* ---- loading ---- */

static void set_state(struct cache_observer *observer, enum cache_observer_state state)
{
	struct cache_follow *follow = observer->follow;
	list_remove(&observer->due_link);
	follow->stale -= observer->state == CACHE_OBSERVER_STALE;
	observer->state = state;
	if (state == CACHE_OBSERVER_DUE) {
		list_append(&follow->due, &observer->due_link);
	}
	follow->stale += state == CACHE_OBSERVER_STALE;
}

static void refuse(struct cache_observer *observer, const struct err *err)
{
	cache_unobserve(observer);
	if (observer->on_refused) {
		observer->on_refused(observer->context, err);
	}
}

static void refuse_too_large(struct cache_observer *observer)
{
	struct cache_follow *follow = observer->follow;
	struct err err = ERR_INIT;
	err_set(&err, BERTH_LIMIT_EXCEEDED,
		"%s%s does not fit into the cache of %zu bytes; "
		"`max_size` in [cache] may be larger",
		observer->node->path, observer->scope == CACHE_TREE ? " with all below it" : "",
		follow->table->max_bytes);
	follow->refusals++;
	refuse(observer, &err);
}

static void try_ready(struct cache_observer *observer, const struct cache_need *need)
{
	const struct cache_follow *follow = observer->follow;
	set_state(observer, CACHE_OBSERVER_LOADING);
	observer->missing = need->missing;
	if (need->too_large) {
		refuse_too_large(observer);
	} else if (need->unavailable > 0 && observer->on_refused) {
		struct err err = ERR_INIT;
		err_set(&err, BERTH_REGISTRY_UNAVAILABLE,
			"the registry is %s, and not all of this is known",
			registry_state_name(follow->heard->state));
		refuse(observer, &err);
	} else if (need->missing == 0 && need->unavailable == 0) {
		set_state(observer, need->stale ? CACHE_OBSERVER_STALE : CACHE_OBSERVER_LIVE);
		if (observer->on_ready) {
			observer->on_ready(observer->context);
		}
	}
}

static bool count_arrivals(struct cache_observer *observer, unsigned levels_below, void *context)
{
	(void)levels_below;
	const size_t *arrived = context;
	cache_work(observer->follow->turn, 1);
	if (observer->state == CACHE_OBSERVER_LOADING) {
		observer->read += *arrived;
		if (observer->missing > *arrived) {
			observer->missing -= *arrived;
		} else {
			set_state(observer, CACHE_OBSERVER_DUE);
		}
	}
	return false;
}

/* The walk has ended for all of them. A callback may end its own observer, but no other. */
static void try_all(
	struct cache_follow *follow, const struct cache_node *node, enum cache_scope scope)
{
	const struct cache_need need = follow->tree.need;
	struct list *next;
	for (struct list *link = node->observers.next; link != &node->observers; link = next) {
		struct cache_observer *observer = LIST_ITEM(link, struct cache_observer, link);
		next = link->next;
		cache_work(follow->turn, 1);
		if (observer->state == CACHE_OBSERVER_DUE && observer->scope == scope) {
			try_ready(observer, &need);
		}
	}
}

void cache_observers_ready(struct cache_follow *follow)
{
	while (!list_empty(&follow->due)) {
		const struct cache_observer *first = LIST_ITEM(
			follow->due.next, struct cache_observer, due_link);
		if (!cache_may_work(follow->turn) ||
			!cache_tree_walk(follow->store, &follow->tree, first->node, first->scope)) {
			cache_turn_wake(follow->turn);
			cache_go_on(follow->turn);
			return;
		}
		try_all(follow, first->node, first->scope);
	}
}

void cache_observers_return(struct cache_follow *follow)
{
	for (struct list *link = follow->observers.next; link != &follow->observers;
		link = link->next) {
		struct cache_observer *observer = LIST_ITEM(link, struct cache_observer, all_link);
		if (observer->state == CACHE_OBSERVER_LOADING && observer->missing == 0) {
			set_state(observer, CACHE_OBSERVER_DUE);
		}
	}
}

/* ---- events ---- */

struct event {
	enum cache_event type;
	const char *path;
	const char *record;
	int64_t was_true_at_ms;
};

static bool send(struct cache_observer *observer, unsigned levels_below, void *context)
{
	(void)levels_below;
	const struct event *event = context;
	cache_work(observer->follow->turn, CACHE_EVENT_STEPS);
	if (cache_observer_is_ready(observer) && observer->on_event) {
		observer->was_true_at_ms = event->was_true_at_ms;
		observer->on_event(observer->context, event->type, event->path, event->record);
	}
	return false;
}

/* Does it follow the children of the node too? */
static bool follows_children(struct cache_observer *observer, unsigned levels_below, void *context)
{
	(void)context;
	return covers(observer, levels_below + 1);
}

static bool refuse_children(struct cache_observer *observer, unsigned levels_below, void *context)
{
	(void)context;
	if (covers(observer, levels_below + 1)) {
		refuse_too_large(observer);
	}
	return false;
}

static bool listens(struct cache_observer *observer, unsigned levels_below, void *context)
{
	(void)levels_below;
	(void)context;
	return cache_observer_is_ready(observer) && observer->on_event;
}

static bool follows(struct cache_observer *observer, unsigned levels_below, void *context)
{
	(void)observer;
	(void)levels_below;
	(void)context;
	return true;
}

static void announce(struct cache_follow *follow, struct cache_node *node, struct cache_entry *data)
{
	if (!each_observer(follow, node, listens, NULL)) {
		return;
	}
	struct buffer record;
	buffer_init(&record, EVENT_BYTES);
	struct event event = { CACHE_DELETED, node->path, NULL, data->was_true_at_ms };
	if (cache_entry_exists(data)) {
		const struct registry_value *value = cache_record_of(data);
		cache_write_line(value ? value->data : NULL, value ? value->data_len : 0, &record);
		event.type = CACHE_UPDATED;
		event.record = buffer_text(&record);
	}
	each_observer(follow, node, send, &event);
	buffer_finish(&record);
}

/* When the path was surely absent, by the list that did not name it; 0: nobody knows. */
static int64_t absent_at_ms(const struct cache_follow *follow, const struct cache_node *node)
{
	const struct cache_node *parent = cache_node_find(
		follow->table, node->path, path_parent_len(node->path));
	const struct cache_entry *list = parent ? parent->entries[CACHE_CHILDREN] : NULL;
	if (!list || !list->value) {
		return 0;
	}
	return list->changed ? list->was_true_at_ms : cache_entry_true_at_ms(list);
}

static void flush_data(
	struct cache_follow *follow, struct cache_node *node, struct cache_entry *data)
{
	bool existed = data->existed;
	if (data->was_true_at_ms == 0) { /* it comes before the list that names it */
		data->was_true_at_ms = absent_at_ms(follow, node);
	}
	data->existed = cache_entry_exists(data);
	data->in_list = data->existed && (data->in_list || cache_is_listed(follow->table, node));
	if (data->existed || existed) {
		announce(follow, node, data);
	}
}

/* Does it hear of the children of the node? */
static bool hears_of_children(struct cache_observer *observer, unsigned levels_below, void *context)
{
	(void)context;
	return cache_observer_is_ready(observer) && covers(observer, levels_below + 1);
}

static bool tell_of_list(struct cache_observer *observer, unsigned levels_below, void *context)
{
	const struct cache_entry *children = context;
	if (observer->on_listed && hears_of_children(observer, levels_below, NULL)) {
		cache_work(observer->follow->turn, CACHE_EVENT_STEPS);
		observer->was_true_at_ms = children->was_true_at_ms;
		observer->on_listed(observer->context);
	}
	return false;
}

static void load_entry(
	struct cache_follow *follow, struct cache_node *node, enum cache_kind kind, bool expected)
{
	struct cache_entry *entry = cache_entry_get(follow->store, node, kind);
	if (expected) {
		cache_entry_expect(entry);
	}
	if (entry->state != CACHE_LIVE) {
		cache_entry_load(entry, true); /* while the registry is away: when it is back */
	}
}

/*
 * A record can be known before the first list of children that names it: a snapshot taken between
 * the two does not show it.
 */
static void flush_child(
	struct cache_follow *follow, const char *path, bool expected, int64_t was_true_at_ms)
{
	struct cache_node *child = cache_node_get(follow->table, path);
	load_entry(follow, child, CACHE_DATA, expected);
	struct cache_entry *data = child->entries[CACHE_DATA];
	if (!data->existed) { /* it was absent at that time, as far as observers know */
		data->was_true_at_ms = was_true_at_ms;
	}
	if (!data->in_list) {
		data->in_list = true;
		/* Else its own announcement is due. */
		if (data->value && cache_entry_exists(data) && !data->changed) {
			data->was_true_at_ms = was_true_at_ms;
			flush_data(follow, child, data);
		}
	}
}

static void flush_children(struct cache_follow *follow, const struct cache_node *node,
	const struct cache_entry *children)
{
	if (cache_code(children) || !each_observer(follow, node, follows_children, NULL)) {
		return;
	}
	if (!cache_children_fit(children)) {
		each_observer(follow, node, refuse_children, NULL);
		return;
	}
	bool expected = each_observer(follow, node, hears_of_children, NULL);
	cache_work(follow->turn, cache_child_count(children));
	for (size_t i = 0; i < cache_child_count(children); i++) {
		flush_child(
			follow, children->value->children[i], expected, children->was_true_at_ms);
	}
}

/* Its data say that it may have children: their list is followed, too. */
static void follow_list(
	struct cache_follow *follow, struct cache_node *node, const struct cache_entry *data)
{
	struct cache_entry *list = node->entries[CACHE_CHILDREN];
	if (!(list && list->value) && data->value && cache_entry_exists(data) &&
		!cache_entry_is_leaf(data) && each_observer(follow, node, follows_children, NULL)) {
		load_entry(follow, node, CACHE_CHILDREN,
			each_observer(follow, node, hears_of_children, NULL));
		list = node->entries[CACHE_CHILDREN];
		list->was_true_at_ms = list->value ? list->was_true_at_ms : data->was_true_at_ms;
	}
}

static bool is_unconfirmed(const struct cache_entry *entry)
{
	return entry && entry->value && entry->state != CACHE_LIVE;
}

/*
 * For a path that could not be read while the registry is there; when the registry goes away, all
 * observers are stale.
 */
static bool send_stale(struct cache_observer *observer, unsigned levels_below, void *context)
{
	const struct cache_node *node = context;
	const struct event stale = { CACHE_STALE, NULL, NULL, 0 };
	cache_work(observer->follow->turn, 1);
	bool concerned = is_unconfirmed(node->entries[CACHE_DATA]) ||
		(covers(observer, levels_below + 1) &&
			is_unconfirmed(node->entries[CACHE_CHILDREN]));
	if (observer->state == CACHE_OBSERVER_LIVE && concerned) {
		set_state(observer, CACHE_OBSERVER_STALE);
		send(observer, levels_below, (void *)(uintptr_t)&stale);
	}
	return false;
}

void cache_observers_flush(struct cache_follow *follow, struct cache_node *node)
{
	struct cache_entry *data = node->entries[CACHE_DATA];
	struct cache_entry *children = node->entries[CACHE_CHILDREN];
	if ((data && data->changed) || (children && children->changed)) {
		cache_written_overtaken(&follow->written, node);
	}
	if (data && data->changed) {
		data->changed = false;
		flush_data(follow, node, data);
	}
	if (data) {
		follow_list(follow, node, data);
	}
	if (children && children->changed) {
		children->changed = false;
		flush_children(follow, node, children);
		each_observer(follow, node, tell_of_list, children);
	}
	if (follow->store->unconfirmed > 0 && follow->heard->state == REGISTRY_CONNECTED) {
		each_observer(follow, node, send_stale, node);
	}
	size_t arrived = (node->arrived & 1u) + (node->arrived >> 1);
	node->arrived = 0;
	cache_tree_arrived(&follow->tree, node, arrived);
	each_observer(follow, node, count_arrivals, &arrived);
}

static bool is_confirmed(struct cache_heard *heard, int64_t now_ms)
{
	int64_t not_before_ms = cache_not_before_ms(heard, -1, now_ms);
	return cache_confirm_since(heard, not_before_ms, now_ms) == CACHE_TRUE;
}

static bool is_fresh(const struct cache_follow *follow, const struct cache_observer *observer)
{
	const struct cache_entry *data = observer->node->entries[CACHE_DATA];
	return follow->store->unconfirmed == 0 ||
		(observer->scope == CACHE_SELF && data && data->state == CACHE_LIVE);
}

/*
 * A server that is heard again may have announced a change that was not read yet: what it says
 * confirms nothing before that.
 */
void cache_observers_freshness(struct cache_follow *follow)
{
	bool heard = follow->heard->state == REGISTRY_CONNECTED &&
		follow->heard->confirmation != CACHE_SILENT;
	bool stale = follow->stale > 0;
	if (heard && (!stale || !is_confirmed(follow->heard, clock_monotonic_ms()))) {
		return;
	}
	for (struct list *link = follow->observers.next, *next; link != &follow->observers;
		link = next) {
		struct cache_observer *observer = LIST_ITEM(link, struct cache_observer, all_link);
		next = link->next;
		enum cache_observer_state other = heard ? CACHE_OBSERVER_STALE
							: CACHE_OBSERVER_LIVE;
		if (observer->state != other || (heard && !is_fresh(follow, observer))) {
			continue;
		}
		set_state(observer, heard ? CACHE_OBSERVER_LIVE : CACHE_OBSERVER_STALE);
		struct event event = { heard ? CACHE_FRESH : CACHE_STALE, NULL, NULL, 0 };
		send(observer, 0, &event);
	}
}

/* ---- coming and going ---- */

bool cache_is_in_tree(const struct cache_follow *follow, const struct cache_node *node)
{
	return each_observer(follow, node, follows, NULL);
}

bool cache_is_observed(const struct cache_follow *follow, const struct cache_node *node)
{
	if (!list_empty(&node->observers)) {
		return true;
	}
	/*
	 * Below the root of a tree absent paths do not count. But a path that is being read may
	 * turn out to exist, and so may a path that the parent's list names: its next read may be
	 * under way while the value is the one from before its creation.
	 */
	bool counts = cache_is_listed(follow->table, node);
	for (int kind = CACHE_DATA; kind <= CACHE_CHILDREN; kind++) {
		const struct cache_entry *entry = node->entries[kind];
		counts = counts ||
			(entry && entry->state != CACHE_IDLE &&
				(!entry->value || cache_entry_exists(entry)));
	}
	return counts && cache_is_in_tree(follow, node);
}

void cache_follow_path(
	struct cache_follow *follow, const char *path, struct cache_observer *observer)
{
	struct cache_node *node = cache_node_get(follow->table, path);
	observer->follow = follow;
	observer->node = node;
	observer->missing = 0;
	observer->read = 0;
	observer->state = CACHE_OBSERVER_LOADING;
	list_init(&observer->link);
	list_init(&observer->all_link);
	list_init(&observer->due_link);
	list_prepend(&node->observers, &observer->link);
	list_prepend(&follow->observers, &observer->all_link);
	follow->wide += observer->scope != CACHE_SELF;
	cache_mark_dirty(follow->turn, node);
}

void cache_unobserve(struct cache_observer *observer)
{
	struct cache_follow *follow = observer->follow;
	if (!observer->node) {
		return;
	}
	set_state(observer, CACHE_OBSERVER_LOADING);
	list_remove(&observer->link);
	if (list_empty(&observer->node->observers)) {
		cache_tree_forget(&follow->tree, observer->node);
		if (follow->written.root == observer->node) {
			cache_written_forget(&follow->written);
		}
	}
	list_remove(&observer->all_link);
	follow->wide -= observer->scope != CACHE_SELF;
	follow->table->unpinned = true;
	observer->node = NULL;
}

const char *cache_observed_path(const struct cache_observer *observer)
{
	return observer->node->path;
}

static struct cache_observer *last_come(const struct cache_follow *follow, bool wide)
{
	for (struct list *link = follow->observers.next; link != &follow->observers;
		link = link->next) {
		struct cache_observer *observer = LIST_ITEM(link, struct cache_observer, all_link);
		if ((observer->scope != CACHE_SELF) == wide) {
			return observer;
		}
	}
	return NULL;
}

bool cache_observers_refuse(struct cache_follow *follow)
{
	struct cache_observer *observer = last_come(follow, true);
	observer = observer ? observer : last_come(follow, false);
	if (!observer) {
		return false;
	}
	refuse_too_large(observer);
	return true;
}

/* ---- warm paths: observed by nobody ---- */

struct warm_path {
	struct list link;
	struct cache_observer observer;
};

static void add_warm(struct cache_follow *follow, const char *pattern)
{
	char *path = allocate_text(pattern);
	size_t len = strlen(path);
	struct warm_path *warm = allocate_zeroed(1, sizeof(*warm));
	if (len >= 3 && strcmp(path + len - 3, "/**") == 0) {
		warm->observer.scope = CACHE_TREE;
		path[len - 3] = '\0';
	}
	list_append(&follow->warm, &warm->link);
	cache_follow_path(follow, *path ? path : "/", &warm->observer);
	free(path);
}

void cache_warm_set(struct cache_follow *follow, char *const *warm, size_t count)
{
	struct list before;
	list_init(&before);
	list_move_all(&before, &follow->warm);
	for (size_t i = 0; i < count; i++) {
		add_warm(follow, warm[i]);
	}
	while (!list_empty(&before)) {
		struct warm_path *path = LIST_ITEM(before.next, struct warm_path, link);
		list_remove(&path->link);
		cache_unobserve(&path->observer);
		free(path);
	}
}

void cache_observers_end(struct cache_follow *follow, const struct err *err)
{
	cache_warm_set(follow, NULL, 0);
	while (!list_empty(&follow->observers)) {
		refuse(LIST_ITEM(follow->observers.next, struct cache_observer, all_link), err);
	}
}

void cache_follow_init(struct cache_follow *follow, struct cache_store *store)
{
	*follow = (struct cache_follow){
		.table = store->table, .turn = store->turn, .heard = store->heard, .store = store
	};
	list_init(&follow->observers);
	list_init(&follow->due);
	list_init(&follow->warm);
	cache_written_init(&follow->written, store);
}
