/*
 * The tree of marks behind the watches of a dir: registry (watch.h): pure bookkeeping, no inotify.
 */
#ifndef LIB_REGISTRY_DIR_MARK_H
#define LIB_REGISTRY_DIR_MARK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/limits.h"
#include "lib/base/list.h"

enum { DIR_WATCH_KINDS = 2 }; /* enum registry_watch_kind */

struct dir_mark {
	struct dir_mark *parent; /* NULL: the root's mark */
	char *name;              /* path element; "" for the root */
	struct dir_mark **children;
	size_t count;

	int descriptor; /* of the inotify watch; -1: none */
	bool stale;     /* the directory may be another than the descriptor's */
	bool polled;    /* it could not be watched */

	bool wanted[DIR_WATCH_KINDS]; /* there is such a watch */
	bool armed[DIR_WATCH_KINDS];  /* and its user waits for a notification */
	bool fired[DIR_WATCH_KINDS];  /* a notification is to be delivered */
	struct list fired_link;       /* while a notification is to be delivered */

	bool held;           /* by the parent's children watch: an ephemeral child */
	unsigned generation; /* of the parent's reading that saw it last */
	unsigned reading;    /* number of the last reading of our own children */

	struct list dying_link; /* while the owner's file is closed, its lock not yet seen free */
	int64_t look_at_ms;     /* 0: not in the list */
	int64_t look_wait_ms;
};

/* NULL without memory. `parent` NULL makes a root. */
struct dir_mark *dir_mark_create(struct dir_mark *parent, const char *name, size_t len);
/* Frees a mark without children and takes it out of its parent. */
void dir_mark_free(struct dir_mark *mark);

struct dir_mark *dir_mark_child(const struct dir_mark *mark, const char *name, size_t len);
/* The mark at a path, NULL when there is none. */
struct dir_mark *dir_mark_find(struct dir_mark *root, const char *path);

/* True when nothing needs the mark any more. */
bool dir_mark_idle(const struct dir_mark *mark);

/* The registry path, NUL-terminated. */
void dir_mark_path(const struct dir_mark *mark, char path[LIMIT_PATH_BYTES + 1]);

/* Calls `visit` for the mark and all below it, the mark first. `visit` must not change the tree. */
void dir_mark_walk(
	struct dir_mark *mark, void (*visit)(void *context, struct dir_mark *mark), void *context);

#endif
