/*
 * The file of an output: compared, written next to its place, moved there. Blocks for the disk.
 *
 * The new file has a name of its own, the same each time, so that one which a killed agent left
 * behind is replaced by the next. It begins with a dot: readers of a whole directory pass it over.
 */
#ifndef AGENT_OUTPUT_FILE_H
#define AGENT_OUTPUT_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "lib/base/err.h"

struct output_file_owner {
	mode_t mode;
	uid_t user;  /* (uid_t)-1: the agent's */
	gid_t group; /* (gid_t)-1: the agent's */
};

/*
 * The owner and mode of the file: as given; else, for a mode of 0 and ids of -1, those of the
 * existing file; else 0644 and the agent's own.
 */
struct output_file_owner output_file_owner(
	const char *path, unsigned mode, uid_t user, gid_t group);

/* True when `path` is a regular file with just this content and owner. */
bool output_file_equals(
	const char *path, const void *data, size_t len, const struct output_file_owner *owner);

/*
 * Writes the new file next to `path` and makes it last (fsync). 0 with its malloc'ed name, or
 * BERTH_FAILED with nothing left behind.
 */
int output_file_prepare(char **ret_temporary, const char *path, const void *data, size_t len,
	const struct output_file_owner *owner, struct err *err) __attribute__((warn_unused_result))
ERR_REQUIRED(6);

/* Moves the new file into its place: 0 or BERTH_FAILED; then it is still there. */
int output_file_commit(const char *temporary, const char *path, struct err *err)
	__attribute__((warn_unused_result)) ERR_REQUIRED(3);

void output_file_discard(const char *temporary);

#endif
