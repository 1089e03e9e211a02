#include "agent/bridge/labels.h"

#include <stdlib.h>
#include <string.h>

#include "agent/base/allocate.h"
#include "agent/config/label.h"
#include "agent/config/options.h"
#include "lib/base/array.h"
#include "lib/base/buffer.h"
#include "lib/base/text.h"

enum { NAME_BYTES = 64, KEY_BYTES = 320, ADDRESS_BYTES = 2048 };

/* The labels, and where their values go. */
struct reading {
	struct bridge_services *services;
	struct bridge_service *service;
	const struct bridge_facts *facts;
	const struct bridge_labels *labels;
	const struct config_runtime *runtime;
	const char *prefix;
};

/* The label's name behind the prefix and a dot; NULL: it is another one's. */
static const char *own_name(const struct reading *reading, const char *name)
{
	size_t len = strlen(reading->prefix);
	return strncmp(name, reading->prefix, len) == 0 && name[len] == '.' ? name + len + 1 : NULL;
}

static const char *find(const struct reading *reading, const char *key)
{
	char name[KEY_BYTES];
	text_printf(name, sizeof(name), "%s.%s", reading->prefix, key);
	return bridge_labels_find(reading->labels, name);
}

/* Of endpoint.NAME.KEY or check.NAME.KEY. */
static const char *find_part(
	const struct reading *reading, const char *kind, const char *name, const char *key)
{
	char whole[KEY_BYTES];
	text_printf(whole, sizeof(whole), "%s.%s.%s", kind, name, key);
	return find(reading, whole);
}

static void note(const struct reading *reading, const char *key, const struct err *err)
{
	bridge_services_problem(
		reading->services, "label %s.%s: %s", reading->prefix, key, err->msg);
}

static bool set(const struct reading *reading, enum config_section_kind section, const char *label,
	const char *key, const char *value)
{
	struct err err = ERR_INIT;
	if (value && bridge_service_set(reading->service, section, key, value, &err)) {
		note(reading, label, &err);
		return false;
	}
	return true;
}

/* ---- endpoints and checks: names of parts ---- */

/* `key`: endpoint.NAME.KEY. Whether it is of this kind; its NAME and KEY. */
static bool split(const char *key, const char *kind, char name[NAME_BYTES], const char **ret_rest)
{
	size_t kind_len = strlen(kind);
	if (strncmp(key, kind, kind_len) != 0 || key[kind_len] != '.') {
		return false;
	}
	const char *begin = key + kind_len + 1;
	size_t len = strcspn(begin, ".");
	if (len == 0 || len >= NAME_BYTES || begin[len] != '.') {
		return false;
	}
	memcpy(name, begin, len);
	name[len] = '\0';
	*ret_rest = begin + len + 1;
	return true;
}

/* Whether an earlier label is of the same part. */
static bool is_repeated(
	const struct reading *reading, size_t index, const char *kind, const char *name)
{
	char other[NAME_BYTES];
	const char *rest;
	for (size_t i = 0; i < index; i++) {
		const char *key = own_name(reading, reading->labels->pairs[i].name);
		if (key && split(key, kind, other, &rest) && strcmp(other, name) == 0) {
			return true;
		}
	}
	return false;
}

static void each_part(const struct reading *reading, const char *kind,
	void (*read)(const struct reading *reading, const char *name))
{
	char name[NAME_BYTES];
	const char *rest;
	for (size_t i = 0; i < reading->labels->count; i++) {
		const char *key = own_name(reading, reading->labels->pairs[i].name);
		if (key && split(key, kind, name, &rest) && !is_repeated(reading, i, kind, name)) {
			read(reading, name);
		}
	}
}

/* ---- endpoints ---- */

/* "80", "53/udp" */
static int parse_port(
	const char *text, unsigned *ret_port, char protocol[NAME_BYTES], struct err *err)
{
	size_t digits = strspn(text, "0123456789");
	unsigned long port = strtoul(text, NULL, 10);
	const char *after = text + digits;
	if (digits == 0 || digits > 5 || port == 0 || port > UINT16_MAX ||
		(*after && strcmp(after, "/tcp") != 0 && strcmp(after, "/udp") != 0 &&
			strcmp(after, "/sctp") != 0)) {
		return err_set(err, BERTH_INVALID_RECORD,
			"must be a port of the container, such as 80 or 53/udp");
	}
	*ret_port = (unsigned)port;
	text_printf(protocol, NAME_BYTES, "%s", *after ? after + 1 : "tcp");
	return 0;
}

static int find_place(const struct reading *reading, const char *kind, const char *name,
	const char *port, struct bridge_place *ret_place, struct err *err)
{
	char protocol[NAME_BYTES];
	unsigned number = 0;
	struct err why = ERR_INIT;
	if (parse_port(port, &number, protocol, &why) ||
		bridge_services_find_place(
			ret_place, reading->facts, reading->runtime, number, protocol, &why)) {
		return err_set(err, why.code, "%s %s: %s", kind, name, why.msg);
	}
	return 0;
}

/* {host} and {port} in an address. */
static void fill(char *out, size_t size, const char *pattern, const struct bridge_place *place)
{
	struct buffer text;
	buffer_init(&text, size - 1);
	while (*pattern) {
		if (strncmp(pattern, "{host}", 6) == 0) {
			buffer_printf(&text, strchr(place->host, ':') ? "[%s]" : "%s", place->host);
			pattern += 6;
		} else if (strncmp(pattern, "{port}", 6) == 0) {
			buffer_printf(&text, "%u", place->port);
			pattern += 6;
		} else {
			buffer_append(&text, pattern++, 1);
		}
	}
	text_printf(out, size, "%s", buffer_text(&text));
	buffer_finish(&text);
}

static void read_endpoint(const struct reading *reading, const char *name)
{
	static const char *const keys[] = { "api", "protocol", "scope", "address_type" };
	struct bridge_place place = { .port = 0 };
	struct err err = ERR_INIT;
	char address[ADDRESS_BYTES];
	char label[KEY_BYTES];
	const char *port = find_part(reading, "endpoint", name, "port");
	const char *pattern = find_part(reading, "endpoint", name, "address");
	if (!port && (!pattern || strstr(pattern, "{host}") || strstr(pattern, "{port}"))) {
		err_set(&err, BERTH_INVALID_RECORD, "endpoint %s has no port", name);
	} else if (port) {
		(void)find_place(reading, "endpoint", name, port, &place, &err);
	}
	if (err.code) {
		bridge_service_spoil(reading->service, &err);
		return;
	}
	bridge_service_add_endpoint(reading->service, name);
	(void)set(reading, CONFIG_ENDPOINT, "endpoint", "protocol", "tcp");
	(void)set(reading, CONFIG_ENDPOINT, "endpoint", "address_type", "host/port");
	(void)set(reading, CONFIG_ENDPOINT, "endpoint", "api", name);
	for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
		text_printf(label, sizeof(label), "endpoint.%s.%s", name, keys[i]);
		(void)set(reading, CONFIG_ENDPOINT, label, keys[i],
			find_part(reading, "endpoint", name, keys[i]));
	}
	if (pattern) {
		fill(address, sizeof(address), pattern, &place);
	} else {
		bridge_place_text(&place, address, sizeof(address));
	}
	text_printf(label, sizeof(label), "endpoint.%s.address", name);
	(void)set(reading, CONFIG_ENDPOINT, label, "address", address);
}

/* ---- checks ---- */

/* Of the first endpoint that has one. */
static const char *first_port(const struct reading *reading)
{
	char name[NAME_BYTES];
	const char *rest;
	for (size_t i = 0; i < reading->labels->count; i++) {
		const char *key = own_name(reading, reading->labels->pairs[i].name);
		if (key && split(key, "endpoint", name, &rest) && strcmp(rest, "port") == 0) {
			return reading->labels->pairs[i].value;
		}
	}
	return NULL;
}

static void read_check(const struct reading *reading, const char *name)
{
	static const char *const keys[] = { "interval", "timeout", "rise", "fall" };
	const char *own_key; /* of its type alone */
	struct bridge_place place;
	struct err err = ERR_INIT;
	char label[KEY_BYTES];
	const char *type = find_part(reading, "check", name, "type");
	const char *port = find_part(reading, "check", name, "port");
	const char *path = find_part(reading, "check", name, "path");
	port = port ? port : first_port(reading);
	bool known = type &&
		(strcmp(type, "http") == 0 || strcmp(type, "tcp") == 0 ||
			strcmp(type, "grpc") == 0);
	if (!known) {
		err_set(&err, BERTH_INVALID_RECORD, "check %s needs a type: http, tcp or grpc",
			name);
	} else if (!port) {
		err_set(&err, BERTH_INVALID_RECORD, "check %s has no port", name);
	} else if (path && !bridge_is_request_path(path)) {
		err_set(&err, BERTH_INVALID_RECORD,
			"the path of check %s must begin with / and have no spaces", name);
	} else {
		(void)find_place(reading, "check", name, port, &place, &err);
	}
	if (err.code) {
		bridge_service_spoil(reading->service,
			&err); /* without its check it would be announced when it is down */
		return;
	}
	bridge_service_add_check(reading->service, name);
	(void)set(reading, CONFIG_CHECK, "check", "type", type);
	bridge_service_aim_check(reading->service, &place, path ? path : "/");
	for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
		text_printf(label, sizeof(label), "check.%s.%s", name, keys[i]);
		(void)set(reading, CONFIG_CHECK, label, keys[i],
			find_part(reading, "check", name, keys[i]));
	}
	own_key = strcmp(type, "http") == 0 ? "expect_status"
		: strcmp(type, "grpc") == 0 ? "service"
					    : NULL;
	if (own_key) {
		text_printf(label, sizeof(label), "check.%s.%s", name, own_key);
		(void)set(reading, CONFIG_CHECK, label, own_key,
			find_part(reading, "check", name, own_key));
	}
}

/* ---- the service ---- */

static void place_user(const struct reading *reading, const char *user)
{
	struct config_component *component = &reading->service->config->components[0];
	struct err err = ERR_INIT;
	char user_label[LABEL_SIZE];
	char id[16];
	const char *name = find(reading, "name");
	bridge_short_id(reading->facts, id);
	bool good = set(reading, CONFIG_COMPONENT, "service_class", "service_class",
			    find(reading, "service_class")) &&
		set(reading, CONFIG_COMPONENT, "instance", "instance", find(reading, "instance")) &&
		set(reading, CONFIG_COMPONENT, "name", "name", name ? name : id);
	if (!good) {
		return;
	}
	if (!*component->service_class || !*component->instance) {
		err_set(&err, BERTH_INVALID_PATHNAME, "needs service_class and instance, too");
	} else if (label_from_user(user_label, user, &err) == 0) {
		free(component->path);
		component->path = allocate_format("/users/%s/%s/%s/components/%s", user_label,
			component->service_class, component->instance, component->component_name);
		return;
	}
	note(reading, "user", &err);
}

static void place_name(const struct reading *reading, const char *name)
{
	struct err err = ERR_INIT;
	char id[16];
	const char *instance = find(reading, "instance");
	bridge_short_id(reading->facts, id);
	if (bridge_service_name(reading->service, reading->runtime->base, name,
		    instance ? instance : id, &err)) {
		note(reading, "name", &err);
	}
}

static void read_attributes(const struct reading *reading)
{
	static const char *const keys[] = { "description", "persistence" };
	for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
		(void)set(reading, CONFIG_COMPONENT, keys[i], keys[i], find(reading, keys[i]));
	}
	for (size_t i = 0; i < reading->labels->count; i++) {
		const char *key = own_name(reading, reading->labels->pairs[i].name);
		if (key && strncmp(key, "attribute.", strlen("attribute.")) == 0) {
			(void)set(reading, CONFIG_COMPONENT, key, key,
				reading->labels->pairs[i].value);
		}
	}
}

static bool is_known(const char *key)
{
	static const char *const words[] = { "path", "user", "service_class", "instance", "name",
		"description", "persistence", "ignore" };
	static const char *const of_endpoints[] = { "port", "protocol", "api", "scope",
		"address_type", "address" };
	static const char *const of_checks[] = { "type", "port", "path", "interval", "timeout",
		"rise", "fall", "expect_status", "service" };
	char name[NAME_BYTES];
	const char *rest = "";
	bool known = strncmp(key, "attribute.", strlen("attribute.")) == 0;
	for (size_t i = 0; i < ARRAY_LEN(words); i++) {
		known = known || strcmp(key, words[i]) == 0;
	}
	bool endpoint = split(key, "endpoint", name, &rest);
	for (size_t i = 0; endpoint && i < ARRAY_LEN(of_endpoints); i++) {
		known = known || strcmp(rest, of_endpoints[i]) == 0;
	}
	bool check = split(key, "check", name, &rest);
	for (size_t i = 0; check && i < ARRAY_LEN(of_checks); i++) {
		known = known || strcmp(rest, of_checks[i]) == 0;
	}
	return known;
}

/* Whether there is any label of ours. */
static bool name_unknown(const struct reading *reading)
{
	bool any = false;
	for (size_t i = 0; i < reading->labels->count; i++) {
		const char *key = own_name(reading, reading->labels->pairs[i].name);
		any = any || key;
		if (key && !is_known(key)) {
			struct err err = ERR_INIT;
			err_set(&err, BERTH_FAILED, "there is no such label");
			note(reading, key, &err);
		}
	}
	return any;
}

void bridge_labels_read(struct bridge_services *services, const struct bridge_facts *facts,
	const struct bridge_labels *labels, const struct config_runtime *runtime,
	const char *prefix)
{
	struct reading reading = { .services = services,
		.facts = facts,
		.labels = labels,
		.runtime = runtime,
		.prefix = prefix };
	const char *ignore = find(&reading, "ignore");
	const char *path = find(&reading, "path");
	const char *user = find(&reading, "user");
	const char *name = find(&reading, "name");
	if (ignore && strcmp(ignore, "no") != 0 && strcmp(ignore, "false") != 0) {
		services->ignored = true;
		return;
	}
	if (!name_unknown(&reading)) {
		return;
	}
	if (!path && !user && !name) {
		bridge_services_problem(services,
			"it has labels, but none of %s.path, %s.user and %s.name", prefix, prefix,
			prefix);
		return;
	}
	reading.service = bridge_services_add(services, facts);
	if (!reading.service) {
		return;
	}
	if (path) {
		(void)set(&reading, CONFIG_COMPONENT, "path", "path", path);
	} else if (user) {
		place_user(&reading, user);
	} else {
		place_name(&reading, name);
	}
	read_attributes(&reading);
	each_part(&reading, "endpoint", read_endpoint);
	each_part(&reading, "check", read_check);
}
