/* Formats of proxies: envoy, haproxy, nginx. */
#include <stdio.h>
#include <string.h>

#include "lib/base/hash.h"
#include "lib/render/internal.h"

static bool has_place(const struct render_item *item)
{
	return item->target.host[0] && item->target.port;
}

/* ---- envoy ---- */

static void envoy_head(struct render *render)
{
	buffer_append_text(render->out,
		"{\"resources\":[{\"@type\":\"type.googleapis.com/"
		"envoy.config.endpoint.v3.ClusterLoadAssignment\",\"cluster_name\":");
	render_json_string(render->out, render->options->name);
	buffer_append_text(render->out, ",\"endpoints\":[{\"lb_endpoints\":[");
}

/* EDS takes addresses only: Envoy does not look names up there. */
static bool envoy_item(struct render *render, const struct render_item *item)
{
	if (!has_place(item) || !item->literal) {
		return false;
	}
	buffer_printf(render->out,
		"%s\n{\"endpoint\":{\"address\":{\"socket_address\":{\"address\":\"%s\","
		"\"port_value\":%u}}}",
		render->items ? "," : "", item->target.host, item->target.port);
	unsigned weight = render_weight(item->record);
	if (weight) {
		buffer_printf(render->out, ",\"load_balancing_weight\":%u", weight);
	}
	buffer_append_text(render->out, "}");
	return true;
}

/* Envoy logs and compares the version; it may be any text that changes with the content. */
static void envoy_tail(struct render *render)
{
	buffer_append_text(render->out, "\n]}]}]");
	uint64_t version = hash_bytes(HASH_INIT, render->out->data, render->out->len);
	buffer_printf(render->out, ",\"version_info\":\"%016llx\"}\n", (unsigned long long)version);
}

const struct render_writer render_envoy = { envoy_head, envoy_item, envoy_tail };

/* ---- haproxy ---- */

static void haproxy_head(struct render *render)
{
	const char *backend = render->options->backend;
	if (backend && *backend) {
		buffer_printf(render->out, "backend %s\n", backend);
	}
}

static bool haproxy_item(struct render *render, const struct render_item *item)
{
	char name[RENDER_NAME_BYTES];
	if (!has_place(item)) {
		return false;
	}
	render_server_name(name, sizeof(name), render->picture->from, item->path, item->index);
	buffer_printf(render->out, "    server %s ", name);
	render_host(render->out, &item->target);
	buffer_printf(render->out, ":%u", item->target.port);
	unsigned weight = render_weight(item->record);
	if (weight) {
		buffer_printf(render->out, " weight %u", weight);
	}
	buffer_append_text(render->out, "\n");
	return true;
}

const struct render_writer render_haproxy = { haproxy_head, haproxy_item, NULL };

/* ---- nginx ---- */

static bool nginx_item(struct render *render, const struct render_item *item)
{
	if (!has_place(item)) {
		return false;
	}
	buffer_append_text(render->out, "server ");
	render_host(render->out, &item->target);
	buffer_printf(render->out, ":%u", item->target.port);
	unsigned weight = render_weight(item->record);
	if (weight) {
		buffer_printf(render->out, " weight=%u", weight);
	}
	buffer_append_text(render->out, ";\n");
	return true;
}

/* nginx refuses an upstream without servers, and with that its whole configuration. */
static void nginx_tail(struct render *render)
{
	if (render->items == 0) {
		buffer_append_text(render->out, "server 127.0.0.1:9 down;\n");
	}
}

const struct render_writer render_nginx = { NULL, nginx_item, nginx_tail };
