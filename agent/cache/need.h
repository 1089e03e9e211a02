/* The entries that an answer needs: known well enough, or on their way. */
#ifndef AGENT_CACHE_NEED_H
#define AGENT_CACHE_NEED_H

#include "agent/cache/entry.h"

/* The entries that an answer at `path` needs. */
struct cache_need {
	size_t missing;     /* being loaded */
	size_t unavailable; /* not known, and not available */
	bool outdated;      /* one of these is known, but is older than max_stale */
	bool stale;
	bool too_large;     /* children that the cache cannot hold */
	int64_t true_at_ms; /* of the oldest stale entry */
};

/* The entry if it is known well enough; else NULL, and it is counted in `need`. */
struct cache_entry *cache_need(
	struct cache_store *store, struct cache_need *need, const char *path, enum cache_kind kind);
/* Needs the list of children; returns it, if there is one. It may be too large. */
struct cache_entry *cache_need_list(
	struct cache_store *store, struct cache_need *need, const char *path);
/* The same, and their data: these loads all run at the same time. */
void cache_need_children(struct cache_store *store, struct cache_need *need, const char *path);

#endif
