#include "agent/cache/internal.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "agent/base/allocate.h"
#include "lib/base/clock.h"
#include "lib/base/hash.h"
#include "lib/base/path.h"

/*
 * Paths, limits and time: the table of nodes, their eviction, and the work at the end of each turn.
 */

enum {
	TICK_MS = 1000,
	LEAST_SHARES = 64, /* of a resync period: few paths need no tick a second */
	FIRST_BUCKETS = 256,
	OVERDRAFT = 20,       /* a twentieth of the limit may come in before nothing more is read */
	EVICTION_STEPS = 1024 /* nodes that one turn looks at */
};

bool cache_reachable(const struct cache *cache)
{
	return cache->state == REGISTRY_CONNECTED || cache->state == REGISTRY_CONNECTING;
}

void cache_charge(struct cache *cache, size_t before, size_t after)
{
	cache->bytes += after - before;
}

bool cache_is_full(const struct cache *cache)
{
	size_t limit = cache->options.max_size_bytes;
	return cache->bytes > limit + limit / OVERDRAFT;
}

void cache_go_on(struct cache *cache)
{
	timer_start(&cache->more, 0);
}

/* ---- paths ---- */

static uint32_t hash_path(const struct cache *cache, const char *path, size_t len)
{
	uint64_t hash = hash_bytes(cache->hash_seed, path, len);
	return (uint32_t)(hash ^ hash >> 32);
}

struct cache_node *cache_node_find(const struct cache *cache, const char *path, size_t len)
{
	uint32_t hash = hash_path(cache, path, len);
	struct cache_node *node = cache->buckets[hash & (cache->bucket_count - 1)];
	while (node &&
		(node->hash != hash || node->path_len != len ||
			memcmp(node->path, path, len) != 0)) {
		node = node->hash_next;
	}
	return node;
}

static void grow(struct cache *cache)
{
	size_t count = cache->bucket_count * 2;
	struct cache_node **buckets = allocate_zeroed(count, sizeof(struct cache_node *));
	for (size_t i = 0; i < cache->bucket_count; i++) {
		for (struct cache_node *node = cache->buckets[i], *next; node; node = next) {
			next = node->hash_next;
			node->hash_next = buckets[node->hash & (count - 1)];
			buckets[node->hash & (count - 1)] = node;
		}
	}
	cache_charge(cache, cache->bucket_count * sizeof(void *), count * sizeof(void *));
	free(cache->buckets);
	cache->buckets = buckets;
	cache->bucket_count = count;
}

static size_t node_bytes(const struct cache_node *node)
{
	return sizeof(*node) + node->path_len + 1 + CACHE_ALLOCATION_BYTES;
}

struct cache_node *cache_node_get(struct cache *cache, const char *path)
{
	size_t len = strlen(path);
	struct cache_node *node = cache_node_find(cache, path, len);
	if (node) {
		return node;
	}
	/* Half full: a hit seldom walks past another path. */
	if (2 * cache->node_count >= cache->bucket_count) {
		grow(cache);
	}
	node = allocate_zeroed(1, sizeof(*node) + len + 1);
	memcpy(node->path, path, len);
	node->path_len = (uint16_t)len;
	node->hash = hash_path(cache, path, len);
	list_init(&node->observers);
	struct cache_node **bucket = &cache->buckets[node->hash & (cache->bucket_count - 1)];
	node->hash_next = *bucket;
	*bucket = node;
	list_prepend(&cache->order, &node->order);
	cache->node_count++;
	cache_charge(cache, 0, node_bytes(node));
	return node;
}

/*
 * Only a mark: moving it to the front of the list would touch its neighbours, which a hit has no
 * time for.
 */
void cache_node_use(struct cache_node *node)
{
	node->used = true;
}

struct cache_node *cache_node_parent(const struct cache *cache, const struct cache_node *node)
{
	size_t len = path_parent_len(node->path);
	return len > 0 ? cache_node_find(cache, node->path, len) : NULL;
}

struct cache_entry *cache_data_of(const struct cache *cache, const char *path)
{
	const struct cache_node *node = cache_node_find(cache, path, strlen(path));
	return node ? node->entries[CACHE_DATA] : NULL;
}

static void node_free(struct cache *cache, struct cache_node *node)
{
	struct cache_node **at = &cache->buckets[node->hash & (cache->bucket_count - 1)];
	while (*at != node) {
		at = &(*at)->hash_next;
	}
	*at = node->hash_next;
	cache_touch(cache, node); /* nobody watches it any more */
	list_remove(&node->order);
	cache_answers_free(cache, node);
	for (int kind = CACHE_DATA; kind <= CACHE_CHILDREN; kind++) {
		cache_entry_free(cache, node->entries[kind]);
	}
	cache_charge(cache, node_bytes(node), 0);
	cache->node_count--;
	free(node);
}

/* ---- limits ---- */

/*
 * Lookups and observers pin their paths, and the children that a parent's answer is being made of.
 */
static bool is_pinned(const struct cache *cache, const struct cache_node *node)
{
	if (node->dirty || cache_answers_waited(node) || cache_is_observed(cache, node)) {
		return true;
	}
	const struct cache_node *parent = cache_node_parent(cache, node);
	return parent && cache_answers_waited(parent);
}

/*
 * Makes room, least recently used nodes first. A pinned node leaves the list, and comes back with
 * all the others when something that pinned nodes has ended: no node is looked at twice in vain.
 * The next turns do the rest.
 */
static void evict(struct cache *cache)
{
	for (int steps = EVICTION_STEPS; cache->bytes > cache->options.max_size_bytes; steps--) {
		if (steps == 0) {
			cache_go_on(cache);
			return;
		}
		if (list_empty(&cache->order) && cache->unpinned) {
			cache->unpinned = false;
			list_move_all(&cache->order, &cache->pinned);
		}
		if (list_empty(&cache->order)) {
			if (cache_answers_refuse(cache, true) || cache_observers_refuse(cache) ||
				cache_answers_refuse(cache, false)) {
				continue;
			}
			return;
		}
		struct cache_node *node = LIST_ITEM(cache->order.prev, struct cache_node, order);
		if (is_pinned(cache, node)) {
			list_remove(&node->order);
			list_prepend(&cache->pinned, &node->order);
		} else if (node->used) {
			node->used = false;
			list_remove(&node->order);
			list_prepend(&cache->order, &node->order);
		} else {
			cache_answers_drop(cache, node);
			node_free(cache, node);
			cache->evictions++;
		}
	}
}

static bool is_absent(const struct cache_entry *entry)
{
	return !entry || (entry->state == CACHE_LIVE && cache_code(entry) == BERTH_PATH_NOT_FOUND);
}

/* Its absence is known without it. */
static bool is_listed_as_absent(const struct cache *cache, const struct cache_node *node)
{
	const struct cache_entry *list = cache_list_without(cache, node->path);
	return list && cache_list_holds(list);
}

/*
 * Paths that the observer of a tree saw come and go would pile up with their watches. A path that a
 * client has asked for goes only where the next answer needs no read of it: else the client, or the
 * evaluation of a name, would begin again and again.
 */
static bool is_vanished(const struct cache *cache, const struct cache_node *node)
{
	return is_absent(node->entries[CACHE_DATA]) && is_absent(node->entries[CACHE_CHILDREN]) &&
		(!node->used || is_listed_as_absent(cache, node)) && cache_is_in_tree(cache, node);
}

static bool is_empty(const struct cache_node *node)
{
	return !node->entries[CACHE_DATA] && !node->entries[CACHE_CHILDREN] && !node->answers;
}

static void forget_needless(struct cache *cache, struct cache_node *node)
{
	cache_answers_pass(cache, node);
	if (list_empty(&node->observers) && (is_empty(node) || is_vanished(cache, node)) &&
		!is_pinned(cache, node)) {
		node_free(cache, node);
	}
}

/* ---- the end of a turn ---- */

void cache_work(struct cache *cache, size_t steps)
{
	unsigned turn = ev_iteration(cache->loop);
	if (cache->turn != turn) {
		cache->turn = turn;
		cache->worked = 0;
	}
	cache->worked += steps;
	cache->steps += steps;
}

bool cache_may_work(struct cache *cache)
{
	cache_work(cache, 0);
	return cache->worked < CACHE_TURN_STEPS;
}

void cache_mark_dirty(struct cache *cache, struct cache_node *node)
{
	if (node->dirty) {
		return;
	}
	node->dirty = true;
	node->dirty_next = NULL;
	*cache->dirty_end = node;
	cache->dirty_end = &node->dirty_next;
	ev_prepare_start(cache->loop, &cache->flush);
}

static struct cache_node *take_dirty(struct cache *cache)
{
	struct cache_node *node = cache->dirty;
	cache->dirty = node->dirty_next;
	if (!cache->dirty) {
		cache->dirty_end = &cache->dirty;
	}
	node->dirty = false;
	return node;
}

static bool resyncs(const struct cache *cache)
{
	return cache->state == REGISTRY_CONNECTED && cache->options.resync_ms > 0;
}

/* How long on_tick() may wait; INT64_MAX: for ever. */
static int64_t longest_tick_ms(const struct cache *cache)
{
	if (cache->stale_observers > 0 || cache->finds_changed) {
		return TICK_MS;
	}
	if (!resyncs(cache) || cache->node_count == 0) {
		return INT64_MAX;
	}
	size_t shares = cache->node_count < LEAST_SHARES ? LEAST_SHARES : cache->node_count;
	int64_t share_ms = cache->options.resync_ms / (int64_t)shares;
	return share_ms > TICK_MS ? share_ms : TICK_MS;
}

/* Lets on_tick() come while it has something to do, and in time. */
static void plan_tick(struct cache *cache)
{
	int64_t wait_ms = longest_tick_ms(cache);
	int64_t left_ms = timer_left_ms(&cache->tick);
	if (wait_ms == INT64_MAX) {
		timer_stop(&cache->tick);
	} else if (!timer_runs(&cache->tick)) {
		cache->tick_ms = wait_ms;
		timer_start(&cache->tick, wait_ms);
	} else if (left_ms > wait_ms) {
		cache->tick_ms += wait_ms - left_ms;
		timer_start(&cache->tick, wait_ms);
	}
}

void cache_flush(struct cache *cache)
{
	cache_queue_run(cache);
	cache_finds_run(cache);
	/* Callbacks may ask for more, which is ready or marks more nodes dirty. */
	while (cache->dirty && cache_may_work(cache)) {
		struct cache_node *node = take_dirty(cache);
		cache_answers_flush(cache, node);
		cache_observers_flush(cache, node);
		forget_needless(cache, node);
	}
	if (cache->dirty) {
		cache_go_on(cache);
	} else {
		cache_observers_ready(cache);
		cache_observers_freshness(cache);
		cache->change_time_s = 0;
	}
	cache_written_forget(cache);
	evict(cache);
	if (!cache->dirty) {
		ev_prepare_stop(cache->loop, &cache->flush);
	}
	plan_tick(cache);
}

static void on_flush(struct ev_loop *loop, ev_prepare *prepare, int events)
{
	(void)loop;
	(void)events;
	cache_flush(prepare->data);
}

static void on_more(void *context)
{
	struct cache *cache = context;
	cache_builds_run(cache);
	ev_prepare_start(cache->loop, &cache->flush); /* which evicts further */
}

static void on_doubt(void *context)
{
	cache_recheck_doubted(context);
}

/* ---- resync: a share of the paths with each tick, all of them within the period -------------- */

static void resync_bucket(struct cache *cache, size_t bucket)
{
	for (struct cache_node *node = cache->buckets[bucket]; node; node = node->hash_next) {
		for (int kind = CACHE_DATA; kind <= CACHE_CHILDREN; kind++) {
			struct cache_entry *entry = node->entries[kind];
			if (entry && entry->watch) {
				registry_watch_refresh(entry->watch);
			}
		}
	}
}

static void resync(struct cache *cache)
{
	int64_t due = cache->resync_due + (int64_t)cache->bucket_count * cache->tick_ms;
	cache->resync_due = due % cache->options.resync_ms;
	/* With a period below a tick, each tick refreshes all of them, once. */
	int64_t buckets = due / cache->options.resync_ms;
	buckets = buckets < (int64_t)cache->bucket_count ? buckets : (int64_t)cache->bucket_count;
	for (int64_t i = 0; i < buckets; i++) {
		cache->resync_bucket = (cache->resync_bucket + 1) & (cache->bucket_count - 1);
		resync_bucket(cache, cache->resync_bucket);
	}
}

static void on_tick(void *context)
{
	struct cache *cache = context;
	cache_finds_tick(cache);
	if (cache->stale_observers > 0) {
		ev_prepare_start(cache->loop, &cache->flush); /* they may be confirmed by now */
	}
	if (resyncs(cache)) {
		resync(cache);
	}
	plan_tick(cache);
}

/* ---- the registry comes and goes ---- */

static void on_away(struct cache *cache)
{
	int64_t now_ms = clock_monotonic_ms();
	int64_t heard_ms = cache_heard_ms(cache, now_ms);
	cache->away_since_ms = now_ms;
	for (size_t i = 0; i < cache->bucket_count; i++) {
		for (struct cache_node *node = cache->buckets[i]; node; node = node->hash_next) {
			cache_answers_away(cache, node);
			for (int kind = CACHE_DATA; kind <= CACHE_CHILDREN; kind++) {
				if (node->entries[kind]) {
					cache_entry_away(node->entries[kind], heard_ms);
				}
			}
		}
	}
	ev_prepare_start(cache->loop, &cache->flush);
}

void cache_on_registry_state(struct cache *cache, enum registry_state state)
{
	bool was_connected = cache->state == REGISTRY_CONNECTED;
	bool was_reachable = cache_reachable(cache);
	cache->state = state;
	if (state == REGISTRY_CONNECTED) {
		cache->away_since_ms = 0;
		ev_prepare_start(cache->loop, &cache->flush);
	} else if (was_connected || (was_reachable && !cache_reachable(cache))) {
		on_away(cache);
	}
	cache_confirm_reset(cache);
}

double cache_change_time_s(const struct cache *cache)
{
	return cache->change_time_s;
}

void cache_get_stats(const struct cache *cache, struct cache_stats *stats)
{
	int64_t since_ms = cache->away_since_ms;
	*stats = (struct cache_stats){
		.paths = cache->node_count,
		.entries = cache->entry_count,
		.bytes = cache->bytes,
		.stale_seconds = since_ms > 0 ? (double)(clock_monotonic_ms() - since_ms) / 1e3 : 0,
		.loads = cache->loads,
		.evictions = cache->evictions,
		.refusals = cache->refusals,
		.searches = cache->searches,
		.steps = cache->steps,
	};
}

/* ---- its users ---- */

bool cache_is_connected(const struct cache *cache)
{
	return cache->state == REGISTRY_CONNECTED;
}

void cache_reserve(struct cache *cache, size_t before, size_t after)
{
	cache_charge(cache, before, after);
	ev_prepare_start(cache->loop, &cache->flush); /* it may be too much */
}

void cache_set_touched(
	struct cache *cache, void (*on_touched)(void *context, const char *path), void *context)
{
	cache->on_touched = on_touched;
	cache->touched_context = context;
}

/* ---- making and ending ---- */

void cache_set_options(struct cache *cache, const struct cache_options *options)
{
	cache->options = *options;
	cache_refused_forget(cache);
	cache->options.warm = NULL;
	cache->hit_until_ms = 0;
	cache_warm_set(cache, options->warm, options->warm_count);
	ev_prepare_start(cache->loop, &cache->flush);
}

static void init_watchers(struct cache *cache)
{
	ev_prepare_init(&cache->flush, on_flush);
	cache->flush.data = cache;
	timer_init(&cache->more, cache->loop, "more of the cache's work", on_more, cache);
	timer_init(&cache->doubt_timer, cache->loop, "doubted paths", on_doubt, cache);
	timer_init(&cache->tick, cache->loop, "the cache's tick", on_tick, cache);
}

static void init_lists(struct cache *cache)
{
	list_init(&cache->order);
	list_init(&cache->pinned);
	list_init(&cache->queue);
	list_init(&cache->doubted);
	list_init(&cache->builds);
	list_init(&cache->finds);
	list_init(&cache->observers);
	list_init(&cache->due);
	list_init(&cache->warm);
	cache->dirty_end = &cache->dirty;
}

struct cache *cache_create(
	struct ev_loop *loop, struct registry *registry, const struct cache_options *options)
{
	struct cache *cache = allocate_zeroed(1, sizeof(*cache));
	cache->loop = loop;
	cache->registry = registry;
	cache->state = registry_state(registry);
	cache->bucket_count = FIRST_BUCKETS;
	cache->buckets = allocate_zeroed(FIRST_BUCKETS, sizeof(struct cache_node *));
	cache->bytes = sizeof(*cache) + FIRST_BUCKETS * sizeof(void *);
	if (getrandom(&cache->hash_seed, sizeof(cache->hash_seed), GRND_NONBLOCK) < 0) {
		cache->hash_seed = HASH_INIT ^ (uint64_t)(uintptr_t)cache;
	}
	cache->resync_bucket = cache->hash_seed & (FIRST_BUCKETS - 1);
	init_lists(cache);
	init_watchers(cache);
	cache_confirm_init(cache);
	cache_set_options(cache, options);
	return cache;
}

void cache_destroy(struct cache *cache)
{
	if (!cache) {
		return;
	}
	cache_warm_set(cache, NULL, 0);
	list_move_all(&cache->order, &cache->pinned);
	while (!list_empty(&cache->order)) {
		node_free(cache, LIST_ITEM(cache->order.next, struct cache_node, order));
	}
	cache_confirm_finish(cache);
	cache_refused_forget(cache);
	cache_written_forget(cache);
	ev_prepare_stop(cache->loop, &cache->flush);
	timer_stop(&cache->more);
	timer_stop(&cache->doubt_timer);
	timer_stop(&cache->tick);
	free(cache->buckets);
	free(cache);
}
