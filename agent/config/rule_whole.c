/* Doubts about a configuration as a whole. */
#include <string.h>

#include "agent/config/build.h"

static bool all_dynamic(const struct config_component *component)
{
	size_t dynamic = 0;
	for (size_t i = 0; i < component->endpoint_count; i++) {
		dynamic += component->endpoints[i].dynamic ? 1 : 0;
	}
	return dynamic > 0 && dynamic == component->endpoint_count;
}

static bool is_guarded(const struct config *config, const struct config_component *component)
{
	for (size_t i = 0; i < config->check_count; i++) {
		if (config_check_guards(&config->checks[i], component)) {
			return true;
		}
	}
	return false;
}

void config_rule_parts(struct config_builder *builder, const struct config_component *component)
{
	if (component->endpoint_count == 0) {
		config_doubt(builder, NULL,
			"has no [endpoint]: its record names no address for clients");
	}
	/* The process that supplies the addresses of a dynamic endpoint decides, too. */
	if (!is_guarded(builder->config, component) && !all_dynamic(component)) {
		config_doubt(builder, NULL,
			"has no [check]: it is registered as long as the agent runs, whether it "
			"works or not");
	}
}

/* Some section that gives the agent work, or says whose look-ups it is to answer. */
static bool has_work(const struct config_builder *builder)
{
	const struct config *config = builder->config;
	bool registry_chosen = false;
	for (size_t i = 0; i < builder->source->section_count; i++) {
		registry_chosen |= strcmp(builder->source->sections[i].kind, "registry") == 0;
	}
	return registry_chosen || config->component_count > 0 || config->output_count > 0 ||
		config->import_count > 0 || config->zone_count > 0 || *config->bridge.containers ||
		config->dns.listen_count > 0 || config->cache.warm_count > 0 ||
		*config->agent.listen || config->listen_count > 0;
}

void config_rule_whole(struct config_builder *builder)
{
	if (!has_work(builder)) {
		config_problems_warn(builder->source->problems, builder->source->files[0], 0,
			"there is nothing to do: no [component], no [output], and no [registry] "
			"whose look-ups the agent could answer");
	}
}
