/* The cache's content in the state directory, for the next start; see cache_save() in cache.h. */
#ifndef AGENT_CACHE_SNAPSHOT_H
#define AGENT_CACHE_SNAPSHOT_H

#include "agent/base/file_work.h"
#include "agent/cache/entry.h"

int cache_snapshot_save(const struct cache_store *store, const char *directory,
	struct file_work *ret_work, struct err *err) __attribute__((warn_unused_result))
ERR_REQUIRED(4);
void cache_snapshot_load(struct cache_store *store, const char *directory);

#endif
