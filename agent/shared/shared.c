#include "agent/shared/shared.h"

#include <stdlib.h>
#include <string.h>

#include "agent/base/allocate.h"
#include "agent/base/log.h"
#include "agent/base/timer.h"
#include "agent/shared/map.h"
#include "agent/shared/warm.h"
#include "lib/base/clock.h"
#include "lib/base/hash.h"
#include "lib/base/list.h"
#include "lib/base/path.h"

enum {
	LEAST_BYTES = 64 * 1024,
	FIRST_BYTES = 256 * 1024,
	LEASE_LOOKS = 5, /* in the time of `confirm` */
	LEAST_LOOK_MS = 10,
	IDLE_MS = 60 * 1000,     /* without a request of a reader the lease lapses after this */
	SAME_SIZE_MS = 10 * 1000 /* a full map that may not grow is replaced no earlier */
};

#define NOWHERE UINT32_MAX

/* The cache of a further registry that has answers in the map. */
struct part {
	struct list link; /* on shared->parts */
	struct cache *cache;
	size_t entries; /* of the map's */
};

/* A slot as the agent knows it beyond the map: the path whose change takes it back. */
struct watched {
	uint64_t path;     /* hash; 0: of anything */
	struct part *part; /* NULL: it is of the agent's own cache */
	uint32_t next;     /* slots of one bucket */
	uint32_t before;
	bool children_too;
	bool holds; /* it is in its bucket, and its answer holds */
};

struct shared {
	struct ev_loop *loop;
	struct cache *cache;
	struct map *map;         /* NULL: none is out */
	struct watched *watched; /* one for each slot */
	uint32_t *buckets;       /* as many as slots; one more, for those of anything */
	size_t max_bytes;
	size_t size_bytes; /* of the next map, unless it has to be larger */
	size_t entries;
	struct list parts;
	uint64_t maps;
	bool enabled;
	bool connected;
	int64_t made_ms;
	int64_t used_ms;   /* when a reader asked last */
	struct timer look; /* after which the lease is looked at; runs while it is to be extended */
	struct cache_wait wait; /* for a confirmation */
	bool confirming;
	char **patterns; /* [cache] warm */
	size_t pattern_count;
	struct warm *warm; /* NULL: there is no map, or nothing is warm */
};

static uint64_t hash_path(const char *path, size_t len)
{
	uint64_t hash = hash_bytes(HASH_INIT, path, len);
	return hash ? hash : 1;
}

/* ---- answers are taken back ---- */

static uint32_t *bucket_of(const struct shared *shared, uint64_t path)
{
	size_t slots = map_slots(shared->map);
	return &shared->buckets[path ? (path ^ path >> 32) & (slots - 1) : slots];
}

static void link_slot(struct shared *shared, uint32_t slot)
{
	struct watched *watched = &shared->watched[slot];
	uint32_t *bucket = bucket_of(shared, watched->path);
	watched->before = NOWHERE;
	watched->next = *bucket;
	if (watched->next != NOWHERE) {
		shared->watched[watched->next].before = slot;
	}
	*bucket = slot;
	watched->holds = true;
	shared->entries++;
	if (watched->part) {
		watched->part->entries++;
	}
}

static void unlink_slot(struct shared *shared, uint32_t slot)
{
	struct watched *watched = &shared->watched[slot];
	if (!watched->holds) {
		return;
	}
	if (watched->before == NOWHERE) {
		*bucket_of(shared, watched->path) = watched->next;
	} else {
		shared->watched[watched->before].next = watched->next;
	}
	if (watched->next != NOWHERE) {
		shared->watched[watched->next].before = watched->before;
	}
	watched->holds = false;
	shared->entries--;
	if (watched->part) {
		watched->part->entries--;
	}
}

/* Those of the path, or only those that are made of its children, too. */
static void take_back(struct shared *shared, uint64_t path, bool of_children)
{
	for (uint32_t slot = *bucket_of(shared, path), next; slot != NOWHERE; slot = next) {
		const struct watched *watched = &shared->watched[slot];
		next = watched->next;
		if (watched->path == path && (watched->children_too || !of_children)) {
			unlink_slot(shared, slot);
			map_ask(shared->map, slot);
		}
	}
}

/* Two paths of one hash are taken back together, which costs one request. */
static void take_back_path(struct shared *shared, const char *path)
{
	take_back(shared, hash_path(path, strlen(path)), false);
	take_back(shared, hash_path(path, path_parent_len(path)), true);
}

static void on_part_touched(void *context, const char *path)
{
	take_back_path(context, path);
}

static void on_touched(void *context, const char *path)
{
	struct shared *shared = context;
	take_back_path(shared, path);
	take_back(shared, 0, false);
	warm_touched(shared->warm, path);
	if (timer_runs(&shared->look)) {
		warm_go_on(shared->warm);
	}
}

/* ---- further registries ---- */

static struct part *find_part(const struct shared *shared, const struct cache *cache)
{
	for (struct list *at = shared->parts.next; at != &shared->parts; at = at->next) {
		struct part *part = LIST_ITEM(at, struct part, link);
		if (part->cache == cache) {
			return part;
		}
	}
	return NULL;
}

/* Without entries. */
static void end_part(struct part *part)
{
	cache_set_touched(part->cache, NULL, NULL);
	list_remove(&part->link);
	free(part);
}

static void forget_part(struct shared *shared, struct part *part)
{
	for (uint32_t slot = 0; part->entries > 0; slot++) {
		if (shared->watched[slot].holds && shared->watched[slot].part == part) {
			unlink_slot(shared, slot);
			map_ask(shared->map, slot);
		}
	}
	end_part(part);
}

void shared_forget(struct shared *shared, const struct cache *cache)
{
	struct part *part = find_part(shared, cache);
	if (part) {
		forget_part(shared, part);
	}
}

/* ---- the lease ---- */

/* Between two looks at it: some in the shortest bound of those that it depends on. */
static int64_t pause_ms(const struct shared *shared)
{
	int64_t bound_ms = cache_confirm_ms(shared->cache);
	for (struct list *at = shared->parts.next; at != &shared->parts; at = at->next) {
		int64_t own_ms = cache_confirm_ms(LIST_ITEM(at, struct part, link)->cache);
		bound_ms = own_ms < bound_ms ? own_ms : bound_ms;
	}
	return bound_ms / LEASE_LOOKS > LEAST_LOOK_MS ? bound_ms / LEASE_LOOKS : LEAST_LOOK_MS;
}

static uint64_t lease_ns(const struct shared *shared, int64_t now_ms)
{
	int64_t until_ms = shared->connected ? cache_hits_until_ms(shared->cache, now_ms) : 0;
	for (struct list *at = shared->parts.next; at != &shared->parts; at = at->next) {
		const struct part *part = LIST_ITEM(at, struct part, link);
		int64_t own_ms = cache_hits_until_ms(part->cache, now_ms);
		until_ms = own_ms < until_ms ? own_ms : until_ms;
	}
	return until_ms > 0 ? (uint64_t)until_ms * 1000000 : 0;
}

static void extend(struct shared *shared)
{
	map_extend(shared->map, lease_ns(shared, clock_monotonic_ms()));
}

static void on_confirmed(void *context, struct cache_answer *answer, const struct err *err)
{
	(void)answer;
	(void)err;
	struct shared *shared = context;
	shared->confirming = false;
	extend(shared);
}

static void stop_confirming(struct shared *shared)
{
	cache_cancel(&shared->wait);
	shared->confirming = false;
}

static bool lasts_until_next_look(
	const struct shared *shared, const struct cache *cache, int64_t now_ms)
{
	return cache_hits_until_ms(cache, now_ms) > now_ms + pause_ms(shared);
}

/* A part whose server has to answer first would end the lease before the next look. */
static void look_at_parts(struct shared *shared, int64_t now_ms)
{
	struct list *next;
	for (struct list *at = shared->parts.next; at != &shared->parts; at = next) {
		struct part *part = LIST_ITEM(at, struct part, link);
		next = at->next;
		(void)cache_confirm(part->cache, now_ms, NULL);
		if (part->entries == 0 || !lasts_until_next_look(shared, part->cache, now_ms)) {
			forget_part(shared, part);
		}
	}
}

/* The server is asked for a sign of life as early as for a look-up on the socket. */
static void look(struct shared *shared)
{
	int64_t now_ms = clock_monotonic_ms();
	if (!shared->confirming) {
		shared->wait = (struct cache_wait){ .on_answer = on_confirmed, .context = shared };
		shared->confirming = cache_confirm(shared->cache, now_ms, &shared->wait) ==
			CACHE_WAITING;
	}
	look_at_parts(shared, now_ms);
	extend(shared);
	if (shared->connected && now_ms - shared->used_ms < IDLE_MS) {
		warm_go_on(shared->warm);
		timer_start(&shared->look, pause_ms(shared));
	}
}

static void on_look(void *context)
{
	look(context);
}

/* A reader has asked: there is somebody for whom the lease is worth its extension. */
static void note_use(struct shared *shared)
{
	shared->used_ms = clock_monotonic_ms();
	if (!timer_runs(&shared->look)) {
		look(shared);
	}
}

/* ---- maps come and go ---- */

static size_t watched_bytes(const struct map *map)
{
	return map_slots(map) * (sizeof(struct watched) + sizeof(uint32_t) + 1);
}

static size_t bytes_of(const struct map *map)
{
	return map ? map_size(map) + watched_bytes(map) : 0;
}

static void free_index(struct shared *shared)
{
	free(shared->watched);
	free(shared->buckets);
	shared->watched = NULL;
	shared->buckets = NULL;
	shared->entries = 0;
}

static void end_parts(struct shared *shared)
{
	while (!list_empty(&shared->parts)) {
		end_part(LIST_ITEM(shared->parts.next, struct part, link));
	}
}

void shared_retire(struct shared *shared)
{
	if (!shared->map) {
		return;
	}
	timer_stop(&shared->look);
	stop_confirming(shared);
	end_parts(shared);
	warm_destroy(shared->warm);
	shared->warm = NULL;
	cache_set_touched(shared->cache, NULL, NULL);
	cache_reserve(shared->cache, bytes_of(shared->map), 0);
	map_destroy(shared->map);
	shared->map = NULL;
	free_index(shared);
}

static void adopt(struct shared *shared, struct map *map)
{
	size_t slots = map_slots(map);
	shared->map = map;
	shared->watched = allocate_zeroed(slots, sizeof(*shared->watched));
	shared->buckets = allocate_zeroed(slots + 1, sizeof(*shared->buckets));
	memset(shared->buckets, 0xff, (slots + 1) * sizeof(*shared->buckets));
	shared->maps++;
	shared->made_ms = clock_monotonic_ms();
	cache_reserve(shared->cache, 0, bytes_of(map));
	cache_set_touched(shared->cache, on_touched, shared);
}

static bool put(struct shared *shared, const struct map_entry *entry, uint64_t path, bool children,
	struct part *part)
{
	size_t slot = map_put(shared->map, entry);
	if (slot == MAP_NONE) {
		return false;
	}
	unlink_slot(shared, (uint32_t)slot);
	shared->watched[slot].path = path;
	shared->watched[slot].children_too = children;
	shared->watched[slot].part = part;
	link_slot(shared, (uint32_t)slot);
	return true;
}

/* All answers that hold go on in the new map. */
static void move_all(struct shared *shared, const struct map *from, const struct watched *watched)
{
	struct map_entry entry;
	for (size_t slot = 0; slot < map_slots(from); slot++) {
		if (watched[slot].holds && map_get(from, slot, &entry)) {
			(void)put(shared, &entry, watched[slot].path, watched[slot].children_too,
				watched[slot].part);
		}
	}
}

/*
 * The map is full: another one takes its place. One of twice the size holds all that this one does;
 * one that may not grow begins anew, with what is asked for from now on. False: it stays; an error
 * is set when the kernel has no memory for another.
 */
static bool replace(struct shared *shared, struct err *err)
{
	struct map *old = shared->map;
	struct watched *watched = shared->watched;
	size_t size = map_size(old);
	struct map *map;
	bool grows = 2 * size <= shared->max_bytes;
	if (!grows && clock_monotonic_ms() - shared->made_ms < SAME_SIZE_MS) {
		return false;
	}
	if (map_create(&map, grows ? 2 * size : size, err)) {
		return false;
	}
	free(shared->buckets);
	shared->entries = 0;
	for (struct list *at = shared->parts.next; at != &shared->parts; at = at->next) {
		LIST_ITEM(at, struct part, link)->entries = 0;
	}
	cache_reserve(shared->cache, bytes_of(old), 0);
	adopt(shared, map);
	if (grows) {
		move_all(shared, old, watched);
	}
	map_begin(map, lease_ns(shared, clock_monotonic_ms()));
	map_destroy(old);
	free(watched);
	shared->size_bytes = map_size(map);
	if (!grows) {
		warm_begin(shared->warm);
	}
	return true;
}

/* ---- putting answers there ---- */

static bool is_about_path(const struct err *err)
{
	return err->code == BERTH_PATH_NOT_FOUND || err->code == BERTH_NO_RECORD ||
		err->code == BERTH_INVALID_RECORD;
}

/*
 * The part whose answer comes into the map, by whose lease it goes from now on; false: its lease is
 * too short for that.
 */
static bool get_part(struct shared *shared, struct cache *cache, struct part **ret_part)
{
	*ret_part = cache == shared->cache ? NULL : find_part(shared, cache);
	if (*ret_part || cache == shared->cache) {
		return true;
	}
	struct part *part = allocate_zeroed(1, sizeof(*part));
	part->cache = cache;
	list_append(&shared->parts, &part->link);
	cache_set_touched(cache, on_part_touched, shared);
	if (!lasts_until_next_look(shared, cache, clock_monotonic_ms())) {
		end_part(part);
		return false;
	}
	extend(shared); /* or rather shortens it, before the answer is there */
	if (timer_left_ms(&shared->look) > pause_ms(shared)) {
		timer_start(&shared->look, pause_ms(shared));
	}
	*ret_part = part;
	return true;
}

/* False: the map is full. An answer that is not for the map needs no room. */
static bool put_item(struct shared *shared, const struct shared_item *item)
{
	struct part *part;
	const char *text = item->err ? item->err->msg : item->value;
	const struct map_entry entry = { .key = item->key,
		.key_len = item->key_len,
		.tag = item->etag,
		.value = text,
		.value_len = item->err ? strlen(text) : item->value_len,
		.error = item->err ? item->err->code : 0 };
	bool is_path = item->source != SHARED_OF_ANYTHING;
	uint64_t path = is_path ? hash_path(item->path, strlen(item->path)) : 0;
	return entry.key_len > SHARED_KEY_BYTES || entry.value_len > SHARED_VALUE_BYTES ||
		(item->err && !is_about_path(item->err)) || !get_part(shared, item->cache, &part) ||
		put(shared, &entry, path, item->source == SHARED_OF_CHILDREN, part);
}

struct shared_item shared_item_of(struct cache *cache, const char *key,
	const struct cache_query *query, const struct cache_answer *answer)
{
	bool of_children = query->kind == CACHE_RECORDS || query->kind == CACHE_ENDPOINTS ||
		query->kind == CACHE_TARGETS;
	return (struct shared_item){ .cache = cache,
		.key = key,
		.key_len = key ? strlen(key) : 0,
		.source = of_children ? SHARED_OF_CHILDREN : SHARED_OF_PATH,
		.path = query->path,
		.etag = answer->etag,
		.err = answer->err,
		.value = answer->body,
		.value_len = answer->len };
}

/* Nobody has asked yet: the cache, whose content is asked for, needs the room more. */
static bool has_room(const struct shared *shared, size_t more_bytes)
{
	struct cache_stats stats;
	cache_get_stats(shared->cache, &stats);
	return stats.bytes + more_bytes <= shared->max_bytes + shared->max_bytes / 2;
}

static bool put_warm(void *context, const struct cache_query *query, const char *key,
	const struct cache_answer *answer)
{
	struct shared *shared = context;
	const struct shared_item item = shared_item_of(shared->cache, key, query, answer);
	struct err err = ERR_INIT;
	/* For a map of max_bytes there is never room twice: it is not replaced. */
	return has_room(shared, 0) &&
		(put_item(shared, &item) ||
			(has_room(shared, bytes_of(shared->map)) && replace(shared, &err) &&
				put_item(shared, &item)));
}

static void make_warm(struct shared *shared)
{
	warm_destroy(shared->warm);
	shared->warm = shared->map && shared->pattern_count > 0
		? warm_create(shared->loop, shared->cache, shared->patterns, shared->pattern_count,
			  put_warm, shared)
		: NULL;
}

int shared_hand_out(struct shared *shared, int *ret_fd, size_t *ret_size, struct err *err)
{
	struct map *map;
	if (!shared->map) {
		size_t size = shared->size_bytes < shared->max_bytes ? shared->size_bytes
								     : shared->max_bytes;
		if (map_create(&map, size, err)) {
			return err->code;
		}
		adopt(shared, map);
		make_warm(shared);
		map_begin(map, lease_ns(shared, clock_monotonic_ms()));
	}
	note_use(shared);
	*ret_fd = map_fd(shared->map);
	*ret_size = map_size(shared->map);
	return 0;
}

void shared_put(struct shared *shared, const struct shared_item *item)
{
	if (!shared->map) {
		return;
	}
	struct err err = ERR_INIT;
	note_use(shared);
	if (put_item(shared, item)) {
		return;
	}
	if (replace(shared, &err)) {
		(void)put_item(shared, item);
	} else if (err.code) {
		log_warn("shared", "answers are not shared any more: %s", err.msg);
		shared_retire(shared);
	}
}

/* ---- the registry comes and goes ---- */

/*
 * While it is away nothing is known to be true. When it is back, each path is read again before it
 * counts: the new map begins with what is.
 */
void shared_on_registry_state(struct shared *shared, enum registry_state state)
{
	bool connected = state == REGISTRY_CONNECTED;
	if (connected == shared->connected) {
		return;
	}
	shared->connected = connected;
	if (!shared->map) {
		return;
	}
	if (connected) {
		shared_retire(shared);
	} else {
		extend(shared);
	}
}

/* ---- making and ending ---- */

static void forget_patterns(struct shared *shared)
{
	for (size_t i = 0; i < shared->pattern_count; i++) {
		free(shared->patterns[i]);
	}
	free(shared->patterns);
}

static void set_patterns(struct shared *shared, char *const *patterns, size_t count)
{
	bool same = count == shared->pattern_count;
	for (size_t i = 0; same && i < count; i++) {
		same = strcmp(patterns[i], shared->patterns[i]) == 0;
	}
	if (same) {
		return;
	}
	forget_patterns(shared);
	shared->patterns = allocate_zeroed(count ? count : 1, sizeof(*shared->patterns));
	shared->pattern_count = count;
	for (size_t i = 0; i < count; i++) {
		shared->patterns[i] = allocate_text(patterns[i]);
	}
	make_warm(shared);
}

void shared_set_options(struct shared *shared, const struct shared_options *options)
{
	size_t size = LEAST_BYTES;
	while (2 * size <= options->max_bytes) {
		size *= 2;
	}
	shared->enabled = options->enabled && size <= options->max_bytes;
	shared->max_bytes = size;
	set_patterns(shared, options->warm, options->warm_count);
	if (shared->map && (!shared->enabled || map_size(shared->map) > size)) {
		shared_retire(shared);
	} else if (shared->map) {
		extend(shared); /* or shortens the lease, as `confirm` is by now */
	}
}

void shared_get_stats(const struct shared *shared, struct shared_stats *ret_stats)
{
	*ret_stats = (struct shared_stats){
		.bytes = bytes_of(shared->map), .entries = shared->entries, .maps = shared->maps
	};
}

bool shared_is_out(const struct shared *shared)
{
	return shared->map != NULL;
}

bool shared_is_enabled(const struct shared *shared)
{
	return shared->enabled;
}

struct shared *shared_create(struct ev_loop *loop, struct cache *cache)
{
	struct shared *shared = allocate_zeroed(1, sizeof(*shared));
	shared->loop = loop;
	shared->cache = cache;
	shared->size_bytes = FIRST_BYTES;
	shared->max_bytes = FIRST_BYTES;
	shared->enabled = true;
	shared->connected = cache_is_connected(cache);
	list_init(&shared->parts);
	timer_init(&shared->look, loop, "lease of the shared map", on_look, shared);
	return shared;
}

void shared_destroy(struct shared *shared)
{
	if (shared) {
		shared_retire(shared);
		forget_patterns(shared);
		free(shared);
	}
}
