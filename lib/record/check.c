/* Whether a record may be written: its types and its limits. */
#include <string.h>

#include "lib/base/array.h"
#include "lib/base/limits.h"
#include "lib/base/quote.h"
#include "lib/record/internal.h"

/* As record_check_text(), for a field that may be missing. */
static int check_optional_text(
	const json_t *owner, const char *name, size_t limit, const char *place, struct err *err)
{
	return json_object_get(owner, name) ? record_check_text(owner, name, limit, place, err) : 0;
}

/*
 * Refuses JSON that Berth could write but not read again: too much depth, a NUL in a string.
 * `depth` counts `value` itself.
 */
static int check_tree(const json_t *value, size_t depth, struct err *err)
{
	if (json_is_string(value) &&
		memchr(json_string_value(value), '\0', json_string_length(value))) {
		return err_set(
			err, BERTH_INVALID_RECORD, "a string of the service record has a NUL");
	}
	if (!json_is_object(value) && !json_is_array(value)) {
		return 0;
	}
	if (depth > LIMIT_JSON_DEPTH) {
		return err_set(err, BERTH_LIMIT_EXCEEDED,
			"service record is nested deeper than the %d levels allowed",
			LIMIT_JSON_DEPTH);
	}
	int code = 0;
	const char *key;
	json_t *member;
	json_object_foreach ((json_t *)value, key, member) {
		code = code ? code : check_tree(member, depth + 1, err);
	}
	for (size_t i = 0; i < json_array_size(value) && !code; i++) {
		code = check_tree(json_array_get(value, i), depth + 1, err);
	}
	return code;
}

/* ZooKeeper addresses are one ensemble and one place in it: the paths must agree. */
static int check_same_path(const json_t *addresses, const char *place, struct err *err)
{
	const json_t *first = json_object_get(json_array_get(addresses, 0), "path");
	for (size_t i = 1; i < json_array_size(addresses); i++) {
		const json_t *path = json_object_get(json_array_get(addresses, i), "path");
		if (!json_equal(first, path)) {
			return err_set(err, BERTH_INVALID_RECORD,
				"addresses 1 and %zu of %s have different paths; the path of a "
				"zookeeper address must be the same in all",
				i + 1, place);
		}
	}
	return 0;
}

static int check_addresses(const json_t *endpoint, const char *scope, size_t index, struct err *err)
{
	struct record_place place = record_endpoint_place(scope, index);
	const char *type = json_string_value(json_object_get(endpoint, "addressType"));
	const json_t *addresses = json_object_get(endpoint, "addresses");
	if (!json_is_array(addresses)) {
		return err_set(
			err, BERTH_INVALID_RECORD, "addresses of %s must be an array", place.text);
	}
	if (json_array_size(addresses) > LIMIT_ADDRESSES_PER_ENDPOINT) {
		return err_set(err, BERTH_LIMIT_EXCEEDED,
			"%s has %zu addresses; at most %d are allowed", place.text,
			json_array_size(addresses), LIMIT_ADDRESSES_PER_ENDPOINT);
	}
	int code = 0;
	for (size_t i = 0; i < json_array_size(addresses) && !code; i++) {
		struct record_place address_place = record_address_place(scope, index, i);
		code = record_address_check(
			type, json_array_get(addresses, i), address_place.text, err);
	}
	if (!code && (strcmp(type, RECORD_ZOOKEEPER) == 0 || strcmp(type, RECORD_ZKTRIPLE) == 0)) {
		code = check_same_path(addresses, place.text, err);
	}
	return code;
}

static int check_endpoint(const json_t *endpoint, const char *scope, size_t index, struct err *err)
{
	static const struct {
		const char *name;
		size_t limit;
		bool may_be_empty;
	} texts[] = {
		{ "api", LIMIT_API_BYTES, false },
		{ "addressType", LIMIT_ADDRESS_TYPE_BYTES, false },
		{ "protocol", LIMIT_PROTOCOL_BYTES, true },
	};
	struct record_place place = record_endpoint_place(scope, index);
	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		int code = record_check_text(
			endpoint, texts[i].name, texts[i].limit, place.text, err);
		if (code) {
			return code;
		}
		if (!texts[i].may_be_empty &&
			json_string_length(json_object_get(endpoint, texts[i].name)) == 0) {
			return err_set(err, BERTH_INVALID_RECORD, "%s of %s is empty",
				texts[i].name, place.text);
		}
	}
	const char *api = json_string_value(json_object_get(endpoint, "api"));
	if (!record_uri_valid(api)) {
		return err_set(err, BERTH_INVALID_RECORD, "api of %s is %s; it must be " RECORD_URI,
			place.text, quote_text(api).text);
	}
	const char *type = json_string_value(json_object_get(endpoint, "addressType"));
	if (!record_address_type_valid(type)) {
		return err_set(err, BERTH_INVALID_RECORD,
			"addressType of %s is %s; allowed are " RECORD_ADDRESS_TYPES, place.text,
			quote_text(type).text);
	}
	return check_addresses(endpoint, scope, index, err);
}

static int check_endpoints(const struct record *record, struct err *err)
{
	if (record_endpoint_count(record) > LIMIT_ENDPOINTS_PER_RECORD) {
		return err_set(err, BERTH_LIMIT_EXCEEDED,
			"service record has %zu endpoints; at most %d are allowed",
			record_endpoint_count(record), LIMIT_ENDPOINTS_PER_RECORD);
	}
	int code = 0;
	for (size_t scope = 0; record_scopes[scope] && !code; scope++) {
		const json_t *endpoints = json_object_get(record->json, record_scopes[scope]);
		for (size_t i = 0; i < json_array_size(endpoints) && !code; i++) {
			code = check_endpoint(
				json_array_get(endpoints, i), record_scopes[scope], i, err);
		}
	}
	return code;
}

static int check_persistence(const struct record *record, struct err *err)
{
	int code = check_optional_text(
		record->json, "yarn:persistence", LIMIT_RECORD_BYTES, "the service record", err);
	if (code) {
		return code;
	}
	const char *persistence = record_persistence(record);
	if (json_object_get(record->json, "yarn:persistence") &&
		!record_persistence_valid(persistence)) {
		return err_set(err, BERTH_INVALID_RECORD,
			"yarn:persistence is %s; allowed are permanent, application, "
			"application-attempt and container",
			quote_text(persistence).text);
	}
	return 0;
}

static int check_size(const struct record *record, struct err *err)
{
	size_t len = json_dumpb(record->json, NULL, 0, RECORD_DUMP_FLAGS);
	if (len > LIMIT_RECORD_BYTES) {
		return err_set(err, BERTH_LIMIT_EXCEEDED,
			"service record has %zu bytes; at most %d are allowed", len,
			LIMIT_RECORD_BYTES);
	}
	return len > 0 ? 0 : record_no_memory(err);
}

int record_check(const struct record *record, struct err *err)
{
	const char *place = "the service record";
	int code = check_tree(record->json, 1, err);
	if (!code) {
		code = check_optional_text(
			record->json, "description", LIMIT_DESCRIPTION_BYTES, place, err);
	}
	if (!code) {
		code = check_optional_text(record->json, "yarn:id", LIMIT_RECORD_BYTES, place, err);
	}
	if (!code) {
		code = check_persistence(record, err);
	}
	if (!code) {
		code = check_endpoints(record, err);
	}
	return code ? code : check_size(record, err);
}
