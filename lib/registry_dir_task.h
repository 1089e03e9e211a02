/*
 * What each operation of a dir: registry does: one task, carried out at once on the tree.
 *
 * A writing operation is to be run under the store's lock. The outcome is left in the task.
 */
#ifndef REGISTRY_DIR_TASK_H
#define REGISTRY_DIR_TASK_H

#include "registry_backend.h"
#include "registry_dir_session.h"
#include "registry_dir_store.h"
#include "registry_dir_watch.h"

struct dir_context {
	struct dir_store store;
	struct dir_session session;
	struct dir_watches *watches;
	char *swept_path; /* the directory whose dead ephemeral nodes were removed last */
};

bool dir_task_writes(const struct registry_task *task);
void dir_task_run(struct dir_context *context, struct registry_task *task);

#endif
