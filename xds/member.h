/*
 * The part of a record that sets of endpoints need, read once for all names that it belongs to.
 *
 * Only numeric addresses can be sent: gRPC and Envoy refuse a whole set for one host name. So an
 * endpoint whose address names a host has the record's yarn:ip instead, and is left out without.
 */
#ifndef XDS_MEMBER_H
#define XDS_MEMBER_H

#include <jansson.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/render/locality.h"

struct member_endpoint {
	char host[INET6_ADDRSTRLEN]; /* in canonical form */
	uint16_t port;
	char *protocol; /* with the api behind its NUL: one allocation */
	char *api;
};

struct member {
	unsigned weight;           /* the attribute `weight`: 1 to 256; 1 without */
	enum render_health health; /* the attribute `berth:health` */
	struct member_endpoint *endpoints;
	size_t count;
	size_t left_out; /* addresses that cannot be sent */
	char zone[];     /* the attribute `berth:zone`; "" without */
};

/* NULL for JSON that is not a record. */
struct member *member_create(const json_t *record);
/* Accepts NULL. */
void member_destroy(struct member *member);

/* Whether an endpoint is among those that names with this service mean; "": all are. */
bool member_offers(const struct member_endpoint *endpoint, const char *service);

#endif
