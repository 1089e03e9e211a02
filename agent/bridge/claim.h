/*
 * One record that a container has in its registry, as the host judges it.
 *
 *   NEW --> HELD       it is announced; the announcement has a state of its own
 *       \-> CONFLICT   another container of this host, or the host itself, has the path
 *       \-> REFUSED    the policy, a limit, or no service record
 *       \-> WAITING    the container has written too fast
 *   HELD --its owner died, with linger--> LINGERING --a new owner--> HELD
 *   any --the record is gone--> freed
 */
#ifndef AGENT_BRIDGE_CLAIM_H
#define AGENT_BRIDGE_CLAIM_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/bridge/tree.h"
#include "agent/config/config.h"
#include "lib/base/list.h"

enum bridge_claim_state {
	BRIDGE_CLAIM_NEW,
	BRIDGE_CLAIM_HELD,
	BRIDGE_CLAIM_CONFLICT,
	BRIDGE_CLAIM_REFUSED,
	BRIDGE_CLAIM_WAITING,
	BRIDGE_CLAIM_LINGERING
};

struct bridge_claim {
	struct list link;
	char *path;
	enum bridge_claim_state state;
	char why[400];
	double since; /* wall clock */
	struct bridge_tree_version version;
	/* The record as it is to be announced; NULL: it cannot be, for `mistake`. */
	char *data;
	size_t len;
	struct err mistake;
	bool changed;          /* since it was announced */
	int64_t dead_since_ms; /* 0: its owner lives */
};

struct bridge_claim *bridge_claim_create(const char *path);
void bridge_claim_free(struct bridge_claim *claim);
const char *bridge_claim_state_name(enum bridge_claim_state state);
/* True when the state or its reason is another one than before. */
bool bridge_claim_set_state(
	struct bridge_claim *claim, enum bridge_claim_state state, const char *why);
/*
 * Takes over what the node holds: checks the record, and sets the policy's pinned attributes in it.
 */
void bridge_claim_read(struct bridge_claim *claim, const struct bridge_tree_node *node,
	const struct config_container *policy);

#endif
