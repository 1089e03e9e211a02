/* Formats of proxies: haproxy, nginx. */
#include <stdio.h>
#include <string.h>

#include "lib/render/internal.h"

/*
 * Members come by nearness: the first server that is printed is of the nearest tier that has any,
 * and those of farther ones are there in case it fails.
 */
static bool is_backup(struct render *render, const struct render_item *item)
{
	if (render->items == 0) {
		render->nearest = item->tier;
	}
	return item->tier > render->nearest;
}

/* ---- haproxy ---- */

static void haproxy_head(struct render *render)
{
	const char *backend = render->options->backend;
	render->heaviest = render_heaviest(render->picture);
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
	if (item->weighted) {
		buffer_printf(render->out, " weight %u",
			render_haproxy_weight(item->weight, render->heaviest));
	}
	if (is_backup(render, item)) {
		buffer_append_text(render->out, " backup");
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
	if (item->weight == 0) {
		buffer_append_text(render->out, " down");
	} else if (item->weighted) {
		buffer_printf(render->out, " weight=%u", item->weight);
	}
	buffer_append_text(render->out, is_backup(render, item) ? " backup;\n" : ";\n");
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
