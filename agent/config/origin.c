#include "agent/config/origin.h"

#include <stdlib.h>

#include "agent/base/allocate.h"
#include "lib/base/trust.h"

void config_origins_add(struct config_origins *origins, const char *path, FILE *stream)
{
	struct config_origin origin = { .read_only = trust_is_read_only(fileno(stream)) };
	if (fstat(fileno(stream), &origin.status)) {
		return; /* reading it will fail too */
	}
	origin.path = allocate_text(path);
	origins->items = allocate_grow(origins->items, origins->count, sizeof(*origins->items));
	origins->items[origins->count++] = origin;
}

void config_origins_finish(struct config_origins *origins)
{
	for (size_t i = 0; i < origins->count; i++) {
		free(origins->items[i].path);
	}
	free(origins->items);
}
