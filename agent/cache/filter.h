/* Which endpoints an answer shows, or which records a search finds. */
#ifndef AGENT_CACHE_FILTER_H
#define AGENT_CACHE_FILTER_H

#include <stdbool.h>
#include <stddef.h>

/* A text that is NULL accepts any. */
struct cache_filter {
	const char *api;
	const char *protocol;
	const char *scope;
	const char *type; /* these three for FIND only */
	const char *id;
	const char *persistence;
	const char *attributes; /* not RESOLVE, LIST, STAT: see lib/record/select.h */
	const char *near; /* ENDPOINTS, TARGETS: by nearness to this zone, with tiers; NULL: not */
	bool text;        /* lines of text in place of JSON */
	bool outside;     /* RESOLVE, RECORDS, STAT: records without their internal endpoints */
};

/* The same members; NULL has the members of a filter that accepts anything, as JSON. */
bool cache_filter_same(const struct cache_filter *a, const struct cache_filter *b);
/* A copy with its texts in one block, for free(). NULL of NULL. */
struct cache_filter *cache_filter_copy(const struct cache_filter *filter);
/* Bytes of the copy; 0 of NULL. */
size_t cache_filter_bytes(const struct cache_filter *filter);

#endif
