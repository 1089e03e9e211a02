/* A container as the runtime describes it, from JSON to frames for the agent. */
#ifndef RUNTIME_FACTS_H
#define RUNTIME_FACTS_H

#include <jansson.h>
#include <stdbool.h>

#include "lib/base/buffer.h"
#include "lib/looker/wire.h"
#include "lib/runtime/protocol.h"

/*
 * Of an entry of the list, or of an event: its id, of hexadecimal digits; "" for any other text.
 */
const char *facts_id(const json_t *id);
/* The part of a list's entry that changes with all that matters. */
void facts_signature(struct buffer *to, const json_t *entry);

/* Which process a container's first one is, as an inspection says. */
struct facts_process {
	json_int_t pid; /* 0: none */
	char started[64];
};
void facts_process(struct facts_process *ret_process, const json_t *inspection);
bool facts_same_process(const struct facts_process *a, const struct facts_process *b);

/* The word of its own health check; "": it has none. */
const char *facts_health(const json_t *inspection);

/* Labels and variables whose name begins with one of these are passed on. */
struct facts_filter {
	char **prefixes;
	size_t count;
};

/* The frame of a container, up to its last field; the caller ends it. */
void facts_write(struct wire *wire, const json_t *inspection, const struct facts_filter *filter,
	bool watched);
/* The same of one that cannot be read. */
void facts_write_error(struct wire *wire, const char *id, const char *error);

#endif
