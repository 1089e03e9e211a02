/* How many paths and kinds a registry watches. */
#ifndef TESTS_SUPPORT_WATCH_COUNT_H
#define TESTS_SUPPORT_WATCH_COUNT_H

#include "lib/registry/internal.h"

static inline size_t watch_count(const struct registry *registry)
{
	return list_count(&registry->watches.all);
}

#endif
