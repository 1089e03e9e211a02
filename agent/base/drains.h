/*
 * Drains by name, of the containers of a host. A drain stays until somebody ends it or its time is
 * over, also while nothing has the name. Pure.
 */
#ifndef AGENT_BASE_DRAINS_H
#define AGENT_BASE_DRAINS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "agent/base/drain.h"

struct named_drain {
	char *name;
	struct drain drain; /* active */
	double out_at;      /* monotonic: when its last record had gone; 0: it has some */
};

struct drains {
	struct named_drain *items;
	size_t count;
};

enum { DRAINS_MAX = 4096 };

void drains_finish(struct drains *drains);
/* NULL: none. Borrowed until the next change. */
struct named_drain *drains_find(const struct drains *drains, const char *name);
/* The one that is there, or a new one, to be begun; NULL: there are too many. */
struct named_drain *drains_add(struct drains *drains, const char *name);
void drains_remove(struct drains *drains, struct named_drain *drain);

/* An object of name -> drain_json(). New reference. */
json_t *drains_json(const struct drains *drains);
/* The inverse, without those whose time is over. False: some of a wrong shape are left out. */
bool drains_load(struct drains *drains, const json_t *json, double now);

#endif
