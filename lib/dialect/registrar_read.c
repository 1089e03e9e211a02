/* Joyent Registrar's host records, as its Binder reads them. */
#include "lib/base/array.h"
#include "lib/dialect/read_internal.h"

#include <string.h>

/* The service record's settings for all hosts below it. */
struct service {
	bool exists;
	const char *name;     /* "http" of "_http"; or NULL */
	const char *protocol; /* "tcp" of "_tcp" */
	int port;             /* 0: none */
};

static const char *without_underscore(const char *text)
{
	return text && *text == '_' ? text + 1 : text;
}

/* Binder takes the nested form, which Registrar writes, and the flat one. */
static struct service read_service(const json_t *group)
{
	struct service service = { .name = NULL, .protocol = "tcp" };
	const char *type = dialect_text(group, "type");
	if (!type || strcmp(type, "service") != 0) {
		return service;
	}
	service.exists = true;
	const json_t *outer = json_object_get(group, "service");
	const json_t *inner = json_object_get(outer, "service");
	const json_t *fields = json_is_object(inner) ? inner : outer;
	const char *protocol = without_underscore(dialect_text(fields, "proto"));
	int port = dialect_port(json_object_get(fields, "port"));
	service.name = without_underscore(dialect_text(fields, "srvce"));
	service.protocol = protocol && strlen(protocol) <= LIMIT_PROTOCOL_BYTES ? protocol : "tcp";
	service.port = port > 0 ? port : 0;
	return service;
}

/*
 * Binder answers for a service with its hosts of these types. It answers for others, such as
 * db_host and host, only when their own name is asked for.
 */
static bool is_member_type(const char *type)
{
	static const char *const types[] = { "load_balancer", "moray_host", "redis_host",
		"ops_host", "rr_host" };
	for (size_t i = 0; i < ARRAY_LEN(types); i++) {
		if (strcmp(types[i], type) == 0) {
			return true;
		}
	}
	return false;
}

static void add_endpoints(struct dialect_reading *reading, const json_t *host,
	const struct service *service, const char *address)
{
	const json_t *ports = json_object_get(host, "ports");
	size_t count = json_array_size(ports);
	for (size_t i = 0; i < count; i++) {
		int port = dialect_port(json_array_get(ports, i));
		dialect_add_endpoint(
			reading, service->name, service->protocol, address, port ? port : -1);
	}
	if (count == 0) {
		dialect_add_endpoint(
			reading, service->name, service->protocol, address, service->port);
	}
}

void dialect_read_registrar(struct dialect_reading *reading)
{
	const struct dialect_member *member = reading->member;
	const char *type = dialect_text(reading->json, "type");
	const json_t *host = type ? json_object_get(reading->json, type) : NULL;
	const char *address = dialect_text(host, "address");
	json_t *group = member->group_data
		? dialect_json(member->group_data, member->group_len, NULL)
		: NULL;
	struct service service = read_service(group);
	if (type && strcmp(type, "service") == 0) {
		dialect_unreadable(reading, "it is a service of its own, not a host");
	} else if (!address) {
		dialect_unreadable(
			reading, "there is no address in the object that \"type\" names");
	} else if (service.exists && !is_member_type(type)) {
		dialect_unreadable(
			reading, "Binder does not count a host of this type as a member");
	}
	dialect_set_text(reading, "yarn:id", member->name);
	dialect_set_text(reading, "yarn:hostname", member->name);
	dialect_set_text(reading, "yarn:ip", address);
	add_endpoints(reading, host, &service, address);
	dialect_set_text(reading, "registrar:type", type);
	const json_t *ttl = json_object_get(host, "ttl");
	dialect_set(reading, "registrar:ttl",
		json_is_integer(ttl) ? ttl : json_object_get(reading->json, "ttl"));
	json_decref(group);
}
