/*
 * The book: which container of this host has which path of the registry, on the disk.
 *
 * All records of a host's containers are nodes of one session, so the registry cannot say whose
 * node one is: this book does. A path is on the disk before its node is made; after a kill of the
 * agent its successor finds there which nodes of the session belong to whom. A path that never had
 * a node is not in it.
 *
 * The parents that were made for these nodes outlast the session: the book has them, too, and the
 * disk does a moment later. So it is with the first processes of a runtime's containers: after a
 * restart the kernel says of each whether it lives, even if the runtime says nothing.
 *
 * All of that is what the bridge's other parts know; the book has them write it down, and counts
 * the changes to tell which of them the disk has.
 */
#ifndef AGENT_BRIDGE_BOOK_H
#define AGENT_BRIDGE_BOOK_H

#include <ev.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "agent/base/state_dir.h"

struct bridge_book;

/* The change that a book begins with, which the disk has. */
enum { BRIDGE_BOOK_INHERITED = 1 };

/*
 * A book that is kept in the state directory (borrowed). The book of a predecessor is on the disk,
 * and stays there whole until something changes. `on_saved` comes from the loop: a change
 * that was not on the disk may be there now.
 */
struct bridge_book *bridge_book_create(struct ev_loop *loop, struct state_dir *state,
	void (*on_saved)(void *context), void *context);
/* The file on the disk stays. Accepts NULL. */
void bridge_book_destroy(struct bridge_book *book);

/*
 * Reads what a predecessor has left: "paths", an object of path -> container, "parents", one of
 * path -> [container, node_id], and "processes", one of container -> text. New reference.
 */
json_t *bridge_book_load(const struct state_dir *state);

/* From now on `on_save` fills such a document, whose objects are there, when the book is saved. */
void bridge_book_open(
	struct bridge_book *book, void (*on_save)(void *context, json_t *document), void *context);
/* Unsaved changes are described now: `on_save` is not called any more. */
void bridge_book_close(struct bridge_book *book);

/* A path has come or gone: it is saved at once, or behind the save under way. Its number. */
uint64_t bridge_book_change(struct bridge_book *book);
/*
 * Whether the disk knows of the change. If not, a save is under way, and on_saved follows; a disk
 * that takes longer than some seconds, or that fails, is not waited for.
 */
bool bridge_book_is_saved(struct bridge_book *book, uint64_t change);
/* Parents or processes have changed: it is saved a moment later. */
void bridge_book_change_later(struct bridge_book *book);
/* Saves at once what is to be saved a moment later. */
void bridge_book_settle(struct bridge_book *book);

#endif
