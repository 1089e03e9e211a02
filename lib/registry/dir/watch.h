/*
 * Watches of a dir: registry, by inotify.
 *
 * Marks form a tree like the nodes that they watch: one inotify watch per directory from the root
 * down to each watched node, so that inotify reports every directory on the way that appears,
 * disappears or is swapped. A children watch also holds a mark on each ephemeral child: when the
 * owner dies, inotify reports that its _owner file was closed.
 *
 *   arm --> (event) --> notified --> the user reads again and arms anew
 *
 * Arming puts the marks in place from the root down, before the caller reads: every change is
 * either in the result of the read or leaves an event. Notifications may be spurious, never
 * missing. Where inotify refuses a mark (limits, permissions), or there is no inotify instance left
 * for this user, the watches notify every second, until it is to be had again;
 * when the kernel's queue overflows, they notify everything.
 */
#ifndef LIB_REGISTRY_DIR_WATCH_H
#define LIB_REGISTRY_DIR_WATCH_H

#include "lib/registry/backend.h"

struct dir_watches; /* opaque; heap */

/*
 * `root` is the absolute path of the registry; `epoll_fd` is borrowed, and gets ready when
 * dir_watches_dispatch() has something to read; -1: nobody sleeps on it. `core` receives notified()
 * and log(), from dir_watches_dispatch() only.
 */
int dir_watches_create(struct dir_watches **ret_watches, const char *root, int epoll_fd,
	const struct registry_core *core, struct err *err) __attribute__((warn_unused_result))
ERR_REQUIRED(5);
/* Accepts NULL. Waits for the kernel, some 10 ms. */
void dir_watches_destroy(struct dir_watches *watches);
/* The same, but a child waits (late_close.h). */
void dir_watches_leave(struct dir_watches *watches);

/*
 * To be called before reading; another one like it is not armed twice. 0 or BERTH_FAILED without
 * memory.
 */
int dir_watches_arm(struct dir_watches *watches, const char *path, enum registry_watch_kind kind,
	struct err *err) __attribute__((warn_unused_result)) ERR_REQUIRED(4);
/*
 * While reading for a children watch: also watch the life of this ephemeral child; look at it again
 * after the call.
 */
int dir_watches_arm_child(struct dir_watches *watches, const char *path, const char *name,
	struct err *err) __attribute__((warn_unused_result)) ERR_REQUIRED(4);
/* Ends the reading: children that were not named since dir_watches_arm() are no longer watched. */
void dir_watches_children_known(struct dir_watches *watches, const char *path);
void dir_watches_remove(
	struct dir_watches *watches, const char *path, enum registry_watch_kind kind);

/* Everything may be different: the root is another directory, or events were lost. */
void dir_watches_all_changed(struct dir_watches *watches);

/* -1 while there is no inotify. */
int dir_watches_fd(const struct dir_watches *watches);
int64_t dir_watches_deadline_ms(const struct dir_watches *watches);
/*
 * Reads the events and notifies; callbacks may arm and remove watches. `root_fd` may be -1 while
 * the root is away.
 */
void dir_watches_dispatch(struct dir_watches *watches, int root_fd, int64_t now_ms);

#endif
