#include <stdlib.h>
#include <string.h>

#include "lib/base/json_wide.h"
#include "lib/base/limits.h"
#include "lib/base/quote.h"
#include "lib/record/internal.h"

/* Hadoop's code calls the design's `zookeeper` addresses so. */
#define HADOOP_ZOOKEEPER_TYPE "zktriple"

/*
 * Looks for nesting beyond the limit before the parser, which recurses, sees the bytes. It follows
 * strings as the parser does up to the first mistake in the JSON, and there the parser stops.
 */
static bool too_deep(const char *data, size_t len)
{
	size_t depth = 0;
	bool in_string = false;
	for (size_t i = 0; i < len; i++) {
		if (in_string && data[i] == '\\') {
			i++;
		} else if (data[i] == '"') {
			in_string = !in_string;
		} else if (in_string) {
			continue;
		} else if (data[i] == '{' || data[i] == '[') {
			if (++depth > LIMIT_JSON_DEPTH) {
				return true;
			}
		} else if ((data[i] == '}' || data[i] == ']') && depth > 0) {
			depth--;
		}
	}
	return false;
}

static int parse_error(const json_error_t *error, struct err *err)
{
	const char *text = error->text;
	if (text[0] == '\0') {
		return record_no_memory(err); /* the one failure that the library has no text for */
	}
	if (json_error_code(error) == json_error_null_character) {
		text = "a string holds a NUL"; /* the library's text names a flag of its own */
	}
	return err_set(err, BERTH_INVALID_RECORD, "service record, line %d column %d: %s",
		error->line, error->column, text);
}

/* 0, or `code`. */
static int check_limits(const char *data, size_t len, int code, struct err *err)
{
	if (len > LIMIT_RECORD_BYTES) {
		return err_set(err, code, "service record has %zu bytes; at most %d are allowed",
			len, LIMIT_RECORD_BYTES);
	}
	if (too_deep(data, len)) {
		return err_set(err, code,
			"service record is nested deeper than the %d levels allowed",
			LIMIT_JSON_DEPTH);
	}
	return 0;
}

enum record_kind record_kind(const char *data, size_t len)
{
	if (len == 0) {
		return RECORD_KIND_EMPTY;
	}
	return memmem(data, len, RECORD_TYPE, strlen(RECORD_TYPE)) ? RECORD_KIND_RECORD
								   : RECORD_KIND_FOREIGN;
}

typedef json_t *load(const char *data, size_t len, size_t flags, json_error_t *error);

static int parse(json_t **ret_json, load *load_json, const char *data, size_t len, struct err *err)
{
	int code = check_limits(data, len, BERTH_INVALID_RECORD, err);
	if (code) {
		return code;
	}
	json_error_t error;
	json_t *json = load_json(data, len, JSON_REJECT_DUPLICATES, &error);
	if (!json) {
		return parse_error(&error, err);
	}
	*ret_json = json;
	return 0;
}

static int check_type(const json_t *json, struct err *err)
{
	if (!json_is_object(json)) {
		return err_set(err, BERTH_INVALID_RECORD,
			"service record is %s; it must be an object", record_json_type(json));
	}
	const json_t *type = json_object_get(json, "type");
	if (!type) {
		return err_set(err, BERTH_INVALID_RECORD,
			"service record has no type; it must be \"" RECORD_TYPE "\"");
	}
	if (!json_is_string(type)) {
		return err_set(err, BERTH_INVALID_RECORD,
			"type of the service record is %s; it must be \"" RECORD_TYPE "\"",
			record_json_type(type));
	}
	if (strcmp(json_string_value(type), RECORD_TYPE) != 0) {
		return err_set(err, BERTH_INVALID_RECORD,
			"type of the service record is %s; it must be \"" RECORD_TYPE "\"",
			quote_text(json_string_value(type)).text);
	}
	return 0;
}

/* A field that may be missing: null counts as missing and is removed. */
static int read_optional_text(json_t *owner, const char *name, const char *place, struct err *err)
{
	const json_t *value = json_object_get(owner, name);
	if (json_is_null(value)) {
		json_object_del(owner, name);
	} else if (value && !json_is_string(value)) {
		return err_set(err, BERTH_INVALID_RECORD, "%s of %s is %s; it must be a string",
			name, place, record_json_type(value));
	}
	return 0;
}

static int read_protocol(json_t *endpoint, const char *place, struct err *err)
{
	int code = read_optional_text(endpoint, "protocol", place, err);
	if (!code) {
		code = read_optional_text(endpoint, "protocolType", place, err);
	}
	if (code) {
		return code;
	}
	json_t *protocol = json_object_get(endpoint, "protocol");
	json_t *protocol_type = json_object_get(endpoint, "protocolType");
	if (protocol_type && (!protocol || json_string_length(protocol) == 0)) {
		protocol = protocol_type;
	}
	if (protocol &&
		(json_object_set(endpoint, "protocol", protocol) ||
			json_object_set(endpoint, "protocolType", protocol))) {
		return record_no_memory(err);
	}
	return 0;
}

static int read_address_type(json_t *endpoint, const char *place, struct err *err)
{
	int code = record_check_text(endpoint, "addressType", LIMIT_RECORD_BYTES, place, err);
	if (code) {
		return code;
	}
	json_t *type = json_object_get(endpoint, "addressType");
	if (strcmp(json_string_value(type), HADOOP_ZOOKEEPER_TYPE) == 0 &&
		json_string_set(type, "zookeeper")) {
		return record_no_memory(err);
	}
	return 0;
}

/* An address in place of an array of one string, or NULL without memory. */
static json_t *address_from_array(const json_t *array, const char *address_type)
{
	const char *key = record_address_single_key(address_type);
	return json_pack("{s:O}", key, json_array_get(array, 0));
}

static int read_address(json_t *addresses, size_t index, const char *address_type,
	const char *place, struct err *err)
{
	json_t *address = json_array_get(addresses, index);
	if (json_array_size(address) == 1 && json_is_string(json_array_get(address, 0))) {
		address = address_from_array(address, address_type);
		return json_array_set_new(addresses, index, address) ? record_no_memory(err) : 0;
	}
	if (!json_is_object(address)) {
		return err_set(err, BERTH_INVALID_RECORD,
			"%s is %s; it must be an object of strings", place,
			record_json_type(address));
	}
	const char *key;
	json_t *value;
	json_object_foreach (address, key, value) {
		if (!json_is_string(value)) {
			return err_set(err, BERTH_INVALID_RECORD,
				"%s of %s is %s; it must be a string", quote_text(key).text, place,
				record_json_type(value));
		}
	}
	return 0;
}

static int read_endpoint(json_t *endpoint, const char *scope, size_t index, struct err *err)
{
	struct record_place place = record_endpoint_place(scope, index);
	if (!json_is_object(endpoint)) {
		return err_set(err, BERTH_INVALID_RECORD, "%s is %s; it must be an object",
			place.text, record_json_type(endpoint));
	}
	int code = record_check_text(endpoint, "api", LIMIT_RECORD_BYTES, place.text, err);
	if (!code) {
		code = read_address_type(endpoint, place.text, err);
	}
	if (!code) {
		code = read_protocol(endpoint, place.text, err);
	}
	if (code) {
		return code;
	}
	const char *address_type = json_string_value(json_object_get(endpoint, "addressType"));
	json_t *addresses = json_object_get(endpoint, "addresses");
	if (!json_is_array(addresses)) {
		return err_set(
			err, BERTH_INVALID_RECORD, "addresses of %s must be an array", place.text);
	}
	for (size_t i = 0; i < json_array_size(addresses) && !code; i++) {
		struct record_place address_place = record_address_place(scope, index, i);
		code = read_address(addresses, i, address_type, address_place.text, err);
	}
	return code;
}

static int read_endpoints(json_t *json, const char *scope, struct err *err)
{
	json_t *endpoints = json_object_get(json, scope);
	if (!endpoints || json_is_null(endpoints)) {
		return json_object_set_new(json, scope, json_array()) ? record_no_memory(err) : 0;
	}
	if (!json_is_array(endpoints)) {
		return err_set(err, BERTH_INVALID_RECORD,
			"%s of the service record is %s; it must be an array", scope,
			record_json_type(endpoints));
	}
	int code = 0;
	for (size_t i = 0; i < json_array_size(endpoints) && !code; i++) {
		code = read_endpoint(json_array_get(endpoints, i), scope, i, err);
	}
	return code;
}

static int read_fields(json_t *json, struct err *err)
{
	static const char *const texts[] = { "description", "yarn:id", "yarn:persistence", NULL };
	int code = check_type(json, err);
	for (size_t i = 0; texts[i] && !code; i++) {
		code = read_optional_text(json, texts[i], "the service record", err);
	}
	for (size_t i = 0; record_scopes[i] && !code; i++) {
		code = read_endpoints(json, record_scopes[i], err);
	}
	return code;
}

/* Takes the reference `json` also on failure, and brings it to one spelling. */
static int read_take(struct record **ret_record, json_t *json, struct err *err)
{
	int code = read_fields(json, err);
	struct record *record = code ? NULL : malloc(sizeof(*record));
	if (!record) {
		json_decref(json);
		return code ? code : record_no_memory(err);
	}
	record->json = json;
	*ret_record = record;
	return 0;
}

static int decode(
	struct record **ret_record, load *load_json, const char *data, size_t len, struct err *err)
{
	if (record_kind(data, len) != RECORD_KIND_RECORD) {
		return err_set(err, BERTH_NO_RECORD, "node holds no service record");
	}
	json_t *json = NULL;
	int code = parse(&json, load_json, data, len, err);
	return code ? code : read_take(ret_record, json, err);
}

int record_decode(struct record **ret_record, const char *data, size_t len, struct err *err)
{
	return decode(ret_record, json_wide_loadb, data, len, err);
}

int record_from_json(struct record **ret_record, const json_t *json, struct err *err)
{
	json_t *copy = json_deep_copy(json);
	return copy ? read_take(ret_record, copy, err) : record_no_memory(err);
}

int record_decode_strictly(struct record **ret_record, const char *data, size_t len, struct err *err)
{
	if (record_kind(data, len) != RECORD_KIND_RECORD) {
		return err_set(err, BERTH_INVALID_RECORD,
			"a service record is a JSON object with \"type\": \"" RECORD_TYPE "\"");
	}
	int code = check_limits(data, len, BERTH_LIMIT_EXCEEDED, err);
	/* A number that would not be written as it is given is refused. */
	return code ? code : decode(ret_record, json_loadb, data, len, err);
}
