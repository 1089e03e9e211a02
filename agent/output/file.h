/*
 * The file of an output, but for its writing (file_work.h). Blocks for the disk where it reads.
 */
#ifndef AGENT_OUTPUT_FILE_H
#define AGENT_OUTPUT_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "agent/base/file_work.h"

/*
 * The owner and mode of the file: as given; else, for a mode of 0 and ids of -1, those of the
 * existing file; else 0644 and the agent's own.
 */
struct file_owner output_file_owner(const char *path, unsigned mode, uid_t user, gid_t group);

/* True when `path` is a regular file with just this content, and this owner unless it is NULL. */
bool output_file_equals(
	const char *path, const void *data, size_t len, const struct file_owner *owner);

/*
 * The name of the new file next to `path`, free(). It is the same each time, so that one which a
 * killed agent left behind is replaced by the next; another one for each `block`, "" for none. It
 * begins with a dot: readers of a whole directory pass it over.
 */
char *output_file_temporary(const char *path, const char *block);

#endif
