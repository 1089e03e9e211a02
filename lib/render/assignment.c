#include "lib/render/assignment.h"

#include <stdlib.h>
#include <string.h>

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

/* Room for one more item; NULL without memory, and `items` stay. */
static void *grow(void *items, size_t count, size_t item_bytes)
{
	bool is_full = (count & (count - 1)) == 0; /* 0, 1, 2, 4 … */
	return is_full ? reallocarray(items, count > 0 ? 2 * count : 1, item_bytes) : items;
}

size_t assignment_locality(
	struct assignment *assignment, const char *zone, unsigned tier, size_t most)
{
	size_t count = assignment->locality_count;
	for (size_t i = 0; i < count; i++) {
		if (assignment->localities[i].tier == tier &&
			strcmp(assignment->localities[i].zone, zone) == 0) {
			return i;
		}
	}
	if (count == most) {
		return most;
	}
	char *copy = strdup(zone);
	struct assignment_locality *grown = copy
		? grow(assignment->localities, count, sizeof(*grown))
		: NULL;
	if (!grown) {
		free(copy);
		assignment->failed = true;
		return 0;
	}
	grown[count] = (struct assignment_locality){ .zone = copy, .tier = tier };
	assignment->localities = grown;
	return assignment->locality_count++;
}

void assignment_add(
	struct assignment *assignment, size_t locality, const struct assignment_endpoint *endpoint)
{
	size_t count = assignment->count;
	struct assignment_endpoint *grown = assignment->failed
		? NULL
		: grow(assignment->endpoints, count, sizeof(*grown));
	if (!grown) {
		assignment->failed = true;
		return;
	}
	grown[count] = *endpoint;
	grown[count].locality = (uint32_t)locality;
	grown[count].arrival = (uint32_t)count;
	assignment->endpoints = grown;
	assignment->count++;
}

/* ---- completing ---- */

static int compare(size_t left, size_t right)
{
	return (left > right) - (left < right);
}

static int by_address(const void *a, const void *b)
{
	const struct assignment_endpoint *left = a;
	const struct assignment_endpoint *right = b;
	int order = strcmp(left->host, right->host);
	return order != 0 ? order : compare(left->port, right->port);
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
	return order != 0 ? order : compare(left->arrival, right->arrival);
}

/* Of an address that several records have, the first one in that order counts. */
static void remove_repeated(struct assignment *assignment)
{
	struct assignment_endpoint *endpoints = assignment->endpoints;
	size_t kept = 1;
	qsort(endpoints, assignment->count, sizeof(*endpoints), by_merit);
	for (size_t i = 1; i < assignment->count; i++) {
		if (by_address(&endpoints[kept - 1], &endpoints[i]) != 0) {
			endpoints[kept++] = endpoints[i];
		}
	}
	assignment->count = kept;
}

static int by_tier(const void *a, const void *b)
{
	const struct assignment_locality *left = a;
	const struct assignment_locality *right = b;
	int order = compare(left->tier, right->tier);
	return order != 0 ? order : strcmp(left->zone, right->zone);
}

static int by_locality(const void *a, const void *b)
{
	const struct assignment_endpoint *left = a;
	const struct assignment_endpoint *right = b;
	int order = compare(left->locality, right->locality);
	return order != 0 ? order : compare(left->arrival, right->arrival);
}

/* `first` is where a locality was before they were sorted: endpoints still name that index. */
static bool order_localities(struct assignment *assignment)
{
	size_t count = assignment->locality_count;
	uint32_t *place = calloc(count, sizeof(*place));
	if (!place) {
		return false;
	}
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
	return true;
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

void assignment_complete(struct assignment *assignment, bool sorted)
{
	if (assignment->count == 0 || assignment->failed) {
		return;
	}
	remove_repeated(assignment);
	for (size_t i = 0; sorted && i < assignment->count; i++) {
		assignment->endpoints[i].arrival = (uint32_t)i;
	}
	if (!order_localities(assignment)) {
		assignment->failed = true;
		return;
	}
	qsort(assignment->endpoints, assignment->count, sizeof(*assignment->endpoints),
		by_locality);
	count_endpoints(assignment);
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
