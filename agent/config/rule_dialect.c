/* The rules for a [dialect], beyond those for single values. */
#include <stdlib.h>
#include <string.h>

#include "agent/base/allocate.h"
#include "agent/config/build.h"
#include "agent/config/builtin.h"
#include "lib/base/hash.h"

static const enum dialect_type types[] = { DIALECT_REGISTRAR, DIALECT_SERVERSET, DIALECT_CURATOR,
	DIALECT_SPRING, DIALECT_NERVE };

static bool has_endpoint(const struct config_component *component, const char *name)
{
	for (size_t i = 0; i < component->endpoint_count; i++) {
		if (strcmp(component->endpoints[i].name, name) == 0) {
			return true;
		}
	}
	return false;
}

static void need_endpoint(struct config_builder *builder, const struct config_component *component,
	const char *key, const char *name)
{
	if (*name && !has_endpoint(component, name)) {
		config_fault(builder, key, "`%s`: this component has no [endpoint %s]", key, name);
	}
}

static void rule_endpoints(struct config_builder *builder, const struct config_dialect *dialect,
	const struct config_component *component)
{
	need_endpoint(builder, component, "endpoint", dialect->endpoint);
	need_endpoint(builder, component, "ssl_endpoint", dialect->ssl_endpoint);
	for (size_t i = 0; i < dialect->additional_count; i++) {
		need_endpoint(builder, component, "additional", dialect->additional[i]);
	}
	if (component->endpoint_count == 0 && dialect->type != DIALECT_REGISTRAR) {
		config_fault(builder, NULL,
			"[dialect %s] needs an [endpoint] of its component, for host and port",
			builder->section->name);
	}
}

static void require(struct config_builder *builder, enum dialect_type type)
{
	static const char *const keys[][3] = {
		[DIALECT_REGISTRAR] = { "domain", "host_type" },
		[DIALECT_SERVERSET] = { "path" },
		[DIALECT_CURATOR] = { "base", "service" },
		[DIALECT_SPRING] = { "service" },
		[DIALECT_NERVE] = { "path" },
	};
	for (size_t i = 0; keys[type][i]; i++) {
		config_require(builder, keys[type][i]);
	}
}

static void set_default(char **text, char *value)
{
	if (**text) {
		free(value);
	} else {
		free(*text);
		*text = value;
	}
}

/*
 * A UUID (RFC 9562, version 8) that is the component's for as long as it has its path: an agent
 * that was killed finds its node again.
 */
static char *stable_uuid(const char *path, const char *name)
{
	uint64_t high = hash_text(hash_text(HASH_INIT, path), name);
	uint64_t low = hash_text(hash_text(high, name), path);
	return allocate_format("%08x-%04x-8%03x-%04x-%012llx", (unsigned)(high >> 32),
		(unsigned)(high >> 16 & 0xffff), (unsigned)(high & 0xfff),
		(unsigned)(low >> 48 & 0x3fff) | 0x8000,
		(unsigned long long)(low & 0xffffffffffff));
}

static void fill(struct config_dialect *dialect, const struct config_component *component)
{
	struct err unknown = ERR_INIT;
	char *address = NULL;
	set_default(&dialect->host_name, config_short_host_name());
	if (dialect->type == DIALECT_REGISTRAR && !*dialect->address &&
		config_builtin("berth.ip", &address, &unknown) == 0) {
		free(dialect->own_address);
		dialect->own_address = address;
	}
	if (dialect->type == DIALECT_SPRING) {
		set_default(&dialect->base, allocate_text("/services"));
	}
	set_default(&dialect->instance_id,
		dialect->type == DIALECT_NERVE ? allocate_text(component->component_name)
					       : stable_uuid(component->path, dialect->name));
}

void config_rule_dialect(struct config_builder *builder, struct config_dialect *dialect,
	const struct config_component *component)
{
	dialect->type = types[dialect->word];
	if (config_lacks(builder, "type")) {
		config_fault(builder, "type",
			"[dialect %s] needs `type` (registrar, "
			"serverset, curator, spring or nerve)",
			builder->section->name);
		return;
	}
	if (config_is_bad(builder, "type")) {
		return;
	}
	config_refuse_other_types(builder, &config_sections[CONFIG_DIALECT], dialect->word);
	require(builder, dialect->type);
	if (component) {
		rule_endpoints(builder, dialect, component);
		fill(dialect, component);
	}
}

/* After a restart an agent cannot tell which node belongs to which of the two. */
static bool are_members_of_one_group(const struct config_dialect *a, const struct config_dialect *b)
{
	bool sequential = a->type == DIALECT_SERVERSET || a->type == DIALECT_NERVE;
	return sequential && a->type == b->type && strcmp(a->path, b->path) == 0 &&
		(a->type == DIALECT_SERVERSET || strcmp(a->instance_id, b->instance_id) == 0);
}

void config_rule_dialect_group(struct config_builder *builder, const struct config_dialect *dialect)
{
	const struct config *config = builder->config;
	for (size_t i = 0; i < config->component_count; i++) {
		for (size_t j = 0; j < config->components[i].dialect_count; j++) {
			const struct config_dialect *other = &config->components[i].dialects[j];
			if (are_members_of_one_group(dialect, other)) {
				config_fault(builder, NULL,
					"[dialect %s] and [dialect %s] would be the same member of "
					"%s; an agent can be it once",
					other->name, dialect->name, dialect->path);
			}
		}
	}
}
