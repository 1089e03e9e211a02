#include "agent/bridge/services.h"

#include <arpa/inet.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/allocate.h"
#include "agent/config/build.h"
#include "agent/config/field.h"
#include "agent/config/label.h"
#include "agent/config/options.h"
#include "lib/base/text.h"

enum { PROBLEM_BYTES = 400, SHORT_ID = 12 };

/* ---- labels ---- */

const char *bridge_labels_find(const struct bridge_labels *labels, const char *name)
{
	for (size_t i = 0; i < labels->count; i++) {
		if (strcmp(labels->pairs[i].name, name) == 0) {
			return labels->pairs[i].value;
		}
	}
	return NULL;
}

/* ---- services ---- */

void bridge_services_problem(struct bridge_services *services, const char *format, ...)
{
	char text[PROBLEM_BYTES];
	va_list arguments;
	if (services->problem_count >= BRIDGE_PROBLEMS_MAX) {
		return;
	}
	va_start(arguments, format);
	text_vprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	services->problems = allocate_grow(
		services->problems, services->problem_count, sizeof(*services->problems));
	services->problems[services->problem_count++] = allocate_text(text);
}

void bridge_short_id(const struct bridge_facts *facts, char out[16])
{
	text_printf(out, SHORT_ID + 1, "%s", facts->id);
}

static void set_attribute(struct config_component *component, const char *name, const char *value)
{
	component->attributes = allocate_grow(
		component->attributes, component->attribute_count, sizeof(*component->attributes));
	component->attributes[component->attribute_count++] = (struct config_name_value){
		.name = allocate_text(name), .value = allocate_text(value)
	};
}

struct bridge_service *bridge_services_add(
	struct bridge_services *services, const struct bridge_facts *facts)
{
	if (services->count >= BRIDGE_SERVICES_MAX) {
		bridge_services_problem(
			services, "a container has %d services at most", BRIDGE_SERVICES_MAX);
		return NULL;
	}
	services->items = allocate_grow(services->items, services->count, sizeof(*services->items));
	struct bridge_service *service = &services->items[services->count++];
	*service = (struct bridge_service){ .config = allocate_zeroed(1, sizeof(struct config)) };
	struct config *config = service->config;
	config->references = 1;
	struct config_component *component = config_section_add(config, CONFIG_COMPONENT, "");
	component->persistence = PERSISTENCE_CONTAINER;
	free(component->id);
	component->id = allocate_text(facts->id);
	set_attribute(component, "yarn:hostname", facts->host_name);
	set_attribute(component, "docker:image", facts->image);
	return service;
}

void bridge_service_add_endpoint(struct bridge_service *service, const char *name)
{
	struct config_component *component = &service->config->components[0];
	component->endpoints = allocate_grow(
		component->endpoints, component->endpoint_count, sizeof(*component->endpoints));
	config_endpoint_init(&component->endpoints[component->endpoint_count++], name);
}

void bridge_service_add_check(struct bridge_service *service, const char *name)
{
	struct config_check *check = config_section_add(service->config, CONFIG_CHECK, name);
	check->whole = service->config;
}

void bridge_service_spoil(struct bridge_service *service, const struct err *err)
{
	if (!service->mistake) {
		service->mistake = allocate_zeroed(1, sizeof(*service->mistake));
		*service->mistake = *err;
		service->mistake->code = BERTH_FAILED;
	}
}

int bridge_service_set(struct bridge_service *service, enum config_section_kind section,
	const char *key, const char *value, struct err *err)
{
	struct config *config = service->config;
	struct config_component *component = &config->components[0];
	const struct config_option *option = config_option_find(&config_sections[section], key);
	void *target = section == CONFIG_COMPONENT ? (void *)component
		: section == CONFIG_ENDPOINT
		? (void *)&component->endpoints[component->endpoint_count - 1]
		: (void *)&config->checks[config->check_count - 1];
	if (!option) {
		return err_set(err, BERTH_FAILED, "there is no such key");
	}
	if (section == CONFIG_COMPONENT &&
		(strcmp(key, "attribute.docker:image") == 0 ||
			strcmp(key, "attribute.yarn:hostname") == 0)) {
		return err_set(err, BERTH_FAILED, "the agent sets it");
	}
	if (!*value) {
		return err_set(err, BERTH_FAILED, "it is empty");
	}
	return config_field_set(option, target, key, value, err);
}

/* People give services names that DNS does not know: they become labels. */
int bridge_service_name(struct bridge_service *service, const char *base, const char *name,
	const char *instance, struct err *err)
{
	struct config_component *component = &service->config->components[0];
	char label[LABEL_SIZE];
	char instance_label[LABEL_SIZE];
	if (label_from_user(label, name, err) || label_from_user(instance_label, instance, err)) {
		return err->code;
	}
	free(component->path);
	component->path = strcmp(base, "/") == 0
		? allocate_format("/%s/components/%s", label, instance_label)
		: allocate_format("%s/%s/components/%s", base, label, instance_label);
	return 0;
}

/* ---- addresses ---- */

static bool is_ip6(const char *address)
{
	return strchr(address, ':') != NULL;
}

static bool is_loopback(const char *address)
{
	return strncmp(address, "127.", strlen("127.")) == 0 || strcmp(address, "::1") == 0;
}

static bool is_any(const char *address)
{
	return !*address || strcmp(address, "0.0.0.0") == 0 || strcmp(address, "::") == 0;
}

static int set_place(
	struct bridge_place *ret_place, const char *host, unsigned port, struct err *err)
{
	if (port == 0 || port > UINT16_MAX) {
		return err_set(err, BERTH_INVALID_RECORD, "%u is not a port", port);
	}
	text_printf(ret_place->host, sizeof(ret_place->host), "%s", host);
	ret_place->port = port;
	return 0;
}

static int find_own(struct bridge_place *ret_place, const struct bridge_facts *facts,
	const struct config_runtime *runtime, unsigned port, struct err *err)
{
	const struct facts_network *network = facts->network_count == 1 ? facts->networks : NULL;
	for (size_t i = 0; *runtime->network && i < facts->network_count; i++) {
		network = strcmp(facts->networks[i].name, runtime->network) == 0
			? &facts->networks[i]
			: i == 0 ? NULL
				 : network;
	}
	if (!network && *runtime->network) {
		return err_set(err, BERTH_INVALID_RECORD,
			"port %u is not published, and the container is not in the network %s",
			port, runtime->network);
	}
	if (!network) {
		return err_set(err, BERTH_INVALID_RECORD,
			"the container is in %zu networks: `network` of [runtime %s] says which",
			facts->network_count, runtime->name);
	}
	const char *address = *network->ip ? network->ip : network->ip6;
	struct in6_addr binary;
	if (inet_pton(is_ip6(address) ? AF_INET6 : AF_INET, address, &binary) != 1) {
		return err_set(err, BERTH_INVALID_RECORD,
			"the container has no address in the network %s", network->name);
	}
	return set_place(ret_place, address, port, err);
}

/* The binding that reaches furthest: all addresses of the host, then a single one. */
static const struct facts_port *find_binding(const struct bridge_facts *facts, const char *address,
	unsigned port, const char *protocol, const struct facts_port **ret_local)
{
	const struct facts_port *found = NULL;
	for (size_t i = 0; i < facts->port_count; i++) {
		const struct facts_port *at = &facts->ports[i];
		if (at->number != port || strcmp(at->protocol, protocol) != 0 ||
			at->host_port == 0) {
			continue;
		}
		bool other_family = *at->host && is_any(at->host) &&
			is_ip6(at->host) != is_ip6(address);
		if (is_loopback(at->host)) {
			*ret_local = at;
		} else if (!found || (is_any(at->host) && !other_family)) {
			found = other_family && strchr("0123456789", *address) ? found : at;
		}
	}
	return found;
}

int bridge_services_find_place(struct bridge_place *ret_place, const struct bridge_facts *facts,
	const struct config_runtime *runtime, unsigned port, const char *protocol, struct err *err)
{
	bool own = strcmp(runtime->address, "container") == 0;
	const struct facts_port *local = NULL;
	if (strcmp(facts->network_mode, "host") == 0) {
		return own ? err_set(err, BERTH_INVALID_RECORD,
				     "the container has the host's network, and `address` of "
				     "[runtime %s] is container",
				     runtime->name)
			   : set_place(ret_place, runtime->address, port, err);
	}
	if (own) {
		return find_own(ret_place, facts, runtime, port, err);
	}
	const struct facts_port *binding = find_binding(
		facts, runtime->address, port, protocol, &local);
	if (binding) {
		return set_place(ret_place,
			is_any(binding->host) ? runtime->address : binding->host,
			binding->host_port, err);
	}
	if (*runtime->network) {
		return find_own(ret_place, facts, runtime, port, err);
	}
	return local ? err_set(err, BERTH_INVALID_RECORD,
			       "port %u/%s is published at %s alone, which no other host reaches",
			       port, protocol, local->host)
		     : err_set(err, BERTH_INVALID_RECORD,
			       "port %u/%s is not published (`network` of [runtime %s] announces "
			       "the container's own address)",
			       port, protocol, runtime->name);
}

void bridge_place_text(const struct bridge_place *place, char *out, size_t size)
{
	text_printf(out, size, is_ip6(place->host) ? "[%s]:%u" : "%s:%u", place->host, place->port);
}

bool bridge_is_request_path(const char *path)
{
	for (const char *at = path; *at; at++) {
		if ((unsigned char)*at <= ' ' || (unsigned char)*at >= 0x7f) {
			return false;
		}
	}
	return *path == '/';
}

void bridge_service_aim_check(
	struct bridge_service *service, const struct bridge_place *place, const char *path)
{
	struct config_check *check = &service->config->checks[service->config->check_count - 1];
	char text[sizeof(place->host) + 16];
	bridge_place_text(place, text, sizeof(text));
	free(check->target);
	free(check->target_host);
	free(check->target_port);
	free(check->target_path);
	check->target = check->type == CONFIG_CHECK_HTTP
		? allocate_format("http://%s%s", text, path)
		: allocate_text(text);
	check->target_host = allocate_text(place->host);
	check->target_port = allocate_format("%u", place->port);
	check->target_path = allocate_text(check->type == CONFIG_CHECK_HTTP ? path : "");
}

void bridge_services_finish(struct bridge_services *services)
{
	for (size_t i = 0; i < services->count; i++) {
		config_unref(services->items[i].config);
		free(services->items[i].data);
		free(services->items[i].mistake);
	}
	for (size_t i = 0; i < services->problem_count; i++) {
		free(services->problems[i]);
	}
	free(services->items);
	free(services->problems);
	memset(services, 0, sizeof(*services));
}
