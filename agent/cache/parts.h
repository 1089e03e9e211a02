/*
 * The cache put together. For cache.c, attach.c and records.c, which know all parts; no part knows
 * it.
 *
 *   table     paths, the order of their use, bytes      turn     the work of one turn of the loop
 *   heard     was the server heard lately?              entry    values and how far to trust them
 *   listing   what a list says of the paths in it       need     the entries that somebody needs
 *   answer    a body and those who wait for it          make, body, search    ways to make it
 *   ask       look-ups                                  follow, tree, picture observers
 *   written   texts for streams, in slices              refused   directories that did not fit
 *   snapshot  across restarts
 */
#ifndef AGENT_CACHE_PARTS_H
#define AGENT_CACHE_PARTS_H

#include "agent/cache/ask.h"
#include "agent/cache/follow.h"
#include "agent/cache/search.h"

struct cache {
	struct cache_table table;
	struct cache_turn turn;
	struct cache_heard heard;
	struct cache_store store;
	struct cache_answers answers;
	struct cache_searches searches;
	struct cache_follow follow;
	struct list attached; /* caches of further registries */
	bool is_attached;
	size_t waiting;                                      /* clients */
	void (*on_touched)(void *context, const char *path); /* may be NULL */
	void *touched_context;
	int64_t away_since_ms; /* 0 while connected */
	uint64_t evictions;
	struct timer tick;
	int64_t tick_ms; /* its length */
	int64_t resync_ms;
	size_t resync_bucket;
	int64_t resync_due; /* buckets x milliseconds, less than the period */
};

/* The work at the end of a turn, or when the cache has grown too far within one. */
void cache_flush(struct cache *cache);

#endif
