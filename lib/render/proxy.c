/* Formats of proxies: envoy, haproxy, nginx. */
#include <stdio.h>
#include <string.h>

#include "lib/base/hash.h"
#include "lib/render/internal.h"

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
static const char *envoy_item(struct render *render, const struct render_item *item)
{
	const char *problem = render_server_problem(item);
	if (problem || !item->literal) {
		return problem ? problem : "is a name, and Envoy takes addresses only";
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
	return NULL;
}

/* Envoy logs and compares the version; it may be any text that changes with the content. */
static void envoy_tail(struct render *render)
{
	buffer_append_text(render->out, "\n]}]}]");
	uint64_t version = hash_bytes(HASH_INIT, render->out->data, render->out->len);
	buffer_printf(render->out, ",\"version_info\":\"%016llx\"}\n", (unsigned long long)version);
}

const struct render_writer render_envoy = { envoy_head, envoy_item, envoy_tail, true };

/* ---- haproxy ---- */

static void haproxy_head(struct render *render)
{
	const char *backend = render->options->backend;
	if (backend && *backend) {
		buffer_printf(render->out, "backend %s\n", backend);
	}
}

/*
 * HAProxy refuses its whole configuration for one name that it cannot look up, unless the server
 * may begin without an address.
 */
static const char *haproxy_item(struct render *render, const struct render_item *item)
{
	char name[RENDER_SERVER_NAME_BYTES];
	const char *problem = render_server_problem(item);
	if (problem) {
		return problem;
	}
	render_server_name(name, render->picture->from, item->path, item->index);
	buffer_printf(render->out, "    server %s ", name);
	render_host(render->out, &item->target);
	buffer_printf(render->out, ":%u", item->target.port);
	unsigned weight = render_weight(item->record);
	if (weight) {
		buffer_printf(render->out, " weight %u", weight);
	}
	buffer_append_text(render->out, item->literal ? "\n" : " init-addr last,libc,none\n");
	return NULL;
}

const struct render_writer render_haproxy = { .head = haproxy_head, .item = haproxy_item };

/* ---- nginx ---- */

static void nginx_server(struct render *render, const struct render_item *item, const char *address)
{
	buffer_printf(render->out, strchr(address, ':') ? "server [%s]:%u" : "server %s:%u",
		address, item->target.port);
	unsigned weight = render_weight(item->record);
	if (weight) {
		buffer_printf(render->out, " weight=%u", weight);
	}
	buffer_append_text(render->out, ";\n");
}

static const char *nginx_item(struct render *render, const struct render_item *item)
{
	const struct render_options *options = render->options;
	const char *problem = render_server_problem(item);
	if (problem) {
		return problem;
	}
	if (item->literal) {
		nginx_server(render, item, item->target.host);
		return NULL;
	}
	size_t count = 0;
	const char *address;
	while (options->address_of &&
		(address = options->address_of(
			 options->address_context, item->target.host, count))) {
		nginx_server(render, item, address);
		count++;
	}
	return count > 0 ? NULL : "is a name without an address";
}

/* nginx refuses an upstream without servers, and with that its whole configuration. */
static void nginx_tail(struct render *render)
{
	if (render->items == 0) {
		buffer_append_text(render->out, "server 127.0.0.1:9 down;\n");
	}
}

const struct render_writer render_nginx = { .item = nginx_item, .tail = nginx_tail };
