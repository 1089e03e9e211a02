/*
 * Reads one node of a dir: registry from the disk.
 *
 *   <root>/a/b/            a node is a directory, named like the path element
 *   <root>/a/b/_record     its record, if it has one; only ever replaced as a whole
 *   <root>/a/b/_owner      in an ephemeral node only: its owner holds an open-file-description lock
 *                          on it; without that lock the owner is dead and the node is absent
 *                          (each of the two has one name: a hard link makes it dead, or no record)
 *   <root>/a/b/_sequence   the next number for the name of a sequential child
 *   <root>/a/b/_container  marks a node that goes with its last child
 *   <root>/a/B/_foreign    marks a node whose name is an element of foreign paths only
 *   <root>/_tmp/           where writers build nodes and records, and take removed ones apart
 *
 * Names that are not valid path elements, and are not marked so, are never nodes. These functions
 * never follow symbolic links and never block, whatever files other programs put into the tree.
 * Readers take no lock: a node changes by one rename, so an open node stays consistent. A function
 * that finds its node replaced while it reads looks again.
 */
#ifndef LIB_REGISTRY_DIR_NODE_H
#define LIB_REGISTRY_DIR_NODE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "lib/base/limits.h"
#include "lib/registry/registry.h"
#include "lib/registry/registry_dir.h"

#define DIR_TMP "_tmp"
#define DIR_SEQUENCE "_sequence"
#define DIR_CONTAINER "_container"
#define DIR_FOREIGN "_foreign"
/* A directory's name has no more room than this; a longer element names no node. */
#define DIR_NAME_BYTES 255
/*
 * Hadoop's local file system writes it next to a record. It is out of date once Berth has written
 * the record.
 */
#define DIR_RECORD_CHECKSUM "._record.crc"

enum dir_kind {
	DIR_ABSENT,
	DIR_PERSISTENT,
	DIR_EPHEMERAL,
	/* ephemeral, and its owner is gone: users do not see it, but its directory still exists */
	DIR_DEAD
};

/* An open node. */
struct dir_node {
	enum dir_kind kind;
	int fd; /* the directory, O_PATH; -1 when absent */
	dev_t device;
	ino_t inode;
	/* Of _owner, which some overlays say is on another device than its directory. */
	dev_t owner_device;
	ino_t owner_inode; /* 0 in a persistent node */
};

struct dir_child {
	char *name;         /* an allocation of its own; NULL: somebody has taken it */
	enum dir_kind kind; /* never DIR_ABSENT */
};

struct dir_children {
	struct dir_child *entries;
	size_t count;
	size_t bytes; /* of memory for entries, and for names of both kinds */
	size_t live;  /* how many of them are not dead */
	/* names of other entries of the directory, which are not nodes; one allocation each */
	char **foreign;
	size_t foreign_count;
};

/*
 * True when `name` in the open directory has the name of a node: a path element, or it is marked as
 * foreign.
 */
bool dir_is_nodes_name(int fd, const char *name);

/* True when the node is there for users of the registry. */
static inline bool dir_kind_live(enum dir_kind kind)
{
	return kind == DIR_PERSISTENT || kind == DIR_EPHEMERAL;
}

/*
 * Translates the errno of a failed system call: no permission, registry unavailable (disk full, I/O
 * error) or failed.
 */
int dir_errno(struct err *err, int errno_value, const char *doing, const char *path)
	ERR_REQUIRED(1);

/*
 * Opens the node at the first `len` bytes of `path`. An absent node is not an error. Close it in
 * any case.
 */
int dir_node_open(struct dir_node *ret_node, int root_fd, const char *path, size_t len,
	struct err *err) __attribute__((warn_unused_result)) ERR_REQUIRED(5);
/* Opens the child `name` of an open directory. */
int dir_node_open_child(struct dir_node *ret_node, int parent_fd, const char *name,
	const char *path, struct err *err) __attribute__((warn_unused_result)) ERR_REQUIRED(5);
void dir_node_close(struct dir_node *node);

/* True while the directory that was opened is still the one at `path`. */
bool dir_node_current(const struct dir_node *node, int root_fd, const char *path);

/* Everything but `children` and `own`. */
int dir_node_stat(const struct dir_node *node, const char *path, struct registry_stat *ret_stat,
	struct err *err) __attribute__((warn_unused_result)) ERR_REQUIRED(4);

/*
 * The record, malloc'ed and NUL-terminated, with its version, size and time in `stat`; "" and
 * version 0 when the node has none. INVALID_RECORD when _record is not a regular file. A record
 * that exceeds LIMIT_RECORD_BYTES is INVALID_RECORD, or NO_RECORD when it does not hold a record's
 * marker; in both cases `stat` is filled.
 */
int dir_node_read(const struct dir_node *node, const char *path, char **ret_data, size_t *ret_len,
	struct registry_stat *stat, struct err *err) __attribute__((warn_unused_result))
ERR_REQUIRED(6);

/*
 * The children, dead ones too; LIMIT_EXCEEDED for more than a list may hold. The result is freed
 * with dir_children_free().
 */
int dir_node_children(const struct dir_node *node, const char *path,
	struct dir_children *ret_children, struct err *err) __attribute__((warn_unused_result))
ERR_REQUIRED(4);
void dir_children_free(struct dir_children *children);

#endif
