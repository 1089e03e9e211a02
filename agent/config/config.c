#include "agent/config/config.h"

#include <stdlib.h>
#include <string.h>

#include "agent/base/allocate.h"
#include "agent/config/build.h"
#include "agent/config/field.h"
#include "agent/config/origin.h"

struct config *config_create(void)
{
	struct config *config = allocate_zeroed(1, sizeof(*config));
	config->references = 1;
	for (size_t i = 0; i < CONFIG_SECTION_COUNT; i++) {
		const struct config_section_type *type = &config_sections[i];
		if (type->naming == CONFIG_UNNAMED) {
			config_fields_init(type, config_section_place(config, type));
		}
	}
	return config;
}

void config_endpoint_init(struct config_endpoint *endpoint, const char *name)
{
	*endpoint = (struct config_endpoint){ .name = allocate_text(name) };
	config_fields_init(&config_sections[CONFIG_ENDPOINT], endpoint);
}

void config_endpoint_finish(struct config_endpoint *endpoint)
{
	config_fields_finish(&config_sections[CONFIG_ENDPOINT], endpoint);
	free(endpoint->name);
}

void config_check_init(struct config_check *check, const char *name)
{
	*check = (struct config_check){
		.name = allocate_text(name),
		.target_host = allocate_text(""),
		.target_port = allocate_text(""),
		.target_path = allocate_text(""),
	};
	config_fields_init(&config_sections[CONFIG_CHECK], check);
}

static void finish_check(struct config_check *check)
{
	config_fields_finish(&config_sections[CONFIG_CHECK], check);
	free(check->target_host);
	free(check->target_port);
	free(check->target_path);
	free(check->name);
}

void config_dialect_init(struct config_dialect *dialect, const char *name)
{
	*dialect = (struct config_dialect){ .name = allocate_text(name),
		.own_address = allocate_text("") };
	config_fields_init(&config_sections[CONFIG_DIALECT], dialect);
}

void config_dialect_finish(struct config_dialect *dialect)
{
	config_fields_finish(&config_sections[CONFIG_DIALECT], dialect);
	free(dialect->own_address);
	free(dialect->name);
}

static void finish_component(struct config_component *component)
{
	for (size_t i = 0; i < component->endpoint_count; i++) {
		config_endpoint_finish(&component->endpoints[i]);
	}
	for (size_t i = 0; i < component->dialect_count; i++) {
		config_dialect_finish(&component->dialects[i]);
	}
	config_fields_finish(&config_sections[CONFIG_COMPONENT], component);
	free(component->dialects);
	free(component->endpoints);
	free(component->name);
}

static void finish_output(struct config_output *output)
{
	config_fields_finish(&config_sections[CONFIG_OUTPUT], output);
	free(output->from_path);
	free(output->selection);
	free(output->name);
}

static void finish_import(struct config_import *import)
{
	config_fields_finish(&config_sections[CONFIG_IMPORT], import);
	free(import->name);
}

static void finish_listen(struct config_listen *listen)
{
	config_fields_finish(&config_sections[CONFIG_LISTEN], listen);
	free(listen->name);
}

static void finish_further(struct config_registry *further)
{
	config_fields_finish(&config_sections[CONFIG_FURTHER], further);
	free(further->name);
}

static void finish_zone(struct config_zone *zone)
{
	config_fields_finish(&config_sections[CONFIG_ZONE], zone);
	free(zone->name);
}

static void finish_runtime(struct config_runtime *runtime)
{
	config_fields_finish(&config_sections[CONFIG_RUNTIME], runtime);
	free(runtime->name);
}

static void finish_container(struct config_container *container)
{
	config_fields_finish(&config_sections[CONFIG_CONTAINER], container);
	free(container->glob);
}

void config_ref(struct config *config)
{
	if (config) {
		config->references++;
	}
}

void config_unref(struct config *config)
{
	if (!config || --config->references > 0) {
		return;
	}
	for (size_t i = 0; i < config->component_count; i++) {
		finish_component(&config->components[i]);
	}
	free(config->components);
	for (size_t i = 0; i < config->check_count; i++) {
		finish_check(&config->checks[i]);
	}
	free(config->checks);
	for (size_t i = 0; i < config->output_count; i++) {
		finish_output(&config->outputs[i]);
	}
	free(config->outputs);
	for (size_t i = 0; i < config->import_count; i++) {
		finish_import(&config->imports[i]);
	}
	free(config->imports);
	for (size_t i = 0; i < config->listen_count; i++) {
		finish_listen(&config->listens[i]);
	}
	free(config->listens);
	for (size_t i = 0; i < config->further_count; i++) {
		finish_further(&config->further[i]);
	}
	free(config->further);
	for (size_t i = 0; i < config->zone_count; i++) {
		finish_zone(&config->zones[i]);
	}
	free(config->zones);
	for (size_t i = 0; i < config->runtime_count; i++) {
		finish_runtime(&config->runtimes[i]);
	}
	free(config->runtimes);
	for (size_t i = 0; i < config->container_count; i++) {
		finish_container(&config->containers[i]);
	}
	free(config->containers);
	config_origins_finish(&config->origins);
	config_source_unref(config->source);
	config_found_finish(&config->found);
	for (size_t i = 0; i < config->wait_count; i++) {
		free(config->waits[i].section);
		free(config->waits[i].name);
		free(config->waits[i].text);
	}
	free(config->waits);
	for (size_t i = 0; i < config->agent.own_host_count; i++) {
		free(config->agent.own_hosts[i]);
	}
	free(config->agent.own_hosts);
	for (size_t i = 0; i < CONFIG_SECTION_COUNT; i++) {
		const struct config_section_type *type = &config_sections[i];
		if (type->naming == CONFIG_UNNAMED) {
			config_fields_finish(type, config_section_place(config, type));
		}
	}
	free(config);
}

struct config_component *config_component_named(const struct config *config, const char *name)
{
	for (size_t i = 0; i < config->component_count; i++) {
		if (strcmp(config->components[i].name, name) == 0) {
			return &config->components[i];
		}
	}
	return NULL;
}

const struct config_output *config_output_named(const struct config *config, const char *name)
{
	for (size_t i = 0; i < config->output_count; i++) {
		if (strcmp(config->outputs[i].name, name) == 0) {
			return &config->outputs[i];
		}
	}
	return NULL;
}

const char *config_component_label(const struct config_component *component)
{
	return *component->name ? component->name : component->component_name;
}

int config_component_weight(const struct config_component *component)
{
	for (size_t i = 0; i < component->attribute_count; i++) {
		const struct config_name_value *attribute = &component->attributes[i];
		if (strcmp(attribute->name, "weight") == 0) {
			size_t digits = strspn(attribute->value, "0123456789");
			return digits > 0 && digits < 6 && !attribute->value[digits]
				? atoi(attribute->value)
				: 1;
		}
	}
	return 1;
}

/* The listener of this name; NULL when there is none. */
static const struct config_listen *find_listen(const struct config *config, const char *name)
{
	for (size_t i = 0; i < config->listen_count; i++) {
		if (strcmp(config->listens[i].name, name) == 0) {
			return &config->listens[i];
		}
	}
	return NULL;
}

static void refuse_listeners(const struct config *now, const struct config *next, const char *file,
	struct config_problems *problems)
{
	static const char text[] = "[listen %s] cannot come, go or change its address while the "
				   "agent runs; restart it, or send USR2";
	for (size_t i = 0; i < now->listen_count; i++) {
		const struct config_listen *before = &now->listens[i];
		const struct config_listen *after = find_listen(next, before->name);
		if (!after || strcmp(before->address, after->address) != 0) {
			config_problems_add(problems, file, 0, text, before->name);
		}
	}
	for (size_t i = 0; i < next->listen_count; i++) {
		if (!find_listen(now, next->listens[i].name)) {
			config_problems_add(problems, file, 0, text, next->listens[i].name);
		}
	}
}

void config_refuse_changes(const struct config *now, const struct config *next, const char *file,
	struct config_problems *problems)
{
	for (size_t i = 0; i < CONFIG_SECTION_COUNT; i++) {
		const struct config_section_type *type = &config_sections[i];
		for (size_t j = 0; type->options[j].key && type->naming == CONFIG_UNNAMED; j++) {
			const struct config_option *option = &type->options[j];
			const void *before = config_section_place_const(now, type);
			const void *after = config_section_place_const(next, type);
			if (!option->fixed || config_field_equal(option, before, after)) {
				continue;
			}
			char *text = config_field_text(option, before, 0);
			config_problems_add(problems, file, 0,
				"[%s] %s cannot change while the agent runs (it is \"%s\"); "
				"restart it, or send USR2",
				type->kind, option->key, text);
			free(text);
		}
	}
	refuse_listeners(now, next, file, problems);
}

const struct config_component *config_check_component(
	const struct config_check *check, size_t index)
{
	return config_component_named(check->whole, check->components[index]);
}

bool config_check_guards(const struct config_check *check, const struct config_component *component)
{
	for (size_t i = 0; i < check->component_count; i++) {
		if (strcmp(check->components[i], component->name) == 0) {
			return true;
		}
	}
	return false;
}

bool config_check_is_probed(const struct config_check *check)
{
	return check->type == CONFIG_CHECK_GRPC || (check->type == CONFIG_CHECK_HTTP && check->tls);
}

static bool same_text(const char *a, const char *b)
{
	return a == b || (a && b && strcmp(a, b) == 0);
}

bool config_check_equal(const struct config_check *a, const struct config_check *b)
{
	const struct config_option *option = config_sections[CONFIG_CHECK].options;
	bool equal = strcmp(a->name, b->name) == 0;
	for (; equal && option->key; option++) {
		equal = option->offset == offsetof(struct config_check, components) ||
			config_field_equal(option, a, b);
	}
	/* A certificate may be another one in the same file. */
	return equal && same_text(a->tls_ca_pem, b->tls_ca_pem) &&
		same_text(a->tls_cert_pem, b->tls_cert_pem) &&
		same_text(a->tls_key_pem, b->tls_key_pem);
}

bool config_further_equal(const struct config_registry *a, const struct config_registry *b)
{
	return strcmp(a->name, b->name) == 0 &&
		config_fields_equal(&config_sections[CONFIG_FURTHER], a, b);
}

bool config_output_equal(const struct config_output *a, const struct config_output *b)
{
	return strcmp(a->name, b->name) == 0 &&
		config_fields_equal(&config_sections[CONFIG_OUTPUT], a, b);
}
