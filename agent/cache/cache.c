#include "agent/cache/parts.h"

#include <stdlib.h>
#include <string.h>

#include "agent/base/allocate.h"
#include "agent/cache/listing.h"
#include "agent/cache/snapshot.h"
#include "lib/base/clock.h"

/*
 * The order of a turn: the parts collect what has changed, and the end of the turn hands it on, to
 * answers first, then to observers; then it evicts. Here are also the limits, the resync, and what
 * the users of the cache call.
 */

enum {
	TICK_MS = 1000,
	LEAST_SHARES = 64,     /* of a resync period: few paths need no tick a second */
	EVICTION_STEPS = 1024, /* nodes that one turn looks at */
	CHANGES_MAX = 4096     /* for an upgrade to pass on */
};

static void touch(const struct cache *cache, const struct cache_node *node)
{
	if (cache->on_touched) {
		cache->on_touched(cache->touched_context, node->path);
	}
}

static void forget(struct cache *cache, struct cache_node *node)
{
	touch(cache, node); /* nobody watches it any more */
	cache_answers_free(node);
	for (int kind = CACHE_DATA; kind <= CACHE_CHILDREN; kind++) {
		cache_entry_free(node->entries[kind]);
	}
	cache_node_free(&cache->table, node);
}

/* ---- limits ---- */

/*
 * Lookups and observers pin their paths, and the children that a parent's answer is being made of.
 */
static bool is_pinned(const struct cache *cache, const struct cache_node *node)
{
	if (node->dirty || cache_answers_waited(node) || cache_is_observed(&cache->follow, node)) {
		return true;
	}
	const struct cache_node *parent = cache_node_parent(&cache->table, node);
	return parent && cache_answers_waited(parent);
}

/*
 * Makes room, least recently used nodes first. A pinned node leaves the list, and comes back with
 * all the others when something that pinned nodes has ended: no node is looked at twice in vain.
 * The next turns do the rest.
 */
static void evict(struct cache *cache)
{
	for (int steps = EVICTION_STEPS; cache->table.bytes > cache->table.max_bytes; steps--) {
		if (steps == 0) {
			cache_go_on(&cache->turn);
			return;
		}
		if (list_empty(&cache->table.order) && cache->table.unpinned) {
			cache->table.unpinned = false;
			list_move_all(&cache->table.order, &cache->table.pinned);
		}
		if (list_empty(&cache->table.order)) {
			if (cache_answers_refuse(&cache->answers, true) ||
				cache_observers_refuse(&cache->follow) ||
				cache_answers_refuse(&cache->answers, false)) {
				continue;
			}
			return;
		}
		struct cache_node *node = LIST_ITEM(
			cache->table.order.prev, struct cache_node, order);
		if (is_pinned(cache, node)) {
			list_remove(&node->order);
			list_prepend(&cache->table.pinned, &node->order);
		} else if (node->used) {
			node->used = false;
			list_remove(&node->order);
			list_prepend(&cache->table.order, &node->order);
		} else {
			cache_answers_drop(&cache->answers, node, CACHE_DATA);
			forget(cache, node);
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
	const struct cache_entry *list = cache_list_without(&cache->table, node->path);
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
		(!node->used || is_listed_as_absent(cache, node)) &&
		cache_is_in_tree(&cache->follow, node);
}

static bool is_empty(const struct cache_node *node)
{
	return !node->entries[CACHE_DATA] && !node->entries[CACHE_CHILDREN] && !node->answers;
}

static void forget_needless(struct cache *cache, struct cache_node *node)
{
	cache_answers_pass(node);
	if (list_empty(&node->observers) && (is_empty(node) || is_vanished(cache, node)) &&
		!is_pinned(cache, node)) {
		forget(cache, node);
	}
}

/* ---- the end of a turn ---- */

static bool resyncs(const struct cache *cache)
{
	return cache->heard.state == REGISTRY_CONNECTED && cache->resync_ms > 0;
}

/* How long on_tick() may wait; INT64_MAX: for ever. */
static int64_t longest_tick_ms(const struct cache *cache)
{
	if (cache->follow.stale > 0 || cache->searches.changed) {
		return TICK_MS;
	}
	if (!resyncs(cache) || cache->table.node_count == 0) {
		return INT64_MAX;
	}
	size_t shares = cache->table.node_count < LEAST_SHARES ? LEAST_SHARES
							       : cache->table.node_count;
	int64_t share_ms = cache->resync_ms / (int64_t)shares;
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
	cache_snapshot_go_on(&cache->store);
	cache_queue_run(&cache->store);
	cache_finds_run(&cache->searches);
	/* Callbacks may ask for more, which is ready or marks more nodes dirty. */
	while (cache->turn.dirty && cache_may_work(&cache->turn)) {
		struct cache_node *node = cache_take_dirty(&cache->turn);
		cache_answers_flush(&cache->answers, node);
		cache_observers_flush(&cache->follow, node);
		forget_needless(cache, node);
	}
	if (cache->turn.dirty) {
		cache_go_on(&cache->turn);
	} else {
		cache_observers_ready(&cache->follow);
		cache_observers_freshness(&cache->follow);
		cache->store.change_time_s = 0;
	}
	bool written = cache_written_rest(&cache->follow.written);
	evict(cache);
	cache_queue_run(&cache->store); /* there may be room now for what waits for it */
	if (written) {
		cache_go_on(&cache->turn); /* so that it is forgotten when nobody asks again */
	} else if (!cache->turn.dirty) {
		cache_turn_rest(&cache->turn);
	}
	plan_tick(cache);
}

/* ---- resync: a share of the paths with each tick, all of them within the period ---- */

static void resync_bucket(struct cache *cache, size_t bucket)
{
	for (struct cache_node *node = cache->table.buckets[bucket]; node; node = node->hash_next) {
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
	int64_t due = cache->resync_due + (int64_t)cache->table.bucket_count * cache->tick_ms;
	cache->resync_due = due % cache->resync_ms;
	/* With a period below a tick, each tick refreshes all of them, once. */
	int64_t buckets = due / cache->resync_ms;
	buckets = buckets < (int64_t)cache->table.bucket_count ? buckets
							       : (int64_t)cache->table.bucket_count;
	for (int64_t i = 0; i < buckets; i++) {
		cache->resync_bucket = (cache->resync_bucket + 1) & (cache->table.bucket_count - 1);
		resync_bucket(cache, cache->resync_bucket);
	}
}

static void on_tick(void *context)
{
	struct cache *cache = context;
	cache_finds_tick(&cache->searches);
	if (cache->follow.stale > 0) {
		cache_turn_wake(&cache->turn); /* they may be confirmed by now */
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
	int64_t heard_ms = cache_heard_ms(&cache->heard, now_ms);
	cache->away_since_ms = now_ms;
	for (struct cache_node *node = cache_node_next(&cache->table, NULL); node;
		node = cache_node_next(&cache->table, node)) {
		cache_answers_away(&cache->answers, node);
		for (int kind = CACHE_DATA; kind <= CACHE_CHILDREN; kind++) {
			if (node->entries[kind]) {
				cache_entry_away(node->entries[kind], heard_ms);
			}
		}
	}
	cache_turn_wake(&cache->turn);
}

void cache_on_registry_state(struct cache *cache, enum registry_state state)
{
	bool was_connected = cache->heard.state == REGISTRY_CONNECTED;
	bool was_reachable = cache_reachable(&cache->heard);
	cache->heard.state = state;
	if (state == REGISTRY_CONNECTED) {
		cache->away_since_ms = 0;
		cache_observers_return(&cache->follow);
		cache_turn_wake(&cache->turn);
	} else if (was_connected || (was_reachable && !cache_reachable(&cache->heard))) {
		on_away(cache);
	}
	cache_heard_set_state(&cache->heard, state);
}

/* ---- what the parts report ---- */

/* Answers hear of it at once, so that nobody gets an old one; observers at the end of the turn. */
static void on_change(void *context, struct cache_node *node, enum cache_kind kind)
{
	struct cache *cache = context;
	touch(cache, node);
	cache_answers_drop(&cache->answers, node, kind);
	cache_mark_dirty(&cache->turn, node);
}

/* The turn has ended, or so much has come in it that something has to go at once. */
static void on_end(void *context)
{
	cache_flush(context);
}

static void on_more(void *context)
{
	struct cache *cache = context;
	cache_builds_run(&cache->answers);
}

static void on_heard_change(void *context)
{
	struct cache *cache = context;
	cache->store.generation++;
	cache_turn_wake(&cache->turn);
}

static void on_wait_end(void *context, struct list *link)
{
	const struct cache *cache = context;
	struct cache_wait *wait = LIST_ITEM(link, struct cache_wait, unconfirmed_link);
	if (wait->answer) {
		cache_answer_retry(wait->answer);
		return;
	}
	struct err err = ERR_INIT;
	if (cache->heard.confirmation != CACHE_HEARD) {
		err_set(&err, BERTH_REGISTRY_UNAVAILABLE, "the registry does not answer");
	}
	wait->on_answer(wait->context, NULL, &err);
}

/* ---- what users call ---- */

struct cache_answer *cache_find(struct cache *cache, const struct cache_query *query)
{
	return cache_answers_find(&cache->answers, query);
}

enum cache_verdict cache_ask(struct cache *cache, const struct cache_query *query,
	struct cache_wait *wait, struct cache_answer **ret_answer, struct err *err)
{
	return cache_answers_ask(&cache->answers, query, wait, ret_answer, err);
}

struct cache_answer *cache_known(
	struct cache *cache, const struct cache_query *query, int64_t now_ms)
{
	return cache_answers_known(&cache->answers, query, now_ms);
}

bool cache_answer_confirmed(const struct cache *cache, const struct cache_answer *answer,
	int64_t max_age_ms, int64_t now_ms)
{
	const struct cache_heard *heard = &cache->heard;
	return answer->live && heard->state == REGISTRY_CONNECTED &&
		cache_heard_ms(heard, now_ms) >= cache_not_before_ms(heard, max_age_ms, now_ms);
}

int64_t cache_answer_age_ms(
	const struct cache *cache, const struct cache_answer *answer, int64_t now_ms)
{
	int64_t true_at_ms = cache_answer_true_at_ms(&cache->heard, answer, now_ms);
	return now_ms > true_at_ms ? now_ms - true_at_ms : 0;
}

void cache_observe(struct cache *cache, const char *path, struct cache_observer *observer)
{
	cache_follow_path(&cache->follow, path, observer);
}

uint64_t cache_generation(const struct cache *cache)
{
	return cache->store.generation;
}

int64_t cache_confirm_ms(const struct cache *cache)
{
	return cache_heard_bound_ms(&cache->heard);
}

int64_t cache_hits_until_ms(const struct cache *cache, int64_t now_ms)
{
	const struct cache_heard *heard = &cache->heard;
	return heard->state == REGISTRY_CONNECTED
		? cache_heard_ms(heard, now_ms) + cache_heard_bound_ms(heard)
		: 0;
}

int64_t cache_heard_age_ms(const struct cache *cache, int64_t now_ms)
{
	int64_t heard_ms = cache_heard_ms(&cache->heard, now_ms);
	return heard_ms == INT64_MIN ? INT64_MAX : now_ms - heard_ms;
}

enum cache_verdict cache_confirm(struct cache *cache, int64_t now_ms, struct cache_wait *wait)
{
	return cache_confirm_within(cache, -1, now_ms, wait);
}

enum cache_verdict cache_confirm_within(
	struct cache *cache, int64_t max_age_ms, int64_t now_ms, struct cache_wait *wait)
{
	struct cache_heard *heard = &cache->heard;
	int64_t not_before_ms = cache_not_before_ms(heard, max_age_ms, now_ms);
	enum cache_truth truth = cache_confirm_since(heard, not_before_ms, now_ms);
	if (wait) {
		list_init(&wait->link);
		list_init(&wait->unconfirmed_link);
		wait->answer = NULL;
	}
	if (wait && truth == CACHE_TRUE_SOON) {
		list_append(&heard->waits, &wait->unconfirmed_link);
		return CACHE_WAITING;
	}
	return truth == CACHE_TRUE ? CACHE_READY : CACHE_UNAVAILABLE;
}

void cache_save(struct cache *cache, const char *directory, struct file_work *ret_work)
{
	cache_snapshot_save(&cache->store, directory, ret_work);
}

bool cache_is_outgrown(const struct cache *cache)
{
	return cache->store.saving.changed >= CHANGES_MAX;
}

char *cache_changes(const struct cache *cache)
{
	return cache_snapshot_changes(&cache->store);
}

void cache_load(struct cache *cache, const char *directory, const char *changes)
{
	cache_snapshot_load(&cache->store, directory, changes);
}

bool cache_is_loading(const struct cache *cache)
{
	return cache->store.loading != NULL;
}

bool cache_is_connected(const struct cache *cache)
{
	return cache->heard.state == REGISTRY_CONNECTED;
}

enum registry_state cache_registry_state(const struct cache *cache)
{
	return cache->heard.state;
}

void cache_reserve(struct cache *cache, size_t before, size_t after)
{
	cache_charge(&cache->table, before, after);
	if (cache->table.bytes > cache->table.max_bytes) {
		cache_turn_wake(&cache->turn); /* which evicts */
	}
}

void cache_set_touched(
	struct cache *cache, void (*on_touched)(void *context, const char *path), void *context)
{
	cache->on_touched = on_touched;
	cache->touched_context = context;
}

bool cache_is_settled(const struct cache *cache)
{
	return !cache->turn.dirty && cache_turn_rests(&cache->turn);
}

double cache_change_time_s(const struct cache *cache)
{
	return cache->store.change_time_s;
}

void cache_get_stats(const struct cache *cache, struct cache_stats *stats)
{
	int64_t since_ms = cache->away_since_ms;
	*stats = (struct cache_stats){
		.paths = cache->table.node_count,
		.entries = cache->store.entry_count,
		.bytes = cache->table.bytes,
		.max_bytes = cache->table.max_bytes,
		.stale_seconds = since_ms > 0 ? (double)(clock_monotonic_ms() - since_ms) / 1e3 : 0,
		.loads = cache->store.loads,
		.evictions = cache->evictions,
		.refusals = cache->answers.refusals + cache->follow.refusals,
		.searches = cache->searches.asked,
		.steps = cache->turn.steps,
	};
}

/* ---- making and ending ---- */

void cache_set_options(struct cache *cache, const struct cache_options *options)
{
	cache->table.max_bytes = options->max_size_bytes;
	cache->heard.confirm_ms = options->confirm_ms;
	cache->heard.hit_until_ms = 0;
	cache->store.max_stale_ms = options->max_stale_ms;
	cache->store.snapshot_name = options->snapshot_name ? options->snapshot_name : "cache";
	cache->resync_ms = options->resync_ms;
	cache->answers.release_rendering = options->release_rendering;
	cache_refused_forget(&cache->store.refusals);
	cache_warm_set(&cache->follow, options->warm, options->warm_count);
	cache_turn_wake(&cache->turn);
}

struct cache *cache_create(
	struct ev_loop *loop, struct registry *registry, const struct cache_options *options)
{
	struct cache *cache = allocate_zeroed(1, sizeof(*cache));
	list_init(&cache->attached);
	cache_table_init(&cache->table, sizeof(*cache));
	cache_turn_init(&cache->turn, loop, on_end, on_more, cache);
	cache_heard_init(&cache->heard, loop, registry, on_heard_change, on_wait_end, cache);
	cache_store_init(&cache->store, registry, &cache->table, &cache->turn, &cache->heard,
		(struct cache_store_events){ on_change, on_end, cache });
	cache_follow_init(&cache->follow, &cache->store);
	cache_searches_init(&cache->searches, registry, &cache->turn, &cache->follow);
	cache_answers_init(&cache->answers, &cache->store, &cache->searches);
	timer_init(&cache->tick, loop, "the cache's tick", on_tick, cache);
	cache->resync_bucket = (size_t)cache->table.hash_seed & (cache->table.bucket_count - 1);
	cache_set_options(cache, options);
	return cache;
}

void cache_destroy(struct cache *cache)
{
	if (!cache) {
		return;
	}
	cache_warm_set(&cache->follow, NULL, 0);
	cache_snapshot_stop(&cache->store);
	list_move_all(&cache->table.order, &cache->table.pinned);
	while (!list_empty(&cache->table.order)) {
		forget(cache, LIST_ITEM(cache->table.order.next, struct cache_node, order));
	}
	cache_written_forget(&cache->follow.written);
	cache_heard_finish(&cache->heard);
	cache_store_finish(&cache->store);
	cache_turn_finish(&cache->turn);
	cache_table_finish(&cache->table);
	timer_stop(&cache->tick);
	free(cache);
}
