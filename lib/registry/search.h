/*
 * The criteria of find and purge, and the lists of matches that a walk collects for its result.
 */
#ifndef LIB_REGISTRY_SEARCH_H
#define LIB_REGISTRY_SEARCH_H

#include <stdbool.h>
#include <stddef.h>

#include "lib/record/record.h"
#include "lib/registry/backend.h"
#include "lib/registry/registry.h"

/* Copies the strings of `from` (`under` too) into a zeroed struct. 0, or -1 without memory. */
int registry_criteria_copy(struct registry_criteria *criteria, const struct registry_criteria *from)
	__attribute__((warn_unused_result));
/* Frees a copy. */
void registry_criteria_finish(struct registry_criteria *criteria);

/*
 * True when the record fulfils all criteria that are given; one endpoint must have both api and
 * protocol.
 */
bool registry_criteria_match(const struct registry_criteria *criteria, const struct record *record);

/* A zeroed struct is empty. */
struct registry_matches {
	struct registry_found *found;
	size_t found_count;
	size_t found_size; /* of the array */
	size_t found_bytes;
	char **purged; /* the removed paths */
	size_t purged_count;
	size_t purged_size; /* of the array */
};

/*
 * Adds a record, and takes its data out of the task. LIMIT_EXCEEDED beyond `max_bytes` of records
 * (0: no limit), FAILED without memory.
 */
int registry_matches_add_found(struct registry_matches *matches, const char *path,
	struct registry_task *task, size_t max_bytes, struct err *err) ERR_REQUIRED(5);
int registry_matches_add_purged(struct registry_matches *matches, const char *path, struct err *err)
	ERR_REQUIRED(3);
/* Sorts both lists by path: they have the order of the answers. */
void registry_matches_sort(struct registry_matches *matches);
void registry_matches_finish(struct registry_matches *matches);

#endif
