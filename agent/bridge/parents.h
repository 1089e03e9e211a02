/*
 * The nodes above the containers' records that this host has made. They are ordinary nodes, which
 * nobody else removes: ZooKeeper's container nodes would go by themselves, a minute later, but the
 * server takes the data of others with them, and an agent takes them for another client's.
 *
 * A parent goes with the last node below it, unless somebody has written data into it, or has
 * removed it and made it again. The book (book.h) has them: after a restart, in the same session or
 * in another one, those that have become empty are removed.
 *
 *   MADE --a node below it has gone--> DUE --> ASKED (its children, its data) --> removed, or MADE
 *                                       ^--- the registry is away -------'
 */
#ifndef AGENT_BRIDGE_PARENTS_H
#define AGENT_BRIDGE_PARENTS_H

#include <ev.h>
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/bridge/account.h"
#include "agent/bridge/book.h"
#include "lib/registry/registry.h"

struct bridge_parents;

/*
 * All borrowed. Those that a predecessor has `left` (path -> [container, node_id], or NULL) are due
 * at once. `on_change`: one has gone, or stays.
 */
struct bridge_parents *bridge_parents_create(struct ev_loop *loop, struct registry *registry,
	struct bridge_book *book, const json_t *left, struct bridge_accounts *accounts,
	void (*on_change)(void *context), void *context);
/* The nodes stay. Accepts NULL. */
void bridge_parents_destroy(struct bridge_parents *parents);

/* A write for the container has made this node. */
void bridge_parents_made(
	struct bridge_parents *parents, const char *container, const char *path, uint64_t node_id);
/* The node at the path has gone: what is above it may be empty now. */
void bridge_parents_left(struct bridge_parents *parents, const char *path);
/* The registry may answer again. */
void bridge_parents_proceed(struct bridge_parents *parents);

/* Adds the paths that the container has made to an object, as its keys. */
void bridge_parents_add(const struct bridge_account *account, json_t *paths);
/* For the book: those of the container. */
void bridge_parents_describe(const struct bridge_account *account, json_t *document);
/* Some of the container's may go yet. */
bool bridge_parents_are_due(const struct bridge_account *account);

#endif
