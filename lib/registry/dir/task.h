/*
 * What each operation of a dir: registry does: one task, carried out at once on the tree.
 *
 * A writing operation is to be run under the store's lock. The outcome is left in the task.
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
void dir_task_run(struct dir_context *context, struct registry_task *task);

#endif
