/*
 * Dialects: how the naming schemes on ZooKeeper write a service instance down. Pure functions, no
 * I/O.
 *
 * A dialect has two halves, in two files. The write half turns an instance (what a component's
 * record and the dialect's settings say) into the nodes that a reader of that scheme expects;
 * registrar.c has Registrar's. The read half (read.h) turns nodes that some other program wrote
 * into service records; registrar_read.c has Registrar's. docs/DIALECTS.md describes every scheme.
 *
 * Nobody here opens a registry: agent/component keeps the nodes as they should be, and
 * lib/registry/mount.h reads the groups. Paths of foreign trees are absolute in the server's tree.
 * The registry takes such a path with one more slash before it, "//services/web" (struct
 * registry_options, foreign_paths).
 */
#ifndef LIB_DIALECT_DIALECT_H
#define LIB_DIALECT_DIALECT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/err.h"
#include "lib/record/record.h"

enum dialect_type {
	DIALECT_YARN, /* the component's own record; a section [dialect] cannot name it */
	DIALECT_REGISTRAR,
	DIALECT_SERVERSET,
	DIALECT_CURATOR,
	DIALECT_SPRING,
	DIALECT_NERVE,
	DIALECT_MESOS /* read only */
};

/* "registrar" … */
const char *dialect_name(enum dialect_type type);

/* ---- writing ---- */

/* One key and its value, in the order of the configuration. */
struct dialect_pair {
	const char *name;
	const char *value;
};

/* Where one endpoint is: its first address. */
struct dialect_address {
	const char *name; /* the endpoint's */
	const char *host; /* a name or an address literal, without brackets */
	int port;         /* 1 to 65535; 0: the endpoint has none */
};

/*
 * The settings of one section [dialect NAME], and the component's present place. All borrowed. A
 * text is "" when it is not set, a number that may be left out is -1.
 */
struct dialect_instance {
	enum dialect_type type;
	const char *name; /* the section's NAME */

	struct dialect_address endpoint;          /* it gives host and port; port 0: none is up */
	const struct dialect_address *additional; /* serverset: further endpoints, by name */
	size_t additional_count;
	int ssl_port; /* curator, spring; 0: none */
	/* metadata.K of serverset and spring, labels.K of nerve */
	const struct dialect_pair *pairs;
	size_t pair_count;

	/* yarn */
	const struct record *record;
	bool ephemeral;
	const char *path; /* of the record; serverset, nerve: of the group */

	/* registrar */
	const char *domain;
	const char *host_name; /* the host record's element */
	char *const *aliases;
	size_t alias_count;
	const char *host_type;
	const char *address; /* an IPv4 literal */
	int ttl;
	const int *ports;
	size_t port_count;
	const char *service; /* "_http"; "": no service record */
	const char *protocol;
	int service_port;
	int service_ttl; /* -1: 60, as Registrar has it */

	int shard; /* serverset */

	/* curator, spring */
	const char *base;
	const char *service_name;
	const char *instance_id;
	const json_t *payload;  /* curator; NULL: null */
	int64_t registered_ms;  /* wall clock */
	bool out_of_service;    /* spring: drained, and about to leave */
	const char *context_id; /* spring: the payload's id */

	/* nerve; its instance_id is the one above */
	int weight;
	const char *haproxy_server_options;
	bool path_encoding;
};

enum dialect_node_kind {
	DIALECT_NODE_EPHEMERAL,  /* goes with the agent's session */
	DIALECT_NODE_SEQUENTIAL, /* ephemeral, and the server appends ten digits to the path */
	DIALECT_NODE_PERSISTENT, /* ours alone; removed when the instance leaves */
	DIALECT_NODE_SHARED /* persistent, of all instances of a service: written, never removed */
};

/* How a node whose data are to change gets there. */
enum dialect_change {
	DIALECT_CHANGE_IN_PLACE, /* the data are set */
	/* deleted and made again in one step, so that watches on children fire */
	DIALECT_CHANGE_REPLACE,
	DIALECT_CHANGE_REJOIN /* sequential: a new member joins, then the old one leaves */
};

struct dialect_node {
	char *path; /* for the registry; of a sequential node all but its digits */
	char *data; /* NUL-terminated */
	size_t len;
	enum dialect_node_kind kind;
	enum dialect_change change;
	bool container_parents; /* missing parents are made as container nodes */
	int order;              /* a node is written after those of lower order */
};

struct dialect_nodes {
	struct dialect_node *items;
	size_t count;
};

/*
 * The nodes of an instance: all of them, or an error that says what about the instance the scheme
 * cannot express (INVALID_RECORD, INVALID_PATHNAME). Finish the nodes after
 * success.
 */
int dialect_write(struct dialect_nodes *ret_nodes, const struct dialect_instance *instance,
	struct err *err) __attribute__((warn_unused_result)) ERR_REQUIRED(3);
void dialect_nodes_finish(struct dialect_nodes *nodes);

/*
 * True when both data belong to the same instance, so that the node of one may be a predecessor's
 * of the other: they have the same address and port.
 */
bool dialect_same_instance(
	enum dialect_type type, const char *a, size_t a_len, const char *b, size_t b_len);

#endif
