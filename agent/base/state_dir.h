/*
 * The agent's state directory: one agent at a time, small JSON documents that survive it.
 *
 * A directory that cannot be used (read-only, full) is not fatal: loads find nothing and saves say
 * why.
 */
#ifndef AGENT_BASE_STATE_DIR_H
#define AGENT_BASE_STATE_DIR_H

#include <jansson.h>
#include <stdbool.h>

#include "lib/base/err.h"

struct state_dir {
	char *path;
	int lock_fd; /* -1 when there is no lock */
};

/*
 * Makes the directory if it is missing and locks it for this process. `lock_fd` is a descriptor
 * that already holds the lock, from before an exec(), or -1. BERTH_FILE_ALREADY_EXISTS when another
 * agent holds it for longer than about a second; BERTH_FAILED when the directory cannot be used, or
 * a stranger could change what its path leads to (trust.h): then it is still to be finished, and
 * works as an empty one.
 */
int state_dir_init(struct state_dir *directory, const char *path, int lock_fd, struct err *err)
	__attribute__((warn_unused_result)) ERR_REQUIRED(4);
void state_dir_finish(struct state_dir *directory);

/* Whether it is ours: trusted, and locked by this process. */
bool state_dir_usable(const struct state_dir *directory);

/*
 * The document `name`, new reference; NULL when there is none (err clear) or when it is damaged
 * (err says how).
 */
json_t *state_dir_load(const struct state_dir *directory, const char *name, struct err *err)
	ERR_REQUIRED(3);
/* Replaces it atomically, readable by the owner only. */
int state_dir_save(const struct state_dir *directory, const char *name, const json_t *document,
	struct err *err) __attribute__((warn_unused_result)) ERR_REQUIRED(4);
/* The same for a document that is JSON text already. */
int state_dir_save_text(const struct state_dir *directory, const char *name, const char *text,
	struct err *err) __attribute__((warn_unused_result)) ERR_REQUIRED(4);
/* An absent file is not an error; a failure is logged. */
void state_dir_remove(const struct state_dir *directory, const char *name);

#endif
