/* The nodes of an instance while they are made. */
#include "lib/dialect/write.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/json_text.h"
#include "lib/base/path.h"

void dialect_nodes_finish(struct dialect_nodes *nodes)
{
	for (size_t i = 0; i < nodes->count; i++) {
		free(nodes->items[i].path);
		free(nodes->items[i].data);
	}
	free(nodes->items);
	*nodes = (struct dialect_nodes){ 0 };
}

static int no_memory(struct err *err)
{
	return err_set(err, BERTH_FAILED, "no memory for the nodes of a dialect");
}

int dialect_append_take(struct dialect_nodes *nodes, const struct dialect_node *node, char *path,
	char *data, struct err *err)
{
	struct dialect_node *items = path && data
		? reallocarray(nodes->items, nodes->count + 1, sizeof(*items))
		: NULL;
	if (!items) {
		free(path);
		free(data);
		return no_memory(err);
	}
	nodes->items = items;
	items[nodes->count] = *node;
	items[nodes->count].path = path;
	items[nodes->count].data = data;
	items[nodes->count++].len = strlen(data);
	return 0;
}

int dialect_add_node_take(struct dialect_nodes *nodes, const struct dialect_node *node,
	json_t *data, struct err *err, const char *format, ...)
{
	char *path = NULL;
	va_list arguments;
	va_start(arguments, format);
	int len = vasprintf(&path, format, arguments);
	va_end(arguments);
	char *text = json_text(data, JSON_COMPACT);
	json_decref(data);
	if (!data) {
		err_set(err, BERTH_INVALID_RECORD, "the dialect's data are not UTF-8 text");
	} else if (len < 0) {
		path = NULL; /* for dialect_append_take() */
	} else {
		(void)!path_foreign_check(path + 1, (size_t)len - 1, err);
	}
	if (err->code) {
		free(path);
		free(text);
		return err->code;
	}
	return dialect_append_take(nodes, node, path, text, err);
}

json_t *dialect_pairs_json(const struct dialect_instance *instance)
{
	json_t *object = json_object();
	for (size_t i = 0; i < instance->pair_count; i++) {
		if (json_object_set_new(object, instance->pairs[i].name,
			    json_string(instance->pairs[i].value))) {
			json_decref(object);
			return NULL;
		}
	}
	return object;
}
