/* The sections of a configuration, one after the other: for all that treats each alike. */
#ifndef AGENT_CONFIG_PARTS_H
#define AGENT_CONFIG_PARTS_H

#include <jansson.h>

#include "agent/config/config.h"
#include "agent/config/options.h"

struct config_part {
	const struct config_section_type *type;
	const char *name;   /* "" for a section without one */
	const char *owner;  /* the component of an endpoint or a dialect; else "" */
	const void *target; /* the section's struct */
	/* CONFIG_FOR of its type: options for other types mean nothing to it; 0: all count */
	unsigned types;
};

/* In the order of an effective configuration: endpoints follow their component. */
void config_each_part(const struct config *config,
	void (*visit)(void *context, const struct config_part *part), void *context);

/*
 * The changes that a reload from `now` to `next` would make, a new array; empty without any:
 * {"section", "change": "added" | "removed"}, or for an option
 * {"section", "change": "changed", "key", "from", "to"}, both values with secrets masked.
 */
json_t *config_difference(const struct config *now, const struct config *next);

#endif
