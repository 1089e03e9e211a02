#include "agent/base/drains.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/allocate.h"

void drains_finish(struct drains *drains)
{
	for (size_t i = 0; i < drains->count; i++) {
		free(drains->items[i].name);
	}
	free(drains->items);
	*drains = (struct drains){ .items = NULL };
}

struct named_drain *drains_find(const struct drains *drains, const char *name)
{
	for (size_t i = 0; i < drains->count; i++) {
		if (strcmp(drains->items[i].name, name) == 0) {
			return &drains->items[i];
		}
	}
	return NULL;
}

struct named_drain *drains_add(struct drains *drains, const char *name)
{
	struct named_drain *found = drains_find(drains, name);
	if (found || drains->count == DRAINS_MAX) {
		return found;
	}
	drains->items = allocate_grow(drains->items, drains->count, sizeof(*drains->items));
	found = &drains->items[drains->count++];
	*found = (struct named_drain){ .name = allocate_text(name) };
	return found;
}

void drains_remove(struct drains *drains, struct named_drain *drain)
{
	free(drain->name);
	*drain = drains->items[--drains->count];
}

json_t *drains_json(const struct drains *drains)
{
	json_t *json = allocated(json_object());
	for (size_t i = 0; i < drains->count; i++) {
		json_object_set_new(json, drains->items[i].name,
			allocated(drain_json(&drains->items[i].drain)));
	}
	return json;
}

bool drains_load(struct drains *drains, const json_t *json, double now)
{
	const char *name;
	json_t *one;
	bool good = true;
	json_object_foreach ((json_t *)(uintptr_t)json, name, one) {
		struct named_drain *drain = drains_add(drains, name);
		bool read = drain && drain_from_json(&drain->drain, one, now);
		good = good && read;
		if (drain && !drain->drain.active) {
			drains_remove(drains, drain);
		}
	}
	return good;
}
