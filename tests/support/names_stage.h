/*
 * Look-ups of names in the domain "berth" with the sets that they are written from, for a test that
 * has one of each.
 */
#ifndef TESTS_SUPPORT_NAMES_STAGE_H
#define TESTS_SUPPORT_NAMES_STAGE_H

#include "agent/names/lookup.h"

static struct sets *names_stage_sets;

static inline struct names_lookups *names_stage_create(struct ev_loop *loop, struct cache *cache)
{
	names_stage_sets = sets_create(loop, cache, "berth");
	return names_lookups_create(loop, cache, names_stage_sets, "berth");
}

/* Accepts NULL. */
static inline void names_stage_destroy(struct names_lookups *lookups)
{
	names_lookups_destroy(lookups);
	if (lookups) {
		sets_destroy(names_stage_sets);
	}
}

#endif
