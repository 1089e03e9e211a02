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
	char *data, size_t len, struct err *err)
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
	items[nodes->count++].len = len;
	return 0;
}

int dialect_add_node_take(struct dialect_nodes *nodes, const struct dialect_node *node,
	json_t *data, struct err *err, const char *format, ...)
{
	char path[LIMIT_PATH_BYTES + 2] = "/";
	va_list arguments;
	va_start(arguments, format);
	int len = vsnprintf(path + 1, sizeof(path) - 1, format, arguments);
	va_end(arguments);
	char *text = json_text(data, JSON_COMPACT);
	json_decref(data);
	if (!data) {
		err_set(err, BERTH_INVALID_RECORD, "the dialect's data are not UTF-8 text");
	} else if (len < 0 || (size_t)len >= sizeof(path) - 1) {
		err_set(err, BERTH_LIMIT_EXCEEDED, "the path of %s would have %d bytes", path + 1,
			len);
	} else {
		(void)!path_foreign_check(path + 1, strlen(path + 1), err);
	}
	if (err->code) {
		free(text);
		return err->code;
	}
	return dialect_append_take(nodes, node, strdup(path), text, text ? strlen(text) : 0, err);
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

int dialect_need_endpoint(const struct dialect_instance *instance, struct err *err)
{
	if (*instance->endpoint.host && instance->endpoint.port > 0) {
		return 0;
	}
	return err_set(err, BERTH_INVALID_RECORD, "no endpoint with a host and a port is there");
}
