/*
 * The list of the sections, and what a key or a section means by its name.
 */
#include "agent/config/option_row.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/config/value.h"
#include "lib/base/nearest.h"

#define ONE(member) .offset = offsetof(struct config, member)
#define PART(type, member) .size = sizeof(type), .name = offsetof(type, member)
#define SEVERAL(type, member, array, counter)                                                      \
	ONE(array), .count = offsetof(struct config, counter), PART(type, member)
#define WAITS(type) .waits = true, .awaits = offsetof(type, awaits)

const struct config_section_type config_sections[CONFIG_SECTION_COUNT] = {
	[CONFIG_AGENT] = { "agent", CONFIG_UNNAMED, "", "The agent itself.", config_agent_options,
		ONE(agent) },
	[CONFIG_LISTEN] = { "listen", CONFIG_NAMED, "published",
		"A further TCP listener, which shows a part of the registry alone, such as what a "
		"firewall publishes: resolve, list, records, endpoints, targets and stat of the "
		"paths below under, with scope = all find and watch as well. All else is 404 "
		"there. Names by which clients may come are those of listen in [agent], its "
		"listen_hosts, and the host of address.",
		config_listen_options, SEVERAL(struct config_listen, name, listens, listen_count) },
	[CONFIG_REGISTRY] = { "registry", CONFIG_UNNAMED, "", "Where the records are kept.",
		config_registry_options, ONE(registry) },
	[CONFIG_FURTHER] = { "registry", CONFIG_NAMED, "east",
		"A further registry, such as that of another cluster, which is only read: its "
		"paths begin with /net/NAME, and its names end in NAME.net and the domain. It has "
		"a connection, a state, ages, metrics and a cache of its own, of the size and with "
		"the limits that [cache] says, and no part in whether the agent is ready. A reload "
		"can add, change and remove one.",
		config_further_options,
		SEVERAL(struct config_registry, name, further, further_count) },
	[CONFIG_COMPONENT] = { "component", CONFIG_MAY_BE_NAMED, "",
		"The service to register. Several are written [component NAME]; their endpoints "
		"and checks then say component = NAME. Without any the agent only answers lookups.",
		config_component_options,
		SEVERAL(struct config_component, name, components, component_count),
		WAITS(struct config_component) },
	[CONFIG_ENDPOINT] = { "endpoint", CONFIG_NAMED, "rest",
		"An address of the component, in its record.", config_endpoint_options,
		PART(struct config_endpoint, name), .waits = true },
	[CONFIG_CHECK] = { "check", CONFIG_NAMED, "http",
		"A health check. All checks of a component must be up for it to be registered.",
		config_check_options, SEVERAL(struct config_check, name, checks, check_count),
		WAITS(struct config_check) },
	[CONFIG_DIALECT] = { "dialect", CONFIG_NAMED, "binder",
		"Another naming scheme on the same ZooKeeper in which the component is registered, "
		"besides its record, for the clients of that scheme; see docs/DIALECTS.md. With a "
		"registry in a directory the nodes are below its root.",
		config_dialect_options, PART(struct config_dialect, name), .waits = true },
	[CONFIG_CACHE] = { "cache", CONFIG_UNNAMED, "", "The lookup cache.", config_cache_options,
		ONE(cache) },
	[CONFIG_DNS] = { "dns", CONFIG_UNNAMED, "",
		"Names for programs: a DNS server on this machine, fed from the cache.",
		config_dns_options, ONE(dns) },
	[CONFIG_XDS] = { "xds", CONFIG_UNNAMED, "",
		"The registry for gRPC and Envoy: the agent starts berth-xds, a package of its "
		"own, and watches over it. FOLLOW.md shows the clients.",
		config_xds_options, ONE(xds) },
	[CONFIG_OUTPUT] = { "output", CONFIG_NAMED, "web",
		"A file, or a backend of HAProxy, that follows the registry. It is written as a "
		"whole or not at all, and only while the registry confirms what the agent knows: "
		"an outage changes nothing. FOLLOW.md has recipes.",
		config_output_options, SEVERAL(struct config_output, name, outputs, output_count),
		WAITS(struct config_output) },
	[CONFIG_IMPORT] = { "import", CONFIG_NAMED, "finagle",
		"A group of nodes that programs of another naming scheme write, seen as records "
		"below a path of this registry; docs/DIALECTS.md describes the schemes.",
		config_import_options, SEVERAL(struct config_import, name, imports, import_count) },
	[CONFIG_ZONE] = { "zone", CONFIG_NAMED, "authcache.emy-10.example.org",
		"A domain whose names the agent's DNS server answers from the nodes that Joyent "
		"Registrar, or a [dialect] of that type, writes, as Joyent Binder does. The name "
		"is the domain. Needs listen in [dns]; docs/DIALECTS.md has the differences.",
		config_zone_options, SEVERAL(struct config_zone, name, zones, zone_count) },
	[CONFIG_BRIDGE] = { "bridge", CONFIG_UNNAMED, "",
		"One agent for the containers of a host: it registers their records in its own "
		"session, and answers their look-ups; BRIDGE.md shows how.",
		config_bridge_options, ONE(bridge) },
	[CONFIG_RUNTIME] = { "runtime", CONFIG_NAMED, "docker",
		"A container runtime, Docker or podman, whose containers know nothing of Berth: "
		"they are registered by their labels, as far as [container GLOB] allows. Needs "
		"the pid namespace of the runtime; BRIDGE.md shows how.",
		config_runtime_options,
		SEVERAL(struct config_runtime, name, runtimes, runtime_count),
		WAITS(struct config_runtime) },
	[CONFIG_CONTAINER] = { "container", CONFIG_GLOB, "web-*",
		"The rules of the host for the containers whose subdirectory's name the glob "
		"matches. The first section that matches counts; a container without one may "
		"register nothing.",
		config_container_options,
		SEVERAL(struct config_container, glob, containers, container_count),
		WAITS(struct config_container) },
};

enum { NUMBER_DIGITS = 4 /* of the number behind a key, such as address.2 */ };

size_t config_section_count(const struct config *config, const struct config_section_type *type)
{
	if (type->naming == CONFIG_UNNAMED) {
		return 1;
	}
	return type->count ? *(const size_t *)((const char *)config + type->count) : 0;
}

void *config_section_place(
	const struct config *config, const struct config_section_type *type, size_t index)
{
	char *place = (char *)config + type->offset;
	if (!type->count) {
		return place;
	}
	void *array; /* of structs of some type */
	memcpy(&array, place, sizeof(array));
	return array ? (char *)array + index * type->size : NULL;
}

const char *config_section_name(const struct config_section_type *type, const void *target)
{
	return type->size ? *(char *const *)((const char *)target + type->name) : "";
}

const struct config_section_type *config_section_type_find(const char *kind, const char *name)
{
	const struct config_section_type *found = NULL;
	for (size_t i = 0; i < CONFIG_SECTION_COUNT; i++) {
		const struct config_section_type *type = &config_sections[i];
		if (strcmp(kind, type->kind) == 0 &&
			(!found || (*name && type->naming != CONFIG_UNNAMED))) {
			found = type;
		}
	}
	return found;
}

static bool is_number(const char *text)
{
	size_t len = strspn(text, "0123456789");
	return len > 0 && len <= NUMBER_DIGITS && !text[len] && (text[0] != '0' || len == 1);
}

static bool fits(const struct config_option *option, const char *key)
{
	size_t len = strlen(option->key);
	if (strncmp(key, option->key, len) != 0) {
		return false;
	}
	const char *rest = key + len;
	if (option->type == CONFIG_PAIRS) {
		return *rest == '.';
	}
	bool numbered = option->type == CONFIG_NUMBERED && *rest == '.' && is_number(rest + 1);
	return *rest == '\0' || numbered;
}

const struct config_option *config_option_find(
	const struct config_section_type *section, const char *key)
{
	for (size_t i = 0; section->options[i].key; i++) {
		if (fits(&section->options[i], key)) {
			return &section->options[i];
		}
	}
	return NULL;
}

int config_option_number(const struct config_option *option, const char *key)
{
	if (!fits(option, key)) {
		return -1;
	}
	const char *rest = key + strlen(option->key);
	return *rest == '.' ? atoi(rest + 1) : 0;
}

const char *config_section_type_nearest(const char *kind)
{
	const char *nearest = config_sections[0].kind;
	size_t least = SIZE_MAX;
	for (size_t i = 0; i < CONFIG_SECTION_COUNT; i++) {
		const char *known = config_sections[i].kind;
		size_t distance = nearest_distance(kind, strlen(kind), known);
		if (distance < least) {
			least = distance;
			nearest = known;
		}
	}
	return nearest;
}

void config_option_nearest(
	const struct config_section_type *section, const char *key, char *out, size_t size)
{
	size_t stem_len = strcspn(key, ".");
	const struct config_option *nearest = &section->options[0];
	size_t least = SIZE_MAX;
	for (size_t i = 0; section->options[i].key; i++) {
		const struct config_option *option = &section->options[i];
		bool family = option->type == CONFIG_PAIRS || option->type == CONFIG_NUMBERED;
		/* "attribut.colour" is like "attribute", and "adress" like "address". */
		size_t len = family ? stem_len : strlen(key);
		size_t distance = nearest_distance(key, len, option->key);
		if (distance < least) {
			least = distance;
			nearest = option;
		}
	}
	snprintf(out, size, "%s%s", nearest->key, nearest->type == CONFIG_PAIRS ? ".NAME" : "");
}
