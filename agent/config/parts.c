#include "agent/config/parts.h"

static struct config_part part_of(unsigned kind, const void *target)
{
	const struct config_section_type *type = &config_sections[kind];
	return (struct config_part){ .type = type,
		.name = config_section_name(type, target),
		.owner = "",
		.target = target };
}

static void visit_component(const struct config_component *component,
	void (*visit)(void *context, const struct config_part *part), void *context)
{
	for (size_t i = 0; i < component->endpoint_count; i++) {
		struct config_part part = part_of(CONFIG_ENDPOINT, &component->endpoints[i]);
		part.owner = component->name;
		visit(context, &part);
	}
	for (size_t i = 0; i < component->dialect_count; i++) {
		struct config_part part = part_of(CONFIG_DIALECT, &component->dialects[i]);
		part.owner = component->name;
		part.types = CONFIG_FOR(component->dialects[i].word);
		visit(context, &part);
	}
}

static void visit_kind(const struct config *config, unsigned kind,
	void (*visit)(void *context, const struct config_part *part), void *context)
{
	const struct config_section_type *type = &config_sections[kind];
	for (size_t i = 0; i < config_section_count(config, type); i++) {
		struct config_part part = part_of(kind, config_section_place(config, type, i));
		if (kind == CONFIG_CHECK) {
			part.types = CONFIG_FOR(config->checks[i].type);
		}
		visit(context, &part);
		if (kind == CONFIG_COMPONENT) {
			visit_component(&config->components[i], visit, context);
		}
	}
}

void config_each_part(const struct config *config,
	void (*visit)(void *context, const struct config_part *part), void *context)
{
	for (unsigned i = 0; i < CONFIG_SECTION_COUNT; i++) {
		if (config_sections[i].naming == CONFIG_UNNAMED) {
			visit_kind(config, i, visit, context);
		}
	}
	for (unsigned i = 0; i < CONFIG_SECTION_COUNT; i++) {
		if (config_sections[i].naming != CONFIG_UNNAMED) {
			visit_kind(config, i, visit, context);
		}
	}
}
