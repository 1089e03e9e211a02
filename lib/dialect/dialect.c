#include "lib/dialect/dialect.h"

#include <string.h>

#include "lib/dialect/write.h"

static const struct {
	const char *name;
	int (*write)(struct dialect_nodes *nodes, const struct dialect_instance *instance,
		struct err *err) ERR_REQUIRED(3);
	bool needs_endpoint;
} dialects[] = {
	[DIALECT_YARN] = { .name = "yarn", .write = dialect_yarn_write },
	[DIALECT_REGISTRAR] = { .name = "registrar", .write = dialect_registrar_write },
	[DIALECT_SERVERSET] = { "serverset", dialect_serverset_write, .needs_endpoint = true },
	[DIALECT_CURATOR] = { "curator", dialect_curator_write, .needs_endpoint = true },
	[DIALECT_SPRING] = { "spring", dialect_curator_write, .needs_endpoint = true },
	[DIALECT_NERVE] = { "nerve", dialect_nerve_write, .needs_endpoint = true },
	[DIALECT_MESOS] = { .name = "mesos" },
};

const char *dialect_name(enum dialect_type type)
{
	return dialects[type].name;
}

static int need_endpoint(const struct dialect_instance *instance, struct err *err)
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
	if ((dialects[instance->type].needs_endpoint && need_endpoint(instance, err)) ||
		dialects[instance->type].write(&nodes, instance, err)) {
		dialect_nodes_finish(&nodes);
		return instance->type == DIALECT_YARN
			? err->code
			: err_wrap(err, "[dialect %s]", instance->name);
	}
	*ret_nodes = nodes;
	return 0;
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
	json_t *first = json_loadb(a, a_len, JSON_DECODE_ANY, NULL);
	json_t *second = json_loadb(b, b_len, JSON_DECODE_ANY, NULL);
	bool same = same_keys(first, second, keys[type].first, keys[type].second) ||
		(is_service_record(first) && is_service_record(second));
	json_decref(first);
	json_decref(second);
	return same;
}
