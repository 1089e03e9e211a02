/* Formats of monitoring, resolvers and scripts: prometheus, hosts, env. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/array.h"
#include "lib/base/limits.h"
#include "lib/base/path.h"
#include "lib/record/select.h"
#include "lib/render/internal.h"
#include "lib/render/locality.h"

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

/* Names of labels have letters, digits and underscores. */
static void label_name(char *out, size_t size, const char *name)
{
	snprintf(out, size, "%s", name);
	for (char *c = out; *c; c++) {
		*c = isalnum((unsigned char)*c) && !((unsigned char)*c & 0x80) ? *c : '_';
	}
}

/*
 * The other attributes, but those of YARN and our own, of which labels exist. Of two names that
 * become the same label the first one counts.
 */
static void attribute_labels(struct buffer *out, const struct record *record)
{
	enum { MOST = 32, NAME_BYTES = 64 };
	static const char *const structure[] = { "type", "description", "external", "internal" };
	char names[MOST][NAME_BYTES];
	size_t count = 0;
	const char *key;
	json_t *value;
	json_object_foreach ((json_t *)(uintptr_t)record_json(record), key, value) {
		char text[SELECT_VALUE_BYTES];
		char name[sizeof("attribute_") + NAME_BYTES];
		bool left_out = count == MOST || strlen(key) >= NAME_BYTES ||
			strncmp(key, "yarn:", 5) == 0 || strncmp(key, "berth:", 6) == 0 ||
			!select_text(text, value);
		for (size_t i = 0; i < ARRAY_LEN(structure); i++) {
			left_out = left_out || strcmp(key, structure[i]) == 0;
		}
		if (left_out) {
			continue;
		}
		label_name(names[count], NAME_BYTES, key);
		for (size_t i = 0; i < count; i++) {
			left_out = left_out || strcmp(names[i], names[count]) == 0;
		}
		if (!left_out) {
			snprintf(name, sizeof(name), "attribute_%s", names[count++]);
			label(out, name, text);
		}
	}
}

static const char *prometheus_item(struct render *render, const struct render_item *item)
{
	struct buffer *out = render->out;
	const struct record *record = item->record;
	const char *problem = render_server_problem(item);
	if (problem) {
		return problem;
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
	label(out, "zone", render_zone(record));
	attribute_labels(out, record);
	if (render->options->tiers) {
		buffer_printf(out, ",\"__meta_berth_tier\":\"%u\"", item->tier);
	}
	buffer_append_text(out, "}}");
	return NULL;
}

static void prometheus_tail(struct render *render)
{
	buffer_append_text(render->out, render->items ? "\n]\n" : "]\n");
}

const struct render_writer render_prometheus = { prometheus_head, prometheus_item, prometheus_tail,
	true };

/* ---- hosts ---- */

static void hosts_head(struct render *render)
{
	buffer_printf(render->out, "# components of %s\n", render->picture->from);
}

/*
 * Names as the agent's DNS knows them: below /users, the elements "users", "components" and
 * Hadoop's "services" may be left out, and the name of an instance means its components, too; so it
 * is below /services, but for the element itself.
 */
struct place {
	const char *user;      /* behind "/users"; or "/services" */
	size_t user_len;       /* with the slash */
	const char *instance;  /* behind Hadoop's "/services" */
	size_t instance_len;   /* of "/CLASS/INSTANCE", or "/NAME" */
	const char *component; /* "/COMPONENT", or "" for the instance's own path */
};

/* The length of "/element" at `at`; 0 at the end of the path. */
static size_t element_len(const char *at)
{
	return *at ? 1 + strcspn(at + 1, "/") : 0;
}

static const char *skip(const char *at, const char *element)
{
	size_t len = element_len(at);
	return len == strlen(element) && strncmp(at, element, len) == 0 ? at + len : NULL;
}

/* False for another path than that of an instance or a component. */
static bool read_place(struct place *place, const char *path)
{
	const char *user = skip(path, "/users");
	if (!user && !skip(path, "/services")) {
		return false;
	}
	place->user = user ? user : path;
	place->user_len = element_len(place->user);
	place->instance = place->user + place->user_len;
	const char *hadoop = skip(place->instance, "/services");
	place->instance = user && hadoop ? hadoop : place->instance;
	size_t class_len = user ? element_len(place->instance) : 0;
	size_t name_len = element_len(place->instance + class_len);
	const char *end = place->instance + class_len + name_len;
	const char *component = skip(end, "/components");
	place->instance_len = class_len + name_len;
	place->component = component ? component : end;
	bool at_end = !place->component[element_len(place->component)];
	return name_len > 0 && at_end && (*end ? component && *component : true);
}

static void write_alias(struct render *render, const char *path)
{
	char name[PATH_DNS_NAME_BYTES];
	if (path_dns_name(name, path, render->options->domain)) {
		buffer_printf(render->out, " %s", name);
	}
}

static void write_aliases(struct render *render, const char *path)
{
	char alias[LIMIT_PATH_BYTES + 1];
	struct place place;
	if (!read_place(&place, path)) {
		return;
	}
	int user_len = (int)place.user_len;
	int instance_len = (int)place.instance_len;
	int whole_len = (int)(place.instance + place.instance_len - path);
	if (*place.component) {
		snprintf(alias, sizeof(alias), "%.*s%.*s%s", user_len, place.user, instance_len,
			place.instance, place.component);
		write_alias(render, alias);
		snprintf(alias, sizeof(alias), "%.*s", whole_len, path);
		write_alias(render, alias);
	}
	if (place.user != path) {
		snprintf(alias, sizeof(alias), "%.*s%.*s", user_len, place.user, instance_len,
			place.instance);
		write_alias(render, alias);
	}
}

static const char *hosts_item(struct render *render, const struct render_item *item)
{
	char name[PATH_DNS_NAME_BYTES];
	if (item->problem || !item->literal) {
		return item->problem ? item->problem : "is a name, not an address";
	}
	if (!path_dns_name(name, item->path, render->options->domain)) {
		return "has a path that is too long for a name";
	}
	buffer_printf(render->out, "%s\t%s", item->target.host, name);
	write_aliases(render, item->path);
	buffer_append_text(render->out, "\n");
	return NULL;
}

const struct render_writer render_hosts = { .head = hosts_head, .item = hosts_item };

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
static const char *env_item(struct render *render, const struct render_item *item)
{
	struct buffer *out = render->out;
	size_t number = render->items + 1;
	if (item->problem) {
		return item->problem;
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
	return NULL;
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

const struct render_writer render_env = { .item = env_item, .tail = env_tail };
