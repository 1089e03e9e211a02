/*
 * The dir: backend for the process that serves it to another one (remote.h).
 */
#ifndef LIB_REGISTRY_DIR_DIR_H
#define LIB_REGISTRY_DIR_DIR_H

#include "lib/registry/backend.h"
#include "lib/registry/dir/session.h"

/*
 * As the backend's open(), with a keeper (borrowed) of its locks, or NULL. `was_there`: the root
 * has been seen before, and is not made anew if it is away.
 */
int dir_open_kept(struct registry_backend **ret_backend, const char *rest,
	const struct registry_options *options, const struct registry_core *core,
	const struct dir_keeper *keeper, bool was_there, struct err *err)
	__attribute__((warn_unused_result)) ERR_REQUIRED(7);

#endif
