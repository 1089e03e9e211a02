#include "agent/cache/refused.h"

#include <stdlib.h>
#include <string.h>

#include "agent/base/allocate.h"
#include "lib/base/clock.h"

/* A tenth of a millisecond for each child: reading one costs a small part of that. */
enum { CHILDREN_A_MS = 10, LONGEST_MS = 60000 };

static struct cache_refused *find(struct cache_refusals *refusals, const char *path)
{
	for (size_t i = 0; i < CACHE_REFUSED_MAX; i++) {
		struct cache_refused *refused = &refusals->last[i];
		if (refused->path && strcmp(refused->path, path) == 0) {
			return refused;
		}
	}
	return NULL;
}

bool cache_refused(struct cache_refusals *refusals, const char *path)
{
	const struct cache_refused *refused = find(refusals, path);
	return refused && clock_monotonic_ms() < refused->until_ms;
}

void cache_refused_note(struct cache_refusals *refusals, const char *path, size_t children)
{
	size_t length_ms = children / CHILDREN_A_MS;
	struct cache_refused *refused = find(refusals, path);
	if (!refused) {
		refused = &refusals->last[refusals->next++ % CACHE_REFUSED_MAX];
		free(refused->path);
		refused->path = allocate_text(path);
	}
	refused->until_ms = clock_monotonic_ms() +
		(int64_t)(length_ms < LONGEST_MS ? length_ms : LONGEST_MS);
}

void cache_refused_forget(struct cache_refusals *refusals)
{
	for (size_t i = 0; i < CACHE_REFUSED_MAX; i++) {
		free(refusals->last[i].path);
		refusals->last[i] = (struct cache_refused){ .path = NULL };
	}
}
