/* The component's endpoints: which ones checks take out, and addresses that programs supply. */
#include "agent/component/internal.h"

#include <stdlib.h>
#include <string.h>

#include "agent/base/allocate.h"
#include "lib/base/clock.h"
#include "lib/record/target.h"

/* ---- taken out by checks ---- */

static bool check_guards(const struct config_check *check, const char *endpoint)
{
	for (size_t i = 0; i < check->endpoint_count; i++) {
		if (strcmp(check->endpoints[i], endpoint) == 0) {
			return true;
		}
	}
	return false;
}

void component_endpoints_update_out(struct component *component)
{
	for (size_t i = 0; i < component->endpoint_count; i++) {
		const char *name = component->config->endpoints[i].name;
		bool out = false;
		const char *why = "";
		struct check *check;
		size_t index = 0;
		while ((check = check_set_next_guard(component->environment.checks,
				component->config, &index)) != NULL) {
			if (check_guards(check_config(check), name) &&
				check_get_state(check) != CHECK_STATE_UP) {
				out = true;
				why = check_why(check);
			}
		}
		if (component->endpoints[i].out != out) {
			component->endpoints[i].out = out;
			component_transition(component, "endpoint", name, out ? "in" : "out",
				out ? "out" : "in", out ? why : "its checks are up");
		}
	}
}

/* ---- dynamic addresses ---- */

static size_t endpoint_index(const struct component *component, const char *name)
{
	size_t i = 0;
	while (i < component->endpoint_count &&
		strcmp(component->config->endpoints[i].name, name) != 0) {
		i++;
	}
	return i;
}

const struct config_endpoint *component_endpoint_config(
	const struct component *component, const char *name)
{
	size_t index = endpoint_index(component, name);
	return index < component->endpoint_count ? &component->config->endpoints[index] : NULL;
}

/* Texts become address objects; objects stay. NULL with err filled. */
static json_t *addresses_as_objects(
	const char *address_type, const json_t *addresses, struct err *err)
{
	if (!json_is_array(addresses) || json_array_size(addresses) == 0) {
		err_set(err, BERTH_INVALID_RECORD,
			"addresses must be an array of at least one address");
		return NULL;
	}
	json_t *objects = json_array();
	for (size_t i = 0; objects && i < json_array_size(addresses); i++) {
		json_t *item = json_array_get(addresses, i);
		json_t *object = NULL;
		if (json_is_string(item)) {
			object = record_address_parse(address_type, json_string_value(item), err);
		} else if (json_is_object(item)) {
			object = json_deep_copy(item);
		} else {
			err_set(err, BERTH_INVALID_RECORD,
				"address %zu is neither a string nor an object", i + 1);
		}
		if (!object || json_array_append_new(objects, object)) {
			json_decref(objects);
			return NULL;
		}
	}
	return objects;
}

/*
 * Tries the whole record with the new addresses, so that every rule and limit is the record's own.
 */
static int try_addresses(
	struct component *component, size_t index, json_t *addresses, struct err *err)
{
	json_t *before = component->endpoints[index].addresses;
	bool was_out = component->endpoints[index].out;
	component->endpoints[index].addresses = addresses;
	component->endpoints[index].out = false;
	struct record *record = NULL;
	int code = config_record(
		&record, component->config, component->endpoints, NULL, &component->mark, err);
	record_free(record);
	component->endpoints[index].addresses = before;
	component->endpoints[index].out = was_out;
	return code;
}

/* Puts `addresses` (taken; NULL for none) in place. */
static void put_addresses_take(
	struct component *component, size_t index, json_t *addresses, uint64_t connection)
{
	const struct config_endpoint *config = &component->config->endpoints[index];
	struct config_record_endpoint *endpoint = &component->endpoints[index];
	bool was = endpoint->addresses != NULL;
	json_decref(endpoint->addresses);
	endpoint->addresses = addresses;
	component->endpoint_states[index] = (struct endpoint_state){
		.connection = config->hold_connection && addresses ? connection : 0,
	};
	if (was && !addresses) {
		component_transition(component, "endpoint", config->name, "supplied", "unsupplied",
			"its addresses were withdrawn");
	} else if (!was && addresses) {
		component_transition(component, "endpoint", config->name, "unsupplied", "supplied",
			"a local process gave its addresses");
	}
}

int component_endpoints_supply(struct component *component, const char *name,
	const json_t *addresses, uint64_t connection, struct err *err)
{
	size_t index = endpoint_index(component, name);
	if (index == component->endpoint_count) {
		return err_set(err, BERTH_PATH_NOT_FOUND, "no endpoint is named \"%s\"", name);
	}
	const struct config_endpoint *config = &component->config->endpoints[index];
	if (!config->dynamic) {
		return err_set(err, BERTH_NO_PATH_PERMISSIONS,
			"endpoint %s has its addresses from the configuration; only one with "
			"dynamic = yes takes them from here",
			name);
	}
	json_t *objects = NULL;
	if (addresses) {
		objects = addresses_as_objects(config->address_type, addresses, err);
		if (!objects || try_addresses(component, index, objects, err)) {
			json_decref(objects);
			return err->code;
		}
	}
	put_addresses_take(component, index, objects, connection);
	return 0;
}

bool component_endpoints_drop(struct component *component, uint64_t connection)
{
	bool dropped = false;
	for (size_t i = 0; i < component->endpoint_count; i++) {
		struct endpoint_state *state = &component->endpoint_states[i];
		int64_t linger_ms = component->config->endpoints[i].linger_ms;
		if (!connection || state->connection != connection) {
			continue;
		}
		if (linger_ms > 0) {
			*state = (struct endpoint_state){
				.lingers_until_ms = clock_monotonic_ms() + linger_ms,
			};
		} else {
			put_addresses_take(component, i, NULL, 0);
			dropped = true;
		}
	}
	return dropped;
}

bool component_endpoints_expire(struct component *component)
{
	int64_t now_ms = clock_monotonic_ms();
	bool expired = false;
	for (size_t i = 0; i < component->endpoint_count; i++) {
		int64_t until_ms = component->endpoint_states[i].lingers_until_ms;
		if (until_ms > 0 && until_ms <= now_ms) {
			put_addresses_take(component, i, NULL, 0);
			expired = true;
		}
	}
	return expired;
}

int64_t component_endpoints_expire_in_ms(const struct component *component)
{
	int64_t now_ms = clock_monotonic_ms();
	int64_t first_ms = -1;
	for (size_t i = 0; i < component->endpoint_count; i++) {
		int64_t until_ms = component->endpoint_states[i].lingers_until_ms;
		int64_t left_ms = until_ms > now_ms ? until_ms - now_ms : 0;
		if (until_ms > 0 && (first_ms < 0 || left_ms < first_ms)) {
			first_ms = left_ms;
		}
	}
	return first_ms;
}

/* ---- life ---- */

static void free_endpoints(struct config_record_endpoint *endpoints, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		json_decref(endpoints[i].addresses);
	}
	free(endpoints);
}

static void restore_addresses(
	const json_t *saved, struct config_record_endpoint *endpoint, struct endpoint_state *state)
{
	const json_t *addresses = json_object_get(saved, "addresses");
	if (json_is_array(addresses)) {
		endpoint->addresses = json_deep_copy(addresses);
		state->connection = (uint64_t)json_integer_value(
			json_object_get(saved, "connection"));
		const json_t *left_ms = json_object_get(saved, "linger_ms");
		if (left_ms) {
			state->lingers_until_ms = clock_monotonic_ms() +
				json_integer_value(left_ms);
		}
	}
}

/* Addresses of another type would make a record that cannot be written. */
static bool same_address_type(
	const struct component *component, size_t index, const struct config_endpoint *config)
{
	return strcmp(component->config->endpoints[index].address_type, config->address_type) == 0;
}

void component_endpoints_arrange(struct component *component, const struct config_component *config,
	const json_t *saved_addresses)
{
	size_t count = config->endpoint_count;
	struct config_record_endpoint *endpoints = allocate_zeroed(count, sizeof(*endpoints));
	struct endpoint_state *states = allocate_zeroed(count, sizeof(*states));
	for (size_t i = 0; i < count; i++) {
		const char *name = config->endpoints[i].name;
		size_t before = component->endpoints ? endpoint_index(component, name)
						     : component->endpoint_count;
		bool is_new = before == component->endpoint_count;
		endpoints[i].out = !is_new && component->endpoints[before].out;
		if (!config->endpoints[i].dynamic) {
			continue;
		}
		if (is_new) {
			restore_addresses(
				json_object_get(saved_addresses, name), &endpoints[i], &states[i]);
		} else if (same_address_type(component, before, &config->endpoints[i])) {
			endpoints[i].addresses = json_incref(
				component->endpoints[before].addresses);
			states[i] = component->endpoint_states[before];
		}
	}
	free_endpoints(component->endpoints, component->endpoint_count);
	free(component->endpoint_states);
	component->endpoints = endpoints;
	component->endpoint_states = states;
	component->endpoint_count = count;
}

void component_endpoints_free(struct component *component)
{
	free_endpoints(component->endpoints, component->endpoint_count);
	free(component->endpoint_states);
}

json_t *component_endpoints_json(const struct component *component)
{
	json_t *endpoints = json_object();
	for (size_t i = 0; i < component->endpoint_count; i++) {
		const struct config_endpoint *config = &component->config->endpoints[i];
		const char *state = component->endpoints[i].out                 ? "out"
			: config->dynamic && !component->endpoints[i].addresses ? "unsupplied"
										: "in";
		json_object_set_new(endpoints, config->name, json_string(state));
	}
	return endpoints;
}

static json_t *address_texts(
	const struct config_endpoint *config, const struct config_record_endpoint *endpoint)
{
	json_t *texts = json_array();
	for (size_t i = 0; !config->dynamic && i < config->address_count; i++) {
		json_array_append_new(texts, json_string(config->addresses[i]));
	}
	size_t index;
	json_t *supplied;
	json_array_foreach (endpoint->addresses, index, supplied) {
		char *text = NULL;
		if (record_address_text(config->address_type, supplied, &text) == 0 && text) {
			json_array_append_new(texts, json_string(text));
		}
		free(text);
	}
	return texts;
}

json_t *component_addresses_json(const struct component *component)
{
	json_t *addresses = json_object();
	for (size_t i = 0; i < component->endpoint_count; i++) {
		const struct config_endpoint *config = &component->config->endpoints[i];
		const struct config_record_endpoint *endpoint = &component->endpoints[i];
		if (!endpoint->out && (!config->dynamic || endpoint->addresses)) {
			json_object_set_new(
				addresses, config->name, address_texts(config, endpoint));
		}
	}
	return addresses;
}

json_t *component_endpoints_save(const struct component *component)
{
	int64_t now_ms = clock_monotonic_ms();
	json_t *addresses = json_object();
	for (size_t i = 0; i < component->endpoint_count; i++) {
		const struct endpoint_state *state = &component->endpoint_states[i];
		if (!component->endpoints[i].addresses) {
			continue;
		}
		json_t *saved = json_pack("{s:O, s:I}", "addresses",
			component->endpoints[i].addresses, "connection",
			(json_int_t)state->connection);
		if (state->lingers_until_ms > 0) {
			json_object_set_new(
				saved, "linger_ms", json_integer(state->lingers_until_ms - now_ms));
		}
		json_object_set_new(addresses, component->config->endpoints[i].name, saved);
	}
	return addresses;
}

/* ---- ports ---- */

static void visit_port(const char *address_type, const json_t *address,
	void (*visit)(void *context, uint16_t port), void *context)
{
	struct record_target target;
	if (record_target_read(&target, address_type, address) && target.port > 0) {
		visit(context, target.port);
	}
}

void component_each_port(const struct component *component,
	void (*visit)(void *context, uint16_t port), void *context)
{
	for (size_t i = 0; i < component->endpoint_count; i++) {
		const struct config_endpoint *config = &component->config->endpoints[i];
		for (size_t j = 0; j < config->address_count; j++) {
			struct err ignored = ERR_INIT;
			json_t *address = record_address_parse(
				config->address_type, config->addresses[j], &ignored);
			visit_port(config->address_type, address, visit, context);
			json_decref(address);
		}
		size_t index;
		json_t *supplied;
		json_array_foreach (component->endpoints[i].addresses, index, supplied) {
			visit_port(config->address_type, supplied, visit, context);
		}
	}
}
