/*
 * Which container of this host has which path of the registry.
 *
 * All records of a host's containers are nodes of one session, so the registry cannot say whose
 * node one is: this book does. A path is entered, and on the disk, before its node is made; after a
 * kill of the agent its successor finds there which nodes of the session belong to whom. A path
 * that never had a node is not in it.
 *
 * The parents that were made for these nodes outlast the session: the book has them, too, and the
 * disk does a moment later. So it is with the first processes of a runtime's containers: after a
 * restart the kernel says of each whether it lives, even if the runtime says nothing.
 */
#ifndef AGENT_BRIDGE_BOOK_H
#define AGENT_BRIDGE_BOOK_H

#include <ev.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "agent/base/state_dir.h"

struct bridge_book;

/*
 * A book that is kept in the state directory (borrowed), with the paths that a predecessor has left
 * there, or NULL, and the rest of what it has `left`: that is on the disk, and stays there whole
 * until something changes. `on_saved` comes from the loop: a path that was not on the disk may be
 * there now.
 */
struct bridge_book *bridge_book_create(struct ev_loop *loop, struct state_dir *state,
	const json_t *paths, const json_t *left, void (*on_saved)(void *context), void *context);
/* The file on the disk stays. Accepts NULL. */
void bridge_book_destroy(struct bridge_book *book);

/*
 * Reads what a predecessor has left: "paths", an object of path -> container, "parents", one of
 * path -> [container, node_id], and "processes", one of container -> text. New reference.
 */
json_t *bridge_book_load(const struct state_dir *state);

/* The container that has the path; NULL: none. Borrowed until the entry goes. */
const char *bridge_book_find(const struct bridge_book *book, const char *path);
void bridge_book_enter(struct bridge_book *book, const char *path, const char *container);
void bridge_book_remove(struct bridge_book *book, const char *path);
/*
 * Whether the disk knows the path's entry. If not, a save is under way, and on_saved follows; a
 * disk that takes longer than some seconds, or that fails, is not waited for.
 */
bool bridge_book_is_saved(struct bridge_book *book, const char *path);

/* Path -> [container, node_id]. Borrowed. */
json_t *bridge_book_parents(const struct bridge_book *book);
void bridge_book_enter_parent(
	struct bridge_book *book, const char *path, const char *container, uint64_t node_id);
/* Saves at once what is to be saved a moment later. */
void bridge_book_settle(struct bridge_book *book);
void bridge_book_remove_parent(struct bridge_book *book, const char *path);

/* Container -> what tells its first process from others (life.h). Borrowed. */
const json_t *bridge_book_processes(const struct bridge_book *book);
/* `process` "": none. */
void bridge_book_enter_process(
	struct bridge_book *book, const char *container, const char *process);

#endif
