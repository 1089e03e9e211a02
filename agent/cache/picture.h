/*
 * Pictures: the cache's content for users inside the agent and for snapshots of event streams, as
 * cache.h describes them. This file reads nothing from the registry.
 */
#ifndef AGENT_CACHE_PICTURE_H
#define AGENT_CACHE_PICTURE_H

#include "agent/cache/follow.h"

/* Forgets the snapshot that others might have copied. */
void cache_written_forget(struct cache_follow *follow);

#endif
