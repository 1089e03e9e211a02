/*
 * A set of endpoints as load balancers take it: localities with priorities, each with endpoints
 * that have weight and health. Pure. An endpoint without traffic (weight 0)
 * has weight 1 and drains.
 *
 * A record's zone, REGION/ZONE/SUB_ZONE, is its locality. With a preference for the own zone, the
 * localities have priorities by nearness: the more elements of the own zone they share, the
 * nearer. Priorities have no gaps, no locality is empty or without a weight, and no address is in
 * the set twice: gRPC refuses the whole set otherwise.
 */
#ifndef XDS_ASSIGNMENT_H
#define XDS_ASSIGNMENT_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>

#include "xds/member.h"

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
	unsigned rank;
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
	size_t instances; /* records with at least one endpoint in the set, and a weight */
	size_t left_out;  /* addresses that cannot be sent */
};

/* An empty set. */
void assignment_init(struct assignment *assignment);
void assignment_finish(struct assignment *assignment);

/*
 * Adds the endpoints of a record that offer the service; "": all. `rank` counts the paths that
 * records come from: 0 is the one that the name means.
 */
void assignment_add(struct assignment *assignment, const struct member *member, const char *service,
	unsigned rank);

/* Orders the set; nothing can be added afterwards. `own_zone`: NULL for no preference. */
void assignment_complete(struct assignment *assignment, const char *own_zone);

/* Whether two complete sets would be sent as the same message. */
bool assignment_equal(const struct assignment *a, const struct assignment *b);

#endif
