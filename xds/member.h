/*
 * The part of a record that sets of endpoints need, read once for all names that it belongs to.
 *
 * Only numeric addresses can be sent: gRPC and Envoy refuse a whole set for one host name. So an
 * endpoint whose address names a host has the record's yarn:ip instead, and is left out without.
 */
#ifndef XDS_MEMBER_H
#define XDS_MEMBER_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/render/locality.h"

/* Its texts are places among those of the member. */
struct member_endpoint {
	uint32_t host; /* in canonical form */
	uint32_t protocol;
	uint32_t api;
	uint16_t port;
};

/* One allocation: there are many, which stay. */
struct member {
	unsigned weight;           /* the attribute `weight`; see render_weight() */
	enum render_health health; /* the attribute `berth:health` */
	uint32_t count;
	uint32_t left_out;   /* addresses that cannot be sent */
	uint32_t attributes; /* as lines NAME=VALUE: those that are not long */
	struct member_endpoint endpoints[];
	/* Behind them: texts, each with a NUL; the zone first. */
};

/* NULL for JSON that is not a record. For free(). */
struct member *member_create(const json_t *record);

/* The attribute `berth:zone`; "" without. Borrowed. */
const char *member_zone(const struct member *member);
const char *member_host(const struct member *member, const struct member_endpoint *endpoint);

/*
 * Whether the record has all of these attributes, lines of NAME=VALUE, as labels or exactly; NULL
 * is any.
 */
bool member_has(const struct member *member, const char *lines, bool as_labels);

/* Whether an endpoint is among those that names with this service mean; "": all are. */
bool member_offers(
	const struct member *member, const struct member_endpoint *endpoint, const char *service);

#endif
