/*
 * The ephemeral nodes that this process owns in a dir: registry: one open, locked descriptor each.
 *
 * Closing a descriptor ends its node. A successor takes them over across exec() by number; their
 * close-on-exec flag is off only between dir_session_detach() and the adoption.
 */
#ifndef LIB_REGISTRY_DIR_SESSION_H
#define LIB_REGISTRY_DIR_SESSION_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "lib/base/err.h"
#include "lib/registry/dir/node.h"

struct dir_owned {
	char *path;
	int fd; /* -1: its keeper has it, or it has ended */
	bool ended;
	dev_t device;
	ino_t inode; /* of the _owner file */
};

/*
 * Another process, which has the locks in place of this one: no copy is left here, so that they end
 * with that process.
 */
struct dir_keeper {
	/* Gets a copy of the descriptor. */
	void (*keep)(void *context, const char *path, int owner_fd);
	/* Empties the file and ends the lock, before it returns. */
	void (*drop)(void *context, const struct dir_owned *owned);
	void *context;
};

struct dir_session {
	struct dir_owned *owned;
	size_t count;
	const struct dir_keeper *keeper; /* NULL: we have them ourselves */
};

/* Takes the descriptor, also on failure (then the node dies): BERTH_FAILED without memory. */
int dir_session_add(struct dir_session *session, const char *path, int owner_fd, struct err *err)
	__attribute__((warn_unused_result)) ERR_REQUIRED(4);
/* True when this process owns the node. */
bool dir_session_owns(const struct dir_session *session, const struct dir_node *node);
/* Gives up the node, if we own it. */
void dir_session_drop(struct dir_session *session, const struct dir_node *node);
/* The same for the node at the path. */
void dir_session_drop_path(struct dir_session *session, const char *path);
/* Closes all descriptors, so that the nodes die, and keeps the list of nodes. */
void dir_session_release(struct dir_session *session);
/* Closes and forgets everything: the nodes die. */
void dir_session_finish(struct dir_session *session);

/*
 * The successor's part of the state (new reference); the descriptors of its nodes stay open and
 * survive exec(). Nodes that are not in it end: without memory some, or all and the result is NULL.
 */
json_t *dir_session_detach(struct dir_session *session);
/* Takes over the nodes of dir_session_detach() that still exist; closes the other descriptors. */
void dir_session_adopt(struct dir_session *session, int root_fd, const json_t *detached);
/* As a keeper: all of which we hold the locks, without a look at the nodes. */
void dir_session_receive(struct dir_session *session, const json_t *detached);
/* As a keeper: ends the lock on this file, if we have it, by calls on the open file alone. */
void dir_session_unlock(struct dir_session *session, dev_t device, ino_t inode);
/* The same for all. */
void dir_session_unlock_all(struct dir_session *session);
/* Enters a node whose lock the keeper has, or drops it when another node has its place. */
void dir_session_enter_kept(
	struct dir_session *session, int root_fd, const char *path, dev_t device, ino_t inode);

#endif
