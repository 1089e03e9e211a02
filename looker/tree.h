/*
 * Looks into the registry of a container, which the container may change at any moment, in any way.
 *
 * Everything goes by descriptors, from the one of registry/ down (openat2 with BENEATH,
 * NO_SYMLINKS, NO_XDEV): a link, a mount or a directory that is swapped leads nowhere else. A file
 * is opened for its place first, and for reading only if it is a regular file; no open waits for a
 * FIFO, a device or a lease. Nothing is written. A walk has bounds on what it visits and on its
 * time, a record one on its bytes.
 */
#ifndef LOOKER_TREE_H
#define LOOKER_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/err.h"
#include "lib/base/limits.h"
#include "lib/looker/protocol.h"

/* Opens a directory below another; -1 with errno. */
int tree_open(int directory, const char *name, bool same_mount);

/* The error says what we lack, and nothing of what we looked at. */
bool tree_is_want(int error);

/* Which file a record is, and in which version: equal ones need not be read again. */
struct tree_version {
	uint64_t inode;
	uint64_t size;
	int64_t modified_ns;
	int64_t changed_ns;
};

struct tree_node {
	enum looker_kind kind;
	/* LIVE: */
	int owner_fd; /* of the file whose lock it is; else -1 */
	uint64_t owner_device;
	uint64_t owner_inode;
	struct tree_version version;
	bool too_large; /* it has more bytes than are wanted, and was not read */
	char *data;     /* NUL-terminated, malloc'ed; NULL when it was not read */
	size_t len;
	struct err err; /* why the record cannot be read */
};

/* Which records are read. */
struct tree_want {
	bool data;                        /* else none */
	size_t max_bytes;                 /* none that is larger */
	const struct tree_version *known; /* not this one */
};

/* Looks at the node at a valid path. Then tree_node_finish(). */
void tree_look(struct tree_node *ret_node, int registry_fd, const char *path,
	const struct tree_want *want);
void tree_node_finish(struct tree_node *node);

/* Where a walk goes on that ran out of time: at this entry, below registry/. */
struct tree_place {
	char path[LOOKER_PLACE_BYTES]; /* "": at the start */
	size_t left;                   /* directory entries to visit, behind this one */
};

struct tree_walk {
	int64_t until_ns; /* monotonic: no entry but the first one is visited later */
	/* Each directory, before anything in it is looked at: the place to begin a watch. */
	void (*on_directory)(void *context, int fd);
	/* A node whose owner lives. */
	void (*on_live)(void *context, const char *path);
	/* Something could not be looked at: we lack descriptors or memory. */
	void (*on_unseen)(void *context);
	void *context;
};

enum tree_end { TREE_WHOLE, TREE_MANY_ENTRIES, TREE_OUT_OF_TIME };
/*
 * From `place`, which is where to go on afterwards. The directories above it are visited again.
 * Where its entry has gone, its directory is visited from the start. An entry that the container
 * makes or removes between two parts of a walk may be missed, and is for the next walk.
 */
enum tree_end tree_walk(const struct tree_walk *walk, int registry_fd, struct tree_place *place);

#endif
