/* The masters of a Mesos cluster: MasterInfo as JSON. */
#include "lib/dialect/read_internal.h"

#include <stdint.h>
#include <stdio.h>

enum { IPV4_BYTES = 4, IPV4_SIZE = 16 };

/* The old field "ip": an IPv4 address whose first byte is the lowest of the number. */
static const char *old_ip(char out[IPV4_SIZE], const json_t *json)
{
	const json_t *value = json_object_get(json, "ip");
	json_int_t ip = json_integer_value(value);
	if (!json_is_integer(value) || ip <= 0 || ip > UINT32_MAX) {
		return NULL;
	}
	unsigned bytes[IPV4_BYTES];
	for (int i = 0; i < IPV4_BYTES; i++) {
		bytes[i] = (unsigned)(ip >> (8 * i)) & 0xff;
	}
	snprintf(out, IPV4_SIZE, "%u.%u.%u.%u", bytes[0], bytes[1], bytes[2], bytes[3]);
	return out;
}

void dialect_read_mesos(struct dialect_reading *reading)
{
	char ip_text[IPV4_SIZE];
	const json_t *json = reading->json;
	const json_t *given = json_object_get(json, "address");
	const json_t *address = json_is_object(given) ? given : json;
	const char *ip = address == given ? dialect_text(address, "ip") : old_ip(ip_text, json);
	const char *hostname = dialect_text(address, "hostname");
	int port = dialect_port(json_object_get(address, "port"));
	if ((!ip && !hostname) || port == 0) {
		dialect_unreadable(reading, "there is no address or no port");
		return;
	}
	dialect_set_text(reading, "yarn:id", dialect_text(json, "id"));
	dialect_set_text(reading, "yarn:hostname", hostname);
	dialect_set_text(reading, "yarn:ip", ip);
	dialect_add_endpoint(reading, NULL, "http", ip ? ip : hostname, port);
	dialect_set_text(reading, "mesos:pid", dialect_text(json, "pid"));
	dialect_set_text(reading, "mesos:version", dialect_text(json, "version"));
	dialect_set(reading, "mesos:domain", json_object_get(json, "domain"));
}
