/* Requests that visit many nodes; the requests for a single node hand over to them. */
#ifndef LIB_REGISTRY_WALK_H
#define LIB_REGISTRY_WALK_H

#include "lib/registry/registry.h"

/* registry_delete() with everything below: REGISTRY_DELETE_TREE or _ALL. */
struct registry_request *registry_delete_tree(struct registry *registry, const char *path,
	enum registry_delete_mode mode, const struct registry_stat *expected,
	registry_progress *progress, registry_done *done, void *context);

#endif
