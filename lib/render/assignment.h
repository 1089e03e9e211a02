/*
 * A set of endpoints as load balancers take it: localities with priorities, each with endpoints
 * that have weight and health. Pure. An endpoint without traffic (weight 0) has weight 1 and
 * drains.
 *
 * A record's zone, REGION/ZONE/SUB_ZONE, is its locality; tiers become priorities. These have no
 * gaps, no locality is empty or without a weight, and no address is in the set twice: gRPC and
 * Envoy refuse the whole set otherwise.
 */
#ifndef LIB_RENDER_ASSIGNMENT_H
#define LIB_RENDER_ASSIGNMENT_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/render/locality.h"

struct assignment_endpoint {
	char host[INET6_ADDRSTRLEN];
	uint16_t port;
	bool weighted; /* its record has a weight */
	unsigned weight;
	enum render_health health;
	/* while the set is being made: an index, and the number of those that came before */
	uint32_t locality;
	uint32_t arrival;
};

struct assignment_locality {
	char *zone; /* "" when the records name none */
	unsigned tier;
	unsigned priority;
	unsigned weight; /* the sum of those endpoints' that do not drain; at least 1 */
	size_t first;    /* of its endpoints */
	size_t count;
};

struct assignment {
	struct assignment_locality *localities; /* by priority, then by zone */
	size_t locality_count;
	struct assignment_endpoint *endpoints; /* by locality, then as assignment_complete() says */
	size_t count;
	size_t left_out; /* addresses that cannot be sent, as its maker counts them */
	bool failed;     /* there was no memory: something is missing */
};

/* An empty set; all zeros are one, too. */
void assignment_init(struct assignment *assignment);
void assignment_finish(struct assignment *assignment);

/*
 * The index of a locality, which is made when there is none; `most` when there are so many already.
 */
size_t assignment_locality(
	struct assignment *assignment, const char *zone, unsigned tier, size_t most);
/* Adds a copy of an endpoint, whose weight is not 0. */
void assignment_add(
	struct assignment *assignment, size_t locality, const struct assignment_endpoint *endpoint);

/*
 * After the last endpoint, once: of those with one address the first that takes traffic stays.
 * `sorted`: those of a locality are by address; else they keep their order.
 */
void assignment_complete(struct assignment *assignment, bool sorted);

/* Whether two sets would be sent as the same message. */
bool assignment_equal(const struct assignment *a, const struct assignment *b);

#endif
