/*
 * Clients of a simulated agent: they ask its cache for records and lists all the time, and every
 * answer is held against the history of the registry.
 */
#ifndef TESTS_SIM_LOOKUP_H
#define TESTS_SIM_LOOKUP_H

#include <ev.h>

#include "agent/cache/cache.h"
#include "tests/sim/world.h"

enum { SIM_CONFIRM_MS = 5000 };

struct lookups;

/* Whose history counts. */
void lookups_use_world(const struct world *world);
struct lookups *lookups_create(struct ev_loop *loop, struct cache *cache, int agent, uint64_t seed);
void lookups_destroy(struct lookups *lookups);
/* So many answers were checked since the process began: hits, stale ones, failures. */
void lookups_counts(uint64_t ret_counts[3]);

#endif
