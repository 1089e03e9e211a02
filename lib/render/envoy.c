/*
 * The format envoy. Endpoints are collected by their zones, which are its localities. A set of
 * which no record has a zone is one locality without a name, weight or priority.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/hash.h"
#include "lib/base/json_text.h"
#include "lib/render/internal.h"
#include "lib/render/locality.h"

enum { LOCALITIES_MAX = 256 };

struct render_locality {
	const char *zone; /* of a record of the picture */
	unsigned tier;
	unsigned weight;
	struct buffer items;
};

static void envoy_head(struct render *render)
{
	buffer_append_text(render->out,
		"{\"resources\":[{\"@type\":\"type.googleapis.com/"
		"envoy.config.endpoint.v3.ClusterLoadAssignment\",\"cluster_name\":");
	render_json_string(render->out, render->options->name);
	buffer_append_text(render->out, ",\"endpoints\":[");
}

static struct render_locality *add_locality(struct render *render, const char *zone, unsigned tier)
{
	struct render_locality *grown = reallocarray(
		render->localities, render->locality_count + 1, sizeof(*grown));
	if (!grown) {
		render->out->failed = true;
		return NULL;
	}
	render->localities = grown;
	struct render_locality *locality = &grown[render->locality_count++];
	*locality = (struct render_locality){ .zone = zone, .tier = tier };
	buffer_init(&locality->items, render->out->max);
	return locality;
}

/* NULL: there are too many, or there is no memory. */
static struct render_locality *find_locality(struct render *render, const char *zone, unsigned tier)
{
	for (size_t i = 0; i < render->locality_count; i++) {
		if (render->localities[i].tier == tier &&
			strcmp(render->localities[i].zone, zone) == 0) {
			return &render->localities[i];
		}
	}
	return render->locality_count < LOCALITIES_MAX ? add_locality(render, zone, tier) : NULL;
}

/* EDS takes addresses only: Envoy does not look names up there. */
static const char *envoy_item(struct render *render, const struct render_item *item)
{
	const char *problem = render_server_problem(item);
	if (problem || !item->literal) {
		return problem ? problem : "is a name, and Envoy takes addresses only";
	}
	struct render_locality *locality = find_locality(
		render, render_zone(item->record), item->tier);
	if (!locality) {
		return "is in one more zone than the 256 that a set may have";
	}
	buffer_printf(&locality->items,
		"%s\n{\"endpoint\":{\"address\":{\"socket_address\":{\"address\":\"%s\","
		"\"port_value\":%u}}}",
		locality->items.len ? "," : "", item->target.host, item->target.port);
	const char *health = render_health_word(render_health(item->record));
	if (health) {
		buffer_printf(&locality->items, ",\"health_status\":\"%s\"", health);
	}
	unsigned weight = render_weight(item->record);
	if (weight) {
		buffer_printf(&locality->items, ",\"load_balancing_weight\":%u", weight);
	}
	buffer_append_text(&locality->items, "}");
	locality->weight += weight ? weight : 1;
	return NULL;
}

static int by_tier(const void *a, const void *b)
{
	const struct render_locality *left = a;
	const struct render_locality *right = b;
	int order = (left->tier > right->tier) - (left->tier < right->tier);
	return order != 0 ? order : strcmp(left->zone, right->zone);
}

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

static void write_localities(struct render *render)
{
	unsigned priority = 0;
	for (size_t i = 0; i < render->locality_count; i++) {
		const struct render_locality *locality = &render->localities[i];
		buffer_append_text(render->out, i > 0 ? ",{" : "{");
		if (*locality->zone) {
			write_zone(render->out, locality->zone);
		}
		buffer_append_text(render->out, "\"lb_endpoints\":[");
		buffer_append(render->out, locality->items.data, locality->items.len);
		render->out->failed = render->out->failed || locality->items.failed;
		buffer_append_text(render->out, "\n]");
		priority += i > 0 && locality[-1].tier != locality->tier;
		if (priority > 0) {
			buffer_printf(render->out, ",\"priority\":%u", priority);
		}
		/* Locality-weighted balancing uses no locality without a weight. */
		if (render->locality_count > 1 || *locality->zone) {
			buffer_printf(
				render->out, ",\"load_balancing_weight\":%u", locality->weight);
		}
		buffer_append_text(render->out, "}");
	}
}

/* Envoy logs and compares the version; it may be any text that changes with the content. */
static void envoy_tail(struct render *render)
{
	if (render->locality_count > 0) {
		qsort(render->localities, render->locality_count, sizeof(*render->localities),
			by_tier);
		write_localities(render);
	} else {
		buffer_append_text(render->out, "{\"lb_endpoints\":[\n]}");
	}
	for (size_t i = 0; i < render->locality_count; i++) {
		buffer_finish(&render->localities[i].items);
	}
	free(render->localities);
	buffer_append_text(render->out, "]}]");
	uint64_t version = hash_bytes(HASH_INIT, render->out->data, render->out->len);
	buffer_printf(render->out, ",\"version_info\":\"%016llx\"}\n", (unsigned long long)version);
}

const struct render_writer render_envoy = { envoy_head, envoy_item, envoy_tail, true };
