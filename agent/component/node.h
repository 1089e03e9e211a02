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
#include "lib/registry/value.h"

/*
 * Data of a node, and the record in them, which is read once, and only for a comparison. Data that
 * the registry holds are not copied; mostly the wanted ones are among them.
 */
struct announce_data {
	const struct registry_value *value; /* which has the bytes; NULL: they are its own */
	const char *bytes;                  /* NULL: there were none yet */
	size_t len;
	bool is_read;
	int code; /* of record_decode() */
	struct record *record;
};

/* The node as the wish wants it. */
struct announce_wanted {
	enum dialect_type type;
	enum dialect_node_kind kind;
	enum dialect_change change;
	bool container_parents;
	bool has_id; /* the data identify their instance */
	struct announce_data data;
};

/* Copies the dialect's node; true when its data are others than before. */
bool announce_wanted_set(struct announce_wanted *wanted, const struct dialect_node *node);
void announce_wanted_finish(struct announce_wanted *wanted);

/*
 * The node by its watch, or by our own last write. The data stay when the node is forgotten: the
 * next look mostly finds the same, and need not read them again.
 */
struct announce_seen {
	enum announce_node node;
	enum announce_node kind; /* of a node with these data */
	struct registry_stat stat;
	struct announce_data data;
};

/* The node is no longer known (UNKNOWN), or absent (ABSENT). */
void announce_seen_forget(struct announce_seen *seen, enum announce_node node);
void announce_seen_finish(struct announce_seen *seen);
/* `value`: that of a watch, which has the data, or NULL. */
void announce_seen_set(struct announce_seen *seen, enum dialect_type type,
	const struct registry_stat *stat, const char *data, size_t len,
	const struct registry_value *value);
/* One copy is enough where both are the same. */
void announce_share_data(struct announce_wanted *wanted, const struct announce_seen *seen);

/* The writer of the record, by its mark; UNMARKED for a node of another scheme. */
enum announce_proof announce_proof_of(struct announce_wanted *wanted, struct announce_seen *seen);
enum announce_likeness announce_likeness_of(
	struct announce_wanted *wanted, struct announce_seen *seen);

/* Words for another client's node at `path`. */
void announce_describe_other(struct announce_seen *seen, const char *path, char *why, size_t size);

#endif
