/* Hadoop's scheme, which is the registry's own: the record at its path. */
#include "lib/dialect/write.h"

#include <string.h>

int dialect_yarn_write(
	struct dialect_nodes *nodes, const struct dialect_instance *instance, struct err *err)
{
	char *data;
	size_t len;
	if (record_encode(instance->record, &data, &len, err)) {
		return err->code;
	}
	const struct dialect_node node = {
		.kind = instance->ephemeral ? DIALECT_NODE_EPHEMERAL : DIALECT_NODE_PERSISTENT,
	};
	return dialect_append_take(nodes, &node, strdup(instance->path), data, err);
}
