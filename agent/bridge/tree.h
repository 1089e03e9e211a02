/*
 * Looks into the registry of a container, which the container may change at any moment, in any way.
 *
 * Everything goes by descriptors, from the one of registry/ down (openat2 with BENEATH,
 * NO_SYMLINKS, NO_XDEV): a link, a mount or a directory that is swapped leads nowhere else. A file
 * is opened for its place first, and for reading only if it is a regular file; no open waits for a
 * FIFO, a device or a lease. Nothing is written. A walk has a bound on what it visits, a record one
 * on its bytes.
 */
#ifndef AGENT_BRIDGE_TREE_H
#define AGENT_BRIDGE_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/err.h"
#include "lib/base/limits.h"

/* Opens a directory below another; -1 with errno. */
int bridge_tree_open(int directory, const char *name, bool same_mount);

/* The error says what we lack, and nothing of what we looked at. */
bool bridge_tree_is_want(int error);

enum bridge_tree_kind {
	BRIDGE_TREE_UNSEEN,     /* we lack descriptors or memory to look: nothing is known */
	BRIDGE_TREE_ABSENT,     /* no node */
	BRIDGE_TREE_PERSISTENT, /* a node without an owner */
	BRIDGE_TREE_ENDED,      /* its owner has ended it */
	BRIDGE_TREE_DEAD,       /* its owner has died */
	BRIDGE_TREE_LIVE
};

/* Which file a record is, and in which version: equal ones need not be read again. */
struct bridge_tree_version {
	uint64_t inode;
	uint64_t size;
	int64_t modified_ns;
	int64_t changed_ns;
};

struct bridge_tree_node {
	enum bridge_tree_kind kind;
	/* LIVE: */
	struct bridge_tree_version version;
	char *data; /* NUL-terminated, malloc'ed; NULL for the known version, or on error */
	size_t len;
	struct err err; /* why the record cannot be read */
};

/*
 * Looks at the node at a valid path. Reads the record unless its version is `known`. Free
 * node->data.
 */
void bridge_tree_look(struct bridge_tree_node *ret_node, int registry_fd, const char *path,
	const struct bridge_tree_version *known);

struct bridge_tree_walk {
	size_t max_entries; /* directory entries to visit */
	/* Each directory, before it is read: the place to begin a watch. */
	void (*on_directory)(void *context, int fd);
	/* A node whose owner lives. */
	void (*on_live)(void *context, const char *path);
	/* Something could not be looked at: we lack descriptors or memory. */
	void (*on_unseen)(void *context);
	void *context;
};

/* False when a bound ended the walk. */
bool bridge_tree_walk(const struct bridge_tree_walk *walk, int registry_fd);

#endif
