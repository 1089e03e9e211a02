/*
 * Small files that outlive the agent: written whole or not at all, and checked when read.
 *
 * Line 1 is "berth-state 1 KIND LENGTH CRC32", the rest the content, LENGTH bytes of it. KIND says
 * whose content it is, so that a file under a wrong name is noticed too. All functions block for
 * the disk: not for large or frequent writes.
 */
#ifndef AGENT_BASE_STATE_FILE_H
#define AGENT_BASE_STATE_FILE_H

#include <stddef.h>

#include "lib/base/err.h"

/*
 * Writes DIRECTORY/NAME, mode 0600: a temporary file next to it, fsync, rename, fsync of the
 * directory. After any failure DIRECTORY/NAME has either its old or its new content. One writer for
 * a name at a time. `name` has no slash; `kind` is one word. 0 or BERTH_FAILED.
 */
int state_file_write(const char *directory, const char *name, const char *kind, const void *data,
	size_t len, struct err *err) __attribute__((warn_unused_result)) ERR_REQUIRED(6);

/*
 * Reads it into memory of its own (NUL-terminated, free()). BERTH_PATH_NOT_FOUND: there is none.
 * BERTH_INVALID_RECORD: it is damaged, or of another kind or version. BERTH_LIMIT_EXCEEDED: its
 * content has more than max_len bytes. BERTH_NO_PATH_PERMISSIONS: a stranger owns it or can write
 * to it. BERTH_FAILED: it cannot be read.
 */
int state_file_read(const char *directory, const char *name, const char *kind, size_t max_len,
	char **ret_data, size_t *ret_len, struct err *err) __attribute__((warn_unused_result))
ERR_REQUIRED(7);

/* Removes it permanently; an absent file is not an error. 0 or BERTH_FAILED. */
int state_file_remove(const char *directory, const char *name, struct err *err)
	__attribute__((warn_unused_result)) ERR_REQUIRED(3);

#endif
