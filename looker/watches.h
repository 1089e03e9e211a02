/*
 * One inotify instance for all containers: a user has 128 of them, a host more containers. When
 * there is none to be had, nothing is watched, and it is tried again.
 *
 * Each container, by its number, has a set of watches on open directories. A watch is on the
 * directory behind a descriptor, never on the one that a path leads to later. Events are summed up
 * for each set.
 */
#ifndef LOOKER_WATCHES_H
#define LOOKER_WATCHES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct watches;

struct watches *watches_create(void);
void watches_destroy(struct watches *watches);
/* -1: there is no inotify now. */
int watches_fd(const struct watches *watches);
/*
 * Tries to get inotify again, once a second at most. Returns what there is to say then of all that
 * is not watched: LOOKER_LOST when it has, LOOKER_CHANGED, since it may have, when it has not; 0 in
 * between.
 */
unsigned watches_retry(struct watches *watches, int64_t now_ms);

/*
 * Between begin and end the set's user names all directories that are to be watched; end drops the
 * others, and returns whether all are watched. `only`: of their events only those of this name
 * count (borrowed for good); NULL: all do.
 */
void watches_begin(struct watches *watches, uint64_t set, const char *only);
/* Instead of begin: names the rest of those that were named since begin, without an end. */
void watches_go_on(struct watches *watches, uint64_t set);
void watches_add(struct watches *watches, int fd);
bool watches_end(struct watches *watches);
void watches_forget(struct watches *watches, uint64_t set);

/*
 * Reads some events. `what` and `set` as LOOKER_EVENT of lib/looker/protocol.h; `count` events of
 * the set.
 */
void watches_read(struct watches *watches,
	void (*on_events)(void *context, uint64_t set, unsigned what, size_t count), void *context);

#endif
