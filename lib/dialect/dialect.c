#include "lib/dialect/dialect.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/json_text.h"
#include "lib/base/path.h"
#include "lib/dialect/write.h"

static const struct {
	const char *name;
	int (*write)(struct dialect_nodes *nodes, const struct dialect_instance *instance,
		struct err *err) ERR_REQUIRED(3);
} dialects[] = {
	[DIALECT_YARN] = { "yarn", dialect_yarn_write },
	[DIALECT_REGISTRAR] = { "registrar", dialect_registrar_write },
	[DIALECT_SERVERSET] = { "serverset", dialect_serverset_write },
	[DIALECT_CURATOR] = { "curator", dialect_curator_write },
	[DIALECT_SPRING] = { "spring", dialect_curator_write },
	[DIALECT_NERVE] = { "nerve", dialect_nerve_write },
	[DIALECT_MESOS] = { "mesos", NULL },
};

const char *dialect_name(enum dialect_type type)
{
	return dialects[type].name;
}

/* ---- nodes ---- */

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

/* Takes `path` and `data` in any case. */
static int append_take(struct dialect_nodes *nodes, const struct dialect_node *node, char *path,
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
	return append_take(nodes, node, strdup(path), text, text ? strlen(text) : 0, err);
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

int dialect_write(
	struct dialect_nodes *ret_nodes, const struct dialect_instance *instance, struct err *err)
{
	struct dialect_nodes nodes = { 0 };
	if (dialects[instance->type].write(&nodes, instance, err)) {
		dialect_nodes_finish(&nodes);
		return instance->type == DIALECT_YARN
			? err->code
			: err_wrap(err, "[dialect %s]", instance->name);
	}
	*ret_nodes = nodes;
	return 0;
}

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
	return append_take(nodes, &node, strdup(instance->path), data, len, err);
}

/* ---- likeness ---- */

static bool same_record(const char *a, size_t a_len, const char *b, size_t b_len)
{
	struct record *records[2] = { NULL, NULL };
	bool same = record_decode(&records[0], a, a_len, NULL) == 0 &&
		record_decode(&records[1], b, b_len, NULL) == 0 && *record_id(records[0]) &&
		strcmp(record_id(records[0]), record_id(records[1])) == 0;
	record_free(records[0]);
	record_free(records[1]);
	return same;
}

/* The parts of the data that name the instance. */
static bool same_keys(const json_t *a, const json_t *b, const char *first, const char *second)
{
	const json_t *place = json_object_get(a, first);
	return place && json_equal(place, json_object_get(b, first)) &&
		(!second || json_equal(json_object_get(a, second), json_object_get(b, second)));
}

/* Registrar's, which is that of all instances. */
static bool is_service_record(const json_t *json)
{
	const char *type = json_string_value(json_object_get(json, "type"));
	return type && strcmp(type, "service") == 0 && json_object_get(json, "service");
}

bool dialect_same_instance(
	enum dialect_type type, const char *a, size_t a_len, const char *b, size_t b_len)
{
	static const struct {
		const char *first;
		const char *second;
	} keys[] = {
		[DIALECT_YARN] = { NULL, NULL },
		[DIALECT_REGISTRAR] = { "address", NULL },
		[DIALECT_SERVERSET] = { "serviceEndpoint", NULL },
		[DIALECT_CURATOR] = { "address", "port" },
		[DIALECT_SPRING] = { "address", "port" },
		[DIALECT_NERVE] = { "host", "port" },
		[DIALECT_MESOS] = { NULL, NULL },
	};
	if (type == DIALECT_YARN) {
		return same_record(a, a_len, b, b_len);
	}
	if (!keys[type].first) {
		return false;
	}
	json_t *first = json_loadb(a, a_len, JSON_DECODE_ANY, NULL);
	json_t *second = json_loadb(b, b_len, JSON_DECODE_ANY, NULL);
	bool same = same_keys(first, second, keys[type].first, keys[type].second) ||
		(is_service_record(first) && is_service_record(second));
	json_decref(first);
	json_decref(second);
	return same;
}
