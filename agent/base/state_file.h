/*
 * Small files that outlive the agent: written whole or not at all, and checked when read.
 *
 * Line 1 is "berth-state 1 KIND LENGTH CRC32", the rest the content, LENGTH bytes of it. KIND says
 * whose content it is, so that a file under a wrong name is noticed too. To write one is work for a
 * child (file_queue.h); reading blocks for the disk, when the agent starts.
 */
#ifndef AGENT_BASE_STATE_FILE_H
#define AGENT_BASE_STATE_FILE_H

#include <stddef.h>

#include "agent/base/file_work.h"

/*
 * The work that writes DIRECTORY/NAME, mode 0600, by way of DIRECTORY/.NAME.new; for
 * file_work_finish(). `name` has no slash; `kind` is one word. `data_take`
 * came from malloc().
 */
void state_file_replace(struct file_work *ret_work, const char *directory, const char *name,
	const char *kind, char *data_take, size_t len);

/* The same for data that `make` of file_work.h makes, with this head. */
void state_file_replace_made(struct file_work *ret_work, const char *directory, const char *name,
	int (*make)(const void *context, struct file_work *made, struct err *err),
	const void *context);
char *state_file_head(const char *kind, const char *data, size_t len);

/* The work that removes it permanently; an absent file is not an error. */
void state_file_remove(struct file_work *ret_work, const char *directory, const char *name);

/*
 * Reads it into memory of its own (NUL-terminated, free()). BERTH_PATH_NOT_FOUND: there is none.
 * BERTH_INVALID_RECORD: it is damaged, or of another kind or version. BERTH_LIMIT_EXCEEDED: its
 * content has more than max_len bytes. BERTH_NO_PATH_PERMISSIONS: a stranger owns it or can write
 * to it. BERTH_FAILED: it cannot be read.
 */
int state_file_read(const char *directory, const char *name, const char *kind, size_t max_len,
	char **ret_data, size_t *ret_len, struct err *err) __attribute__((warn_unused_result))
ERR_REQUIRED(7);

#endif
