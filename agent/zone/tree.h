/*
 * The nodes of one Registrar domain, followed as Binder does: all of them, each read once and then
 * watched, so that every question has its answer in memory.
 *
 * Nodes whose names are not labels of host names are passed over, as Binder refuses to look them
 * up. Beyond a number of nodes further ones are not followed, and the tree says that it is partial.
 */
#ifndef AGENT_ZONE_TREE_H
#define AGENT_ZONE_TREE_H

#include <stdbool.h>
#include <stddef.h>

#include "agent/zone/facts.h"
#include "lib/base/list.h"
#include "lib/registry/registry.h"

#define ZONE_NAME_BYTES 256 /* of a domain name, with a final NUL */

enum zone_known {
	ZONE_UNREAD,
	ZONE_ABSENT,
	ZONE_THERE,
	ZONE_UNREADABLE /* the registry refuses to show it */
};

struct zone_tree;

/* One node; to be read by others, changed by tree.c alone. */
struct zone_node {
	struct zone_tree *tree;
	struct zone_node *parent; /* NULL: the domain's own */
	char *name;               /* its label, as the registry has it */
	enum zone_known data_known;
	enum zone_known list_known; /* of the children; an ephemeral node has none */
	bool data_late;             /* the last read gave no answer: what is known is older */
	bool list_late;
	struct zone_facts facts;
	struct zone_node **children; /* sorted by name */
	size_t child_count;
	bool has_capitals; /* in some child's name */
	struct registry_watch *data_watch;
	struct registry_watch *list_watch; /* NULL: not needed */
	struct list of_address;
	size_t name_len; /* of the whole domain name */
};

/*
 * `on_settled` is called when a tree that had something left to read has nothing left any more; it
 * must not destroy the tree. `domain` is in lower case.
 */
struct zone_tree *zone_tree_create(struct registry *registry, const char *domain, size_t max_nodes,
	void (*on_settled)(void *context), void *context);
/* Accepts NULL. */
void zone_tree_destroy(struct zone_tree *tree);

const char *zone_tree_domain(const struct zone_tree *tree);
/* False while nodes are being read. */
bool zone_tree_settled(const struct zone_tree *tree);
bool zone_tree_partial(const struct zone_tree *tree);
size_t zone_tree_count(const struct zone_tree *tree);
const struct zone_node *zone_tree_root(const struct zone_tree *tree);

/*
 * The child with this label, which is in lower case and need not end at `len`; the child's name may
 * be in any case. NULL: there is none.
 */
const struct zone_node *zone_node_child(
	const struct zone_node *node, const char *label, size_t len);
/* The host whose address this is: of several the one whose data came last. NULL: there is none. */
const struct zone_node *zone_tree_of_address(
	const struct zone_tree *tree, const uint8_t address[4]);
/* The node's domain name in lower case. */
void zone_node_name(const struct zone_node *node, char out[ZONE_NAME_BYTES]);
/*
 * The node, and with `children` the list of its children, are as far as the registry has heard; if
 * not, they are confirmed soon.
 */
bool zone_node_holds(const struct zone_node *node, bool children);

#endif
