#include "agent/config/record.h"

#include <string.h>

#include "agent/base/allocate.h"
#include "lib/base/array.h"

static const char *persistence_name(enum config_persistence persistence)
{
	static const char *const names[] = { "container", "application-attempt", "application",
		"permanent" };
	return names[persistence];
}

static int set_text(struct record *record, const char *name, const char *text, struct err *err)
{
	return record_set_text(record, name, text)
		? err_set(err, BERTH_INVALID_RECORD, "%s is not UTF-8 text", name)
		: 0;
}

static json_t *configured_addresses(const struct config_endpoint *endpoint, struct err *err)
{
	json_t *addresses = allocated(json_array());
	for (size_t i = 0; i < endpoint->address_count; i++) {
		json_t *address = record_address_parse(
			endpoint->address_type, endpoint->addresses[i], err);
		if (!address || json_array_append_new(addresses, address)) {
			json_decref(addresses);
			return NULL;
		}
	}
	return addresses;
}

static int add_endpoint(struct record *record, const struct config_endpoint *endpoint,
	const struct config_record_endpoint *at_run_time, struct err *err)
{
	if (at_run_time->out || (endpoint->dynamic && !at_run_time->addresses)) {
		return 0;
	}
	json_t *addresses = at_run_time->addresses
		? allocated(json_deep_copy(at_run_time->addresses))
		: configured_addresses(endpoint, err);
	if (!addresses) {
		return err->code;
	}
	if (record_add_endpoint_take(record, endpoint->external ? "external" : "internal",
		    endpoint->api, endpoint->protocol, endpoint->address_type, addresses)) {
		return err_set(err, BERTH_INVALID_RECORD,
			"[endpoint %s] holds text that is not UTF-8", endpoint->name);
	}
	return 0;
}

/* An attribute that has a default is left out by an empty value. */
static bool is_left_out(const struct config_name_value *attribute)
{
	static const char *const defaulted[] = { "yarn:ip", "yarn:hostname", "yarn:component" };
	for (size_t i = 0; i < ARRAY_LEN(defaulted); i++) {
		if (!*attribute->value && strcmp(attribute->name, defaulted[i]) == 0) {
			return true;
		}
	}
	return false;
}

static int add_texts(struct record *record, const struct config_component *config,
	const char *health, const struct holder_attribute *mark, struct err *err)
{
	const struct config_name_value texts[] = {
		{ "description", config->description },
		{ "yarn:id", config->id },
		{ "yarn:persistence", (char *)persistence_name(config->persistence) },
	};
	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		if (*texts[i].value && set_text(record, texts[i].name, texts[i].value, err)) {
			return err->code;
		}
	}
	for (size_t i = 0; i < config->attribute_count; i++) {
		if (is_left_out(&config->attributes[i])) {
			continue;
		}
		if (set_text(
			    record, config->attributes[i].name, config->attributes[i].value, err)) {
			return err->code;
		}
	}
	if (health && set_text(record, CONFIG_RECORD_HEALTH, health, err)) {
		return err->code;
	}
	return mark && mark->name ? set_text(record, mark->name, mark->value, err) : 0;
}

int config_record(struct record **ret_record, const struct config_component *config,
	const struct config_record_endpoint *endpoints, const char *health,
	const struct holder_attribute *mark, struct err *err)
{
	struct record *record = allocated(record_create());
	int code = add_texts(record, config, health, mark, err);
	for (size_t i = 0; code == 0 && i < config->endpoint_count; i++) {
		code = add_endpoint(record, &config->endpoints[i], &endpoints[i], err);
	}
	if (code == 0) {
		code = record_check(record, err);
	}
	if (code) {
		record_free(record);
		return code;
	}
	*ret_record = record;
	return 0;
}
