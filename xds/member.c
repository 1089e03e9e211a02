#include "xds/member.h"

#include <stdlib.h>
#include <string.h>

#include "lib/program/memory.h"
#include "lib/record/record.h"
#include "lib/record/service.h"
#include "lib/record/target.h"
#include "lib/render/host.h"
#include "lib/render/render.h"

static const char *attribute(const struct record *record, const char *name)
{
	const char *text = json_string_value(record_attribute(record, name));
	return text ? text : "";
}

/* The address to send for a target: its own, or that of the record. */
static bool read_host(char out[INET6_ADDRSTRLEN], char *host, const struct record *record)
{
	char own[INET6_ADDRSTRLEN];
	const char *found = NULL;
	if (render_host_read(host) == RENDER_HOST_ADDRESS) {
		found = host;
	} else if (strlen(attribute(record, "yarn:ip")) < sizeof(own)) {
		strcpy(own, attribute(record, "yarn:ip"));
		found = render_host_read(own) == RENDER_HOST_ADDRESS ? own : NULL;
	}
	/* A zone of an interface (%eth0) means nothing elsewhere. */
	if (!found || strlen(found) >= INET6_ADDRSTRLEN || strchr(found, '%')) {
		return false;
	}
	strcpy(out, found);
	return true;
}

static void add(struct member *member, const struct record *record,
	const struct record_endpoint *from, const json_t *address)
{
	struct member_endpoint endpoint;
	struct record_target target;
	if (!record_target_read(&target, from->address_type, address) || target.port == 0 ||
		!read_host(endpoint.host, target.host, record)) {
		member->left_out++;
		return;
	}
	endpoint.port = target.port;
	size_t protocol_bytes = strlen(from->protocol) + 1;
	size_t api_bytes = strlen(from->api) + 1;
	endpoint.protocol = memory_must(malloc(protocol_bytes + api_bytes));
	endpoint.api = endpoint.protocol + protocol_bytes;
	memcpy(endpoint.protocol, from->protocol, protocol_bytes);
	memcpy(endpoint.api, from->api, api_bytes);
	member->endpoints = memory_grow(
		member->endpoints, member->count, sizeof(*member->endpoints));
	member->endpoints[member->count++] = endpoint;
}

struct member *member_create(const json_t *json)
{
	struct record *record;
	if (record_from_json(&record, json, NULL) != 0) {
		return NULL;
	}
	const char *zone = render_zone(record);
	struct member *member = memory_zeroed(1, sizeof(*member) + strlen(zone) + 1);
	member->weight = render_server_weight(record);
	member->health = render_health(record);
	strcpy(member->zone, zone);
	for (size_t i = 0; i < record_endpoint_count(record); i++) {
		struct record_endpoint endpoint = record_endpoint(record, i);
		size_t at;
		json_t *address;
		json_array_foreach (endpoint.addresses, at, address) {
			add(member, record, &endpoint, address);
		}
	}
	record_free(record);
	return member;
}

void member_destroy(struct member *member)
{
	if (!member) {
		return;
	}
	for (size_t i = 0; i < member->count; i++) {
		free(member->endpoints[i].protocol);
	}
	free(member->endpoints);
	free(member);
}

bool member_offers(const struct member_endpoint *endpoint, const char *service)
{
	const struct record_endpoint offered = { .protocol = endpoint->protocol,
		.api = endpoint->api };
	return !*service || record_endpoint_offers(&offered, service);
}
