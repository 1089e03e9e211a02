#include "agent/config/record.h"

static const char *persistence_name(enum config_persistence persistence)
{
	static const char *const names[] = { "container", "application-attempt", "application",
		"permanent" };
	return names[persistence];
}

static int no_memory(struct err *err)
{
	return err_set(err, BERTH_FAILED, "no memory, or text that is not UTF-8");
}

static json_t *configured_addresses(const struct config_endpoint *endpoint, struct err *err)
{
	json_t *addresses = json_array();
	for (size_t i = 0; addresses && i < endpoint->address_count; i++) {
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
	json_t *addresses = at_run_time->addresses ? json_deep_copy(at_run_time->addresses)
						   : configured_addresses(endpoint, err);
	if (!addresses) {
		return no_memory(err);
	}
	if (record_add_endpoint_take(record, endpoint->external ? "external" : "internal",
		    endpoint->api, endpoint->protocol, endpoint->address_type, addresses)) {
		return no_memory(err);
	}
	return 0;
}

static int add_texts(struct record *record, const struct config_component *config,
	const char *health, struct err *err)
{
	const struct config_name_value texts[] = {
		{ "description", config->description },
		{ "yarn:id", config->id },
		{ "yarn:persistence", (char *)persistence_name(config->persistence) },
	};
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		if (*texts[i].value && record_set_text(record, texts[i].name, texts[i].value)) {
			return no_memory(err);
		}
	}
	for (size_t i = 0; i < config->attribute_count; i++) {
		if (record_set_text(
			    record, config->attributes[i].name, config->attributes[i].value)) {
			return no_memory(err);
		}
	}
	if (health && record_set_text(record, CONFIG_RECORD_HEALTH, health)) {
		return no_memory(err);
	}
	return 0;
}

int config_record(struct record **ret_record, const struct config_component *config,
	const struct config_record_endpoint *endpoints, const char *health, struct err *err)
{
	struct record *record = record_create();
	if (!record) {
		return no_memory(err);
	}
	int code = add_texts(record, config, health, err);
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
