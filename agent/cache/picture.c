/*
 * Pictures: the cache's content for users inside the agent and for snapshots of event streams, as
 * cache.h describes them. This file reads nothing from the registry.
 */
#include "agent/cache/follow.h"

#include <string.h>

#include "lib/base/clock.h"

struct picture {
	const struct cache_follow *follow;
	void (*visit)(void *context, const struct cache_record *record);
	void *context;
	int64_t heard_ms; /* when all live entries were true */
	bool live;
	int64_t true_at_ms; /* when the oldest entry was true */
};

static void note(struct picture *picture, const struct cache_entry *entry)
{
	if (!entry || (!entry->value && !entry->expected)) {
		return;
	}
	bool known = entry->value && !entry->changed;
	bool live = known && entry->state == CACHE_LIVE;
	int64_t true_at_ms = live ? picture->heard_ms
		: known           ? entry->true_at_ms
				  : entry->was_true_at_ms;
	if (entry->state == CACHE_UNCONFIRMED) {
		registry_watch_hurry(entry->watch);
	}
	picture->live = picture->live && live;
	if (true_at_ms < picture->true_at_ms) {
		picture->true_at_ms = true_at_ms;
	}
}

static struct picture begin_picture(const struct cache_follow *follow, int64_t now_ms,
	void (*visit)(void *context, const struct cache_record *record), void *context)
{
	return (struct picture){ .follow = follow,
		.visit = visit,
		.context = context,
		.heard_ms = cache_heard_ms(follow->heard, now_ms),
		.live = true,
		.true_at_ms = now_ms };
}

static void visit_node(struct picture *picture, const char *path, enum cache_scope scope)
{
	const struct cache_node *node = cache_node_find(picture->follow->table, path, strlen(path));
	struct cache_entry *data = node ? node->entries[CACHE_DATA] : NULL;
	if (!data || !data->value) { /* a list names the path, and it is still to be read */
		picture->live = false;
	}
	if (!node) {
		return;
	}
	note(picture, data);
	if (data && data->value && cache_entry_exists(data) && picture->visit) {
		const struct registry_value *value = cache_record_of(data);
		struct cache_record record = { path, value ? value->data : NULL,
			value ? value->data_len : 0, value };
		picture->visit(picture->context, &record);
	}
	const struct cache_entry *children = scope == CACHE_SELF ? NULL
								 : node->entries[CACHE_CHILDREN];
	note(picture, children);
	for (size_t i = 0; children && i < cache_child_count(children); i++) {
		visit_node(picture, children->value->children[i],
			scope == CACHE_TREE ? scope : CACHE_SELF);
	}
}

struct cache_picture cache_read_picture(const struct cache_observer *observer, int64_t now_ms,
	void (*visit)(void *context, const struct cache_record *record), void *context)
{
	const struct cache_heard *heard = observer->follow->heard;
	struct picture picture = begin_picture(observer->follow, now_ms, visit, context);
	visit_node(&picture, observer->node->path, observer->scope);
	return (struct cache_picture){
		.confirmed = picture.live && heard->state == REGISTRY_CONNECTED &&
			picture.heard_ms >= cache_not_before_ms(heard, -1, now_ms) &&
			cache_observer_is_ready(observer),
		.live = picture.live,
		.age_ms = now_ms - picture.true_at_ms,
	};
}

bool cache_snapshot_ready(const struct cache_observer *observer)
{
	return cache_written_go_on(&observer->follow->written, observer->node, observer->scope);
}

void cache_write_snapshot(const struct cache_observer *observer, struct buffer *out)
{
	const struct buffer *text = cache_written_finish(
		&observer->follow->written, observer->node, observer->scope);
	buffer_append(out, buffer_text(text), text->len);
}
