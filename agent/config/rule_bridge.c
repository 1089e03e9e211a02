/* Rules of [bridge] and [container GLOB] beyond single values. */
#include <stdlib.h>
#include <string.h>

#include "agent/config/build.h"
#include "agent/config/expand.h"
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
	} else if (!*builder->config->bridge.containers && builder->config->runtime_count == 0) {
		err_set(&useless, BERTH_FAILED,
			"[container %s] has no effect without `containers` in [bridge], or a "
			"[runtime]",
			section->name);
	}
	if (useless.code) {
		config_warn(builder, section, NULL, &useless);
	}
}

void config_rule_runtime(struct config_builder *builder, const struct config_section *section,
	struct config_runtime *runtime)
{
	struct err err = ERR_INIT;
	struct err why;
	char *address = config_lacks(section, "address") ? config_expand("${berth.ip}", &err)
							 : NULL;
	if (err.code) {
		config_report(builder, section, NULL, "`address`: %s", err.msg);
	}
	if (address) {
		free(runtime->address);
		runtime->address = address;
	}
	if (config_expand_missing(&why)) {
		config_wait_for(builder, section, "address", &why);
	}
	if (strcmp(section->name, "dir") == 0) {
		config_report(builder, section, NULL,
			"[runtime dir]: dir is the source of the containers of [bridge]");
	}
}

void config_rule_containers(struct config_builder *builder)
{
	const struct config *config = builder->config;
	for (size_t i = 0; i < builder->source->section_count; i++) {
		const struct config_section *section = &builder->source->sections[i];
		if (strcmp(section->kind, "bridge") == 0 && !*config->bridge.containers &&
			config->runtime_count == 0) {
			struct err useless = ERR_INIT;
			err_set(&useless, BERTH_FAILED,
				"has no effect without `containers`, the directory that holds one "
				"subdirectory for each container");
			config_warn(builder, section, NULL, &useless);
		}
	}
	bool bridges = *config->bridge.containers;
	if ((bridges || config->runtime_count > 0) && config->container_count == 0) {
		config_problems_warn(builder->source->problems, builder->source->files[0], 0,
			"%s has no [container GLOB] that allows something: no container's "
			"record is registered",
			bridges ? "[bridge]" : "[runtime]");
	}
}
