/*
 * The node of an announcement: as it should be, as it was seen last, and how alike they are. No
 * I/O.
 */
#ifndef AGENT_COMPONENT_NODE_H
#define AGENT_COMPONENT_NODE_H

#include <stdbool.h>
#include <stddef.h>

#include "agent/component/decision.h"
#include "lib/dialect/dialect.h"
#include "lib/registry/registry.h"

/* The node as the wish wants it. `data` is NULL before the first wish that had some. */
struct announce_wanted {
	enum dialect_type type;
	enum dialect_node_kind kind;
	enum dialect_change change;
	bool container_parents;
	char *data;
	size_t len;
	bool has_id; /* the data identify their instance */
};

/* Copies the dialect's node. */
void announce_wanted_set(struct announce_wanted *wanted, const struct dialect_node *node);
void announce_wanted_finish(struct announce_wanted *wanted);

/* The node by its watch, or by our own last write. */
struct announce_seen {
	enum announce_node node;
	struct registry_stat stat;
	char *data;
	size_t len;
};

/* The node is no longer known (UNKNOWN), or absent (ABSENT). */
void announce_seen_forget(struct announce_seen *seen, enum announce_node node);
void announce_seen_set(struct announce_seen *seen, enum dialect_type type,
	const struct registry_stat *stat, const char *data, size_t len);

enum announce_likeness announce_likeness_of(
	const struct announce_wanted *wanted, const struct announce_seen *seen);

/* Words for another client's node at `path`. */
void announce_describe_other(
	const struct announce_seen *seen, const char *path, char *why, size_t size);

#endif
