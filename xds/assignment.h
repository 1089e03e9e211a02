/*
 * A set of endpoints as load balancers take it: localities with priorities, each with endpoints
 * that have weight and health. Pure. An endpoint without traffic (weight 0) has weight 1 and
 * drains.
 *
 * It is read from a set of the agent (docs/PROTOCOL.md, "Sets"). Only numeric addresses can be
 * sent: gRPC and Envoy refuse a whole set for one host name. So a member whose address names a host
 * has the record's yarn:ip instead, and is left out without.
 *
 * A record's zone, REGION/ZONE/SUB_ZONE, is its locality; tiers become priorities. These have no
 * gaps, no locality is empty or without a weight, and no address is in the set twice: gRPC refuses
 * the whole set otherwise.
 */
#ifndef XDS_ASSIGNMENT_H
#define XDS_ASSIGNMENT_H

#include <jansson.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/render/locality.h"

struct assignment_endpoint {
	char host[INET6_ADDRSTRLEN];
	uint16_t port;
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
	struct assignment_endpoint *endpoints; /* by locality, then by address */
	size_t count;
	size_t left_out; /* addresses that cannot be sent */
};

/* An empty set. */
void assignment_init(struct assignment *assignment);
void assignment_finish(struct assignment *assignment);

/* Reads the members of a set into an empty one. */
void assignment_read(struct assignment *assignment, const json_t *members);

/* Whether two sets would be sent as the same message. */
bool assignment_equal(const struct assignment *a, const struct assignment *b);

#endif
