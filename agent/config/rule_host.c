/*
 * Rules of `url = host:`: the host's agent announces a container's ephemeral records, and no more.
 */
#include <string.h>

#include "agent/config/build.h"
#include "lib/base/array.h"
#include "lib/registry/url.h"

static bool is_hosted(const struct config *config)
{
	enum registry_url_kind kind;
	return registry_url_rest(config->registry.url, &kind) && kind == REGISTRY_URL_HOST;
}

static void refuse_component(struct config_builder *builder)
{
	const struct config_component *component = config_component_named(
		builder->config, builder->section->name);
	if (component && !component->ephemeral) {
		config_fault(builder, config_key_or(builder, "znode", "persistence"),
			"with `url = host:` the record is ephemeral: the host's agent announces no "
			"persistent node; allowed are `persistence = container` or `znode = "
			"ephemeral`");
	}
}

void config_rule_host(struct config_builder *builder)
{
	static const struct {
		const char *kind;
		const char *why;
	} refused[] = {
		{ "dialect", "the host's agent announces records, not nodes of other schemes" },
		{ "import", "look-ups come from the host's agent, which may have this section" },
		{ "zone", "look-ups come from the host's agent, which may have this section" },
		{ "bridge", "a container is not a host" },
	};
	const struct config_source *source = builder->source;
	for (size_t i = 0; is_hosted(builder->config) && i < source->section_count; i++) {
		const struct config_section *section = &source->sections[i];
		builder->section = section;
		for (size_t j = 0; j < ARRAY_LEN(refused); j++) {
			if (strcmp(section->kind, refused[j].kind) == 0) {
				config_fault(builder, NULL,
					"[%s%s%s] cannot be with `url = host:`: %s", section->kind,
					*section->name ? " " : "", section->name, refused[j].why);
			}
		}
		if (strcmp(section->kind, "component") == 0) {
			refuse_component(builder);
		}
	}
}
