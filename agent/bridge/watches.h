/*
 * One inotify instance for the whole bridge: a user has 128 of them, a host more containers.
 *
 * Each owner (a container, or the directory of all) has a set of watches on open directories. A
 * watch is on the directory behind a descriptor, never on the one that a path leads to later.
 */
#ifndef AGENT_BRIDGE_WATCHES_H
#define AGENT_BRIDGE_WATCHES_H

#include <ev.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/err.h"
#include "lib/base/list.h"

struct bridge_watches;

/* The watches of one owner. The owner's memory; it must not move. */
struct bridge_watch_set {
	struct list watches;
	unsigned generation;
	/* The kernel has refused a watch: the owner has to look by itself now and then. */
	bool incomplete;
	/* `mask` and `name` ("" without one) as in inotify(7). May begin and end any set. */
	void (*on_event)(void *context, uint32_t mask, const char *name);
	void *context;
};

/* `on_lost`: events were lost, everything may have changed. */
int bridge_watches_create(struct bridge_watches **ret_watches, struct ev_loop *loop,
	void (*on_lost)(void *context), void *context, struct err *err)
	__attribute__((warn_unused_result)) ERR_REQUIRED(5);
/* After the end of all sets. Accepts NULL. */
void bridge_watches_destroy(struct bridge_watches *watches);
/*
 * Gives the descriptor back, so that exec(), which comes next, need not wait until the kernel has
 * closed it. No event comes any more.
 */
void bridge_watches_leave(struct bridge_watches *watches);

void bridge_watch_set_init(struct bridge_watch_set *set,
	void (*on_event)(void *context, uint32_t mask, const char *name), void *context);
/*
 * Between begin and end the owner names all directories that it wants to be watched; end drops the
 * others.
 */
void bridge_watch_set_begin(struct bridge_watch_set *set);
void bridge_watch_set_add(struct bridge_watches *watches, struct bridge_watch_set *set, int fd);
void bridge_watch_set_end(struct bridge_watches *watches, struct bridge_watch_set *set);
void bridge_watch_set_finish(struct bridge_watches *watches, struct bridge_watch_set *set);

#endif
