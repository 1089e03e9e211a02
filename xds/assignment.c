#include "xds/assignment.h"

#include <stdlib.h>
#include <string.h>

#include "lib/base/text.h"
#include "lib/program/memory.h"
#include "lib/render/host.h"

void assignment_init(struct assignment *assignment)
{
	*assignment = (struct assignment){ .count = 0 };
}

void assignment_finish(struct assignment *assignment)
{
	for (size_t i = 0; i < assignment->locality_count; i++) {
		free(assignment->localities[i].zone);
	}
	free(assignment->localities);
	free(assignment->endpoints);
	assignment_init(assignment);
}

/* ---- members ---- */

static uint32_t find_locality(struct assignment *assignment, const char *zone, unsigned tier)
{
	for (size_t i = 0; i < assignment->locality_count; i++) {
		if (assignment->localities[i].tier == tier &&
			strcmp(assignment->localities[i].zone, zone) == 0) {
			return (uint32_t)i;
		}
	}
	assignment->localities = memory_grow(assignment->localities, assignment->locality_count,
		sizeof(*assignment->localities));
	assignment->localities[assignment->locality_count] = (struct assignment_locality){
		.zone = memory_text(zone, strlen(zone)), .tier = tier
	};
	return (uint32_t)assignment->locality_count++;
}

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
									 : RENDER_HEALTH_UNKNOWN,
		.arrival = (uint32_t)assignment->count };
	if (endpoint.port == 0 ||
		(!read_address(endpoint.host, text_of(member, "host")) &&
			!read_address(endpoint.host, text_of(attributes, "yarn:ip")))) {
		assignment->left_out++;
		return;
	}
	endpoint.locality = find_locality(
		assignment, text_of(member, "zone"), number_of(member, "tier"));
	assignment->endpoints = memory_grow(
		assignment->endpoints, assignment->count, sizeof(*assignment->endpoints));
	assignment->endpoints[assignment->count++] = endpoint;
}

/* ---- completing ---- */

static int by_address(const void *a, const void *b)
{
	const struct assignment_endpoint *left = a;
	const struct assignment_endpoint *right = b;
	int order = strcmp(left->host, right->host);
	return order != 0 ? order : (left->port > right->port) - (left->port < right->port);
}

static bool is_draining(const struct assignment_endpoint *endpoint)
{
	return endpoint->health == RENDER_HEALTH_DRAINING;
}

/* By address; of the same one the first that takes traffic, then in the order of the records. */
static int by_merit(const void *a, const void *b)
{
	const struct assignment_endpoint *left = a;
	const struct assignment_endpoint *right = b;
	int order = by_address(a, b);
	order = order != 0 ? order : is_draining(left) - is_draining(right);
	return order != 0 ? order
			  : (left->arrival > right->arrival) - (left->arrival < right->arrival);
}

/* Of an address that several records have, the first one in that order counts. */
static void remove_repeated(struct assignment *assignment)
{
	size_t kept = 0;
	for (size_t i = 0; i < assignment->count; i++) {
		if (kept == 0 ||
			by_address(&assignment->endpoints[kept - 1], &assignment->endpoints[i]) !=
				0) {
			assignment->endpoints[kept++] = assignment->endpoints[i];
		}
	}
	assignment->count = kept;
}

static int by_tier(const void *a, const void *b)
{
	const struct assignment_locality *left = a;
	const struct assignment_locality *right = b;
	int order = (left->tier > right->tier) - (left->tier < right->tier);
	return order != 0 ? order : strcmp(left->zone, right->zone);
}

static int by_locality(const void *a, const void *b)
{
	const struct assignment_endpoint *left = a;
	const struct assignment_endpoint *right = b;
	int order = (left->locality > right->locality) - (left->locality < right->locality);
	return order != 0 ? order : by_address(a, b);
}

/* `first` is where a locality was before they were sorted: endpoints still name that index. */
static void order_localities(struct assignment *assignment)
{
	size_t count = assignment->locality_count;
	uint32_t *place = memory_zeroed(count, sizeof(*place));
	for (size_t i = 0; i < count; i++) {
		assignment->localities[i].first = i;
	}
	qsort(assignment->localities, count, sizeof(*assignment->localities), by_tier);
	for (size_t i = 0; i < count; i++) {
		place[assignment->localities[i].first] = (uint32_t)i;
	}
	for (size_t i = 0; i < assignment->count; i++) {
		assignment->endpoints[i].locality = place[assignment->endpoints[i].locality];
	}
	free(place);
}

/* Repetitions may have left a locality without endpoints. */
static void count_endpoints(struct assignment *assignment)
{
	size_t at = 0;
	size_t kept = 0;
	unsigned priority = 0;
	for (size_t i = 0; i < assignment->locality_count; i++) {
		struct assignment_locality locality = assignment->localities[i];
		locality.first = at;
		locality.weight = 0;
		while (at < assignment->count && assignment->endpoints[at].locality == i) {
			const struct assignment_endpoint *endpoint = &assignment->endpoints[at++];
			locality.weight += is_draining(endpoint) ? 0 : endpoint->weight;
		}
		locality.weight = locality.weight > 0 ? locality.weight : 1;
		locality.count = at - locality.first;
		if (locality.count == 0) {
			free(locality.zone);
			continue;
		}
		priority += kept > 0 && assignment->localities[kept - 1].tier != locality.tier;
		locality.priority = priority;
		assignment->localities[kept++] = locality;
	}
	assignment->locality_count = kept;
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

void assignment_read(struct assignment *assignment, const json_t *members)
{
	size_t index;
	json_t *member;
	json_array_foreach ((json_t *)(uintptr_t)members, index, member) {
		add(assignment, member);
	}
	if (assignment->count == 0) {
		return;
	}
	spare_degraded(assignment);
	qsort(assignment->endpoints, assignment->count, sizeof(*assignment->endpoints), by_merit);
	remove_repeated(assignment);
	order_localities(assignment);
	qsort(assignment->endpoints, assignment->count, sizeof(*assignment->endpoints),
		by_locality);
	count_endpoints(assignment);
	/* It stays, one of many. */
	assignment->endpoints = memory_must(reallocarray(
		assignment->endpoints, assignment->count, sizeof(*assignment->endpoints)));
}

static bool same_locality(
	const struct assignment_locality *left, const struct assignment_locality *right)
{
	return strcmp(left->zone, right->zone) == 0 && left->priority == right->priority &&
		left->weight == right->weight && left->count == right->count;
}

static bool same_endpoint(
	const struct assignment_endpoint *left, const struct assignment_endpoint *right)
{
	return by_address(left, right) == 0 && left->weight == right->weight &&
		left->health == right->health;
}

bool assignment_equal(const struct assignment *a, const struct assignment *b)
{
	bool equal = a->locality_count == b->locality_count && a->count == b->count;
	for (size_t i = 0; equal && i < a->locality_count; i++) {
		equal = same_locality(&a->localities[i], &b->localities[i]);
	}
	for (size_t i = 0; equal && i < a->count; i++) {
		equal = same_endpoint(&a->endpoints[i], &b->endpoints[i]);
	}
	return equal;
}
