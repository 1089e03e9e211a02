/*
 * The write halves of the dialects, for dialect.c: one function a scheme, and the parts that they
 * share.
 */
#ifndef LIB_DIALECT_WRITE_H
#define LIB_DIALECT_WRITE_H

#include "lib/dialect/dialect.h"

/*
 * Each appends the nodes of the instance; as dialect_write(). Nodes that were appended stay after
 * an error.
 */
int dialect_yarn_write(struct dialect_nodes *nodes, const struct dialect_instance *instance,
	struct err *err) ERR_REQUIRED(3);
int dialect_registrar_write(struct dialect_nodes *nodes, const struct dialect_instance *instance,
	struct err *err) ERR_REQUIRED(3);
int dialect_serverset_write(struct dialect_nodes *nodes, const struct dialect_instance *instance,
	struct err *err) ERR_REQUIRED(3);
/* Spring's too: it is Curator's with a payload of its own. */
int dialect_curator_write(struct dialect_nodes *nodes, const struct dialect_instance *instance,
	struct err *err) ERR_REQUIRED(3);
int dialect_nerve_write(struct dialect_nodes *nodes, const struct dialect_instance *instance,
	struct err *err) ERR_REQUIRED(3);

/*
 * Appends a node like `node`, which has no path and no data yet: at the path that `format` makes,
 * which is "/" and a foreign path, with the JSON `data`. Takes the reference to `data`; NULL means
 * that there was no memory for the JSON.
 */
int dialect_add_node_take(struct dialect_nodes *nodes, const struct dialect_node *node,
	json_t *data, struct err *err, const char *format, ...)
	__attribute__((format(printf, 5, 6))) ERR_REQUIRED(4);

/*
 * Appends a node like `node` with this path and these data, both malloc'ed, and takes them in any
 * case. NULL: there was no memory for one.
 */
int dialect_append_take(struct dialect_nodes *nodes, const struct dialect_node *node, char *path,
	char *data, struct err *err) ERR_REQUIRED(5);

/* The pairs as an object of strings; new reference, or NULL for text that is not UTF-8. */
json_t *dialect_pairs_json(const struct dialect_instance *instance);

#endif
