#include "agent/set/place.h"

#include <stdlib.h>
#include <string.h>

#include "agent/base/allocate.h"
#include "lib/base/clock.h"

/* ---- nodes ---- */

/* The index of the first node that is not before the path. */
static size_t index_of(const struct set_place *place, const char *path)
{
	size_t from = 0;
	size_t to = place->count;
	while (from < to) {
		size_t middle = from + (to - from) / 2;
		if (strcmp(place->paths[middle], path) < 0) {
			from = middle + 1;
		} else {
			to = middle;
		}
	}
	return from;
}

static bool is_at(const struct set_place *place, size_t index, const char *path)
{
	return index < place->count && strcmp(place->paths[index], path) == 0;
}

static void update(struct set_place *place, const char *path)
{
	size_t index = index_of(place, path);
	if (!is_at(place, index, path)) {
		size_t behind = place->count - index;
		place->paths = allocate_grow(place->paths, place->count, sizeof(*place->paths));
		place->nodes = allocate_grow(place->nodes, place->count, sizeof(*place->nodes));
		memmove(place->paths + index + 1, place->paths + index,
			behind * sizeof(*place->paths));
		memmove(place->nodes + index + 1, place->nodes + index,
			behind * sizeof(*place->nodes));
		place->paths[index] = allocate_text(path);
		place->nodes[index] = (struct set_node){ .record = NULL };
		place->count++;
	}
	place->unread += !place->nodes[index].unread;
	place->nodes[index].unread = true;
}

/* The memory of records counts in the cache's. */
static void count_bytes(
	struct set_place *place, const struct set_record *before, const struct set_record *after)
{
	size_t bytes = place->bytes + (after ? after->bytes : 0) - (before ? before->bytes : 0);
	if (place->state != SET_PLACE_REFUSED) {
		cache_reserve(place->cache, place->bytes, bytes);
	}
	place->bytes = bytes;
}

static void forget(struct set_place *place, size_t index)
{
	struct set_record *record = place->nodes[index].record;
	place->unread -= place->nodes[index].unread;
	count_bytes(place, record, NULL);
	set_record_release(record);
	free(place->paths[index]);
}

static void drop(struct set_place *place, const char *path)
{
	size_t index = index_of(place, path);
	if (is_at(place, index, path)) {
		forget(place, index);
		size_t behind = --place->count - index;
		memmove(place->paths + index, place->paths + index + 1,
			behind * sizeof(*place->paths));
		memmove(place->nodes + index, place->nodes + index + 1,
			behind * sizeof(*place->nodes));
	}
}

static void drop_all(struct set_place *place)
{
	while (place->count > 0) {
		forget(place, --place->count);
	}
	free(place->paths);
	free(place->nodes);
	place->paths = NULL;
	place->nodes = NULL;
}

/* ---- the observer ---- */

static void visit(void *context, const struct cache_record *record)
{
	update(context, record->path);
}

static void on_ready(void *context)
{
	struct set_place *place = context;
	drop_all(place);
	place->state = SET_PLACE_KNOWN;
	(void)cache_read_picture(&place->observer, clock_monotonic_ms(), visit, place);
	place->on_change(place->context, INT64_MAX);
}

static void on_event(void *context, enum cache_event event, const char *path, const char *record)
{
	struct set_place *place = context;
	(void)record;
	if (event == CACHE_UPDATED) {
		update(place, path);
	} else if (event == CACHE_DELETED) {
		drop(place, path);
	}
	bool same = event == CACHE_STALE || event == CACHE_FRESH;
	place->on_change(place->context, same ? INT64_MAX : place->observer.was_true_at_ms);
}

static void on_listed(void *context)
{
	struct set_place *place = context;
	place->on_change(place->context, place->observer.was_true_at_ms);
}

static void on_refused(void *context, const struct err *err)
{
	struct set_place *place = context;
	cache_reserve(place->cache, place->bytes, 0); /* it may be about to end */
	place->state = SET_PLACE_REFUSED;
	place->err = *err;
	place->on_change(place->context, place->true_at_ms);
}

static void observe(struct set_place *place)
{
	place->state = SET_PLACE_LOADING;
	place->observer = (struct cache_observer){ .scope = place->scope,
		.on_ready = on_ready,
		.on_event = on_event,
		.on_listed = on_listed,
		.on_refused = on_refused,
		.context = place };
	cache_observe(place->cache, place->path, &place->observer);
}

struct set_place *set_place_create(struct cache *cache, const char *path, enum cache_scope scope,
	void (*on_change)(void *context, int64_t was_true_at_ms), void *context)
{
	struct set_place *place = allocate_zeroed(1, sizeof(*place));
	place->cache = cache;
	place->path = allocate_text(path);
	place->scope = scope;
	place->on_change = on_change;
	place->context = context;
	list_init(&place->link);
	observe(place);
	return place;
}

static void unobserve(struct set_place *place)
{
	if (place->state != SET_PLACE_REFUSED) {
		cache_unobserve(&place->observer);
	}
}

void set_place_free(struct set_place *place)
{
	drop_all(place);
	unobserve(place);
	list_remove(&place->link);
	free(place->path);
	free(place);
}

void set_place_renew(struct set_place *place, struct cache *cache)
{
	if (place->state == SET_PLACE_KNOWN) {
		place->on_change(place->context, place->true_at_ms);
	}
	drop_all(place);
	unobserve(place);
	place->cache = cache;
	observe(place);
}

/* ---- reading ---- */

bool set_place_read(struct set_place *place, const struct set_reader *reader, size_t *most)
{
	for (size_t i = 0; i < place->count && place->unread > 0 && *most > 0; i++) {
		struct set_node *node = &place->nodes[i];
		struct set_record *before = node->record;
		struct cache_record found;
		if (!node->unread) {
			continue;
		}
		bool known = cache_known_data(place->cache, place->paths[i], &found) && found.data;
		node->record = known ? set_record_read(reader, place->paths[i], found.value) : NULL;
		count_bytes(place, before, node->record);
		set_record_release(before);
		node->unread = false;
		place->unread--;
		(*most)--;
	}
	return place->unread == 0;
}

const struct set_node *set_place_find(const struct set_place *place, const char *path)
{
	size_t index = index_of(place, path);
	return is_at(place, index, path) ? &place->nodes[index] : NULL;
}

char *const *set_place_children(const struct set_place *place, size_t *ret_count)
{
	size_t own = is_at(place, 0, place->path);
	*ret_count = place->count - own;
	return place->paths + own;
}

static void count(void *context, const struct cache_record *record)
{
	(void)record;
	++*(size_t *)context;
}

void set_place_see(struct set_place *place, int64_t now_ms)
{
	size_t visited = 0;
	struct cache_picture picture = cache_read_picture(
		&place->observer, now_ms, count, &visited);
	place->whole = picture.live && visited == place->count && set_place_is_live(place);
	place->true_at_ms = now_ms - picture.age_ms;
}

bool set_place_is_live(const struct set_place *place)
{
	return place->state == SET_PLACE_KNOWN && place->observer.state == CACHE_OBSERVER_LIVE;
}
