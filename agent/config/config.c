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
			config_fields_init(type, config_section_place(config, type, 0));
		}
	}
	return config;
}

/* All is zero but the name, the defaults of options, and texts that are never NULL. */
static void init(enum config_section_kind kind, void *target, const char *name)
{
	const struct config_section_type *type = &config_sections[kind];
	memset(target, 0, type->size);
	*(char **)((char *)target + type->name) = allocate_text(name);
	config_fields_init(type, target);
	if (kind == CONFIG_CHECK) {
		struct config_check *check = target;
		check->target_host = allocate_text("");
		check->target_port = allocate_text("");
		check->target_path = allocate_text("");
	} else if (kind == CONFIG_DIALECT) {
		((struct config_dialect *)target)->own_address = allocate_text("");
	}
}

static void finish(enum config_section_kind kind, void *target);

static void finish_component(struct config_component *component)
{
	for (size_t i = 0; i < component->endpoint_count; i++) {
		finish(CONFIG_ENDPOINT, &component->endpoints[i]);
	}
	for (size_t i = 0; i < component->dialect_count; i++) {
		finish(CONFIG_DIALECT, &component->dialects[i]);
	}
	free(component->dialects);
	free(component->endpoints);
}

static void finish(enum config_section_kind kind, void *target)
{
	const struct config_section_type *type = &config_sections[kind];
	if (kind == CONFIG_CHECK) {
		struct config_check *check = target;
		free(check->target_host);
		free(check->target_port);
		free(check->target_path);
	} else if (kind == CONFIG_DIALECT) {
		free(((struct config_dialect *)target)->own_address);
	} else if (kind == CONFIG_OUTPUT) {
		struct config_output *output = target;
		free(output->from_path);
		free(output->selection);
	} else if (kind == CONFIG_COMPONENT) {
		finish_component(target);
	}
	config_fields_finish(type, target);
	if (type->size) {
		free(*(char **)((char *)target + type->name));
	}
}

void *config_section_add(struct config *config, enum config_section_kind kind, const char *name)
{
	const struct config_section_type *type = &config_sections[kind];
	size_t *count = (size_t *)((char *)config + type->count);
	void *array = allocate_grow(config_section_place(config, type, 0), *count, type->size);
	memcpy((char *)config + type->offset, &array, sizeof(array));
	void *target = config_section_place(config, type, (*count)++);
	init(kind, target, name);
	return target;
}

void config_endpoint_init(struct config_endpoint *endpoint, const char *name)
{
	init(CONFIG_ENDPOINT, endpoint, name);
}

void config_endpoint_finish(struct config_endpoint *endpoint)
{
	finish(CONFIG_ENDPOINT, endpoint);
}

void config_dialect_init(struct config_dialect *dialect, const char *name)
{
	init(CONFIG_DIALECT, dialect, name);
}

void config_dialect_finish(struct config_dialect *dialect)
{
	finish(CONFIG_DIALECT, dialect);
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
	for (unsigned i = 0; i < CONFIG_SECTION_COUNT; i++) {
		const struct config_section_type *type = &config_sections[i];
		for (size_t j = 0; j < config_section_count(config, type); j++) {
			finish(i, config_section_place(config, type, j));
		}
		if (type->count) {
			free(config_section_place(config, type, 0));
		}
	}
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
			const void *before = config_section_place(now, type, 0);
			const void *after = config_section_place(next, type, 0);
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
