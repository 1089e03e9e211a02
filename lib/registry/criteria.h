/* The criteria of find and purge: a copy of struct registry_criteria, and the comparison. */
#ifndef LIB_REGISTRY_CRITERIA_H
#define LIB_REGISTRY_CRITERIA_H

#include <stdbool.h>

#include "lib/record/record.h"
#include "lib/registry/registry.h"

/* Copies what `from` points to (`under` too) into a zeroed struct. 0, or -1 without memory. */
int registry_criteria_copy(struct registry_criteria *criteria, const struct registry_criteria *from)
	__attribute__((warn_unused_result));
/* Frees a copy. */
void registry_criteria_finish(struct registry_criteria *criteria);

/*
 * True when the record fulfils all criteria that are given; one endpoint must have both api and
 * protocol.
 */
bool registry_criteria_match(const struct registry_criteria *criteria, const struct record *record);

#endif
