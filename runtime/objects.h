/*
 * Cuts a stream of JSON into its objects: those of one array, or one behind another. Each is kept
 * as a whole, up to a bound; of a longer one its beginning. No more is held at a time.
 */
#ifndef RUNTIME_OBJECTS_H
#define RUNTIME_OBJECTS_H

#include <stdbool.h>
#include <stddef.h>

#include "lib/base/buffer.h"

struct objects {
	struct buffer object;
	size_t max;
	unsigned depth; /* of braces and brackets, from the object on */
	bool in_text;
	bool escaped;
	bool too_long;
	void (*on_object)(void *context, const char *text, size_t len, bool is_whole);
	void *context;
};

void objects_init(struct objects *objects, size_t max,
	void (*on_object)(void *context, const char *text, size_t len, bool is_whole),
	void *context);
void objects_finish(struct objects *objects);
/* Before another stream. */
void objects_restart(struct objects *objects);
void objects_feed(struct objects *objects, const char *bytes, size_t len);

#endif
