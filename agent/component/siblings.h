/*
 * Is a component the last one? Watches the other nodes next to a path and reports whether any of
 * them holds a record.
 *
 * Two components that fail at the same moment may each see the other, and both withdraw. So a
 * component that withdrew because of the other one comes back when no record is left, marked as
 * failing; if both come back, the one whose path sorts first stays: the other's record is LESSER. A
 * component that is out does not come back for a LESSER record, so that the two do not alternate.
 */
#ifndef AGENT_COMPONENT_SIBLINGS_H
#define AGENT_COMPONENT_SIBLINGS_H

#include <ev.h>
#include <jansson.h>

#include "lib/registry/registry.h"

enum component_siblings_answer {
	COMPONENT_SIBLINGS_UNKNOWN,
	COMPONENT_SIBLINGS_NONE,
	COMPONENT_SIBLINGS_LESSER, /* only failing ones that yield to us */
	COMPONENT_SIBLINGS_SOME
};

/* Pure: the meaning of the records (object of path -> record) next to `path` for its component. */
enum component_siblings_answer component_siblings_judge(const json_t *records, const char *path);

struct component_siblings;

/* `on_answer` is called whenever the answer changes; it may destroy this. */
struct component_siblings *component_siblings_create(struct ev_loop *loop,
	struct registry *registry, const char *path, void (*on_answer)(void *context),
	void *context);
/* Accepts NULL. */
void component_siblings_destroy(struct component_siblings *siblings);
/* Accepts NULL: unknown. */
enum component_siblings_answer component_siblings_answer(const struct component_siblings *siblings);

#endif
