#include "agent/config/parts.h"

void config_each_part(const struct config *config,
	void (*visit)(void *context, const struct config_part *part), void *context)
{
#define VISIT(kind, part_name, part_owner, part_target, part_types)                                \
	visit(context,                                                                             \
		&(struct config_part){ .type = &config_sections[kind],                             \
			.name = (part_name),                                                       \
			.owner = (part_owner),                                                     \
			.target = (part_target),                                                   \
			.types = (part_types) })
	for (unsigned i = 0; i < CONFIG_SECTION_COUNT; i++) {
		const struct config_section_type *type = &config_sections[i];
		if (type->naming == CONFIG_UNNAMED) {
			VISIT(i, "", "", config_section_place_const(config, type), 0);
		}
	}
	for (size_t i = 0; i < config->further_count; i++) {
		VISIT(CONFIG_FURTHER, config->further[i].name, "", &config->further[i], 0);
	}
	for (size_t i = 0; i < config->listen_count; i++) {
		VISIT(CONFIG_LISTEN, config->listens[i].name, "", &config->listens[i], 0);
	}
	for (size_t i = 0; i < config->component_count; i++) {
		const struct config_component *component = &config->components[i];
		VISIT(CONFIG_COMPONENT, component->name, "", component, 0);
		for (size_t j = 0; j < component->endpoint_count; j++) {
			const struct config_endpoint *endpoint = &component->endpoints[j];
			VISIT(CONFIG_ENDPOINT, endpoint->name, component->name, endpoint, 0);
		}
		for (size_t j = 0; j < component->dialect_count; j++) {
			const struct config_dialect *dialect = &component->dialects[j];
			VISIT(CONFIG_DIALECT, dialect->name, component->name, dialect,
				CONFIG_FOR(dialect->word));
		}
	}
	for (size_t i = 0; i < config->check_count; i++) {
		const struct config_check *check = &config->checks[i];
		VISIT(CONFIG_CHECK, check->name, "", check, CONFIG_FOR(check->type));
	}
	for (size_t i = 0; i < config->output_count; i++) {
		VISIT(CONFIG_OUTPUT, config->outputs[i].name, "", &config->outputs[i], 0);
	}
	for (size_t i = 0; i < config->import_count; i++) {
		VISIT(CONFIG_IMPORT, config->imports[i].name, "", &config->imports[i], 0);
	}
	for (size_t i = 0; i < config->zone_count; i++) {
		VISIT(CONFIG_ZONE, config->zones[i].name, "", &config->zones[i], 0);
	}
	for (size_t i = 0; i < config->runtime_count; i++) {
		VISIT(CONFIG_RUNTIME, config->runtimes[i].name, "", &config->runtimes[i], 0);
	}
	for (size_t i = 0; i < config->container_count; i++) {
		VISIT(CONFIG_CONTAINER, config->containers[i].glob, "", &config->containers[i], 0);
	}
#undef VISIT
}
