/*
 * The read half of dialects: from the nodes that other programs wrote to service records. Pure
 * functions; lib/registry/mount.h reads the nodes. A scheme's own part is in the file named after
 * it, such as registrar_read.c.
 *
 * A group is a node whose children are the members of a service. The names that its members have as
 * registry paths are labels (label.h), except for Mesos: the leading master is "leader", whichever
 * node that is, and the others are "master-" and the ten digits of their nodes.
 */
#ifndef LIB_DIALECT_READ_H
#define LIB_DIALECT_READ_H

#include <stdbool.h>
#include <stddef.h>

#include "lib/base/err.h"
#include "lib/dialect/dialect.h"
#include "lib/dialect/label.h"

/* A member's node, and what is known around it. Borrowed. */
struct dialect_member {
	const char *service; /* a name for the service, for endpoints that the scheme gives none */
	const char *name;    /* of the node */
	bool ephemeral;
	const char *data;
	size_t len;
	/* of the group's own node, NULL: absent; see dialect_reads_group() */
	const char *group_data;
	size_t group_len;
};

/*
 * The member's record as text, malloc'ed and NUL-terminated: NO_RECORD when the node is empty,
 * INVALID_RECORD when it tells of no instance in this scheme. Hostile data do no harm.
 */
int dialect_read(char **ret_text, size_t *ret_len, enum dialect_type type,
	const struct dialect_member *member, struct err *err) __attribute__((warn_unused_result));

/* True when a record also depends on the group's own data: Registrar's service record. */
bool dialect_reads_group(enum dialect_type type);

/* True when what a label means depends on which other members there are. */
bool dialect_ranks(enum dialect_type type);

/* One member of a group. */
struct dialect_entry {
	char label[DIALECT_LABEL_SIZE];
	const char *name; /* borrowed from the list of names */
};

/*
 * The members among the `count` names of a group's children, sorted by label and each label once,
 * into `entries`, which has room for `count`. Returns how many they are.
 */
size_t dialect_entries(
	struct dialect_entry *entries, enum dialect_type type, char *const *names, size_t count);

/*
 * The node's name that a label means. False when a list of the group's members has to tell, or when
 * no member can have the label: then no list has it either.
 */
bool dialect_entry_name(char out[DIALECT_LABEL_SIZE], enum dialect_type type, const char *label);

#endif
