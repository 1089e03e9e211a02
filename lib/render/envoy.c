/*
 * The format envoy. Endpoints are collected, then written by their zones, which are its localities.
 * A set of which no record has a zone is one locality without a name, weight or priority.
 */
#include <stdio.h>

#include "lib/base/hash.h"
#include "lib/base/json_text.h"
#include "lib/base/text.h"
#include "lib/render/internal.h"

enum { LOCALITIES_MAX = 256 };

static void envoy_head(struct render *render)
{
	buffer_append_text(render->out,
		"{\"resources\":[{\"@type\":\"type.googleapis.com/"
		"envoy.config.endpoint.v3.ClusterLoadAssignment\",\"cluster_name\":");
	render_json_string(render->out, render->options->name);
	buffer_append_text(render->out, ",\"endpoints\":[");
}

/* EDS takes addresses only: Envoy does not look names up there. It refuses a weight of 0. */
static const char *envoy_item(struct render *render, const struct render_item *item)
{
	const char *problem = render_server_problem(item);
	if (problem || !item->literal) {
		return problem ? problem : "is a name, and Envoy takes addresses only";
	}
	struct assignment *set = &render->assignment;
	size_t locality = assignment_locality(
		set, render_zone(item->record), item->tier, LOCALITIES_MAX);
	if (locality == LOCALITIES_MAX) {
		return "is in one more zone than the 256 that a set may have";
	}
	struct assignment_endpoint endpoint = { .port = (uint16_t)item->target.port,
		.weight = item->weight > 0 ? item->weight : 1,
		.weighted = item->weighted,
		.health = item->weight > 0 ? render_health(item->record) : RENDER_HEALTH_DRAINING };
	text_printf(endpoint.host, sizeof(endpoint.host), "%s", item->target.host);
	assignment_add(set, locality, &endpoint);
	render->out->failed = render->out->failed || set->failed;
	return NULL;
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

static void write_endpoint(struct buffer *out, const struct assignment_endpoint *endpoint)
{
	const char *health = render_health_word(endpoint->health);
	buffer_printf(out,
		"\n{\"endpoint\":{\"address\":{\"socket_address\":{\"address\":\"%s\","
		"\"port_value\":%u}}}",
		endpoint->host, (unsigned)endpoint->port);
	if (health) {
		buffer_printf(out, ",\"health_status\":\"%s\"", health);
	}
	if (endpoint->weighted) {
		buffer_printf(out, ",\"load_balancing_weight\":%u", endpoint->weight);
	}
	buffer_append_text(out, "}");
}

/* `several`: there were, before an address that is in two of them counted once. */
static void write_localities(struct buffer *out, const struct assignment *set, bool several)
{
	for (size_t i = 0; i < set->locality_count; i++) {
		const struct assignment_locality *locality = &set->localities[i];
		buffer_append_text(out, i > 0 ? ",{" : "{");
		if (*locality->zone) {
			write_zone(out, locality->zone);
		}
		buffer_append_text(out, "\"lb_endpoints\":[");
		for (size_t at = 0; at < locality->count; at++) {
			buffer_append_text(out, at > 0 ? "," : "");
			write_endpoint(out, &set->endpoints[locality->first + at]);
		}
		buffer_append_text(out, "\n]");
		if (locality->priority > 0) {
			buffer_printf(out, ",\"priority\":%u", locality->priority);
		}
		/* Locality-weighted balancing uses no locality without a weight. */
		if (several || *locality->zone) {
			buffer_printf(out, ",\"load_balancing_weight\":%u", locality->weight);
		}
		buffer_append_text(out, "}");
	}
}

/* Envoy logs and compares the version; it may be any text that changes with the content. */
static void envoy_tail(struct render *render)
{
	struct assignment *set = &render->assignment;
	bool several = set->locality_count > 1;
	assignment_complete(set, false);
	render->out->failed = render->out->failed || set->failed;
	if (set->count > 0) {
		write_localities(render->out, set, several);
	} else {
		buffer_append_text(render->out, "{\"lb_endpoints\":[\n]}");
	}
	assignment_finish(set);
	buffer_append_text(render->out, "]}]");
	uint64_t version = hash_bytes(HASH_INIT, render->out->data, render->out->len);
	buffer_printf(render->out, ",\"version_info\":\"%016llx\"}\n", (unsigned long long)version);
}

const struct render_writer render_envoy = { envoy_head, envoy_item, envoy_tail, true };
