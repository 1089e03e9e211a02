/*
 * The nodes at a registry path, or at and below it, kept true by a stream of libberth. All names
 * that need a part of a tree share it.
 *
 *   LOADING --SUBSCRIBED--> CONFIRMED --STALE, LOST--> DOUBTFUL --FRESH, RESYNC--> CONFIRMED
 *
 * A DOUBTFUL tree keeps its nodes.
 */
#ifndef XDS_TREE_H
#define XDS_TREE_H

#include <stdbool.h>

#include "lib/base/list.h"
#include "lib/berth.h"
#include "xds/member.h"

enum tree_state { TREE_LOADING, TREE_CONFIRMED, TREE_DOUBTFUL };

struct trees; /* all trees of a handle */
struct tree;

/* Somebody who needs a tree. The caller's memory; from tree_observe() to tree_unobserve(). */
struct tree_observer {
	struct list link;
	struct tree *tree;
	/*
	 * A node was made, changed or deleted; `path` NULL: any of them, or the state. It must not
	 * end the observation.
	 */
	void (*on_change)(void *context, const char *path);
	void *context;
};

/* Somebody who makes streams begin. It has to stay until `streams` is 0 again. */
struct tree_quota {
	size_t streams;
};

/*
 * The handle is borrowed, and driven by the caller. `most`: the streams that the agent grants; when
 * it refuses one, there are fewer.
 */
struct trees *trees_create(struct berth *berth, size_t most);
/* Without observers. */
void trees_destroy(struct trees *trees);
/* The number of streams. */
size_t trees_count(const struct trees *trees);
/* 0 while all streams flow; else why one does not. */
int trees_trouble(const struct trees *trees, struct berth_failure *ret_failure);

/* No client gets another stream. */
bool trees_are_full(const struct trees *trees);

/*
 * Begins to observe a path, or with `recursive` all at and below it: by a tree that covers it, or
 * by a new one. 0, or the failure of berth_watch(); LIMIT_EXCEEDED: the quota (NULL: without bound)
 * has its share of the streams.
 */
int tree_observe(struct trees *trees, struct tree_observer *observer, const char *path,
	bool recursive, struct tree_quota *quota, struct berth_failure *failure);
/* Harmless for an observer without a tree. */
void tree_unobserve(struct tree_observer *observer);

enum tree_state tree_state(const struct tree *tree);
/* The agent has refused its stream, which is tried again: it has no more for us. */
bool tree_is_refused(const struct tree *tree);

/* Whether the node exists; *ret_member (may be NULL) is NULL for one without a record. */
bool tree_find(const struct tree *tree, const char *path, const struct member **ret_member);

/* Calls `visit` for each record below `path`, by path; with `direct` only those of its children. */
typedef void tree_visit(void *context, const char *path, const struct member *member);
void tree_each(
	const struct tree *tree, const char *path, bool direct, tree_visit *visit, void *context);

#endif
