/*
 * A registry in memory of nodes without records that its maker names: it is always connected, and
 * no other program has a part in it.
 */
#ifndef LIB_REGISTRY_REGISTRY_FIXED_H
#define LIB_REGISTRY_REGISTRY_FIXED_H

#include "lib/registry/registry.h"

/* As registry_open(); the URL is not looked at. It has its root, and nothing below it. */
int registry_open_fixed(struct registry **ret_registry, const struct registry_options *options,
	struct err *err) __attribute__((warn_unused_result)) ERR_REQUIRED(3);
/*
 * From now on these are the children of its root; copied. Watches hear of those that have come and
 * gone. Without memory nothing has changed. The registry must come from registry_open_fixed().
 */
int registry_fixed_set(struct registry *registry, const char *const *names, size_t count,
	struct err *err) __attribute__((warn_unused_result)) ERR_REQUIRED(4);

#endif
