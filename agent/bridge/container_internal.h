/*
 * Inside of a container: container.c looks at it, and judges what the looker has found;
 * container_owners.c asks the kernel about its owners, while the looker does not answer and for
 * those that are frozen.
 */
#ifndef AGENT_BRIDGE_CONTAINER_INTERNAL_H
#define AGENT_BRIDGE_CONTAINER_INTERNAL_H

#include "agent/bridge/claims.h"
#include "agent/bridge/container.h"

struct bridge_container {
	struct bridge_container_environment environment;
	char *name;
	uint64_t id;
	uint64_t device; /* of its subdirectory */
	uint64_t inode;
	struct bridge_claims claims;
	char mistake[300]; /* why it is not served; "" */
	bool unbounded;    /* registry/ shares the file system */
	bool unsafe;  /* registry/ lacks a mount option that keeps programs and devices harmless */
	bool doubted; /* the log says so */
	const char *state; /* for people */
	double since;      /* wall clock */
	struct bridge_listener listener;
	int64_t linger_ms;
	int64_t stall_limit_ms;

	bool partial; /* the last walk met a bound */

	bool known; /* all of it has been looked at, or it has kept the looker too long */
	int64_t asked_since_ms;
	bool walks;      /* the look under way */
	unsigned looked; /* flags of its answer */
	int64_t look_took_ns;
	size_t passed_over; /* claims that the look before had time for */
	char *walk_from;    /* where the walk goes on whose time was over; NULL: it is whole */
	size_t walk_left;   /* entries that it may visit */
	bool incomplete;    /* not all directories are watched */

	int64_t stalled_since_ms; /* 0: the looker answers */
	int64_t stall_rest_ms;
	int64_t stall_forgotten_at_ms;
	int64_t stall_limit_at_ms; /* its records go */
	int64_t owners_at_ms;
	const struct bridge_claim *owners_next; /* to be asked for; NULL: the first one */
	int64_t freezer_at_ms;

	bool dirty;
	int64_t look_at_ms; /* 0: no look at the owners is due */
	int64_t look_wait_ms;
	int64_t resync_at_ms;  /* a walk without an event */
	int64_t rest_until_ms; /* no look before */
	int64_t forgiven_ms;   /* that long looks have taken */
	int64_t forgiven_again_ms;
	int64_t muted_until_ms;
	int64_t window_at_ms; /* of events */
	size_t events;
};

/* container.c: reports the container's state if it is another one. */
void bridge_container_note_state(struct bridge_container *container);
void bridge_container_release_all(struct bridge_container *container, const char *why);
/* Its owner lives, or not. */
void bridge_container_judge_owner(struct bridge_container *container, struct bridge_claim *claim,
	enum bridge_owner owner, int64_t now_ms);
/* The processes that hold the records which have been found since. True: one is frozen. */
bool bridge_container_seek_owners(struct bridge_container *container, bool whole, int64_t now_ms);

#endif
