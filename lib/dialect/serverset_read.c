/* The members of a ServerSet: Finagle's, Aurora's. */
#include "lib/dialect/read_internal.h"

#include <string.h>

static void add_endpoint(struct dialect_reading *reading, const char *api, const json_t *endpoint)
{
	const char *host = dialect_text(endpoint, "host");
	int port = dialect_port(json_object_get(endpoint, "port"));
	if (!host || port == 0) {
		dialect_unreadable(reading, "an endpoint has no host or no port");
	}
	dialect_add_endpoint(reading, api, "tcp", host, port);
}

/* Finagle gives its users members that are ALIVE only: the others are there, without endpoints. */
void dialect_read_serverset(struct dialect_reading *reading)
{
	const json_t *json = reading->json;
	const json_t *service = json_object_get(json, "serviceEndpoint");
	const char *status = dialect_text(json, "status");
	const char *name;
	json_t *endpoint;
	dialect_set_text(reading, "yarn:id", reading->member->name);
	if (!json_is_object(service)) {
		dialect_unreadable(reading, "there is no serviceEndpoint");
	}
	if (!status || strcmp(status, "ALIVE") == 0) {
		add_endpoint(reading, NULL, service);
		json_object_foreach (json_object_get(json, "additionalEndpoints"), name, endpoint) {
			add_endpoint(reading, name, endpoint);
		}
	}
	dialect_set_text(reading, "serverset:status", status);
	dialect_set(reading, "serverset:shard", json_object_get(json, "shard"));
	dialect_set_pairs(reading, "metadata", json_object_get(json, "metadata"));
}
