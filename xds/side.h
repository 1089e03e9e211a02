/*
 * Where the records of a name are, below the root of the registry or below another path: the places
 * that the name may mean there, observed. The first place that exists is meant.
 */
#ifndef XDS_SIDE_H
#define XDS_SIDE_H

#include <stdbool.h>

#include "xds/name.h"
#include "xds/tree.h"

struct place;

struct side {
	struct trees *trees;
	struct tree_quota *quota; /* of who follows the name; or NULL */
	struct name_meaning meaning;
	struct place *places; /* as many as in the meaning */
};

/* `root`: a path, or "". The observer's function and context are called for each place. */
void side_init(struct side *side, struct trees *trees, struct tree_quota *quota, const char *name,
	const char *domain, const char *root, const struct tree_observer *observer);
void side_finish(struct side *side);

/*
 * A place is not known for want of a stream: the quota has its share, or the agent grants no more.
 * The next side_read() tries again.
 */
bool side_is_full(const struct side *side);

/* Whether a change at the path, or below it, may change the records. */
bool side_concerns(const struct side *side, const char *path);

/*
 * Calls `visit` for each record; false, and no call, while not all of the places are known.
 * *ret_confirmed: all of them are confirmed.
 */
bool side_read(struct side *side, bool *ret_confirmed, tree_visit *visit, void *context);

#endif
