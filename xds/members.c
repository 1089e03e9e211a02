#include "xds/members.h"

#include <stdlib.h>
#include <string.h>

#include "lib/base/text.h"
#include "lib/program/memory.h"
#include "lib/render/host.h"

static const char *text_of(const json_t *object, const char *key)
{
	const char *text = json_string_value(json_object_get(object, key));
	return text ? text : "";
}

static unsigned number_of(const json_t *member, const char *key)
{
	return (unsigned)json_integer_value(json_object_get(member, key));
}

/* An address in canonical form; a zone of an interface (%eth0) means nothing elsewhere. */
static bool read_address(char out[INET6_ADDRSTRLEN], const char *text)
{
	char host[2 * INET6_ADDRSTRLEN];
	text_printf(host, sizeof(host), "%s", text);
	bool good = strlen(text) < sizeof(host) && render_host_read(host) == RENDER_HOST_ADDRESS &&
		!strchr(host, '%') && strlen(host) < INET6_ADDRSTRLEN;
	if (good) {
		strcpy(out, host);
	}
	return good;
}

static void add(struct assignment *assignment, const json_t *member)
{
	const json_t *attributes = json_object_get(member, "attributes");
	const char *health = text_of(member, "health");
	unsigned weight = number_of(member, "weight");
	struct assignment_endpoint endpoint = { .port = (uint16_t)number_of(member, "port"),
		.weight = weight > 0 ? weight : 1,
		.health = weight == 0 || strcmp(health, "draining") == 0 ? RENDER_HEALTH_DRAINING
			: strcmp(health, "warning") == 0                 ? RENDER_HEALTH_DEGRADED
									 : RENDER_HEALTH_UNKNOWN };
	if (endpoint.port == 0 ||
		(!read_address(endpoint.host, text_of(member, "host")) &&
			!read_address(endpoint.host, text_of(attributes, "yarn:ip")))) {
		assignment->left_out++;
		return;
	}
	size_t locality = assignment_locality(
		assignment, text_of(member, "zone"), number_of(member, "tier"), SIZE_MAX);
	assignment_add(assignment, locality, &endpoint);
}

/*
 * gRPC uses no degraded endpoint. Where all are, the warnings tell nothing about whom to prefer,
 * and nobody may be left without any.
 */
static void spare_degraded(struct assignment *assignment)
{
	bool any_good = false;
	for (size_t i = 0; i < assignment->count; i++) {
		any_good = any_good || assignment->endpoints[i].health == RENDER_HEALTH_UNKNOWN;
	}
	for (size_t i = 0; !any_good && i < assignment->count; i++) {
		struct assignment_endpoint *endpoint = &assignment->endpoints[i];
		if (endpoint->health == RENDER_HEALTH_DEGRADED) {
			endpoint->health = RENDER_HEALTH_UNKNOWN;
		}
	}
}

void members_read(struct assignment *assignment, const json_t *members)
{
	size_t index;
	json_t *member;
	json_array_foreach ((json_t *)(uintptr_t)members, index, member) {
		add(assignment, member);
	}
	spare_degraded(assignment);
	assignment_complete(assignment, true);
	memory_must(assignment->failed ? NULL : assignment);
	if (assignment->count > 0) {
		/* It stays, one of many. */
		assignment->endpoints = memory_must(reallocarray(
			assignment->endpoints, assignment->count, sizeof(*assignment->endpoints)));
	}
}
