/*
 * Which records claim an address, and which are of a container: an index from what the cache's
 * records say to their paths.
 *
 *   IDLE --first question--> WALKING --the whole cache was seen--> FOLLOWING
 *
 * Before the first question it holds nothing. Then it takes in the records of the cache, and from
 * then on each change of one; per iteration of the loop a bounded number, and a question waits
 * until it has caught up. Its memory counts in the cache's max_size. Loop thread only.
 */
#ifndef AGENT_NAMES_INDEX_H
#define AGENT_NAMES_INDEX_H

#include <stdbool.h>

#include "agent/cache/cache.h"
#include "agent/names/names.h"

/* So many records that one question finds are read for it. */
#define NAMES_INDEX_MOST 256

struct names_index;

/*
 * `on_ready` is called in a later iteration than a question that found the index behind. The cache
 * must have no other index, and outlive this one.
 */
struct names_index *names_index_create(
	struct ev_loop *loop, struct cache *cache, void (*on_ready)(void *context), void *context);
/* Accepts NULL. */
void names_index_destroy(struct names_index *index);

/*
 * Calls `visit` for records that `key` may stand for, each once, NAMES_INDEX_MOST at most, those
 * first that have been known longest. False: the index is behind; on_ready follows.
 */
bool names_index_find(struct names_index *index, uint64_t key, names_visit *visit, void *context);

#endif
