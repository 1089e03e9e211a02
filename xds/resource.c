#include "xds/resource.h"

#include <jansson.h>
#include <string.h>

#include "lib/base/json_text.h"
#include "lib/program/memory.h"
#include "xds/protobuf.h"

#define TYPE "type.googleapis.com/envoy."
#define ROUTER TYPE "extensions.filters.http.router.v3.Router"
#define CONNECTION_MANAGER                                                                         \
	TYPE "extensions.filters.network.http_connection_manager.v3.HttpConnectionManager"

static const char *const urls[RESOURCE_TYPES] = {
	[RESOURCE_CLUSTER] = TYPE "config.cluster.v3.Cluster",
	[RESOURCE_ENDPOINTS] = TYPE "config.endpoint.v3.ClusterLoadAssignment",
	[RESOURCE_LISTENER] = TYPE "config.listener.v3.Listener",
	[RESOURCE_ROUTE] = TYPE "config.route.v3.RouteConfiguration",
};

static const char *const words[RESOURCE_TYPES] = {
	[RESOURCE_CLUSTER] = "clusters",
	[RESOURCE_ENDPOINTS] = "endpoints",
	[RESOURCE_LISTENER] = "listeners",
	[RESOURCE_ROUTE] = "routes",
};

const char *resource_url(enum resource_type type)
{
	return urls[type];
}

const char *resource_word(enum resource_type type)
{
	return words[type];
}

enum resource_type resource_of_url(const char *url, size_t len)
{
	enum resource_type type = RESOURCE_CLUSTER;
	while (type < RESOURCE_TYPES &&
		(strlen(urls[type]) != len || memcmp(urls[type], url, len) != 0)) {
		type++;
	}
	return type;
}

/* ---- protocol buffers ---- */

/* RouteConfiguration: one virtual host, one route that matches everything. */
#define ROUTE "1s 2{1s 2s 3{1{1s} 2{1s}}}"
#define ROUTE_VALUES(name) name, name, "*", "", name

static void encode_zone(struct buffer *out, const char *zone)
{
	struct render_zone_parts parts = render_zone_read(zone);
	size_t locality = protobuf_begin(out, 1);
	for (unsigned i = 0; i < 3; i++) {
		if (parts.len[i] > 0) {
			protobuf_bytes(out, i + 1, parts.part[i], parts.len[i]);
		}
	}
	protobuf_end(out, locality);
}

static void encode_endpoints(
	struct buffer *out, const char *name, const struct assignment *assignment)
{
	protobuf_text(out, 1, name);
	for (size_t i = 0; i < assignment->locality_count; i++) {
		const struct assignment_locality *locality = &assignment->localities[i];
		size_t begin = protobuf_begin(out, 2);
		encode_zone(out, locality->zone);
		for (size_t at = 0; at < locality->count; at++) {
			const struct assignment_endpoint *endpoint =
				&assignment->endpoints[locality->first + at];
			protobuf_pack(out, "2{1{1{1{2s 3n}}} 2n 4{1n}}", endpoint->host,
				(unsigned)endpoint->port, (unsigned)endpoint->health,
				endpoint->weight);
		}
		protobuf_pack(out, "3{1n} 5n", locality->weight, locality->priority);
		protobuf_end(out, begin);
	}
}

void resource_encode(struct buffer *out, enum resource_type type, const char *name,
	const struct assignment *assignment)
{
	enum { EDS = 3, V3 = 2 };
	switch (type) {
	case RESOURCE_CLUSTER: /* 3{1{3{}}}: by aggregated discovery, an empty message */
		protobuf_pack(
			out, "1s 2n 3{1{3{} 6n} 2s}", name, (unsigned)EDS, (unsigned)V3, name);
		break;
	case RESOURCE_ENDPOINTS:
		encode_endpoints(out, name, assignment);
		break;
	case RESOURCE_LISTENER: /* an API listener: a connection manager with a route and filter */
		protobuf_pack(out, "1s 19{1{1s 2{2s 4{" ROUTE "} 5{1s 4{1s}}}}}", name,
			CONNECTION_MANAGER, name, ROUTE_VALUES(name), "router", ROUTER);
		break;
	case RESOURCE_ROUTE:
	case RESOURCE_TYPES:
		protobuf_pack(out, ROUTE, ROUTE_VALUES(name));
		break;
	}
}

/* ---- JSON ---- */

static json_t *endpoint_json(const struct assignment_endpoint *endpoint)
{
	json_t *json = json_pack("{s:{s:{s:{s:s, s:i}}}, s:I}", "endpoint", "address",
		"socket_address", "address", endpoint->host, "port_value", (int)endpoint->port,
		"load_balancing_weight", (json_int_t)endpoint->weight);
	if (endpoint->health != RENDER_HEALTH_UNKNOWN) {
		json_object_set_new(
			json, "health_status", json_string(render_health_word(endpoint->health)));
	}
	return json;
}

static json_t *locality_json(
	const struct assignment *assignment, const struct assignment_locality *locality)
{
	static const char *const keys[] = { "region", "zone", "sub_zone" };
	struct render_zone_parts parts = render_zone_read(locality->zone);
	json_t *zone = json_object();
	json_t *endpoints = json_array();
	for (int i = 0; i < 3; i++) {
		if (parts.len[i] > 0) {
			json_object_set_new(
				zone, keys[i], json_stringn(parts.part[i], parts.len[i]));
		}
	}
	for (size_t i = 0; i < locality->count; i++) {
		json_array_append_new(
			endpoints, endpoint_json(&assignment->endpoints[locality->first + i]));
	}
	json_t *json = json_pack("{s:o, s:o, s:I}", "locality", zone, "lb_endpoints", endpoints,
		"load_balancing_weight", (json_int_t)locality->weight);
	if (locality->priority > 0) {
		json_object_set_new(json, "priority", json_integer(locality->priority));
	}
	return json;
}

static json_t *endpoints_json(const char *name, const struct assignment *assignment)
{
	json_t *localities = json_array();
	for (size_t i = 0; i < assignment->locality_count; i++) {
		json_array_append_new(
			localities, locality_json(assignment, &assignment->localities[i]));
	}
	return json_pack("{s:s, s:s, s:o}", "@type", urls[RESOURCE_ENDPOINTS], "cluster_name", name,
		"endpoints", localities);
}

static json_t *cluster_json(const char *name)
{
	return json_pack("{s:s, s:s, s:s, s:{s:s, s:{s:s, s:{s:s, s:s, s:[s], s:s}}}}", "@type",
		urls[RESOURCE_CLUSTER], "name", name, "type", "EDS", "eds_cluster_config",
		"service_name", name, "eds_config", "resource_api_version", "V3",
		"api_config_source", "api_type", "REST", "transport_api_version", "V3",
		"cluster_names", "berth", "refresh_delay", "1s");
}

void resource_json(struct buffer *out, enum resource_type type, const char *name,
	const struct assignment *assignment)
{
	json_t *json = type == RESOURCE_CLUSTER ? cluster_json(name)
						: endpoints_json(name, assignment);
	json_text_append(out, memory_must(json), JSON_COMPACT);
	json_decref(json);
}
