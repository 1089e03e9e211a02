/* Rules of [bridge] and [container GLOB] beyond single values. */
#include <string.h>

#include "agent/config/build.h"
#include "agent/config/verify_bridge.h"

void config_rule_container(struct config_builder *builder, const struct config_section *section,
	struct config_container *container)
{
	struct err err = ERR_INIT;
	struct err useless = ERR_INIT;
	container->owner_uid = container->owner_gid = (unsigned)-1;
	if (*container->owner) { /* a bad one has been reported */
		(void)config_parse_owner(
			container->owner, &container->owner_uid, &container->owner_gid, &err);
	}
	if (config_lacks(section, "allow")) {
		err_set(&useless, BERTH_FAILED,
			"[container %s] has no `allow`: none of its records is registered",
			section->name);
	} else if (!*builder->config->bridge.containers) {
		err_set(&useless, BERTH_FAILED,
			"[container %s] has no effect without `containers` in [bridge]",
			section->name);
	}
	if (useless.code) {
		config_warn(builder, section, NULL, &useless);
	}
}

void config_rule_containers(struct config_builder *builder)
{
	const struct config *config = builder->config;
	for (size_t i = 0; i < builder->source->section_count; i++) {
		const struct config_section *section = &builder->source->sections[i];
		if (strcmp(section->kind, "bridge") == 0 && !*config->bridge.containers) {
			struct err useless = ERR_INIT;
			err_set(&useless, BERTH_FAILED,
				"has no effect without `containers`, the directory that holds one "
				"subdirectory for each container");
			config_warn(builder, section, NULL, &useless);
		}
	}
	if (*config->bridge.containers && config->container_count == 0) {
		config_problems_warn(builder->source->problems, builder->source->files[0], 0,
			"[bridge] has no [container GLOB] that allows something: no container's "
			"record is registered");
	}
}
