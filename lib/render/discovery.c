/* Formats of monitoring, resolvers and scripts: prometheus, hosts, env. */
#include <ctype.h>
#include <string.h>

#include "lib/base/path.h"
#include "lib/render/internal.h"

/* ---- prometheus ---- */

static void prometheus_head(struct render *render)
{
	buffer_append_text(render->out, "[");
}

static void label(struct buffer *out, const char *name, const char *value)
{
	if (value && *value) {
		buffer_printf(out, ",\"__meta_berth_%s\":", name);
		render_json_string(out, value);
	}
}

static bool prometheus_item(struct render *render, const struct render_item *item)
{
	struct buffer *out = render->out;
	const struct record *record = item->record;
	if (!item->target.host[0] || !item->target.port) {
		return false;
	}
	buffer_printf(out, "%s\n{\"targets\":[\"", render->items ? "," : "");
	render_host(out, &item->target);
	buffer_printf(out, ":%u\"],\"labels\":{\"__meta_berth_path\":\"%s\"", item->target.port,
		item->path);
	label(out, "name", path_name(item->path));
	label(out, "scope", item->endpoint->scope);
	label(out, "api", item->endpoint->api);
	label(out, "protocol", item->endpoint->protocol);
	label(out, "id", record_id(record));
	label(out, "description", record_description(record));
	label(out, "component", json_string_value(record_attribute(record, "yarn:component")));
	label(out, "hostname", json_string_value(record_attribute(record, "yarn:hostname")));
	buffer_append_text(out, "}}");
	return true;
}

static void prometheus_tail(struct render *render)
{
	buffer_append_text(render->out, render->items ? "\n]\n" : "]\n");
}

const struct render_writer render_prometheus = { prometheus_head, prometheus_item,
	prometheus_tail };

/* ---- hosts ---- */

static void hosts_head(struct render *render)
{
	buffer_printf(render->out, "# components of %s\n", render->picture->from);
}

static bool hosts_item(struct render *render, const struct render_item *item)
{
	char name[PATH_DNS_NAME_BYTES];
	if (!item->literal || !path_dns_name(name, item->path, render->options->domain)) {
		return false;
	}
	buffer_printf(render->out, "%s\t%s\n", item->target.host, name);
	return true;
}

const struct render_writer render_hosts = { hosts_head, hosts_item, NULL };

/* ---- env ---- */

/* The set's name as the beginning of a variable's. */
static void prefix(struct buffer *out, const char *name)
{
	if (!isalpha((unsigned char)name[0])) {
		buffer_append_text(out, "_");
	}
	for (const char *c = name; *c; c++) {
		char upper = (char)toupper((unsigned char)*c);
		buffer_append(out, isalnum((unsigned char)upper) ? &upper : "_", 1);
	}
}

static void host_port(struct buffer *out, const struct record_target *target)
{
	render_host(out, target);
	if (target->port) {
		buffer_printf(out, ":%u", target->port);
	}
}

/* Hosts and ports hold no byte that means anything to a shell, so they need no quotes. */
static bool env_item(struct render *render, const struct render_item *item)
{
	struct buffer *out = render->out;
	size_t number = render->items + 1;
	if (!item->target.host[0]) {
		return false;
	}
	prefix(out, render->options->name);
	buffer_printf(out, "_%zu=", number);
	host_port(out, &item->target);
	buffer_append_text(out, "\n");
	prefix(out, render->options->name);
	buffer_printf(out, "_%zu_HOST=%s\n", number, item->target.host);
	if (item->target.port) {
		prefix(out, render->options->name);
		buffer_printf(out, "_%zu_PORT=%u\n", number, item->target.port);
	}
	buffer_append_text(&render->list, render->items ? " " : "");
	host_port(&render->list, &item->target);
	return true;
}

/* The whole set in one variable, for loops: NAME="a:1 b:2". */
static void env_tail(struct render *render)
{
	struct buffer *out = render->out;
	prefix(out, render->options->name);
	buffer_printf(out, "_COUNT=%zu\n", render->items);
	prefix(out, render->options->name);
	buffer_printf(out, "=\"%s\"\n", buffer_text(&render->list));
	out->failed = out->failed || render->list.failed;
}

const struct render_writer render_env = { NULL, env_item, env_tail };
