/* Rules of [registry NAME], and of the paths below /net, which stand for these registries. */
#include <string.h>

#include "agent/config/build.h"
#include "agent/config/verify.h"
#include "lib/base/array.h"
#include "lib/base/path.h"
#include "lib/registry/url.h"

static const struct config_registry *further_named(
	const struct config *config, const char *name, size_t len)
{
	for (size_t i = 0; i < config->further_count; i++) {
		const struct config_registry *further = &config->further[i];
		if (strlen(further->name) == len && memcmp(further->name, name, len) == 0) {
			return further;
		}
	}
	return NULL;
}

const struct config_registry *config_further_at(const struct config *config, const char *path)
{
	if (!path_is_under(path, CONFIG_NET) || strlen(path) <= strlen(CONFIG_NET) + 1) {
		return NULL;
	}
	const char *name = path + strlen(CONFIG_NET) + 1;
	return further_named(config, name, strcspn(name, "/"));
}

void config_rule_further(struct config_builder *builder, const struct config_registry *further)
{
	struct err err = ERR_INIT;
	enum registry_url_kind kind;
	if (*further->name && config_verify_label(further->name, &err)) {
		config_fault(builder, NULL,
			"[registry %.60s]: the name becomes a part of paths and of DNS names, and "
			"%s",
			further->name, err.msg);
	}
	config_require(builder, "url");
	if (registry_url_rest(further->url, &kind) && kind == REGISTRY_URL_HOST) {
		config_fault(builder, "url",
			"`url`: a host's agent can be behind [registry] alone; allowed are "
			"zookeeper://, zookeeper+tls:// and dir:");
	}
}

/* ---- the paths of other sections ---- */

/* May be a pattern that ends in a slash and two asterisks. */
static bool is_in_net(const char *path)
{
	return path_is_under(path, CONFIG_NET);
}

/* A path that the agent would write to. */
static void refuse_net(struct config_builder *builder, const char *key, const char *path)
{
	if (is_in_net(path)) {
		config_fault(builder, key,
			"`%s`: %s is below " CONFIG_NET
			", which stands for further registries: they can be read only",
			key, path);
	}
}

/* A path that is read: in /net only that of a registry that there is. */
static void refuse_unknown(struct config_builder *builder, const char *key, const char *path)
{
	if (is_in_net(path) && strcmp(path, CONFIG_NET) != 0 &&
		!config_further_at(builder->config, path)) {
		const char *name = path + strlen(CONFIG_NET) + 1;
		config_fault(builder, key,
			"`%s`: there is no [registry %.*s], which %s would be in", key,
			(int)strcspn(name, "/"), name, path);
	}
}

static void refuse_all_unknown(
	struct config_builder *builder, const char *key, char *const *paths, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		refuse_unknown(builder, key, paths[i]);
	}
}

static void check_component(struct config_builder *builder)
{
	const struct config_component *component = config_component_named(
		builder->config, builder->section->name);
	if (component) {
		refuse_net(builder, "path", component->path);
	}
}

static void check_import(struct config_builder *builder)
{
	for (size_t i = 0; i < builder->config->import_count; i++) {
		const struct config_import *import = &builder->config->imports[i];
		if (strcmp(import->name, builder->section->name) != 0 || !is_in_net(import->as)) {
			continue;
		}
		const struct config_registry *further = config_further_at(
			builder->config, import->as);
		size_t top = strlen(CONFIG_NET) + 1 + (further ? strlen(further->name) : 0);
		refuse_unknown(builder, "as", import->as);
		if (strcmp(import->as, CONFIG_NET) == 0 || (further && strlen(import->as) == top)) {
			config_fault(builder, "as",
				"`as`: %s cannot be an import; write a path below it", import->as);
		}
	}
}

static void check_output(struct config_builder *builder)
{
	for (size_t i = 0; i < builder->config->output_count; i++) {
		const struct config_output *output = &builder->config->outputs[i];
		if (strcmp(output->name, builder->section->name) == 0) {
			refuse_unknown(builder, "from", output->from_path);
			refuse_all_unknown(
				builder, "failover", output->failover, output->failover_count);
		}
	}
}

static void check_cache(struct config_builder *builder)
{
	const struct config_cache *cache = &builder->config->cache;
	refuse_all_unknown(builder, "warm", cache->warm, cache->warm_count);
}

static void check_xds(struct config_builder *builder)
{
	const struct config_xds *xds = &builder->config->xds;
	refuse_all_unknown(builder, "serve", xds->serve, xds->serve_count);
	refuse_all_unknown(builder, "failover", xds->failover, xds->failover_count);
}

static void check_container(struct config_builder *builder)
{
	for (size_t i = 0; i < builder->config->container_count; i++) {
		const struct config_container *container = &builder->config->containers[i];
		for (size_t j = 0; strcmp(container->glob, builder->section->name) == 0 &&
			j < container->allow_count;
			j++) {
			refuse_net(builder, "allow", container->allow[j]);
		}
	}
}

/* A name behind [registry] makes another registry of it. */
static void doubt_name(struct config_builder *builder)
{
	const struct config_section *named = NULL;
	for (size_t i = 0; i < builder->source->section_count; i++) {
		const struct config_section *section = &builder->source->sections[i];
		if (strcmp(section->kind, config_sections[CONFIG_REGISTRY].kind) != 0) {
			continue;
		}
		if (!*section->name) {
			return;
		}
		named = named ? named : section;
	}
	if (named) {
		builder->section = named;
		config_doubt(builder, NULL,
			"[registry %s] is only read, and there is no [registry] without a name: "
			"the agent's own records are in %s",
			named->name, builder->config->registry.url);
	}
}

void config_rule_net(struct config_builder *builder)
{
	doubt_name(builder);
	static const struct {
		enum config_section_kind kind;
		void (*check)(struct config_builder *builder);
	} checks[] = { { CONFIG_COMPONENT, check_component }, { CONFIG_IMPORT, check_import },
		{ CONFIG_OUTPUT, check_output }, { CONFIG_CACHE, check_cache },
		{ CONFIG_XDS, check_xds }, { CONFIG_CONTAINER, check_container } };
	for (size_t i = 0; i < ARRAY_LEN(checks); i++) {
		config_each_section(builder, checks[i].kind, checks[i].check);
	}
}
