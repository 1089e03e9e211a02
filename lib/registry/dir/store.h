/*
 * Writes nodes of a dir: registry to the disk.
 *
 * All writers serialise with a lock on the work directory, so that a writer's checks are still true
 * when it acts. A writer builds everything in the work directory and makes it visible by one
 * rename; a deleted node leaves the tree by one rename before the writer takes it apart. The holder
 * of the lock may therefore remove everything that it finds there: a crash left it.
 *
 * The work directory is <root>/_tmp. Only users who may write in the root can open and lock it. In
 * a root that everybody may write, each user has a work directory (_tmp-UID) that no other user can
 * open or lock, and writes only below directories that no other user can write.
 *
 * All functions but dir_store_lock() are for the holder of the lock.
 */
#ifndef LIB_REGISTRY_DIR_STORE_H
#define LIB_REGISTRY_DIR_STORE_H

#include "lib/registry/dir/node.h"

struct dir_store {
	int root_fd; /* the root directory, open for reading */
	unsigned tmp_count;
	int lock_fd; /* _tmp, while the lock is held */
	bool swept;  /* _tmp has been emptied */
};

/* A node or a record to be written. */
struct dir_write {
	const char *path;
	const char *data;
	size_t len; /* 0: a node without record */
	bool ephemeral;
	bool container;
	int64_t previous_version; /* the new version will be greater */
	mode_t mode;              /* of the node's directory; 0: as the umask has it */
	bool given_away;          /* to `user` and `group` */
	uid_t user;
	gid_t group;
};

/* 1: taken; 0: another writer has it; negative: error. Never waits. */
int dir_store_lock(struct dir_store *store, struct err *err) __attribute__((warn_unused_result))
ERR_REQUIRED(2);
void dir_store_unlock(struct dir_store *store);

/*
 * Makes a node below `parent`, or swaps it for the existing one (`exchange`), which is removed. For
 * an ephemeral one *ret_owner_fd becomes the descriptor whose lock keeps it alive.
 */
int dir_store_place(struct dir_store *store, const struct dir_node *parent,
	const struct dir_write *write, bool exchange, int *ret_owner_fd, struct err *err)
	__attribute__((warn_unused_result)) ERR_REQUIRED(6);

/*
 * The next number for a sequential child of `parent`. It grows as long as the parent exists,
 * whatever becomes of the children.
 */
int dir_store_next_number(const struct dir_node *parent, const char *path, unsigned *ret_number,
	struct err *err) __attribute__((warn_unused_result)) ERR_REQUIRED(4);

/* Writes the record of an existing node. */
int dir_store_set(struct dir_store *store, const struct dir_node *node,
	const struct dir_write *write, struct err *err) __attribute__((warn_unused_result))
ERR_REQUIRED(4);

/*
 * Removes the child `name` of `parent` and the dead nodes below it from the tree; with `all` every
 * other entry below it too.
 */
int dir_store_remove(struct dir_store *store, const struct dir_node *parent, const char *name,
	const char *path, bool all, struct err *err) __attribute__((warn_unused_result))
ERR_REQUIRED(6);

#endif
