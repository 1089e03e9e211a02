#include "lib/dialect/dialect.h"

#include <stdlib.h>

const char *dialect_name(enum dialect_type type)
{
	static const char *const names[] = {
		[DIALECT_YARN] = "yarn",
		[DIALECT_REGISTRAR] = "registrar",
		[DIALECT_SERVERSET] = "serverset",
		[DIALECT_CURATOR] = "curator",
		[DIALECT_SPRING] = "spring",
		[DIALECT_NERVE] = "nerve",
		[DIALECT_MESOS] = "mesos",
	};
	return names[type];
}

void dialect_nodes_finish(struct dialect_nodes *nodes)
{
	for (size_t i = 0; i < nodes->count; i++) {
		free(nodes->items[i].path);
		free(nodes->items[i].data);
	}
	free(nodes->items);
	*nodes = (struct dialect_nodes){ 0 };
}
