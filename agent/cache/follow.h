/*
 * Observers: each change reaches every observer of the path or of a tree above it, in the order of
 * the changes, once per turn. An observer is ready when all its paths have been loaded; from then
 * on it hears of each change. Warm paths are observed by nobody.
 */
#ifndef AGENT_CACHE_FOLLOW_H
#define AGENT_CACHE_FOLLOW_H

#include "agent/cache/cache.h"
#include "agent/cache/entry.h"
#include "agent/cache/tree.h"
#include "agent/cache/written.h"

struct cache_follow {
	struct cache_table *table;
	struct cache_turn *turn;
	struct cache_heard *heard;
	struct cache_store *store;
	struct list observers;
	struct list due;        /* observers */
	struct cache_tree tree; /* of the first of these */
	size_t wide;            /* observers of more than one path */
	size_t stale;           /* observers */
	struct list warm;
	uint64_t refusals;
	struct cache_written written;
};

void cache_follow_init(struct cache_follow *follow, struct cache_store *store);
/* Begins to observe the path for the caller of cache_observe(). */
void cache_follow_path(
	struct cache_follow *follow, const char *path, struct cache_observer *observer);
/* Observes these paths, as in the configuration, and no longer those of the last call. */
void cache_warm_set(struct cache_follow *follow, char *const *warm, size_t count);

/* Events follow: everything observed has been loaded. */
static inline bool cache_observer_is_ready(const struct cache_observer *observer)
{
	return observer->state == CACHE_OBSERVER_LIVE || observer->state == CACHE_OBSERVER_STALE;
}
bool cache_is_observed(const struct cache_follow *follow, const struct cache_node *node);
/* An observer follows the path or a tree in which it is. */
bool cache_is_in_tree(const struct cache_follow *follow, const struct cache_node *node);

void cache_observers_flush(struct cache_follow *follow, struct cache_node *node);
/*
 * At the end of a turn, after all changes: observers that waited for the last of their paths are
 * ready.
 */
void cache_observers_ready(struct cache_follow *follow);
/*
 * The registry is connected: observers that have waited for it, because nothing could be read, look
 * again.
 */
void cache_observers_return(struct cache_follow *follow);
/* The server is silent, or heard again: observers hear of it. */
void cache_observers_freshness(struct cache_follow *follow);
/* Ends the observer that came last. False when there is none. */
bool cache_observers_refuse(struct cache_follow *follow);
/* Ends all of them, for this reason. */
void cache_observers_end(struct cache_follow *follow, const struct err *err);

#endif
