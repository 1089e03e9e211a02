/* Instances of Curator's x-discovery, and what Spring Cloud ZooKeeper puts into their payloads. */
#include "lib/dialect/read_internal.h"

#include <string.h>

/* An instance that is not to be used is there, without endpoints. */
static bool is_in_service(const json_t *json, const json_t *metadata)
{
	const char *status = dialect_text(metadata, "instance_status");
	return !json_is_false(json_object_get(json, "enabled")) &&
		(!status || strcmp(status, "UP") == 0);
}

static void add_endpoints(struct dialect_reading *reading, const char *host)
{
	const json_t *json = reading->json;
	const char *name = dialect_text(json, "name");
	int port = dialect_port(json_object_get(json, "port"));
	int ssl_port = dialect_port(json_object_get(json, "sslPort"));
	if (port != 0 || ssl_port == 0) {
		dialect_add_endpoint(reading, name, "tcp", host, port);
	}
	if (ssl_port != 0) {
		dialect_add_endpoint(reading, name, "tls", host, ssl_port);
	}
}

void dialect_read_curator(struct dialect_reading *reading)
{
	const json_t *json = reading->json;
	const json_t *payload = json_object_get(json, "payload");
	const json_t *metadata = json_object_get(payload, "metadata");
	const char *id = dialect_text(json, "id");
	const char *address = dialect_text(json, "address");
	if (!address) {
		dialect_unreadable(reading, "there is no address");
	}
	dialect_set_text(reading, "yarn:id", id ? id : reading->member->name);
	if (is_in_service(json, metadata)) {
		add_endpoints(reading, address);
	}
	dialect_set_text(reading, "curator:name", dialect_text(json, "name"));
	dialect_set_text(reading, "curator:serviceType", dialect_text(json, "serviceType"));
	dialect_set(reading, "curator:registrationTimeUTC",
		json_object_get(json, "registrationTimeUTC"));
	dialect_set(reading, "curator:uriSpec", json_object_get(json, "uriSpec"));
	dialect_set(reading, "curator:payload", payload);
	dialect_set_pairs(reading, "metadata", metadata);
}
