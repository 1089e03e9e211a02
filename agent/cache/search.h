/*
 * FIND: searches of everything below a path. Their answers are made by walks of the registry,
 * since a tree may be larger than the cache. An equal search that comes meanwhile shares the walk.
 *
 * While a client waits for a change, an observer of the tree says whether the last walk still
 * holds: then the answer is live, and a change begins the next walk. A tree that does not fit into
 * the cache cannot be waited for.
 */
#ifndef AGENT_CACHE_SEARCH_H
#define AGENT_CACHE_SEARCH_H

#include "agent/cache/answer.h"
#include "agent/cache/follow.h"

struct cache_searches {
	struct registry *registry;
	struct cache_turn *turn;
	struct cache_follow *follow;
	struct list queue;    /* those that wait for their walk, those of look-ups first */
	struct list observed; /* those that an observer follows */
	size_t walks;
	size_t asked; /* that look-ups began */
	bool changed; /* an observed one was, since the last tick */
};

void cache_searches_init(struct cache_searches *searches, struct registry *registry,
	struct cache_turn *turn, struct cache_follow *follow);

/* Its answer, or a walk for it. */
enum cache_verdict cache_find_build(struct answer *answer, struct err *err);
/* Walks again for a client that waits for a change of the answer it has. */
void cache_find_again(struct answer *answer);
/* An equal search is under way, or has its answer for want of a registry. */
bool cache_find_joins(const struct answer *answer);
/* A wait was added (it may poll), or the last one has gone. */
void cache_find_waited(struct answer *answer);
void cache_find_free(struct answer *answer);
/* Begins the walks that wait, as many as may be under way. */
void cache_finds_run(struct cache_searches *searches);
/* A second after changes: those that have changed since their walk are walked again. */
void cache_finds_tick(struct cache_searches *searches);

#endif
