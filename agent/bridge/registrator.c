#include "agent/bridge/registrator.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/allocate.h"
#include "lib/base/array.h"
#include "lib/base/text.h"

enum { NAME_BYTES = 256, KEY_BYTES = 128 };

/* The values of one port. */
struct reading {
	struct bridge_services *services;
	struct bridge_service *service;
	const struct bridge_facts *facts;
	const struct bridge_labels *labels;
	unsigned port;
};

/* ---- metadata ---- */

/* The key behind SERVICE_, in small letters; *ret_port: the one before it, or 0. */
static bool read_key(const char *name, char key[KEY_BYTES], unsigned *ret_port)
{
	static const char begin[] = "SERVICE_";
	if (strncmp(name, begin, strlen(begin)) != 0) {
		return false;
	}
	name += strlen(begin);
	size_t digits = strspn(name, "0123456789");
	*ret_port = 0;
	if (digits > 0 && digits <= 5 && name[digits] == '_') {
		*ret_port = (unsigned)strtoul(name, NULL, 10);
		name += digits + 1;
	}
	text_printf(key, KEY_BYTES, "%s", name);
	for (char *at = key; *at; at++) {
		*at = (char)tolower((unsigned char)*at);
	}
	return *key;
}

/* Variables, then labels. */
static const struct config_name_value *pair_at(const struct reading *reading, size_t index)
{
	size_t variables = reading->facts->variable_count;
	return index < variables ? &reading->facts->variables[index]
		: index < variables + reading->labels->count
		? &reading->labels->pairs[index - variables]
		: NULL;
}

/*
 * A value for this port goes before one for all, and a label, which whoever runs the container
 * gives, before a variable, which may be the image's.
 */
static const char *find(const struct reading *reading, const char *wanted, bool *ret_of_port)
{
	const char *general = NULL;
	const char *of_port = NULL;
	const struct config_name_value *pair;
	for (size_t i = 0; (pair = pair_at(reading, i)); i++) {
		char key[KEY_BYTES];
		unsigned port;
		if (!read_key(pair->name, key, &port) || strcmp(key, wanted) != 0) {
			continue;
		}
		if (port == reading->port) {
			of_port = pair->value;
		} else if (port == 0) {
			general = pair->value;
		}
	}
	*ret_of_port = of_port;
	return of_port ? of_port : general;
}

static const char *find_any(const struct reading *reading, const char *wanted)
{
	bool ignored;
	return find(reading, wanted, &ignored);
}

/* ---- checks ---- */

static void set_check(const struct reading *reading, const char *key, const char *value)
{
	struct err err = ERR_INIT;
	if (value && bridge_service_set(reading->service, CONFIG_CHECK, key, value, &err)) {
		bridge_services_problem(reading->services, "SERVICE_%u_CHECK: %s = %s: %s",
			reading->port, key, value, err.msg);
	}
}

static void name_refused_checks(const struct reading *reading)
{
	static const struct {
		const char *key;
		const char *why;
	} refused[] = {
		{ "check_ttl", "nobody is there to report" },
		{ "check_script", "no label runs a command" },
		{ "check_cmd", "no label runs a command" },
		{ "check_docker", "no label runs a command" },
		{ "check_https", "only http and tcp are checked" },
		{ "check_grpc", "only http and tcp are checked" },
	};
	for (size_t i = 0; i < ARRAY_LEN(refused); i++) {
		if (find_any(reading, refused[i].key)) {
			bridge_services_problem(reading->services, "%s of port %u is not taken: %s",
				refused[i].key, reading->port, refused[i].why);
		}
	}
}

static void read_check(const struct reading *reading, const struct bridge_place *place)
{
	const char *http = find_any(reading, "check_http");
	const char *tcp = find_any(reading, "check_tcp");
	name_refused_checks(reading);
	if (!http && !tcp) {
		return;
	}
	if (http && !bridge_is_request_path(http)) {
		bridge_services_problem(reading->services,
			"check_http of port %u must be a path that begins with / and has no spaces",
			reading->port);
		return;
	}
	bridge_service_add_check(reading->service, http ? "http" : "tcp");
	set_check(reading, "type", http ? "http" : "tcp");
	bridge_service_aim_check(reading->service, place, http ? http : "/");
	set_check(reading, "interval", find_any(reading, "check_interval"));
	set_check(reading, "timeout", find_any(reading, "check_timeout"));
	set_check(reading, "method", http ? find_any(reading, "check_http_method") : NULL);
}

/* ---- a service ---- */

/* progrium/consul:latest is consul. */
static void name_of_image(const char *image, char out[NAME_BYTES])
{
	const char *slash = strrchr(image, '/');
	text_printf(out, NAME_BYTES, "%s", slash ? slash + 1 : image);
	out[strcspn(out, ":@")] = '\0';
}

static void read_attributes(const struct reading *reading)
{
	static const char *const others[] = { "name", "id", "tags", "ignore" };
	const struct config_name_value *pair;
	for (size_t i = 0; (pair = pair_at(reading, i)); i++) {
		char key[KEY_BYTES];
		char name[KEY_BYTES + 16];
		unsigned port;
		struct err err = ERR_INIT;
		bool own = read_key(pair->name, key, &port) &&
			(port == 0 || port == reading->port) &&
			strncmp(key, "check_", strlen("check_")) != 0;
		for (size_t j = 0; own && j < ARRAY_LEN(others); j++) {
			own = strcmp(key, others[j]) != 0;
		}
		if (!own || find_any(reading, key) != pair->value) {
			continue; /* another one goes before it */
		}
		text_printf(name, sizeof(name), "attribute.%s", key);
		if (bridge_service_set(
			    reading->service, CONFIG_COMPONENT, name, pair->value, &err)) {
			bridge_services_problem(reading->services, "%s: %s", pair->name, err.msg);
		}
	}
}

static void set(const struct reading *reading, enum config_section_kind section, const char *key,
	const char *value)
{
	struct err err = ERR_INIT;
	if (bridge_service_set(reading->service, section, key, value, &err)) {
		struct err mistake = ERR_INIT;
		err_set(&mistake, BERTH_INVALID_RECORD, "%s: %s", key, err.msg);
		bridge_service_spoil(reading->service, &mistake);
	}
}

static void read_tags(const struct reading *reading, const char *protocol)
{
	const char *tags = find_any(reading, "tags");
	bool udp = strcmp(protocol, "udp") == 0;
	if (tags || udp) {
		char *all = allocate_format("%s%s%s", tags ? tags : "",
			tags && *tags && udp ? "," : "", udp ? "udp" : "");
		if (*all) {
			set(reading, CONFIG_COMPONENT, "attribute.tags", all);
		}
		free(all);
	}
}

static void read_name(const struct reading *reading, const struct config_runtime *runtime,
	const char *protocol, bool is_group)
{
	char name[NAME_BYTES];
	char instance[NAME_BYTES];
	char id[16];
	bool of_port;
	struct err err = ERR_INIT;
	const char *given = find(reading, "name", &of_port);
	const char *own_id = find_any(reading, "id");
	if (given && *given) {
		text_printf(name, sizeof(name), "%s", given);
	} else {
		name_of_image(reading->facts->image, name);
		of_port = false;
	}
	if (is_group && !of_port) {
		size_t len = strlen(name);
		text_printf(name + len, sizeof(name) - len, "-%u", reading->port);
	}
	bridge_short_id(reading->facts, id);
	text_printf(instance, sizeof(instance), "%s-%u%s", id, reading->port,
		strcmp(protocol, "udp") == 0 ? "-udp" : "");
	if (bridge_service_name(reading->service, runtime->base, name,
		    own_id && *own_id ? own_id : instance, &err)) {
		bridge_services_problem(reading->services, "port %u: %s", reading->port, err.msg);
	}
	bridge_service_add_endpoint(reading->service, name);
	set(reading, CONFIG_ENDPOINT, "api", name);
	set(reading, CONFIG_ENDPOINT, "protocol", protocol);
	set(reading, CONFIG_ENDPOINT, "address_type", "host/port");
}

static void read_port(struct reading *reading, const struct config_runtime *runtime,
	const struct facts_port *port, bool is_group)
{
	struct bridge_place place;
	struct err err = ERR_INIT;
	char address[sizeof(place.host) + 16];
	const char *ignore = find_any(reading, "ignore");
	if (ignore && *ignore) {
		return;
	}
	if (bridge_services_find_place(
		    &place, reading->facts, runtime, port->number, port->protocol, &err)) {
		bridge_services_problem(reading->services, "%s", err.msg);
		return;
	}
	reading->service = bridge_services_add(reading->services, reading->facts);
	if (!reading->service) {
		return;
	}
	read_name(reading, runtime, port->protocol, is_group);
	bridge_place_text(&place, address, sizeof(address));
	set(reading, CONFIG_ENDPOINT, "address", address);
	read_tags(reading, port->protocol);
	read_attributes(reading);
	read_check(reading, &place);
}

/* The same port is there once for IPv4 and once for IPv6. */
static bool is_repeated(const struct bridge_facts *facts, size_t index)
{
	for (size_t i = 0; i < index; i++) {
		if (facts->ports[i].number == facts->ports[index].number &&
			strcmp(facts->ports[i].protocol, facts->ports[index].protocol) == 0) {
			return true;
		}
	}
	return false;
}

static bool counts(
	const struct bridge_facts *facts, const struct config_runtime *runtime, size_t index)
{
	bool exposed = strcmp(runtime->address, "container") == 0 || *runtime->network ||
		strcmp(facts->network_mode, "host") == 0;
	return !is_repeated(facts, index) && (exposed || facts->ports[index].host_port != 0);
}

void bridge_registrator_read(struct bridge_services *services, const struct bridge_facts *facts,
	const struct bridge_labels *labels, const struct config_runtime *runtime)
{
	struct reading reading = { .services = services, .facts = facts, .labels = labels };
	size_t count = 0;
	if (services->count > 0 || services->ignored) {
		return;
	}
	const char *ignore = find_any(&reading, "ignore");
	services->ignored = ignore && *ignore;
	for (size_t i = 0; i < facts->port_count; i++) {
		count += counts(facts, runtime, i);
	}
	for (size_t i = 0; !services->ignored && i < facts->port_count; i++) {
		reading.port = facts->ports[i].number;
		if (counts(facts, runtime, i)) {
			read_port(&reading, runtime, &facts->ports[i], count > 1);
		} else if (!is_repeated(facts, i)) {
			bridge_services_problem(services, "port %u/%s is not published",
				facts->ports[i].number, facts->ports[i].protocol);
		}
	}
}
