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
		builder->section = section;
		if (!type) {
			config_fault(builder, NULL,
				"there is no section [%.60s]; the nearest is [%s]", section->kind,
				config_section_type_nearest(section->kind));
		} else if (type->naming == CONFIG_UNNAMED && *section->name) {
			config_fault(builder, NULL, "[%s] has no name behind it", type->kind);
		} else if (type->naming == CONFIG_GLOB && !*section->name) {
			config_fault(builder, NULL, "write [%s GLOB]", type->kind);
		} else if (type->naming == CONFIG_NAMED && !*section->name) {
			config_fault(builder, NULL, "write [%s NAME]", type->kind);
		} else if (type->naming == CONFIG_GLOB
				? config_verify_container_glob(section->name, &err)
				: config_verify_section_name(section->name, &err)) {
			config_fault(builder, NULL, "[%s %.60s]: %s", type->kind, section->name,
				err.msg);
		}
	}
}

static void build_unnamed(struct config_builder *builder)
{
	for (size_t i = 0; i < builder->source->section_count; i++) {
		builder->section = &builder->source->sections[i];
		const struct config_section_type *type = config_section_type_find(
			builder->section->kind, builder->section->name);
		if (type && type->naming == CONFIG_UNNAMED) {
			config_apply(builder, type, config_section_place(builder->config, type, 0));
		}
	}
}

/* A further struct for the section, with the values of its keys. */
static void *add(struct config_builder *builder, enum config_section_kind kind)
{
	void *target = config_section_add(builder->config, kind, builder->section->name);
	config_apply(builder, &config_sections[kind], target);
	return target;
}

static void refuse_same_path(
	struct config_builder *builder, const struct config_component *component)
{
	for (size_t i = 0; i + 1 < builder->config->component_count; i++) {
		const struct config_component *other = &builder->config->components[i];
		if (*component->path && strcmp(other->path, component->path) == 0) {
			config_fault(builder, NULL,
				"[component %s] has the same path as [component %s]: %s",
				component->name, other->name, component->path);
		}
	}
}

static void build_component(struct config_builder *builder)
{
	struct config_component *component = add(builder, CONFIG_COMPONENT);
	component->whole = builder->config;
	config_rule_component(builder, component);
	refuse_same_path(builder, component);
}

static void refuse_nameless(struct config_builder *builder)
{
	if (builder->config->component_count > 1 && !*builder->section->name) {
		config_fault(
			builder, NULL, "of several components each needs a name: [component NAME]");
	}
}

/*
 * The component that an endpoint or check belongs to; reports an error and returns NULL when there
 * is none.
 */
static struct config_component *owner_of(struct config_builder *builder, char **component_name)
{
	const struct config *config = builder->config;
	const struct config_section *section = builder->section;
	struct config_component *component = NULL;
	if (config_is_bad(builder, "component")) {
		return NULL;
	}
	if (**component_name) {
		component = config_component_named(config, *component_name);
		if (!component) {
			config_fault(builder, "component", "there is no [component %s]",
				*component_name);
		}
	} else if (config->component_count == 1) {
		component = &config->components[0];
		free(*component_name);
		*component_name = allocate_text(component->name);
	} else if (config->component_count == 0) {
		config_fault(
			builder, NULL, "[%s %s] has no [component]", section->kind, section->name);
	} else {
		config_fault(builder, "component",
			"[%s %s] needs `component = NAME`, as there are several components",
			section->kind, section->name);
	}
	return component;
}

static void build_endpoint(struct config_builder *builder)
{
	struct config_endpoint endpoint;
	config_endpoint_init(&endpoint, builder->section->name);
	config_apply(builder, &config_sections[CONFIG_ENDPOINT], &endpoint);
	struct config_component *component = owner_of(builder, &endpoint.component);
	config_rule_endpoint(builder, &endpoint);
	if (!component) {
		config_endpoint_finish(&endpoint);
		return;
	}
	component->endpoints = allocate_grow(
		component->endpoints, component->endpoint_count, sizeof(*component->endpoints));
	component->endpoints[component->endpoint_count++] = endpoint;
	if (component->endpoint_count == LIMIT_ENDPOINTS_PER_RECORD + 1) {
		config_fault(builder, NULL, "a component can have %d endpoints at most",
			LIMIT_ENDPOINTS_PER_RECORD);
	}
}

/* The names of the check's components are made complete: true when each is known. */
static bool find_guarded(struct config_builder *builder, struct config_check *check)
{
	bool known = true;
	if (check->component_count == 0) {
		check->components = allocate_zeroed(1, sizeof(*check->components));
		check->components[check->component_count++] = allocate_text("");
	}
	for (size_t i = 0; i < check->component_count; i++) {
		known = owner_of(builder, &check->components[i]) && known;
	}
	return known;
}

static void build_check(struct config_builder *builder)
{
	struct config_check *check = add(builder, CONFIG_CHECK);
	check->whole = builder->config;
	config_rule_check(builder, check, find_guarded(builder, check));
}

static void build_output(struct config_builder *builder)
{
	struct config_output *output = add(builder, CONFIG_OUTPUT);
	output->whole = builder->config;
	config_rule_output(builder, output);
}

static void build_dialect(struct config_builder *builder)
{
	struct config_dialect dialect;
	config_dialect_init(&dialect, builder->section->name);
	config_apply(builder, &config_sections[CONFIG_DIALECT], &dialect);
	struct config_component *component = owner_of(builder, &dialect.component);
	config_rule_dialect(builder, &dialect, component);
	config_rule_dialect_group(builder, &dialect);
	if (!component) {
		config_dialect_finish(&dialect);
		return;
	}
	component->dialects = allocate_grow(
		component->dialects, component->dialect_count, sizeof(*component->dialects));
	component->dialects[component->dialect_count++] = dialect;
}

static void build_import(struct config_builder *builder)
{
	config_rule_import(builder, add(builder, CONFIG_IMPORT));
}

static void build_listen(struct config_builder *builder)
{
	config_rule_listen(builder, add(builder, CONFIG_LISTEN));
}

static void build_further(struct config_builder *builder)
{
	struct config_registry *further = add(builder, CONFIG_FURTHER);
	config_rule_further(builder, further);
	if (*further->url) {
		config_rule_registry(builder, further);
	}
}

static void build_main_registry(struct config_builder *builder)
{
	config_rule_registry(builder, &builder->config->registry);
}

static void build_zone(struct config_builder *builder)
{
	config_rule_zone(builder, add(builder, CONFIG_ZONE));
}

static void build_runtime(struct config_builder *builder)
{
	config_rule_runtime(builder, add(builder, CONFIG_RUNTIME));
}

static void build_container(struct config_builder *builder)
{
	config_rule_container(builder, add(builder, CONFIG_CONTAINER));
}

static void check_record(struct config_builder *builder)
{
	const struct config_component *component = config_component_named(
		builder->config, builder->section->name);
	config_rule_record(builder, component);
	config_rule_parts(builder, component);
}

/* ---- values that wait for an address ---- */

/* True when the value is one of the component, or of a part or a check of its. */
static bool concerns(const struct config_wait *wait, const struct config_component *component)
{
	const struct config *config = component->whole;
	bool own = strcmp(wait->section, "component") == 0 &&
		strcmp(wait->name, component->name) == 0;
	for (size_t i = 0; i < component->endpoint_count; i++) {
		own |= strcmp(wait->section, "endpoint") == 0 &&
			strcmp(wait->name, component->endpoints[i].name) == 0;
	}
	for (size_t i = 0; i < component->dialect_count; i++) {
		own |= strcmp(wait->section, "dialect") == 0 &&
			strcmp(wait->name, component->dialects[i].name) == 0;
	}
	for (size_t i = 0; i < config->check_count; i++) {
		own |= strcmp(wait->section, "check") == 0 &&
			strcmp(wait->name, config->checks[i].name) == 0 &&
			config_check_guards(&config->checks[i], component);
	}
	return own;
}

static void let_wait(struct config *config, const struct config_wait *wait)
{
	for (size_t i = 0; i < CONFIG_SECTION_COUNT; i++) {
		const struct config_section_type *type = &config_sections[i];
		bool waits = type->waits && strcmp(type->kind, wait->section) == 0;
		for (size_t j = 0; waits && j < config_section_count(config, type); j++) {
			char *target = config_section_place(config, type, j);
			if (strcmp(config_section_name(type, target), wait->name) == 0) {
				*(const char **)(target + type->awaits) = wait->text;
			}
		}
	}
	for (size_t i = 0; i < config->component_count; i++) {
		if (concerns(wait, &config->components[i])) {
			config->components[i].awaits = wait->text;
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
	config_each_section(builder, CONFIG_AGENT, config_rule_agent);
	config_each_section(builder, CONFIG_LISTEN, build_listen);
	config_each_section(builder, CONFIG_REGISTRY, build_main_registry);
	config_each_section(builder, CONFIG_FURTHER, build_further);
	config_each_section(builder, CONFIG_DNS, config_rule_dns);
	config->cache.is_confirm_given = config->cache.confirm_ms != 0;
	if (!config->cache.is_confirm_given) {
		config->cache.confirm_ms = config->registry.session_timeout_ms / 3;
	}
	config_each_section(builder, CONFIG_COMPONENT, build_component);
	config_each_section(builder, CONFIG_COMPONENT, refuse_nameless);
	config_each_section(builder, CONFIG_ENDPOINT, build_endpoint);
	config_each_section(builder, CONFIG_CHECK, build_check);
	config_each_section(builder, CONFIG_OUTPUT, build_output);
	config_each_section(builder, CONFIG_DIALECT, build_dialect);
	config_each_section(builder, CONFIG_IMPORT, build_import);
	config_each_section(builder, CONFIG_ZONE, build_zone);
	config_each_section(builder, CONFIG_RUNTIME, build_runtime);
	config_each_section(builder, CONFIG_CONTAINER, build_container);
	config_rule_host(builder);
	config_rule_net(builder);
	if (problems->error_count == 0) {
		config_each_section(builder, CONFIG_COMPONENT, check_record);
		config_rule_containers(builder);
		config_rule_whole(builder);
	}
	for (size_t i = 0; i < config->wait_count; i++) {
		let_wait(config, &config->waits[i]);
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
