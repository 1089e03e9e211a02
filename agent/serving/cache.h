/*
 * The agent's lookup cache, with its snapshot in the state directory.
 */
#ifndef AGENT_SERVING_CACHE_H
#define AGENT_SERVING_CACHE_H

struct agent;

void agent_cache_open(struct agent *agent);
/* Begins to save the snapshot, and closes the cache. */
void agent_cache_close(struct agent *agent);
/* Puts the options into force that may change at run time. */
void agent_cache_apply_options(struct agent *agent);

#endif
