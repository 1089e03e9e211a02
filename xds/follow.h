/*
 * The names that subscribers ask for, each followed once whatever the number of its subscribers:
 * a change of the registry costs one new set and one encoding.
 *
 *   UNKNOWN --a set with members, or a confirmed one--> KNOWN
 *
 * Each is a set of the agent (source.h), which has the rules for sets, min_instances and failover
 * among them. A known name stays known: while the agent is away what was sent stays. A name that no
 * record can have is known with an empty set, without a question.
 *
 * A name that nobody asks for any more is followed for some time yet.
 */
#ifndef XDS_FOLLOW_H
#define XDS_FOLLOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/buffer.h"
#include "lib/base/list.h"
#include "lib/program/log_rate.h"
#include "lib/render/assignment.h"
#include "xds/resource.h"
#include "xds/source.h"

enum { FOLLOW_NAMES_MAX = 8192, FOLLOW_LINGER_MS = 60000 };

/* The answer to a client for whose name there is no room. */
#define FOLLOW_FULL "full: no more names for this client, or no more sets of the agent"

struct world;
struct follow;

struct world_options {
	struct source *source; /* borrowed */
	const char *domain;    /* of names; copied, as those below */
	/* The own one, by which localities have priorities, or ""; NULL: all are equal. */
	const char *zone;
	unsigned min_instances;
	/*
	 * Below each of these paths is what a name means, too: it comes in while there is less than
	 * min_instances before it. Ends with NULL; may be NULL.
	 */
	const char *const *failover;
	int64_t failover_hold_ms;
	/* Paths, each with or without a trailing / and two asterisks; ends with NULL. */
	const char *const *serve;
};

struct world_counts {
	size_t names;       /* followed */
	size_t left_out;    /* addresses in all sets that cannot be sent */
	uint64_t encodings; /* of sets of endpoints, so far */
	uint64_t refused;   /* names for which there was no room, so far */
};

/*
 * How many names somebody makes the world follow: no more than three times as many as are free. It
 * has to stay until that is 0 again.
 */
struct follow_quota {
	size_t names;
	struct log_rate lines; /* of the log, that somebody causes */
};

struct follow_user;

/* Somebody who follows names. */
struct follow_owner {
	/* One became known, or its set changed. Called from world_update() alone. */
	void (*on_change)(void *context, struct follow_user *user);
	void *context;
	struct follow_quota *quota; /* NULL: without bound */
};

/* A name that somebody follows. The caller's memory. */
struct follow_user {
	struct list link;
	struct follow *follow;
	const struct follow_owner *owner; /* stays until the release */
};

/* Somebody who follows all names below `serve`. The caller's memory. */
struct world_user {
	struct list link;
	/* Names came or went. Called from world_update() alone. */
	void (*on_names)(void *context);
	void *context;
};

struct world *world_create(const struct world_options *options);
/* Without users. */
void world_destroy(struct world *world);

/*
 * After source_dispatch(), and once a second: brings up to date what has changed, calls the users,
 * lets go what has lingered long enough.
 */
void world_update(struct world *world, int64_t now_ms);
/* Whether world_update() has something to do at once. */
bool world_has_changes(const struct world *world);

struct world_counts world_counts(const struct world *world);
/* See source_trouble(). */
int world_trouble(const struct world *world, struct err *err) ERR_REQUIRED(2);

/* ---- names ---- */

/*
 * Begins to follow a name. False: there are too many, or the user's quota has its share of them.
 */
bool follow_take(struct world *world, struct follow_user *user, const char *name, size_t len);
/* Harmless for a user without a name. */
void follow_release(struct follow_user *user, int64_t now_ms);

const char *follow_name(const struct follow *follow);
/* False for a name that no record can have. */
bool follow_can_mean(const struct follow *follow);
bool follow_known(const struct follow *follow);
/* It is not known since the agent has no room for it, not because the registry is away. */
bool follow_is_full(const struct follow *follow);
/* False while the agent says that there may be more, where it has nothing confirmed. */
bool follow_whole(const struct follow *follow);
/*
 * Names the content of a resource of a known name, the same in each run of the program: never 0.
 */
uint64_t follow_version(struct follow *follow, enum resource_type type);
/* Appends the resource of a known name. A set of endpoints is encoded once. */
void follow_encode(struct follow *follow, enum resource_type type, struct buffer *out);
const struct assignment *follow_assignment(const struct follow *follow);

/* ---- all names ---- */

void world_observe(struct world *world, struct world_user *user);
void world_unobserve(struct world *world, struct world_user *user);
/*
 * The names below `serve`, sorted; valid until world_update(). False while they are not known.
 * Without an observer they are not.
 */
bool world_names(const struct world *world, char *const **ret_names, size_t *ret_count);

#endif
