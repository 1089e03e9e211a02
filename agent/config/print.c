/* Prints a configuration as berth.ini, and as a summary. */
#include "agent/config/config.h"

#include <stdlib.h>
#include <string.h>

#include "agent/base/allocate.h"
#include "agent/config/expand.h"
#include "agent/config/field.h"
#include "agent/config/parts.h"
#include "agent/config/secret.h"
#include "lib/registry/url.h"

enum { PATHS_SHOWN = 8 };

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
		char *value = option->type == CONFIG_COMMAND || option->per_container
			? allocate_text(masked)
			: config_unexpand(masked);
		fprintf(stream, "%s =%s%s\n", key, *value ? " " : "", value);
		free(key);
		free(text);
		free(masked);
		free(value);
	}
}

static void print_part(void *context, const struct config_part *part)
{
	FILE *stream = context;
	fputc('\n', stream);
	print_header(stream, part->type->kind, part->name);
	for (const struct config_option *option = part->type->options; option->key; option++) {
		if (!option->for_types || !part->types || (option->for_types & part->types)) {
			print_option(option, part->target, stream);
		}
	}
}

void config_print(const struct config *config, FILE *stream)
{
	fputs("; The effective configuration: defaults filled in, ${} expanded, secrets masked.\n",
		stream);
	for (size_t i = 0; i < config->wait_count; i++) {
		fprintf(stream,
			"; There is no address yet, and 192.0.0.8 or 100:0:0:1:: takes its "
			"place: %s\n",
			config->waits[i].text);
	}
	config_each_part(config, print_part, stream);
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
	bool bridges = *config->bridge.containers || config->runtime_count > 0;
	if (*config->bridge.containers) {
		fprintf(stream, "bridge of %s, ", config->bridge.containers);
	}
	for (size_t i = 0; i < config->runtime_count; i++) {
		fprintf(stream, "runtime %s, ", config->runtimes[i].name);
	}
	if (bridges) {
		print_count("", config->container_count, "container rule", stream);
	}
	if (!bridges || config->component_count > 0) {
		print_count(bridges ? ", " : "", config->component_count, "component", stream);
		print_count(", ", endpoints, "endpoint", stream);
		print_count(", ", config->check_count, "check", stream);
	}
	print_count_of_any(config->listen_count, "listener", stream);
	print_count_of_any(dialects, "dialect", stream);
	print_count_of_any(config->output_count, "output", stream);
	print_count_of_any(config->import_count, "import", stream);
	print_count_of_any(config->zone_count, "zone", stream);
	/* The canonical spelling: the servers' ports and the root are there. */
	char *registry = allocated(registry_url_display(config->registry.url));
	fprintf(stream, ", registry %s", registry);
	free(registry);
	for (size_t i = 0; i < config->further_count; i++) {
		const struct config_registry *further = &config->further[i];
		registry = allocated(registry_url_display(further->url));
		fprintf(stream, ", " CONFIG_NET "/%s %s", further->name, registry);
		free(registry);
	}
	for (size_t i = 0; i < config->component_count && i < PATHS_SHOWN; i++) {
		fprintf(stream, "%s%s", i == 0 ? "; at " : ", ", config->components[i].path);
	}
	if (config->component_count > PATHS_SHOWN) {
		fprintf(stream, " and %zu more", config->component_count - PATHS_SHOWN);
	}
}
