/*
 * The cache's content in the state directory, for the next start; see cache_save() in cache.h.
 *
 * A node that is made while a snapshot is loaded gets what is saved of it at once, and so do the
 * lists above it, which may say that it is absent: to everybody else all of it is loaded already.
 */
#ifndef AGENT_CACHE_SNAPSHOT_H
#define AGENT_CACHE_SNAPSHOT_H

#include "agent/base/file_work.h"
#include "agent/cache/entry.h"

void cache_snapshot_save(
	struct cache_store *store, const char *directory, struct file_work *ret_work);
char *cache_snapshot_changes(const struct cache_store *store);
void cache_snapshot_load(struct cache_store *store, const char *directory, const char *changes);
/* Loads some hundred lines. */
void cache_snapshot_go_on(struct cache_store *store);
void cache_snapshot_stop(struct cache_store *store);

#endif
