/* From files to a configuration: each section into its struct, in the order in which they need
 * each other. */
#include <stdlib.h>
#include <string.h>

#include "agent/base/allocate.h"
#include "agent/config/build.h"
#include "agent/config/expand.h"
#include "agent/config/field.h"
#include "agent/config/found.h"
#include "agent/config/own_address.h"
#include "agent/config/verify.h"
#include "agent/config/verify_bridge.h"
#include "lib/base/limits.h"

/* Kinds and names of all sections; whether they are as the table wants them. */
static void check_headers(struct config_builder *builder)
{
	for (size_t i = 0; i < builder->source->section_count; i++) {
		const struct config_section *section = &builder->source->sections[i];
		const struct config_section_type *type = config_section_type_find(
			section->kind, section->name);
		struct err err = ERR_INIT;
		if (!type) {
			config_report(builder, section, NULL,
				"there is no section [%.60s]; the nearest is [%s]", section->kind,
				config_section_type_nearest(section->kind));
		} else if (type->naming == CONFIG_UNNAMED && *section->name) {
			config_report(
				builder, section, NULL, "[%s] has no name behind it", type->kind);
		} else if (type->naming == CONFIG_GLOB && !*section->name) {
			config_report(builder, section, NULL, "write [%s GLOB]", type->kind);
		} else if (type->naming == CONFIG_NAMED && !*section->name) {
			config_report(builder, section, NULL, "write [%s NAME]", type->kind);
		} else if (type->naming == CONFIG_GLOB
				? config_verify_container_glob(section->name, &err)
				: config_verify_section_name(section->name, &err)) {
			config_report(builder, section, NULL, "[%s %.60s]: %s", type->kind,
				section->name, err.msg);
		}
	}
}

/* Calls `build` for each section of a kind, in their order. */
static void build_each(struct config_builder *builder, enum config_section_kind kind,
	void (*build)(struct config_builder *builder, const struct config_section *section))
{
	for (size_t i = 0; i < builder->source->section_count; i++) {
		const struct config_section *section = &builder->source->sections[i];
		if (config_section_type_find(section->kind, section->name) ==
			&config_sections[kind]) {
			build(builder, section);
		}
	}
}

static void build_unnamed(struct config_builder *builder)
{
	for (size_t i = 0; i < builder->source->section_count; i++) {
		const struct config_section *section = &builder->source->sections[i];
		const struct config_section_type *type = config_section_type_find(
			section->kind, section->name);
		if (type && type->naming == CONFIG_UNNAMED) {
			config_apply(builder, section, type,
				config_section_place(builder->config, type));
		}
	}
}

static void refuse_same_path(struct config_builder *builder, const struct config_section *section,
	const struct config_component *component)
{
	for (size_t i = 0; i + 1 < builder->config->component_count; i++) {
		const struct config_component *other = &builder->config->components[i];
		if (*component->path && strcmp(other->path, component->path) == 0) {
			config_report(builder, section, NULL,
				"[component %s] has the same path as [component %s]: %s",
				section->name, other->name, component->path);
		}
	}
}

static void build_component(struct config_builder *builder, const struct config_section *section)
{
	struct config *config = builder->config;
	config->components = allocate_grow(
		config->components, config->component_count, sizeof(*config->components));
	struct config_component *component = &config->components[config->component_count++];
	component->whole = config;
	component->name = allocate_text(section->name);
	config_fields_init(&config_sections[CONFIG_COMPONENT], component);
	config_apply(builder, section, &config_sections[CONFIG_COMPONENT], component);
	config_rule_component(builder, section, component);
	refuse_same_path(builder, section, component);
}

static void refuse_nameless(struct config_builder *builder, const struct config_section *section)
{
	if (builder->config->component_count > 1 && !*section->name) {
		config_report(builder, section, NULL,
			"of several components each needs a name: [component NAME]");
	}
}

/*
 * The component that an endpoint or check belongs to; reports an error and returns NULL when there
 * is none.
 */
static struct config_component *owner_of(
	struct config_builder *builder, const struct config_section *section, char **component_name)
{
	const struct config *config = builder->config;
	const struct config_entry *entry = config_section_find(section, "component");
	if (entry && entry->bad) {
		return NULL;
	}
	struct config_component *component = NULL;
	if (**component_name) {
		component = config_component_named(config, *component_name);
		if (!component) {
			config_report(builder, section, entry, "there is no [component %s]",
				*component_name);
		}
	} else if (config->component_count == 1) {
		component = &config->components[0];
		free(*component_name);
		*component_name = allocate_text(component->name);
	} else if (config->component_count == 0) {
		config_report(builder, section, NULL, "[%s %s] has no [component]", section->kind,
			section->name);
	} else {
		config_report(builder, section, entry,
			"[%s %s] needs `component = NAME`, as there are several components",
			section->kind, section->name);
	}
	return component;
}

static void build_endpoint(struct config_builder *builder, const struct config_section *section)
{
	struct config_endpoint endpoint;
	config_endpoint_init(&endpoint, section->name);
	config_apply(builder, section, &config_sections[CONFIG_ENDPOINT], &endpoint);
	struct config_component *component = owner_of(builder, section, &endpoint.component);
	config_rule_endpoint(builder, section, &endpoint);
	if (!component) {
		config_endpoint_finish(&endpoint);
		return;
	}
	component->endpoints = allocate_grow(
		component->endpoints, component->endpoint_count, sizeof(*component->endpoints));
	component->endpoints[component->endpoint_count++] = endpoint;
	if (component->endpoint_count == LIMIT_ENDPOINTS_PER_RECORD + 1) {
		config_report(builder, section, NULL, "a component can have %d endpoints at most",
			LIMIT_ENDPOINTS_PER_RECORD);
	}
}

/* The names of the check's components are made complete: true when each is known. */
static bool find_guarded(struct config_builder *builder, const struct config_section *section,
	struct config_check *check)
{
	bool known = true;
	if (check->component_count == 0) {
		check->components = allocate_zeroed(1, sizeof(*check->components));
		check->components[check->component_count++] = allocate_text("");
	}
	for (size_t i = 0; i < check->component_count; i++) {
		known = owner_of(builder, section, &check->components[i]) && known;
	}
	return known;
}

static void build_check(struct config_builder *builder, const struct config_section *section)
{
	struct config *config = builder->config;
	config->checks = allocate_grow(
		config->checks, config->check_count, sizeof(*config->checks));
	struct config_check *check = &config->checks[config->check_count++];
	config_check_init(check, section->name);
	check->whole = config;
	config_apply(builder, section, &config_sections[CONFIG_CHECK], check);
	config_rule_check(builder, section, check, find_guarded(builder, section, check));
}

static void build_output(struct config_builder *builder, const struct config_section *section)
{
	struct config *config = builder->config;
	config->outputs = allocate_grow(
		config->outputs, config->output_count, sizeof(*config->outputs));
	struct config_output *output = &config->outputs[config->output_count++];
	output->whole = config;
	output->name = allocate_text(section->name);
	config_fields_init(&config_sections[CONFIG_OUTPUT], output);
	config_apply(builder, section, &config_sections[CONFIG_OUTPUT], output);
	config_rule_output(builder, section, output);
}

static void build_dialect(struct config_builder *builder, const struct config_section *section)
{
	struct config_dialect dialect;
	config_dialect_init(&dialect, section->name);
	config_apply(builder, section, &config_sections[CONFIG_DIALECT], &dialect);
	struct config_component *component = owner_of(builder, section, &dialect.component);
	config_rule_dialect(builder, section, &dialect, component);
	config_rule_dialect_group(builder, section, &dialect);
	if (!component) {
		config_dialect_finish(&dialect);
		return;
	}
	component->dialects = allocate_grow(
		component->dialects, component->dialect_count, sizeof(*component->dialects));
	component->dialects[component->dialect_count++] = dialect;
}

static void build_import(struct config_builder *builder, const struct config_section *section)
{
	struct config *config = builder->config;
	config->imports = allocate_grow(
		config->imports, config->import_count, sizeof(*config->imports));
	struct config_import *import = &config->imports[config->import_count++];
	*import = (struct config_import){ .name = allocate_text(section->name) };
	config_fields_init(&config_sections[CONFIG_IMPORT], import);
	config_apply(builder, section, &config_sections[CONFIG_IMPORT], import);
	config_rule_import(builder, section, import);
}

static void build_listen(struct config_builder *builder, const struct config_section *section)
{
	struct config *config = builder->config;
	config->listens = allocate_grow(
		config->listens, config->listen_count, sizeof(*config->listens));
	struct config_listen *listen = &config->listens[config->listen_count++];
	*listen = (struct config_listen){ .name = allocate_text(section->name) };
	config_fields_init(&config_sections[CONFIG_LISTEN], listen);
	config_apply(builder, section, &config_sections[CONFIG_LISTEN], listen);
	config_rule_listen(builder, section, listen);
}

static void build_further(struct config_builder *builder, const struct config_section *section)
{
	struct config *config = builder->config;
	config->further = allocate_grow(
		config->further, config->further_count, sizeof(*config->further));
	struct config_registry *further = &config->further[config->further_count++];
	*further = (struct config_registry){ .name = allocate_text(section->name) };
	config_fields_init(&config_sections[CONFIG_FURTHER], further);
	config_apply(builder, section, &config_sections[CONFIG_FURTHER], further);
	config_rule_further(builder, section, further);
	if (*further->url) {
		config_rule_registry(builder, section, further);
	}
}

static void build_main_registry(
	struct config_builder *builder, const struct config_section *section)
{
	config_rule_registry(builder, section, &builder->config->registry);
}

static void build_zone(struct config_builder *builder, const struct config_section *section)
{
	struct config *config = builder->config;
	config->zones = allocate_grow(config->zones, config->zone_count, sizeof(*config->zones));
	struct config_zone *zone = &config->zones[config->zone_count++];
	*zone = (struct config_zone){ .name = allocate_text(section->name) };
	config_fields_init(&config_sections[CONFIG_ZONE], zone);
	config_apply(builder, section, &config_sections[CONFIG_ZONE], zone);
	config_rule_zone(builder, section, zone);
}

static void build_runtime(struct config_builder *builder, const struct config_section *section)
{
	struct config *config = builder->config;
	config->runtimes = allocate_grow(
		config->runtimes, config->runtime_count, sizeof(*config->runtimes));
	struct config_runtime *runtime = &config->runtimes[config->runtime_count++];
	*runtime = (struct config_runtime){ .name = allocate_text(section->name) };
	config_fields_init(&config_sections[CONFIG_RUNTIME], runtime);
	config_apply(builder, section, &config_sections[CONFIG_RUNTIME], runtime);
	config_rule_runtime(builder, section, runtime);
}

static void build_container(struct config_builder *builder, const struct config_section *section)
{
	struct config *config = builder->config;
	config->containers = allocate_grow(
		config->containers, config->container_count, sizeof(*config->containers));
	struct config_container *container = &config->containers[config->container_count++];
	*container = (struct config_container){ .glob = allocate_text(section->name) };
	config_fields_init(&config_sections[CONFIG_CONTAINER], container);
	config_apply(builder, section, &config_sections[CONFIG_CONTAINER], container);
	config_rule_container(builder, section, container);
}

static void check_record(struct config_builder *builder, const struct config_section *section)
{
	const struct config_component *component = config_component_named(
		builder->config, section->name);
	config_rule_record(builder, section, component);
	config_rule_parts(builder, section, component);
}

/* ---- values that wait for an address ---- */

static struct config_component *component_of(const struct config *config,
	const struct config_source *source, const struct config_wait *wait)
{
	if (strcmp(wait->section, "component") == 0) {
		return config_component_named(config, wait->name);
	}
	for (size_t i = 0; i < source->section_count; i++) {
		const struct config_section *section = &source->sections[i];
		bool is_part = strcmp(section->kind, wait->section) == 0 &&
			strcmp(section->name, wait->name) == 0 &&
			config_component_named(config, config_given(section, "component"));
		if (is_part) {
			return config_component_named(config, config_given(section, "component"));
		}
	}
	return config->component_count > 0 ? &config->components[0] : NULL;
}

static void let_check_wait(struct config *config, const struct config_wait *wait)
{
	for (size_t i = 0; i < config->check_count; i++) {
		struct config_check *check = &config->checks[i];
		if (strcmp(check->name, wait->name) != 0) {
			continue;
		}
		check->awaits = wait->text;
		for (size_t j = 0; j < config->component_count; j++) {
			if (config_check_guards(check, &config->components[j])) {
				config->components[j].awaits = wait->text;
			}
		}
	}
}

static void let_wait(
	struct config *config, const struct config_source *source, const struct config_wait *wait)
{
	const char *kind = wait->section;
	if (strcmp(kind, "check") == 0) {
		let_check_wait(config, wait);
	} else if (strcmp(kind, "component") == 0 || strcmp(kind, "endpoint") == 0 ||
		strcmp(kind, "dialect") == 0) {
		struct config_component *component = component_of(config, source, wait);
		if (component) {
			component->awaits = wait->text;
		}
	}
	for (size_t i = 0; strcmp(kind, "output") == 0 && i < config->output_count; i++) {
		if (strcmp(config->outputs[i].name, wait->name) == 0) {
			config->outputs[i].awaits = wait->text;
		}
	}
	for (size_t i = 0; strcmp(kind, "runtime") == 0 && i < config->runtime_count; i++) {
		if (strcmp(config->runtimes[i].name, wait->name) == 0) {
			config->runtimes[i].awaits = wait->text;
		}
	}
	for (size_t i = 0; strcmp(kind, "container") == 0 && i < config->container_count; i++) {
		if (strcmp(config->containers[i].glob, wait->name) == 0) {
			config->containers[i].awaits = wait->text;
		}
	}
}

/* ---- the whole ---- */

/* The addresses of this machine depend on where the registry is. */
static void find_registry(const struct config_source *source)
{
	for (size_t i = 0; i < source->section_count; i++) {
		const struct config_section *section = &source->sections[i];
		const struct config_entry *entry = config_section_find(section, "url");
		bool is_registry = strcmp(section->kind, "registry") == 0 && !*section->name;
		struct err err = ERR_INIT;
		char *url = is_registry && entry ? config_expand(entry->value, &err) : NULL;
		if (url) {
			config_address_set_url(url);
		}
		free(url);
	}
}

static void build(struct config_builder *builder)
{
	struct config_problems *problems = builder->source->problems;
	struct config *config = builder->config;
	check_headers(builder);
	build_unnamed(builder);
	build_each(builder, CONFIG_AGENT, config_rule_agent);
	build_each(builder, CONFIG_LISTEN, build_listen);
	build_each(builder, CONFIG_REGISTRY, build_main_registry);
	build_each(builder, CONFIG_FURTHER, build_further);
	build_each(builder, CONFIG_DNS, config_rule_dns);
	config->cache.is_confirm_given = config->cache.confirm_ms != 0;
	if (!config->cache.is_confirm_given) {
		config->cache.confirm_ms = config->registry.session_timeout_ms / 3;
	}
	build_each(builder, CONFIG_COMPONENT, build_component);
	build_each(builder, CONFIG_COMPONENT, refuse_nameless);
	build_each(builder, CONFIG_ENDPOINT, build_endpoint);
	build_each(builder, CONFIG_CHECK, build_check);
	build_each(builder, CONFIG_OUTPUT, build_output);
	build_each(builder, CONFIG_DIALECT, build_dialect);
	build_each(builder, CONFIG_IMPORT, build_import);
	build_each(builder, CONFIG_ZONE, build_zone);
	build_each(builder, CONFIG_RUNTIME, build_runtime);
	build_each(builder, CONFIG_CONTAINER, build_container);
	config_rule_host(builder);
	config_rule_net(builder);
	if (problems->error_count == 0) {
		build_each(builder, CONFIG_COMPONENT, check_record);
		config_rule_containers(builder);
		config_rule_whole(builder);
	}
	for (size_t i = 0; i < config->wait_count; i++) {
		let_wait(config, builder->source, &config->waits[i]);
	}
}

/* Takes the builder's configuration, and gives it to the caller if it is good. */
static int make(struct config **ret_config, struct config_builder *builder,
	struct config_problems *problems)
{
	struct err ignored;
	builder->source->problems = problems;
	config_found_begin(&builder->config->found);
	if (!builder->former) {
		find_registry(builder->source);
	}
	(void)config_expand_missing(&ignored);
	build(builder);
	config_found_end();
	builder->source->problems = NULL;
	builder->config->source = builder->source;
	if (problems->error_count) {
		config_unref(builder->config);
		return BERTH_FAILED;
	}
	*ret_config = builder->config;
	return 0;
}

int config_load(struct config **ret_config, const char *path, struct config_problems *problems)
{
	*problems = (struct config_problems){ 0 };
	struct config_source *source = allocate_zeroed(1, sizeof(*source));
	struct config_builder builder = { .source = source, .config = config_create() };
	source->references = 2; /* one of the configuration's, and one of ours */
	source->problems = problems;
	config_source_read(source, path);
	builder.config->origins = source->origins;
	int code = make(ret_config, &builder, problems);
	config_problems_sort(problems, source->files, source->file_count);
	config_source_unref(source);
	return code;
}

/* ---- other addresses ---- */

/* The address of this name now; NULL: there is none, or another one waits for its end. */
static char *address_now(const struct config_found *found,
	bool (*lost)(void *context, const char *name), void *context)
{
	struct err why = ERR_INIT;
	char *now = NULL;
	if (config_find_address(found->name, &now, &why) && found->value &&
		!lost(context, found->name)) {
		now = allocate_text(found->value);
	}
	return now;
}

static bool is_same(const char *a, const char *b)
{
	return a && b ? strcmp(a, b) == 0 : a == b;
}

bool config_addresses_differ(
	const struct config *config, bool (*lost)(void *context, const char *name), void *context)
{
	bool differ = false;
	for (size_t i = 0; i < config->found.count; i++) {
		const struct config_found *found = &config->found.items[i];
		if (config_is_address_name(found->name)) {
			char *now = address_now(found, lost, context);
			differ = differ || !is_same(now, found->value);
			free(now);
		}
	}
	return differ;
}

void config_each_other_address(const struct config *before, const struct config *after,
	void (*on_other)(void *context, const char *name, const char *from, const char *to),
	void *context)
{
	for (size_t i = 0; i < after->found.count; i++) {
		const struct config_found *to = &after->found.items[i];
		const struct config_found *from = config_found_find(&before->found, to->name);
		if (config_is_address_name(to->name) &&
			strcmp(to->name, CONFIG_EVERY_ADDRESS) != 0 && from &&
			!is_same(from->value, to->value)) {
			on_other(context, to->name, from->value, to->value);
		}
	}
}

int config_follow(struct config **ret_next, const struct config *config,
	bool (*lost)(void *context, const char *name), void *context,
	struct config_problems *problems)
{
	*problems = (struct config_problems){ 0 };
	struct config_builder builder = {
		.source = config->source, .config = config_create(), .former = config
	};
	for (size_t i = 0; i < config->found.count; i++) {
		const struct config_found *found = &config->found.items[i];
		char *now = config_is_address_name(found->name) ? address_now(found, lost, context)
								: NULL;
		if (!config_is_address_name(found->name)) {
			config_found_add(
				&builder.config->found, found->name, found->value, found->why);
		} else if (now) {
			config_found_add(&builder.config->found, found->name, now, "");
		}
		free(now);
	}
	config->source->references++;
	config_source_rewind(config->source);
	return make(ret_next, &builder, problems);
}
