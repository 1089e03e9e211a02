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
/* `changes`: what cache_changes() of the predecessor gave, or NULL. */
void agent_cache_open(struct agent *agent, const char *changes);
void agent_cache_close(struct agent *agent);
/*
 * Saves a cache that is not being loaded, if there may be snapshots. NULL, or the job, which the
 * caller cancels before the end of the cache; `on_saved` is to log a failure.
 */
struct file_job *agent_cache_begin_save(struct agent *agent, struct cache *cache,
	void (*on_saved)(void *context, const struct err *err), void *context);
/* Loads what is saved, if there may be snapshots. */
void agent_cache_load(struct agent *agent, struct cache *cache, const char *changes);
void agent_cache_save(struct agent *agent);
/* Puts the options into force that may change at run time. */
void agent_cache_apply_options(struct agent *agent);

#endif
