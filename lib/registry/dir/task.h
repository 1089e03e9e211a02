/*
 * The operations of a dir: registry: each task is carried out at once on the tree.
 *
 * The caller holds the store's lock for a writing operation. The task receives the outcome.
 */
#ifndef LIB_REGISTRY_DIR_TASK_H
#define LIB_REGISTRY_DIR_TASK_H

#include "lib/registry/backend.h"
#include "lib/registry/dir/session.h"
#include "lib/registry/dir/store.h"
#include "lib/registry/dir/watch.h"

struct dir_context {
	struct dir_store store;
	struct dir_session session;
	struct dir_watches *watches;
	char *swept_path; /* the directory whose dead ephemeral nodes were removed last */
};

bool dir_task_writes(const struct registry_task *task);
/* Whether it writes what has to outlive a power cut, so that it waits for the disk. */
bool dir_task_lasts(const struct dir_context *context, const struct registry_task *task);
/*
 * A delete of an ephemeral node of this process needs no lock: true when the task was that and the
 * node has ended. Its directory is left for dir_task_clear_dead().
 */
bool dir_task_end_own(struct dir_context *context, struct registry_task *task);
/* Under the store's lock: takes a dead node's directory away. */
void dir_task_clear_dead(struct dir_context *context, const char *path);
void dir_task_run(struct dir_context *context, struct registry_task *task);

#endif
