/*
 * A watch on a registry's node, or on everything at and below it: registry watches in, the same
 * events out as an agent sends (SUBSCRIBED with a snapshot, UPDATED, DELETED, STALE, FRESH).
 *
 * Every node has a watch on its data and, when recursive, one on its children; nodes follow the
 * lists of children. A walk of the registry (lib/registry/walk.h) visits each node once, by calls
 * that arm no watch, and forgets it: it keeps a few branches of a tree, and this keeps all of it.
 */
#ifndef LIB_CLIENT_TREE_H
#define LIB_CLIENT_TREE_H

#include <stdbool.h>

#include "lib/peer/stream.h"
#include "lib/base/err.h"
#include "lib/registry/registry.h"

struct client_tree;

/* The path is checked by the caller. */
int client_tree_create(struct client_tree **ret_tree, struct registry *registry, const char *path,
	bool recursive, client_emit_take *emit, void *context, struct err *err)
	__attribute__((warn_unused_result)) ERR_REQUIRED(7);
/* Accepts NULL. Not from a registry's callback. */
void client_tree_free(struct client_tree *tree);

/* 0 once it has a snapshot; else how much of it has been read. */
int client_tree_trouble(const struct client_tree *tree, struct err *err) ERR_REQUIRED(2);
/* The registry's connection changed. */
void client_tree_state(struct client_tree *tree, enum registry_state state);

#endif
