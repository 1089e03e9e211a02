#include "lib/record/record.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "lib/record/internal.h"

const char *const record_scopes[] = { "external", "internal", NULL };

static const char *const persistences[] = { "permanent", "application", "application-attempt",
	"container", NULL };

static bool is_one_of(const char *text, const char *const list[])
{
	for (size_t i = 0; list[i]; i++) {
		if (strcmp(text, list[i]) == 0) {
			return true;
		}
	}
	return false;
}

struct record_place record_endpoint_place(const char *scope, size_t index)
{
	struct record_place place;
	snprintf(place.text, sizeof(place.text), "%s endpoint %zu", scope, index + 1);
	return place;
}

struct record_place record_address_place(const char *scope, size_t endpoint, size_t address)
{
	struct record_place place;
	snprintf(place.text, sizeof(place.text), "address %zu of %s endpoint %zu", address + 1,
		scope, endpoint + 1);
	return place;
}

const char *record_json_type(const json_t *value)
{
	switch (json_typeof(value)) {
	case JSON_OBJECT:
		return "an object";
	case JSON_ARRAY:
		return "an array";
	case JSON_STRING:
		return "a string";
	case JSON_INTEGER:
	case JSON_REAL:
		return "a number";
	case JSON_TRUE:
	case JSON_FALSE:
		return "a boolean";
	case JSON_NULL:
		return "null";
	}
	return "unknown";
}

int record_check_text(
	const json_t *owner, const char *name, size_t limit, const char *place, struct err *err)
{
	const json_t *value = json_object_get(owner, name);
	if (!value || json_is_null(value)) {
		return err_set(err, BERTH_INVALID_RECORD, "%s has no %s", place, name);
	}
	if (!json_is_string(value)) {
		return err_set(err, BERTH_INVALID_RECORD, "%s of %s is %s; it must be a string",
			name, place, record_json_type(value));
	}
	if (json_string_length(value) > limit) {
		return err_set(err, BERTH_LIMIT_EXCEEDED,
			"%s of %s has %zu bytes; at most %zu are allowed", name, place,
			json_string_length(value), limit);
	}
	return 0;
}

int record_no_memory(struct err *err)
{
	return err_set(err, BERTH_FAILED, "no memory for a service record");
}

struct record *record_create(void)
{
	struct record *record = malloc(sizeof(*record));
	if (!record) {
		return NULL;
	}
	record->json = json_pack("{s:s, s:[], s:[]}", "type", RECORD_TYPE, "external", "internal");
	if (!record->json) {
		free(record);
		return NULL;
	}
	return record;
}

void record_free(struct record *record)
{
	if (!record) {
		return;
	}
	json_decref(record->json);
	free(record);
}

static const char *text_field(const json_t *object, const char *name)
{
	const char *text = json_string_value(json_object_get(object, name));
	return text ? text : "";
}

const char *record_description(const struct record *record)
{
	return text_field(record->json, "description");
}

const char *record_id(const struct record *record)
{
	return text_field(record->json, "yarn:id");
}

const char *record_persistence(const struct record *record)
{
	return text_field(record->json, "yarn:persistence");
}

const json_t *record_attribute(const struct record *record, const char *name)
{
	return json_object_get(record->json, name);
}

bool record_small_number(unsigned *ret_number, const struct record *record, const char *name)
{
	enum { DIGITS = 5 };
	const json_t *value = record_attribute(record, name);
	const char *text = json_string_value(value);
	json_int_t number = json_is_integer(value) ? json_integer_value(value) : -1;
	if (text && *text && strlen(text) <= DIGITS && strspn(text, "0123456789") == strlen(text)) {
		number = atol(text);
	}
	if (number < 0 || number > UINT16_MAX) {
		return false;
	}
	*ret_number = (unsigned)number;
	return true;
}

const json_t *record_json(const struct record *record)
{
	return record->json;
}

int record_set_text(struct record *record, const char *name, const char *value)
{
	return record_set_attribute_take(record, name, json_string(value));
}

int record_set_attribute_take(struct record *record, const char *name, json_t *value)
{
	if (strcmp(name, "type") == 0 || is_one_of(name, record_scopes)) {
		json_decref(value);
		return BERTH_FAILED;
	}
	if (json_is_null(value)) {
		json_object_del(record->json, name);
		return 0;
	}
	return json_object_set_new(record->json, name, value) ? BERTH_FAILED : 0;
}

int record_add_endpoint_take(struct record *record, const char *scope, const char *api,
	const char *protocol, const char *address_type, json_t *addresses)
{
	if (!is_one_of(scope, record_scopes)) {
		json_decref(addresses);
		return BERTH_FAILED;
	}
	json_t *endpoint = json_pack("{s:s, s:s, s:s, s:s, s:o}", "api", api, "addressType",
		address_type, "protocol", protocol, "protocolType", protocol, "addresses",
		addresses);
	json_t *endpoints = json_object_get(record->json, scope);
	return json_array_append_new(endpoints, endpoint) ? BERTH_FAILED : 0;
}

size_t record_endpoint_count(const struct record *record)
{
	size_t count = 0;
	for (size_t i = 0; record_scopes[i]; i++) {
		count += json_array_size(json_object_get(record->json, record_scopes[i]));
	}
	return count;
}

struct record_endpoint record_endpoint(const struct record *record, size_t index)
{
	const char *scope = record_scopes[0];
	const json_t *endpoints = json_object_get(record->json, scope);
	if (index >= json_array_size(endpoints)) {
		index -= json_array_size(endpoints);
		scope = record_scopes[1];
		endpoints = json_object_get(record->json, scope);
	}
	const json_t *endpoint = json_array_get(endpoints, index);
	return (struct record_endpoint){
		.scope = scope,
		.api = text_field(endpoint, "api"),
		.protocol = text_field(endpoint, "protocol"),
		.address_type = text_field(endpoint, "addressType"),
		.addresses = json_object_get(endpoint, "addresses"),
	};
}

static bool is_wanted(const char *wanted, const char *found)
{
	return !wanted || strcmp(wanted, found) == 0;
}

bool record_endpoint_matches(const struct record_endpoint *endpoint, const char *api,
	const char *protocol, const char *scope)
{
	return is_wanted(api, endpoint->api) && is_wanted(scope, endpoint->scope) &&
		(!protocol || strcasecmp(protocol, endpoint->protocol) == 0);
}

bool record_persistence_valid(const char *persistence)
{
	return is_one_of(persistence, persistences);
}

bool record_equal(const struct record *a, const struct record *b)
{
	return json_equal(a->json, b->json);
}
