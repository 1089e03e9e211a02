/*
 * Directories that were too large for the cache. Their lists are evicted at once, so that each
 * request would read them again: for a while the refusal is remembered instead.
 */
#ifndef AGENT_CACHE_REFUSED_H
#define AGENT_CACHE_REFUSED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { CACHE_REFUSED_MAX = 8 };

struct cache_refused {
	char *path; /* NULL: none */
	int64_t until_ms;
};

struct cache_refusals {
	struct cache_refused last[CACHE_REFUSED_MAX];
	size_t next;
};

/* The path's children were too many a short time ago: they are not worth another read yet. */
bool cache_refused(struct cache_refusals *refusals, const char *path);
void cache_refused_note(struct cache_refusals *refusals, const char *path, size_t children);
void cache_refused_forget(struct cache_refusals *refusals);

#endif
