#include "agent/cache/internal.h"

#include <stdlib.h>
#include <string.h>

#include "agent/base/allocate.h"
#include "agent/base/log.h"
#include "lib/base/path.h"
#include "lib/record/record.h"

enum { EVENT_BYTES = 1024 * 1024 };

/* Calls `visit` for every observer of the path itself, and for the recursive ones above it, until one call says true. */
static bool each_observer(const struct cache *cache, const struct cache_node *node,
	bool (*visit)(struct cache_observer *observer, void *context), void *context)
{
	const struct cache_node *at = node;
	size_t len = node->path_len;
	for (;;) {
		for (struct cache_observer *observer = at ? at->observers : NULL, *next; observer;
			observer = next) {
			next = observer->next;
			if ((at == node || observer->recursive) && visit(observer, context)) {
				return true;
			}
		}
		if (len <= 1 || cache->recursive_observers == 0) {
			return false;
		}
		do {
			len--;
		} while (node->path[len] != '/');
		len = len > 0 ? len : 1;
		at = cache_node_find(cache, node->path, len);
	}
}

/* ---- loading what is observed ---- */

static void need_all(struct cache *cache, struct cache_need *need, const char *path, bool recursive)
{
	cache_need(cache, need, path, CACHE_DATA);
	const struct cache_entry *children = recursive
		? cache_need(cache, need, path, CACHE_CHILDREN)
		: NULL;
	if (children && !children->code) {
		for (size_t i = 0; i < children->children_count; i++) {
			struct cache_node *child = cache_node_get(cache, children->children[i]);
			struct cache_entry *data = cache_entry_get(cache, child, CACHE_DATA);
			/* Who takes this list for a snapshot need not be told again for the path's standing in it. */
			data->listed = true;
			need_all(cache, need, child->path, true);
		}
	}
}

static void set_stale(struct cache_observer *observer, bool stale)
{
	if (observer->stale != stale) {
		observer->stale = stale;
		observer->cache->stale_observers += stale ? 1 : (size_t)-1;
	}
}

static void set_due(struct cache_observer *observer, bool due)
{
	if (observer->due != due) {
		observer->due = due;
		observer->cache->due_observers += due ? 1 : (size_t)-1;
	}
}

static void try_ready(struct cache_observer *observer)
{
	struct cache *cache = observer->cache;
	struct cache_need need = { .missing = 0 };
	need_all(cache, &need, observer->node->path, observer->recursive);
	observer->missing = need.missing;
	if (need.unavailable > 0 && observer->on_refused) {
		struct err err = ERR_INIT;
		err_set(&err, BERTH_REGISTRY_UNAVAILABLE,
			"the registry is %s, and not all of this is known",
			registry_state_name(cache->state));
		cache_unobserve(observer);
		observer->on_refused(observer->context, &err);
	} else if (need.missing == 0 && need.unavailable == 0) {
		observer->ready = true;
		set_stale(observer, need.stale);
		if (observer->on_ready) {
			observer->on_ready(observer->context);
		}
	}
}

static bool advance(struct cache_observer *observer, void *context)
{
	const size_t *landed = context;
	if (!observer->ready) {
		if (observer->missing > *landed) {
			observer->missing -= *landed;
		} else {
			set_due(observer, true);
		}
	}
	return false;
}

void cache_observers_ready(struct cache *cache)
{
	/* New ones stand first. on_ready may end its own observer, but no other. */
	for (struct cache_observer *observer = cache->observers, *next;
		observer && cache->due_observers > 0; observer = next) {
		next = observer->next_all;
		if (observer->due) {
			set_due(observer, false);
			try_ready(observer);
		}
	}
}

/* ---- telling ---- */

static void write_record(const struct cache_entry *data, struct buffer *out)
{
	const struct cache_blob *blob = data->blob;
	struct record *record;
	if (record_decode(&record, blob->data, blob->len, NULL)) {
		buffer_append_text(out, "null");
		return;
	}
	record_free(record);
	/* As stored, but framings are by line: line breaks can only stand between the tokens, where they mean nothing. */
	for (const char *at = blob->data, *end = at + blob->len; at < end;) {
		size_t len = strcspn(at, "\r\n");
		buffer_append(out, at, len);
		at += len + 1;
	}
}

struct event {
	enum cache_event type;
	const char *path;
	const char *record;
};

static bool tell(struct cache_observer *observer, void *context)
{
	const struct event *event = context;
	if (observer->ready && observer->on_event) {
		observer->on_event(observer->context, event->type, event->path, event->record);
	}
	return false;
}

static bool any(struct cache_observer *observer, void *context)
{
	(void)context;
	return observer->recursive;
}

static bool told_anyone(struct cache_observer *observer, void *context)
{
	(void)context;
	return observer->ready && observer->on_event;
}

static void announce(struct cache *cache, struct cache_node *node, struct cache_entry *data)
{
	if (!each_observer(cache, node, told_anyone, NULL)) {
		return;
	}
	data->told = cache->audience;
	struct buffer record;
	buffer_init(&record, EVENT_BYTES);
	struct event event = { CACHE_DELETED, node->path, NULL };
	if (!data->code) {
		write_record(data, &record);
		event.type = CACHE_UPDATED;
		event.record = buffer_text(&record);
	}
	each_observer(cache, node, tell, &event);
	buffer_finish(&record);
}

static void flush_data(struct cache *cache, struct cache_node *node, struct cache_entry *data)
{
	bool was_announced = data->announced;
	data->announced = !data->code;
	data->listed = data->listed && !data->code;
	if (data->announced || was_announced) {
		announce(cache, node, data);
	}
}

/* A record can be known before the list that it stands in: who took a snapshot between the two has not heard of it. */
static void flush_children(
	struct cache *cache, const struct cache_node *node, const struct cache_entry *children)
{
	if (children->code || !each_observer(cache, node, any, NULL)) {
		return;
	}
	for (size_t i = 0; i < children->children_count; i++) {
		struct cache_node *child = cache_node_get(cache, children->children[i]);
		struct cache_need need = { .missing = 0 };
		cache_need(cache, &need, child->path, CACHE_DATA);
		cache_need(cache, &need, child->path, CACHE_CHILDREN);
		struct cache_entry *data = child->entries[CACHE_DATA];
		if (!data->listed) {
			data->listed = true;
			if (data->loaded && !data->code && data->told != cache->audience) {
				flush_data(cache, child, data);
			}
		}
	}
}

static bool is_unconfirmed(const struct cache_entry *entry)
{
	return entry && entry->unconfirmed;
}

/* Of a path that could not be read while the registry is there: when it is away, all are told. */
static bool tell_stale(struct cache_observer *observer, void *context)
{
	const struct cache_node *node = context;
	bool concerned = is_unconfirmed(node->entries[CACHE_DATA]) ||
		(observer->recursive && is_unconfirmed(node->entries[CACHE_CHILDREN]));
	if (observer->ready && !observer->stale && concerned) {
		set_stale(observer, true);
		tell(observer, &(struct event){ CACHE_STALE, NULL, NULL });
	}
	return false;
}

void cache_observers_flush(struct cache *cache, struct cache_node *node)
{
	struct cache_entry *data = node->entries[CACHE_DATA];
	struct cache_entry *children = node->entries[CACHE_CHILDREN];
	if (data && data->changed) {
		data->changed = false;
		flush_data(cache, node, data);
	}
	if (children && children->changed) {
		children->changed = false;
		flush_children(cache, node, children);
	}
	if (cache->unconfirmed > 0 && cache->state == REGISTRY_CONNECTED) {
		each_observer(cache, node, tell_stale, node);
	}
	size_t landed = (node->landed & 1u) + (node->landed >> 1);
	node->landed = 0;
	each_observer(cache, node, advance, &landed);
}

static bool is_fresh(const struct cache *cache, const struct cache_observer *observer)
{
	const struct cache_entry *data = observer->node->entries[CACHE_DATA];
	return cache->unconfirmed == 0 || (!observer->recursive && data && data->live);
}

void cache_observers_freshness(struct cache *cache)
{
	bool connected = cache->state == REGISTRY_CONNECTED;
	if (connected && cache->stale_observers == 0) {
		return;
	}
	for (struct cache_observer *observer = cache->observers, *next; observer; observer = next) {
		next = observer->next_all;
		if (!observer->ready || observer->stale != connected ||
			(connected && !is_fresh(cache, observer))) {
			continue;
		}
		set_stale(observer, !connected);
		struct event event = { connected ? CACHE_FRESH : CACHE_STALE, NULL, NULL };
		tell(observer, &event);
	}
}

/* ---- coming and going ---- */

bool cache_is_observed(const struct cache *cache, const struct cache_node *node)
{
	if (node->observers) {
		return true;
	}
	/* Below a tree's root absent paths are nobody's, but what is being loaded may turn out to be there. */
	bool counts = false;
	for (int kind = CACHE_DATA; kind <= CACHE_CHILDREN; kind++) {
		const struct cache_entry *entry = node->entries[kind];
		counts = counts || (entry && (entry->loading || (entry->loaded && !entry->code)));
	}
	return counts && each_observer(cache, node, any, NULL);
}

void cache_observe(struct cache *cache, const char *path, struct cache_observer *observer)
{
	struct cache_node *node = cache_node_get(cache, path);
	observer->cache = cache;
	observer->node = node;
	observer->missing = 0;
	observer->due = false;
	observer->ready = false;
	observer->stale = false;
	observer->prev = NULL;
	observer->next = node->observers;
	if (node->observers) {
		node->observers->prev = observer;
	}
	node->observers = observer;
	observer->prev_all = NULL;
	observer->next_all = cache->observers;
	if (cache->observers) {
		cache->observers->prev_all = observer;
	}
	cache->observers = observer;
	cache->recursive_observers += observer->recursive;
	cache_mark_dirty(cache, node);
}

void cache_unobserve(struct cache_observer *observer)
{
	struct cache *cache = observer->cache;
	if (!observer->node) {
		return;
	}
	set_stale(observer, false);
	set_due(observer, false);
	*(observer->prev ? &observer->prev->next : &observer->node->observers) = observer->next;
	if (observer->next) {
		observer->next->prev = observer->prev;
	}
	*(observer->prev_all ? &observer->prev_all->next_all
			     : &cache->observers) = observer->next_all;
	if (observer->next_all) {
		observer->next_all->prev_all = observer->prev_all;
	}
	cache->recursive_observers -= observer->recursive;
	observer->node = NULL;
}

const char *cache_observed_path(const struct cache_observer *observer)
{
	return observer->node->path;
}

static struct cache_observer *last_come(const struct cache *cache, bool recursive)
{
	struct cache_observer *observer = cache->observers;
	while (observer && observer->recursive != recursive) {
		observer = observer->next_all;
	}
	return observer;
}

bool cache_observers_refuse(struct cache *cache)
{
	struct cache_observer *observer = last_come(cache, true);
	observer = observer ? observer : last_come(cache, false);
	if (!observer) {
		return false;
	}
	struct err err = ERR_INIT;
	err_set(&err, BERTH_LIMIT_EXCEEDED,
		"%s%s does not fit into the cache (max_size, %zu bytes)", observer->node->path,
		observer->recursive ? " with all below it" : "", cache->options.max_size_bytes);
	log_warn("cache", "no longer watched: %s", err.msg);
	cache->refusals++;
	cache_unobserve(observer);
	if (observer->on_refused) {
		observer->on_refused(observer->context, &err);
	}
	return true;
}

/* ---- snapshots ---- */

static void write_path(const struct cache *cache, const char *path, bool recursive,
	const char **separator, struct buffer *out)
{
	const struct cache_node *node = cache_node_find(cache, path, strlen(path));
	if (!node) {
		return;
	}
	const struct cache_entry *data = node->entries[CACHE_DATA];
	if (data && data->loaded && !data->code) {
		buffer_printf(out, "%s\"%s\":", *separator, path);
		write_record(data, out);
		*separator = ",";
	}
	const struct cache_entry *children = recursive ? node->entries[CACHE_CHILDREN] : NULL;
	for (size_t i = 0; children && i < children->children_count; i++) {
		write_path(cache, children->children[i], true, separator, out);
	}
}

void cache_write_snapshot(const struct cache_observer *observer, struct buffer *out)
{
	const char *separator = "";
	/* What is known but stands in no list yet is not in here: whoever was told of it, this one was not. */
	observer->cache->audience++;
	buffer_append_text(out, "{");
	write_path(observer->cache, observer->node->path, observer->recursive, &separator, out);
	buffer_append_text(out, "}");
}

/* ---- warm paths: observed by nobody ---- */

static void add_warm(struct cache *cache, const char *pattern)
{
	char path[2048];
	size_t len = strlen(pattern);
	bool recursive = len >= 3 && strcmp(pattern + len - 3, "/**") == 0;
	len -= recursive ? 3 : 0;
	if (len >= sizeof(path)) {
		return;
	}
	memcpy(path, pattern, len);
	path[len] = '\0';
	struct warm_path *warm = allocate_zeroed(1, sizeof(*warm));
	warm->observer.recursive = recursive;
	warm->next = cache->warm;
	cache->warm = warm;
	cache_observe(cache, len > 0 ? path : "/", &warm->observer);
}

void cache_warm_set(struct cache *cache, char *const *warm, size_t count)
{
	struct warm_path *before = cache->warm;
	cache->warm = NULL;
	for (size_t i = 0; i < count; i++) {
		add_warm(cache, warm[i]);
	}
	while (before) {
		struct warm_path *next = before->next;
		cache_unobserve(&before->observer);
		free(before);
		before = next;
	}
}
