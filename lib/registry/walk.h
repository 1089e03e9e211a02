/*
 * Walking a tree: what recursive delete, records, find and purge have in common.
 *
 * Every node under way goes through these steps, at most one task each, WALK_MAX_IN_FLIGHT in
 * all:
 *
 *     READ (if it is read) --> LIST --> its children, in the same way --> REMOVE --> done
 *              |                 ^---------(new children meanwhile)---------' ^
 *              '---(known to have no children, or they are not visited)------'
 *
 * Children are started from the directory that was opened last, so that only the lists of children
 * on a few branches are in memory, never a whole level of the tree.
 *
 * A kind of walk is a struct that begins with struct walk, and a table of functions.
 */
#ifndef LIB_REGISTRY_WALK_H
#define LIB_REGISTRY_WALK_H

#include "lib/registry/internal.h"
#include "lib/registry/search.h"

/* So many that nobody is woken for each, which is a good part of the work. */
enum { WALK_MAX_IN_FLIGHT = 256 };

enum walk_step { WALK_READ, WALK_LIST, WALK_REMOVE };

struct walk {
	struct registry_request base;
	const struct walk_kind *kind;
	registry_progress *progress;
	size_t visited;
	size_t reported; /* nodes visited and deleted at the last progress */
	size_t deleted;
	size_t in_flight;
	struct registry_matches matches;
	struct list nodes; /* all nodes under way */
	struct list open;  /* those with children that were not started yet, the newest first */
	struct err err;    /* ends the walk */
	bool done;
};

struct walk_node {
	struct walk *walk;
	struct walk_node *parent; /* NULL: the first */
	struct list link;
	struct list open_link;
	const char *path; /* the request's, or in the parent's `children` */
	enum walk_step step;
	struct registry_call call;
	char **children;
	size_t children_count;
	size_t next_child;
	size_t children_under_way;
	bool unreachable;          /* it has children whose names are not path elements */
	struct registry_stat stat; /* as read */
	bool remove;               /* when the children are done */
	bool remove_below;         /* the children too */
	int rounds;
};

/* A node that was to be removed had got children meanwhile. */
enum walk_crowded { WALK_LEAVES_IT, WALK_FAILS, WALK_LISTS_AGAIN };

/* A function that fails sets walk->err. */
struct walk_kind {
	bool visits_foreign; /* unless the backend deletes them with the node */
	bool lists_reads;    /* the children of nodes that were read are visited, too */
	bool leaves_changed; /* a node that another client has changed stays */
	bool counts_lists;   /* a node counts as visited when it was listed, not read */
	/* The node is read before it is listed. May be NULL: none is. */
	bool (*reads)(const struct walk_node *node);
	/* With this error the walk passes over the node. */
	bool (*ignores)(const struct walk_node *node, int code);
	/* The node begins. May be NULL. */
	void (*on_start)(struct walk_node *node);
	/* It was read. May be NULL. */
	void (*on_read)(struct walk_node *node, struct registry_task *task);
	/* It was listed. May be NULL. */
	void (*on_listed)(struct walk_node *node, const struct registry_children *children);
	/* Fills the task that removes the node; false: it is not to be sent. */
	bool (*prepare_removal)(struct walk_node *node, struct registry_task *task);
	/* It was removed by this walk. May be NULL. */
	void (*on_removed)(struct walk_node *node);
	enum walk_crowded (*on_crowded)(struct walk_node *node);
	/* All nodes are done. May be NULL, or begin anew by walk_begin(). */
	void (*on_done)(struct walk *walk);
	/* Frees what the kind added to the walk. May be NULL. */
	void (*release)(struct walk *walk);
};

/* A zeroed struct of `size` bytes that begins with struct walk; NULL without memory. */
void *walk_create(struct registry *registry, size_t size, const struct walk_kind *kind,
	const char *path, registry_progress *progress, registry_done *done, void *context);
/* Starts with the first node. 0, or -1 with walk->err. */
int walk_begin(struct walk *walk);
/* The same, for a new walk: the request, which refuses a bad path. NULL without memory. */
struct registry_request *walk_start(struct walk *walk);

/* ---- find.c ---- */

/* A reader passes over what is gone, and over what this client may not see. */
bool find_ignores(const struct walk_node *node, int code);
/* Keeps the record if it matches. */
bool find_take(struct walk_node *node, struct registry_task *task,
	const struct registry_criteria *criteria);
/* Warns of children that no walk reaches. */
void find_on_listed(struct walk_node *node, const struct registry_children *children);

#endif
