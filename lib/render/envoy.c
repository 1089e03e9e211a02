/*
 * The format envoy. Endpoints are collected, then written by their zones, which are its localities.
 * A set of which no record has a zone is one locality without a name, weight or priority.
 */
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/hash.h"
#include "lib/base/json_text.h"
#include "lib/base/text.h"
#include "lib/render/internal.h"
#include "lib/render/locality.h"

enum { LOCALITIES_MAX = 256 };

struct render_endpoint {
	char host[INET6_ADDRSTRLEN];
	unsigned port;
	unsigned weight;
	bool weighted;
	enum render_health health;
	size_t locality;
	size_t arrival;
};

struct render_locality {
	const char *zone; /* of a record of the picture */
	unsigned tier;
	size_t arrival; /* its index before they are sorted */
};

static void envoy_head(struct render *render)
{
	buffer_append_text(render->out,
		"{\"resources\":[{\"@type\":\"type.googleapis.com/"
		"envoy.config.endpoint.v3.ClusterLoadAssignment\",\"cluster_name\":");
	render_json_string(render->out, render->options->name);
	buffer_append_text(render->out, ",\"endpoints\":[");
}

/* Room for one more item; NULL without memory, and `items` stay. */
static void *grow(struct render *render, void *items, size_t count, size_t item_bytes)
{
	bool is_full = (count & (count - 1)) == 0; /* 0, 1, 2, 4 … */
	void *grown = is_full ? reallocarray(items, count > 0 ? 2 * count : 1, item_bytes) : items;
	render->out->failed = render->out->failed || !grown;
	return grown;
}

/* The index of the zone's locality; LOCALITIES_MAX when there are too many, or without memory. */
static size_t find_locality(struct render *render, const char *zone, unsigned tier)
{
	for (size_t i = 0; i < render->locality_count; i++) {
		if (render->localities[i].tier == tier &&
			strcmp(render->localities[i].zone, zone) == 0) {
			return i;
		}
	}
	size_t count = render->locality_count;
	struct render_locality *grown = count < LOCALITIES_MAX
		? grow(render, render->localities, count, sizeof(*grown))
		: NULL;
	if (!grown) {
		return LOCALITIES_MAX;
	}
	grown[count] = (struct render_locality){ zone, tier, count };
	render->localities = grown;
	return render->locality_count++;
}

/* EDS takes addresses only: Envoy does not look names up there. It refuses a weight of 0. */
static const char *envoy_item(struct render *render, const struct render_item *item)
{
	const char *problem = render_server_problem(item);
	if (problem || !item->literal) {
		return problem ? problem : "is a name, and Envoy takes addresses only";
	}
	size_t locality = find_locality(render, render_zone(item->record), item->tier);
	if (locality == LOCALITIES_MAX) {
		return "is in one more zone than the 256 that a set may have";
	}
	size_t count = render->endpoint_count;
	struct render_endpoint *grown = grow(render, render->endpoints, count, sizeof(*grown));
	if (!grown) {
		return NULL;
	}
	grown[count] = (struct render_endpoint){ .port = item->target.port,
		.weight = item->weight > 0 ? item->weight : 1,
		.weighted = item->weighted,
		.health = item->weight > 0 ? render_health(item->record) : RENDER_HEALTH_DRAINING,
		.locality = locality,
		.arrival = count };
	text_printf(grown[count].host, sizeof(grown[count].host), "%s", item->target.host);
	render->endpoints = grown;
	render->endpoint_count++;
	return NULL;
}

/* ---- the set ---- */

static int compare(size_t left, size_t right)
{
	return (left > right) - (left < right);
}

static int by_address(const void *a, const void *b)
{
	const struct render_endpoint *left = a;
	const struct render_endpoint *right = b;
	int order = strcmp(left->host, right->host);
	return order != 0 ? order : compare(left->port, right->port);
}

/* By address; of the same address one that takes traffic first, then by arrival. */
static int by_merit(const void *a, const void *b)
{
	const struct render_endpoint *left = a;
	const struct render_endpoint *right = b;
	int order = by_address(a, b);
	order = order != 0 ? order
			   : compare(left->health == RENDER_HEALTH_DRAINING,
				     right->health == RENDER_HEALTH_DRAINING);
	return order != 0 ? order : compare(left->arrival, right->arrival);
}

/* Envoy refuses a whole set for an address that is there twice. */
static void remove_repeated(struct render *render)
{
	struct render_endpoint *endpoints = render->endpoints;
	size_t kept = 1;
	qsort(endpoints, render->endpoint_count, sizeof(*endpoints), by_merit);
	for (size_t i = 1; i < render->endpoint_count; i++) {
		if (by_address(&endpoints[kept - 1], &endpoints[i]) != 0) {
			endpoints[kept++] = endpoints[i];
		}
	}
	render->endpoint_count = kept;
}

static int by_tier(const void *a, const void *b)
{
	const struct render_locality *left = a;
	const struct render_locality *right = b;
	int order = compare(left->tier, right->tier);
	return order != 0 ? order : strcmp(left->zone, right->zone);
}

static int by_locality(const void *a, const void *b)
{
	const struct render_endpoint *left = a;
	const struct render_endpoint *right = b;
	int order = compare(left->locality, right->locality);
	return order != 0 ? order : compare(left->arrival, right->arrival);
}

/* Localities by nearness, and endpoints by their places there. */
static void order_set(struct render *render)
{
	size_t place[LOCALITIES_MAX] = { 0 };
	qsort(render->localities, render->locality_count, sizeof(*render->localities), by_tier);
	for (size_t i = 0; i < render->locality_count; i++) {
		place[render->localities[i].arrival] = i;
	}
	for (size_t i = 0; i < render->endpoint_count; i++) {
		render->endpoints[i].locality = place[render->endpoints[i].locality];
	}
	qsort(render->endpoints, render->endpoint_count, sizeof(*render->endpoints), by_locality);
}

/* ---- the text ---- */

static void write_zone(struct buffer *out, const char *zone)
{
	static const char *const keys[] = { "region", "zone", "sub_zone" };
	struct render_zone_parts parts = render_zone_read(zone);
	const char *comma = "";
	buffer_append_text(out, "\"locality\":{");
	for (int i = 0; i < 3; i++) {
		if (parts.len[i] > 0) {
			json_t *text = json_stringn(parts.part[i], parts.len[i]);
			buffer_printf(out, "%s\"%s\":", comma, keys[i]);
			(void)json_text_append(out, text, JSON_ENCODE_ANY | JSON_COMPACT);
			json_decref(text);
			comma = ",";
		}
	}
	buffer_append_text(out, "},");
}

static void write_endpoint(struct buffer *out, const struct render_endpoint *endpoint)
{
	const char *health = render_health_word(endpoint->health);
	buffer_printf(out,
		"\n{\"endpoint\":{\"address\":{\"socket_address\":{\"address\":\"%s\","
		"\"port_value\":%u}}}",
		endpoint->host, endpoint->port);
	if (health) {
		buffer_printf(out, ",\"health_status\":\"%s\"", health);
	}
	if (endpoint->weighted) {
		buffer_printf(out, ",\"load_balancing_weight\":%u", endpoint->weight);
	}
	buffer_append_text(out, "}");
}

/*
 * The endpoints of a locality, from the index on; returns that behind them. *ret_weight is the sum
 * of those that take traffic, at least 1.
 */
static size_t write_endpoints(struct render *render, size_t at, unsigned *ret_weight)
{
	size_t locality = render->endpoints[at].locality;
	const char *comma = "";
	unsigned weight = 0;
	for (; at < render->endpoint_count && render->endpoints[at].locality == locality; at++) {
		const struct render_endpoint *endpoint = &render->endpoints[at];
		buffer_append_text(render->out, comma);
		write_endpoint(render->out, endpoint);
		weight += endpoint->health == RENDER_HEALTH_DRAINING ? 0 : endpoint->weight;
		comma = ",";
	}
	*ret_weight = weight > 0 ? weight : 1;
	return at;
}

/* A locality all of whose endpoints another one has, too, is left out. */
static void write_localities(struct render *render)
{
	const struct render_locality *before = NULL;
	unsigned priority = 0;
	for (size_t at = 0; at < render->endpoint_count;) {
		const struct render_locality *locality =
			&render->localities[render->endpoints[at].locality];
		unsigned weight;
		buffer_append_text(render->out, before ? ",{" : "{");
		if (*locality->zone) {
			write_zone(render->out, locality->zone);
		}
		buffer_append_text(render->out, "\"lb_endpoints\":[");
		at = write_endpoints(render, at, &weight);
		buffer_append_text(render->out, "\n]");
		priority += before && before->tier != locality->tier;
		if (priority > 0) {
			buffer_printf(render->out, ",\"priority\":%u", priority);
		}
		/* Locality-weighted balancing uses no locality without a weight. */
		if (render->locality_count > 1 || *locality->zone) {
			buffer_printf(render->out, ",\"load_balancing_weight\":%u", weight);
		}
		buffer_append_text(render->out, "}");
		before = locality;
	}
}

/* Envoy logs and compares the version; it may be any text that changes with the content. */
static void envoy_tail(struct render *render)
{
	if (render->endpoint_count > 0) {
		remove_repeated(render);
		order_set(render);
		write_localities(render);
	} else {
		buffer_append_text(render->out, "{\"lb_endpoints\":[\n]}");
	}
	free(render->localities);
	free(render->endpoints);
	buffer_append_text(render->out, "]}]");
	uint64_t version = hash_bytes(HASH_INIT, render->out->data, render->out->len);
	buffer_printf(render->out, ",\"version_info\":\"%016llx\"}\n", (unsigned long long)version);
}

const struct render_writer render_envoy = { envoy_head, envoy_item, envoy_tail, true };
