/* Rules of [bridge] and [container GLOB] beyond single values. */
#include <stdlib.h>
#include <string.h>

#include "agent/config/build.h"
#include "agent/config/expand.h"
#include "agent/config/verify_bridge.h"

void config_rule_container(struct config_builder *builder, struct config_container *container)
{
	struct err err = ERR_INIT;
	container->owner_uid = container->owner_gid = (unsigned)-1;
	if (*container->owner) { /* a bad one has been reported */
		(void)config_parse_owner(
			container->owner, &container->owner_uid, &container->owner_gid, &err);
	}
	if (config_lacks(builder, "allow")) {
		config_doubt(builder, NULL,
			"[container %s] has no `allow`: none of its records is registered",
			builder->section->name);
	} else if (!*builder->config->bridge.containers && builder->config->runtime_count == 0) {
		config_doubt(builder, NULL,
			"[container %s] has no effect without `containers` in [bridge], or a "
			"[runtime]",
			builder->section->name);
	}
}

void config_rule_runtime(struct config_builder *builder, struct config_runtime *runtime)
{
	struct err err = ERR_INIT;
	struct err why;
	char *address = config_lacks(builder, "address") ? config_expand("${berth.ip}", &err)
							 : NULL;
	if (err.code) {
		config_fault(builder, NULL, "`address`: %s", err.msg);
	}
	if (address) {
		free(runtime->address);
		runtime->address = address;
	}
	if (config_expand_missing(&why)) {
		config_wait_for(builder, "address", &why);
	}
	if (strcmp(builder->section->name, "dir") == 0) {
		config_fault(builder, NULL,
			"[runtime dir]: dir is the source of the containers of [bridge]");
	}
}

static void doubt_bridge(struct config_builder *builder)
{
	if (!*builder->config->bridge.containers && builder->config->runtime_count == 0) {
		config_doubt(builder, NULL,
			"has no effect without `containers`, the directory that holds one "
			"subdirectory for each container");
	}
}

void config_rule_containers(struct config_builder *builder)
{
	const struct config *config = builder->config;
	bool bridges = *config->bridge.containers;
	config_each_section(builder, CONFIG_BRIDGE, doubt_bridge);
	if ((bridges || config->runtime_count > 0) && config->container_count == 0) {
		config_problems_warn(builder->source->problems, builder->source->files[0], 0,
			"%s has no [container GLOB] that allows something: no container's "
			"record is registered",
			bridges ? "[bridge]" : "[runtime]");
	}
}
