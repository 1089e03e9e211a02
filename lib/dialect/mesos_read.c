/* The masters of a Mesos cluster: MasterInfo as JSON. */
#include "lib/dialect/read_internal.h"

#include <arpa/inet.h>
#include <endian.h>

/* The old field "ip": an IPv4 address whose first byte is the lowest of the number. */
static const char *old_ip(char out[INET_ADDRSTRLEN], const json_t *json)
{
	const json_t *value = json_object_get(json, "ip");
	json_int_t ip = json_integer_value(value);
	if (!json_is_integer(value) || ip <= 0 || ip > UINT32_MAX) {
		return NULL;
	}
	const struct in_addr address = { .s_addr = htole32((uint32_t)ip) };
	return inet_ntop(AF_INET, &address, out, INET_ADDRSTRLEN);
}

void dialect_read_mesos(struct dialect_reading *reading)
{
	char ip_text[INET_ADDRSTRLEN];
	const json_t *json = reading->json;
	const json_t *given = json_object_get(json, "address");
	const json_t *address = json_is_object(given) ? given : json;
	const char *ip = address == given ? dialect_text(address, "ip") : old_ip(ip_text, json);
	const char *hostname = dialect_text(address, "hostname");
	int port = dialect_port(json_object_get(address, "port"));
	if ((!ip && !hostname) || port == 0) {
		dialect_unreadable(reading, "there is no address or no port");
	}
	dialect_set_text(reading, "yarn:id", dialect_text(json, "id"));
	dialect_set_text(reading, "yarn:hostname", hostname);
	dialect_set_text(reading, "yarn:ip", ip);
	dialect_add_endpoint(reading, NULL, "http", ip ? ip : hostname, port);
	dialect_set_text(reading, "mesos:pid", dialect_text(json, "pid"));
	dialect_set_text(reading, "mesos:version", dialect_text(json, "version"));
	dialect_set(reading, "mesos:domain", json_object_get(json, "domain"));
}
