/*
 * The answers of what `warm` in [cache] names: they are in the map before a reader asks for them.
 *
 *   a map is handed out: all that is known --> queue --work, a few paths in a turn--> the map
 *   a path has come or changed: it, and its parent --^
 *
 * A path that is named by itself is watched by itself: the map gets its record. Below a path with
 * two asterisks everything is watched: the map also gets the endpoints of all that is there, and
 * the lists and records of directories. So nothing is read from the registry for it. When the map
 * or the cache is full it ends: readers fill the rest. Loop thread only.
 */
#ifndef AGENT_SHARED_WARM_H
#define AGENT_SHARED_WARM_H

#include <ev.h>
#include <stdbool.h>
#include <stddef.h>

#include "agent/cache/cache.h"

struct warm;

/* Takes an answer that is a hit now; all is borrowed. False: there is no room for more. */
typedef bool warm_put(void *context, const struct cache_query *query, const char *key,
	const struct cache_answer *answer);

/*
 * From now on `put` gets such answers, but only after warm_go_on(). `patterns` as in [cache] warm;
 * they are copied. The cache must outlive it.
 */
struct warm *warm_create(struct ev_loop *loop, struct cache *cache, char *const *patterns,
	size_t count, warm_put *put, void *context);
/* Accepts NULL, as all that follows. */
void warm_destroy(struct warm *warm);

/* The map is another one, which may lack some of them. */
void warm_begin(struct warm *warm);
/* Something of the path has changed. Does not call the cache, but for cache_reserve(). */
void warm_touched(struct warm *warm, const char *path);
/* There are readers for whom what is queued is worth its work. */
void warm_go_on(struct warm *warm);

#endif
