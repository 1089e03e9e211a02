/* From stored bytes to a record. */
#include <stdlib.h>
#include <string.h>

#include "lib/base/json_read.h"
#include "lib/base/json_wide.h"
#include "lib/base/limits.h"
#include "lib/base/quote.h"
#include "lib/record/internal.h"

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
		} else if (data[i] == '}' || data[i] == ']') {
			depth--; /* one too many is a mistake, too */
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

static int parsed(json_t **ret_json, json_t *json, const json_error_t *error, struct err *err)
{
	if (!json) {
		return parse_error(error, err);
	}
	*ret_json = json;
	return 0;
}

/* ---- what Hadoop's parser reads, and ours does not ---- */

/*
 * The length of the JSON without what follows the end of its object, which Hadoop does not look at.
 * Blanks there are a part of the JSON.
 */
static size_t json_len(const char *data, size_t len)
{
	size_t depth = 0;
	size_t end = 0;
	bool in_string = false;
	size_t begin = 0;
	while (begin < len && memchr(" \t\r\n", data[begin], 4)) {
		begin++;
	}
	if (begin == len || data[begin] != '{') {
		return len; /* a mistake, which is not to be hidden with the text behind it */
	}
	for (size_t i = begin; i < len && end == 0; i++) {
		if (in_string && data[i] == '\\') {
			i++;
		} else if (data[i] == '"') {
			in_string = !in_string;
		} else if (in_string) {
			continue;
		} else if (data[i] == '{' || data[i] == '[') {
			depth++;
		} else if (data[i] == '}' || data[i] == ']') {
			end = depth <= 1 ? i + 1 : 0;
			depth--;
		}
	}
	size_t behind = end;
	while (end > 0 && behind < len && memchr(" \t\r\n", data[behind], 4)) {
		behind++;
	}
	return end > 0 && behind < len ? end : len;
}

/* The code of the escape \uXXXX at `data`, or -1. */
static int escape_code(const char *data, size_t len)
{
	char digits[5] = "";
	if (len < 6 || data[0] != '\\' || data[1] != 'u') {
		return -1;
	}
	memcpy(digits, data + 2, 4);
	return strspn(digits, "0123456789abcdefABCDEF") == 4 ? (int)strtol(digits, NULL, 16) : -1;
}

static bool is_half(int code, int first)
{
	return code >= first && code < first + 0x400;
}

/* The length of the escape at `data`; *ret_bad: for a NUL, or half of a pair. */
static size_t escape_len(const char *data, size_t len, bool *ret_bad)
{
	int code = escape_code(data, len);
	bool is_pair = is_half(code, 0xd800) && is_half(escape_code(data + 6, len - 6), 0xdc00);
	*ret_bad = code == 0 || (!is_pair && (is_half(code, 0xd800) || is_half(code, 0xdc00)));
	return is_pair ? 12 : code >= 0 ? 6 : 2;
}

/* Where the first escape of a NUL or of half a pair is, from `at` on; `len` when there is none. */
static size_t find_bad_escape(const char *json, size_t len, size_t at)
{
	bool is_bad = false;
	while (at < len && !is_bad) {
		const char *found = memchr(json + at, '\\', len - at);
		at = found ? (size_t)(found - json) : len;
		size_t step = at < len ? escape_len(json + at, len - at, &is_bad) : 0;
		at += is_bad ? 0 : step;
	}
	return at < len ? at : len;
}

/* Such escapes become those of U+FFFD: our texts cannot hold them, nor can all readers of JSON. */
static void mend_escapes(char *json, size_t len)
{
	for (size_t at = 0; (at = find_bad_escape(json, len, at)) < len; at += 6) {
		memcpy(json + at, "\\ufffd", 6);
	}
}

void record_trim(char *data, size_t *len)
{
	if (record_kind(data, *len) == RECORD_KIND_RECORD) {
		*len = json_len(data, *len);
		data[*len] = '\0';
		mend_escapes(data, *len);
	}
}

/* NULL with an error. */
static json_t *load(const char *json, size_t len, json_error_t *error)
{
	json_t *document = json_wide_loadb(json, len, 0, error);
	/* Jansson reports most failed allocations as a syntax error, hardly ever twice. */
	return document ? document : json_wide_loadb(json, len, 0, error);
}

/* Of two equal keys the last counts. */
static int parse(json_t **ret_json, const char *data, size_t len, struct err *err)
{
	json_error_t error;
	int code = check_limits(data, len, BERTH_INVALID_RECORD, err);
	if (code) {
		return code;
	}
	len = json_len(data, len);
	if (find_bad_escape(data, len, 0) == len) {
		return parsed(ret_json, load(data, len, &error), &error, err);
	}
	char *mended = malloc(len);
	if (!mended) {
		return record_no_memory(err);
	}
	memcpy(mended, data, len);
	mend_escapes(mended, len);
	code = parsed(ret_json, load(mended, len, &error), &error, err);
	free(mended);
	return code;
}

/* Refuses a key that is there twice, and a number that Berth would not write as it is given. */
static int parse_strictly(json_t **ret_json, const char *data, size_t len, struct err *err)
{
	json_error_t error;
	int code = check_limits(data, len, BERTH_LIMIT_EXCEEDED, err);
	return code ? code
		    : parsed(ret_json, json_read(data, len, JSON_REJECT_DUPLICATES, &error), &error,
			      err);
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

/*
 * A number or a boolean as text, the shortest that reads back as the same number. NULL without
 * memory. With too few digits the largest numbers cannot be read back: they are rounded up.
 */
static json_t *text_of_scalar(const json_t *scalar)
{
	char text[64]; /* more than any number has */
	json_t *string = NULL;
	for (size_t digits = 15; digits <= 17 && !string; digits++) {
		size_t len = json_dumpb(
			scalar, text, sizeof(text), JSON_ENCODE_ANY | JSON_REAL_PRECISION(digits));
		json_t *again = json_loadb(text, len, JSON_DECODE_ANY, NULL);
		if (again && json_equal(again, scalar)) {
			string = json_stringn(text, len);
		}
		json_decref(again);
	}
	return string;
}

static bool is_scalar(const json_t *value)
{
	return json_is_string(value) || json_is_number(value) || json_is_boolean(value);
}

/*
 * Makes a string of a scalar, as Hadoop's reader does. A missing field is fine, and null counts as
 * missing and is removed.
 */
static int read_text(json_t *owner, const char *name, const char *place, struct err *err)
{
	const json_t *value = json_object_get(owner, name);
	if (json_is_null(value)) {
		json_object_del(owner, name);
	} else if (value && !is_scalar(value)) {
		return err_set(err, BERTH_INVALID_RECORD, "%s of %s is %s; it must be a string",
			name, place, record_json_type(value));
	} else if (value && !json_is_string(value)) {
		return json_object_set_new(owner, name, text_of_scalar(value))
			? record_no_memory(err)
			: 0;
	}
	return 0;
}

/* As read_text(), for a field that may not be missing. */
static int read_needed_text(json_t *owner, const char *name, const char *place, struct err *err)
{
	int code = read_text(owner, name, place, err);
	return code ? code : record_check_text(owner, name, LIMIT_RECORD_BYTES, place, err);
}

static int read_protocol(json_t *endpoint, const char *place, struct err *err)
{
	int code = read_text(endpoint, "protocol", place, err);
	if (!code) {
		code = read_text(endpoint, "protocolType", place, err);
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

/* ---- addresses ---- */

/* The older form of an address: the values alone, in the order of the type's keys. */
static bool is_older_form(const json_t *given, const char *const *keys)
{
	size_t count = 0;
	while (keys[count]) {
		count++;
	}
	return json_is_array(given) && json_array_size(given) == count;
}

/* NULL without memory. */
static json_t *address_from_array(const json_t *array, const char *const *keys)
{
	json_t *address = json_object();
	for (size_t i = 0; keys[i]; i++) {
		if (json_object_set(address, keys[i], json_array_get(array, i))) {
			json_decref(address);
			return NULL;
		}
	}
	return address;
}

/* Hadoop's code says `host` where its documents say `hostname`; some writers mix them up. */
static const char *one_spelling(const char *key, const char *address_type, const json_t *address)
{
	const char *host = record_address_keys(address_type)[0];
	bool is_host = strcmp(key, "host") == 0 || strcmp(key, "hostname") == 0;
	bool is_type_with_host = strcmp(host, "host") == 0 || strcmp(host, "hostname") == 0;
	return is_host && is_type_with_host && !json_object_get(address, host) ? host : key;
}

/* A copy with strings as values, under the keys of its type; nulls are left out. */
static int read_address_map(json_t **ret_address, json_t *address, const char *address_type,
	const char *place, struct err *err)
{
	json_t *copy = json_object();
	const char *key;
	json_t *value;
	json_object_foreach (address, key, value) {
		const char *name = one_spelling(key, address_type, address);
		if (!json_is_null(value) && json_object_set(copy, name, value)) {
			json_decref(copy);
			return record_no_memory(err);
		}
		int code = read_text(copy, name, place, err);
		if (code) {
			json_decref(copy);
			return code;
		}
	}
	*ret_address = copy;
	return copy ? 0 : record_no_memory(err);
}

static int read_address(json_t *addresses, size_t index, const char *address_type,
	const char *place, struct err *err)
{
	const char *const *keys = record_address_keys(address_type);
	json_t *given = json_array_get(addresses, index);
	bool is_older = is_older_form(given, keys);
	if (!is_older && !json_is_object(given)) {
		return err_set(err, BERTH_INVALID_RECORD,
			"%s is %s; it must be an object of strings", place,
			record_json_type(given));
	}
	json_t *address = is_older ? address_from_array(given, keys) : json_incref(given);
	if (!address) {
		return record_no_memory(err);
	}
	json_t *read = NULL;
	int code = read_address_map(&read, address, address_type, place, err);
	json_decref(address);
	if (!code) {
		json_array_set_new(addresses, index, read);
	}
	return code;
}

/* The array `name` of `owner`, without its nulls; an empty one when it is missing or null. */
static int read_array(
	json_t **ret_array, json_t *owner, const char *name, const char *place, struct err *err)
{
	json_t *array = json_object_get(owner, name);
	if (!array || json_is_null(array)) {
		if (json_object_set_new(owner, name, json_array())) {
			return record_no_memory(err);
		}
		array = json_object_get(owner, name);
	}
	if (!json_is_array(array)) {
		return err_set(err, BERTH_INVALID_RECORD, "%s of %s is %s; it must be an array",
			name, place, record_json_type(array));
	}
	for (size_t i = json_array_size(array); i-- > 0;) {
		if (json_is_null(json_array_get(array, i))) {
			json_array_remove(array, i);
		}
	}
	*ret_array = array;
	return 0;
}

static int read_addresses(
	json_t *endpoint, const char *scope, size_t index, const char *place, struct err *err)
{
	const char *address_type = json_string_value(json_object_get(endpoint, "addressType"));
	json_t *addresses = json_object_get(endpoint, "addresses");
	if (!addresses || json_is_null(addresses)) {
		return err_set(err, BERTH_INVALID_RECORD, "%s has no addresses", place);
	}
	int code = read_array(&addresses, endpoint, "addresses", place, err);
	for (size_t i = 0; !code && i < json_array_size(addresses); i++) {
		struct record_place address_place = record_address_place(scope, index, i);
		code = read_address(addresses, i, address_type, address_place.text, err);
	}
	return code;
}

/* ---- the record ---- */

static int read_endpoint(json_t *endpoint, const char *scope, size_t index, struct err *err)
{
	struct record_place place = record_endpoint_place(scope, index);
	if (!json_is_object(endpoint)) {
		return err_set(err, BERTH_INVALID_RECORD, "%s is %s; it must be an object",
			place.text, record_json_type(endpoint));
	}
	int code = read_needed_text(endpoint, "api", place.text, err);
	if (!code) {
		code = read_needed_text(endpoint, "addressType", place.text, err);
	}
	if (!code) {
		code = read_protocol(endpoint, place.text, err);
	}
	return code ? code : read_addresses(endpoint, scope, index, place.text, err);
}

static int read_endpoints(json_t *json, const char *scope, struct err *err)
{
	json_t *endpoints = NULL;
	int code = read_array(&endpoints, json, scope, "the service record", err);
	for (size_t i = 0; !code && i < json_array_size(endpoints); i++) {
		code = read_endpoint(json_array_get(endpoints, i), scope, i, err);
	}
	return code;
}

/* Hadoop cannot read a record with an attribute that is null; its own fields may be. */
static int check_no_null(json_t *json, struct err *err)
{
	const char *name;
	const json_t *value;
	json_object_foreach (json, name, value) {
		bool is_field = strcmp(name, "description") == 0 || strcmp(name, "external") == 0 ||
			strcmp(name, "internal") == 0;
		if (json_is_null(value) && !is_field) {
			return err_set(err, BERTH_INVALID_RECORD,
				"%s of the service record is null", quote_text(name).text);
		}
	}
	return 0;
}

static int read_fields(json_t *json, struct err *err)
{
	static const char *const texts[] = { "description", "yarn:id", "yarn:persistence", NULL };
	int code = check_type(json, err);
	code = code ? code : check_no_null(json, err);
	for (size_t i = 0; texts[i] && !code; i++) {
		code = read_text(json, texts[i], "the service record", err);
	}
	for (size_t i = 0; record_scopes[i] && !code; i++) {
		code = read_endpoints(json, record_scopes[i], err);
	}
	return code;
}

/* The word of Hadoop's documents in place of its code's constant. */
static int rename_zktriple(json_t *json, struct err *err)
{
	for (size_t scope = 0; record_scopes[scope]; scope++) {
		size_t i;
		json_t *endpoint;
		json_array_foreach (json_object_get(json, record_scopes[scope]), i, endpoint) {
			json_t *type = json_object_get(endpoint, "addressType");
			if (strcmp(json_string_value(type), RECORD_ZKTRIPLE) == 0 &&
				json_string_set(type, RECORD_ZOOKEEPER)) {
				return record_no_memory(err);
			}
		}
	}
	return 0;
}

/*
 * Takes the reference `json` also on failure, and brings it to one spelling; a writer's choice of
 * zktriple is kept.
 */
static int read_take(
	struct record **ret_record, json_t *json, bool is_to_be_written, struct err *err)
{
	int code = read_fields(json, err);
	if (!code && !is_to_be_written) {
		code = rename_zktriple(json, err);
	}
	struct record *record = code ? NULL : malloc(sizeof(*record));
	if (!record) {
		json_decref(json);
		return code ? code : record_no_memory(err);
	}
	record->json = json;
	*ret_record = record;
	return 0;
}

int record_decode(struct record **ret_record, const char *data, size_t len, struct err *err)
{
	if (record_kind(data, len) != RECORD_KIND_RECORD) {
		return err_set(err, BERTH_NO_RECORD, "node holds no service record");
	}
	json_t *json = NULL;
	int code = parse(&json, data, len, err);
	return code ? code : read_take(ret_record, json, false, err);
}

int record_from_json(struct record **ret_record, const json_t *json, struct err *err)
{
	json_t *copy = json_deep_copy(json);
	return copy ? read_take(ret_record, copy, false, err) : record_no_memory(err);
}

int record_decode_strictly(
	struct record **ret_record, const char *data, size_t len, struct err *err)
{
	if (record_kind(data, len) != RECORD_KIND_RECORD) {
		return err_set(err, BERTH_INVALID_RECORD,
			"a service record is a JSON object with \"type\": \"" RECORD_TYPE "\"");
	}
	json_t *json = NULL;
	int code = parse_strictly(&json, data, len, err);
	return code ? code : read_take(ret_record, json, true, err);
}
