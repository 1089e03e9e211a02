/*
 * Resources of xDS v3: what a name's listener, route, cluster and set of endpoints are.
 *
 * The four of a name are called like the name. The listener carries its route inline, so that a
 * gRPC client needs one question less; the route leads everything to the cluster, and the cluster
 * asks for its endpoints over the same stream. None of the first three depends on the registry.
 */
#ifndef XDS_RESOURCE_H
#define XDS_RESOURCE_H

#include <stddef.h>

#include "lib/base/buffer.h"
#include "lib/render/assignment.h"

/* In the order in which a change of several has to arrive: nothing names what is not there yet. */
enum resource_type {
	RESOURCE_CLUSTER,
	RESOURCE_ENDPOINTS,
	RESOURCE_LISTENER,
	RESOURCE_ROUTE,
	RESOURCE_TYPES
};

/* type.googleapis.com/envoy.config.… */
const char *resource_url(enum resource_type type);
/* "clusters", "endpoints", "listeners", "routes": as REST calls them. */
const char *resource_word(enum resource_type type);
/* RESOURCE_TYPES for a URL that is none of these. */
enum resource_type resource_of_url(const char *url, size_t len);

/*
 * Appends the message itself, as protocol buffers. `assignment` is for RESOURCE_ENDPOINTS, else
 * not looked at.
 */
void resource_encode(struct buffer *out, enum resource_type type, const char *name,
	const struct assignment *assignment);

/*
 * Appends a cluster or a set of endpoints in the canonical JSON form, with its @type. A cluster
 * asks for its endpoints by REST, where Envoy's own cluster for us has the name `berth`.
 */
void resource_json(struct buffer *out, enum resource_type type, const char *name,
	const struct assignment *assignment);

#endif
