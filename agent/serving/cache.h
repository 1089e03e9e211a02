/*
 * The agent's lookup cache, with its snapshot in the state directory.
 */
#ifndef AGENT_SERVING_CACHE_H
#define AGENT_SERVING_CACHE_H

#include <stdint.h>

#include "agent/cache/cache.h"

struct agent;

/* The options of a cache borrow this; free(warm). */
struct agent_cache_room {
	char **warm;
};

/*
 * The options in [cache] for the cache at this path, "" for the agent's own; `session_timeout_ms`
 * is that of its registry.
 */
struct cache_options agent_cache_options(const struct agent *agent, const char *at,
	int64_t session_timeout_ms, struct agent_cache_room *ret_room);
void agent_cache_open(struct agent *agent);
/* Begins to save the snapshot, and closes the cache. */
void agent_cache_close(struct agent *agent);
/* Puts the options into force that may change at run time. */
void agent_cache_apply_options(struct agent *agent);

#endif
