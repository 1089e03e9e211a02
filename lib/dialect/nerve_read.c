/* The nodes that nerve (SmartStack) writes and synapse reads. */
#include "lib/dialect/read_internal.h"

/* BlaBlaCar's nerve keeps the node of a service that is down. */
void dialect_read_nerve(struct dialect_reading *reading)
{
	const json_t *json = reading->json;
	const char *name = dialect_text(json, "name");
	const char *host = dialect_text(json, "host");
	int port = dialect_port(json_object_get(json, "port"));
	if (!host || port == 0) {
		dialect_unreadable(reading, "there is no host or no port");
	}
	dialect_set_text(reading, "yarn:id", name ? name : reading->member->name);
	if (!json_is_false(json_object_get(json, "available"))) {
		dialect_add_endpoint(reading, NULL, "tcp", host, port);
	}
	dialect_set(reading, "nerve:available", json_object_get(json, "available"));
	dialect_set(
		reading, "nerve:unavailable_reason", json_object_get(json, "unavailable_reason"));
	dialect_set(reading, "nerve:weight", json_object_get(json, "weight"));
	dialect_set(reading, "nerve:haproxy_server_options",
		json_object_get(json, "haproxy_server_options"));
	dialect_set_pairs(reading, "labels", json_object_get(json, "labels"));
}
