#include "agent/bridge/describe.h"

#include <stdlib.h>
#include <string.h>

#include "agent/base/allocate.h"
#include "agent/bridge/labels.h"
#include "agent/bridge/registrator.h"
#include "agent/config/build.h"
#include "agent/config/record.h"
#include "lib/base/array.h"
#include "lib/base/buffer.h"
#include "lib/record/record.h"

enum { VALUE_BYTES = 64 * 1024, CHECKS_MAX = 16, INTERVAL_MIN_MS = 100 };

/* ---- labels ---- */

static const char *value_of(const struct bridge_facts *facts, const char *name, size_t len)
{
	const struct config_name_value known[] = { { (char *)"name", facts->name },
		{ (char *)"image", facts->image }, { (char *)"id", (char *)(uintptr_t)facts->id },
		{ (char *)"hostname", facts->host_name } };
	for (size_t i = 0; i < ARRAY_LEN(known); i++) {
		if (strlen(known[i].name) == len && strncmp(known[i].name, name, len) == 0) {
			return known[i].value;
		}
	}
	return NULL;
}

/* ${container.name} and so on, in a value of the host's own. */
static char *expand(const char *text, const struct bridge_facts *facts)
{
	static const char begin[] = "${container.";
	struct buffer out;
	buffer_init(&out, VALUE_BYTES);
	while (*text) {
		size_t len = strncmp(text, begin, strlen(begin)) == 0
			? strcspn(text + strlen(begin), "}")
			: 0;
		const char *value = len > 0 ? value_of(facts, text + strlen(begin), len) : NULL;
		if (value) {
			buffer_append_text(&out, value);
			text += strlen(begin) + len + 1;
		} else {
			buffer_append(&out, text++, 1);
		}
	}
	char *result = allocate_text(buffer_text(&out));
	buffer_finish(&out);
	return result;
}

static void add_label(struct bridge_labels *labels, const char *name, char *value_take)
{
	labels->pairs = allocate_grow(labels->pairs, labels->count, sizeof(*labels->pairs));
	labels->pairs[labels->count++] = (struct config_name_value){ .name = allocate_text(name),
		.value = value_take };
}

static struct bridge_labels merge(const struct config_name_value *own, size_t count,
	const struct bridge_facts *facts, const struct config_container *policy)
{
	struct bridge_labels labels = { .pairs = NULL };
	for (size_t i = 0; i < count; i++) {
		add_label(&labels, own[i].name, allocate_text(own[i].value));
	}
	for (size_t i = 0; policy && i < policy->label_count; i++) {
		if (!bridge_labels_find(&labels, policy->labels[i].name)) {
			add_label(&labels, policy->labels[i].name,
				expand(policy->labels[i].value, facts));
		}
	}
	return labels;
}

static void finish_labels(struct bridge_labels *labels)
{
	for (size_t i = 0; i < labels->count; i++) {
		free(labels->pairs[i].name);
		free(labels->pairs[i].value);
	}
	free(labels->pairs);
}

/* ---- the whole ---- */

static int pin(struct record *record, const struct config_container *policy, struct err *err)
{
	for (size_t i = 0; policy && i < policy->attribute_count; i++) {
		if (record_set_text(
			    record, policy->attributes[i].name, policy->attributes[i].value)) {
			return err_set(err, BERTH_INVALID_RECORD, "the attribute %s cannot be set",
				policy->attributes[i].name);
		}
	}
	return 0;
}

static void make_record(struct bridge_service *service, const struct config_container *policy)
{
	const struct config_component *component = &service->config->components[0];
	struct config_record_endpoint *at_run_time = allocate_zeroed(
		component->endpoint_count + 1, sizeof(*at_run_time));
	struct record *record = NULL;
	struct err err = ERR_INIT;
	if (config_record(&record, component, at_run_time, NULL, NULL, &err) ||
		pin(record, policy, &err) ||
		record_encode(record, &service->data, &service->len, &err)) {
		bridge_service_spoil(service, &err);
	}
	record_free(record);
	free(at_run_time);
}

static bool is_placed(struct bridge_services *services, struct bridge_service *service)
{
	const char *path = service->config->components[0].path;
	for (size_t i = 0; *path && i < (size_t)(service - services->items); i++) {
		if (strcmp(services->items[i].config->components[0].path, path) == 0) {
			bridge_services_problem(
				services, "two of its services are at the path %s", path);
			return false;
		}
	}
	return *path;
}

/* The agent runs them, and the owner of the container says how many and how often. */
static void bound_checks(
	struct bridge_services *services, struct bridge_service *service, size_t all)
{
	struct err err = ERR_INIT;
	for (size_t i = 0; i < service->config->check_count; i++) {
		struct config_check *check = &service->config->checks[i];
		if (check->interval_ms < INTERVAL_MIN_MS) {
			bridge_services_problem(services,
				"check %s: its interval is made %d ms, the shortest one that a "
				"label may have",
				check->name, INTERVAL_MIN_MS);
			check->interval_ms = INTERVAL_MIN_MS;
		}
		config_check_fill_intervals(check);
	}
	if (all > CHECKS_MAX) {
		err_set(&err, BERTH_LIMIT_EXCEEDED, "a container has %d checks at most",
			CHECKS_MAX);
		bridge_service_spoil(service, &err);
	}
}

static void complete(struct bridge_services *services, const struct config_container *policy)
{
	size_t kept = 0;
	size_t checks = 0; /* of all services */
	for (size_t i = 0; i < services->count; i++) {
		struct bridge_service service = services->items[i];
		if (!is_placed(services, &services->items[i])) {
			config_unref(service.config);
			free(service.mistake);
			continue;
		}
		checks += service.config->check_count;
		bound_checks(services, &service, checks);
		if (!service.mistake) {
			make_record(&service, policy);
		}
		services->items[kept++] = service;
	}
	services->count = kept;
}

void bridge_services_make(struct bridge_services *ret_services, const struct bridge_facts *facts,
	const struct config_runtime *runtime, const struct config_container *policy)
{
	struct bridge_services services = { .items = NULL };
	struct bridge_labels labels = merge(facts->labels, facts->label_count, facts, policy);
	for (size_t i = 0; i < runtime->label_count; i++) {
		if (strcmp(runtime->labels[i], BRIDGE_REGISTRATOR) == 0) {
			bridge_registrator_read(&services, facts, &labels, runtime);
		} else {
			bridge_labels_read(&services, facts, &labels, runtime, runtime->labels[i]);
		}
	}
	complete(&services, policy);
	finish_labels(&labels);
	*ret_services = services;
}
