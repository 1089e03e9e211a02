#include "agent/config/config.h"

#include <stdlib.h>
#include <string.h>

#include "agent/base/allocate.h"
#include "agent/config/expand.h"
#include "agent/config/field.h"
#include "agent/config/secret.h"
#include "lib/registry/url.h"

static void print_header(FILE *stream, const char *kind, const char *name)
{
	fprintf(stream, "[%s%s%s]\n", kind, *name ? " " : "", name);
}

static void print_option(const struct config_option *option, const void *target, FILE *stream)
{
	size_t count = config_field_count(option, target);
	for (size_t i = 0; i < count; i++) {
		char *key = config_field_key(option, target, i);
		char *text = config_field_text(option, target, i);
		char *masked = config_mask(option, key, text);
		char *value = option->type == CONFIG_COMMAND ? allocate_text(masked)
							     : config_unexpand(masked);
		fprintf(stream, "%s =%s%s\n", key, *value ? " " : "", value);
		free(key);
		free(text);
		free(masked);
		free(value);
	}
}

/* `check_type` leaves out what means nothing to it; 0 prints everything. */
static void print_section(enum config_section_kind kind, const char *name, const void *target,
	unsigned types, FILE *stream)
{
	const struct config_section_type *type = &config_sections[kind];
	fputc('\n', stream);
	print_header(stream, type->kind, name);
	for (size_t i = 0; type->options[i].key; i++) {
		const struct config_option *option = &type->options[i];
		if (!option->for_types || (option->for_types & types)) {
			print_option(option, target, stream);
		}
	}
}

void config_print(const struct config *config, FILE *stream)
{
	fputs("; The effective configuration: defaults filled in, ${} expanded, secrets masked.\n",
		stream);
	for (unsigned i = 0; i < CONFIG_SECTION_COUNT; i++) {
		const struct config_section_type *type = &config_sections[i];
		if (type->naming == CONFIG_UNNAMED) {
			print_section(i, "", config_section_place_const(config, type), 0, stream);
		}
	}
	for (size_t i = 0; i < config->component_count; i++) {
		const struct config_component *component = &config->components[i];
		print_section(CONFIG_COMPONENT, component->name, component, 0, stream);
		for (size_t j = 0; j < component->endpoint_count; j++) {
			const struct config_endpoint *endpoint = &component->endpoints[j];
			print_section(CONFIG_ENDPOINT, endpoint->name, endpoint, 0, stream);
		}
		for (size_t j = 0; j < component->dialect_count; j++) {
			const struct config_dialect *dialect = &component->dialects[j];
			print_section(CONFIG_DIALECT, dialect->name, dialect,
				CONFIG_FOR(dialect->word), stream);
		}
	}
	for (size_t i = 0; i < config->check_count; i++) {
		const struct config_check *check = &config->checks[i];
		print_section(CONFIG_CHECK, check->name, check, CONFIG_FOR(check->type), stream);
	}
	for (size_t i = 0; i < config->output_count; i++) {
		const struct config_output *output = &config->outputs[i];
		print_section(CONFIG_OUTPUT, output->name, output, 0, stream);
	}
	for (size_t i = 0; i < config->import_count; i++) {
		print_section(
			CONFIG_IMPORT, config->imports[i].name, &config->imports[i], 0, stream);
	}
	for (size_t i = 0; i < config->zone_count; i++) {
		print_section(CONFIG_ZONE, config->zones[i].name, &config->zones[i], 0, stream);
	}
	for (size_t i = 0; i < config->container_count; i++) {
		print_section(CONFIG_CONTAINER, config->containers[i].glob, &config->containers[i],
			0, stream);
	}
}

static void print_count(const char *separator, size_t count, const char *what, FILE *stream)
{
	fprintf(stream, "%s%zu %s%s", separator, count, what, count == 1 ? "" : "s");
}

static void print_count_of_any(size_t count, const char *what, FILE *stream)
{
	if (count > 0) {
		print_count(", ", count, what, stream);
	}
}

void config_print_summary(const struct config *config, FILE *stream)
{
	size_t endpoints = 0;
	size_t dialects = 0;
	for (size_t i = 0; i < config->component_count; i++) {
		endpoints += config->components[i].endpoint_count;
		dialects += config->components[i].dialect_count;
	}
	print_count("", config->component_count, "component", stream);
	print_count(", ", endpoints, "endpoint", stream);
	print_count(", ", config->check_count, "check", stream);
	print_count_of_any(dialects, "dialect", stream);
	print_count_of_any(config->output_count, "output", stream);
	print_count_of_any(config->import_count, "import", stream);
	print_count_of_any(config->zone_count, "zone", stream);
	/* The canonical spelling: the servers' ports and the root are there. */
	char *registry = allocated(registry_url_display(config->registry.url));
	fprintf(stream, ", registry %s", registry);
	free(registry);
}
