/*
 * Registrar's scheme, for Binder: the domain's labels in reverse order are a path; a host record
 * below it and one at each alias, ephemeral; the service record is the data of the domain's own
 * node.
 *
 * Binder ends when an address is anything but an IPv4 literal or a number is of another type, so
 * such a node is never written.
 */
#include <arpa/inet.h>
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "lib/dialect/write.h"

enum { DEFAULT_SERVICE_TTL = 60, DOMAIN_BYTES = 253 };

/* "web.t1.example" becomes "/example/t1/web". */
static int path_of_domain(char path[DOMAIN_BYTES + 2], const char *domain, struct err *err)
{
	size_t end = strlen(domain);
	size_t used = 0;
	if (end == 0 || end > DOMAIN_BYTES) {
		return err_set(err, BERTH_INVALID_PATHNAME,
			"a domain has 1 to %d bytes, and this one %zu", DOMAIN_BYTES, end);
	}
	for (bool more = true; more;) {
		size_t start = end;
		while (start > 0 && domain[start - 1] != '.') {
			start--;
		}
		path[used++] = '/';
		for (size_t i = start; i < end; i++) {
			path[used++] = (char)tolower((unsigned char)domain[i]);
		}
		more = start > 0;
		end = more ? start - 1 : 0;
	}
	path[used] = '\0';
	return 0;
}

static int check(const struct dialect_instance *instance, struct err *err)
{
	struct in_addr ignored;
	if (inet_pton(AF_INET, instance->address, &ignored) != 1) {
		return err_set(err, BERTH_INVALID_RECORD,
			"\"%s\" is not an IPv4 address, and Binder takes nothing else",
			instance->address);
	}
	for (size_t i = 0; i < instance->port_count; i++) {
		if (instance->ports[i] < 1 || instance->ports[i] > UINT16_MAX) {
			return err_set(err, BERTH_INVALID_RECORD, "port %d is not 1 to 65535",
				instance->ports[i]);
		}
	}
	if (*instance->service &&
		(instance->service_port < 1 || instance->service_port > UINT16_MAX)) {
		return err_set(err, BERTH_INVALID_RECORD, "the service needs a port, 1 to 65535");
	}
	return 0;
}

static json_t *ports_json(const struct dialect_instance *instance)
{
	json_t *ports = json_array();
	for (size_t i = 0; i < instance->port_count; i++) {
		json_array_append_new(ports, json_integer(instance->ports[i]));
	}
	if (instance->port_count == 0 && *instance->service) {
		json_array_append_new(ports, json_integer(instance->service_port));
	}
	return ports;
}

static json_t *host_record(const struct dialect_instance *instance)
{
	json_t *inner = json_pack("{s:s}", "address", instance->address);
	json_t *ports = ports_json(instance);
	if (json_array_size(ports)) {
		json_object_set(inner, "ports", ports);
	}
	json_decref(ports);
	json_t *record = json_pack(
		"{s:s, s:s}", "type", instance->host_type, "address", instance->address);
	if (instance->ttl >= 0) {
		json_object_set_new(record, "ttl", json_integer(instance->ttl));
	}
	json_object_set_new(record, instance->host_type, inner);
	return record;
}

/* Texts with or without the underscore that DNS wants. */
static const char *underscored(char *out, size_t size, const char *text)
{
	snprintf(out, size, "%s%s", text[0] == '_' ? "" : "_", text);
	return out;
}

static json_t *service_record(const struct dialect_instance *instance)
{
	char service[80];
	char protocol[80];
	int ttl = instance->service_ttl >= 0 ? instance->service_ttl : DEFAULT_SERVICE_TTL;
	return json_pack("{s:s, s:{s:s, s:{s:s, s:s, s:i, s:i}}}", "type", "service", "service",
		"type", "service", "service", "srvce",
		underscored(service, sizeof(service), instance->service), "proto",
		underscored(protocol, sizeof(protocol), instance->protocol), "port",
		instance->service_port, "ttl", ttl);
}

int dialect_registrar_write(
	struct dialect_nodes *nodes, const struct dialect_instance *instance, struct err *err)
{
	char path[DOMAIN_BYTES + 2];
	const struct dialect_node host = { .kind = DIALECT_NODE_EPHEMERAL };
	if (check(instance, err) || path_of_domain(path, instance->domain, err) ||
		dialect_add_node_take(nodes, &host, host_record(instance), err, "/%s/%s", path,
			instance->host_name)) {
		return err->code;
	}
	for (size_t i = 0; i < instance->alias_count; i++) {
		char alias[DOMAIN_BYTES + 2];
		if (path_of_domain(alias, instance->aliases[i], err) ||
			dialect_add_node_take(
				nodes, &host, host_record(instance), err, "/%s", alias)) {
			return err->code;
		}
	}
	const struct dialect_node service = { .kind = DIALECT_NODE_SHARED, .order = 1 };
	return *instance->service
		? dialect_add_node_take(nodes, &service, service_record(instance), err, "/%s", path)
		: 0;
}
