/* From the data of nodes to the parts of a record: what the schemes have in common. */
#include "lib/dialect/read_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/json_read.h"
#include "lib/base/quote.h"
#include "lib/record/target.h"

enum { PORT_MAX = 65535 };

json_t *dialect_json(const char *data, size_t len, struct err *err)
{
	json_error_t where;
	json_t *json = json_read(data, len, JSON_DECODE_ANY, &where);
	if (!json && !*where.text) {
		err_set(err, BERTH_FAILED, "no memory for the data of a node");
	} else if (!json) {
		err_set(err, BERTH_INVALID_RECORD, "not JSON: %s", where.text);
	} else if (!json_is_object(json)) {
		err_set(err, BERTH_INVALID_RECORD, "the JSON is not an object");
		json_decref(json);
		json = NULL;
	}
	return json;
}

void dialect_unreadable(struct dialect_reading *reading, const char *what)
{
	err_set(&reading->err, BERTH_INVALID_RECORD, "%s", what);
}

const char *dialect_text(const json_t *object, const char *key)
{
	const char *text = json_string_value(json_object_get(object, key));
	return text && *text ? text : NULL;
}

int dialect_port(const json_t *value)
{
	if (!value || json_is_null(value)) {
		return 0;
	}
	const char *text = json_string_value(value);
	json_int_t port = json_is_integer(value) ? json_integer_value(value) : 0;
	if (text && *text && strlen(text) <= 5 && strspn(text, "0123456789") == strlen(text)) {
		port = strtol(text, NULL, 10);
	}
	return port > 0 && port <= PORT_MAX ? (int)port : -1;
}

static bool is_record_api(const char *api)
{
	if (!api || !*api || strlen(api) > LIMIT_API_BYTES) {
		return false;
	}
	for (const char *c = api; *c; c++) {
		if ((unsigned char)*c <= ' ' || *c == 0x7f || strchr("\"<>", *c)) {
			return false;
		}
	}
	return true;
}

void dialect_add_endpoint(struct dialect_reading *reading, const char *api, const char *protocol,
	const char *host, int port)
{
	char digits[16];
	struct record_target target;
	const char *type = port > 0 ? "host/port" : "hostname";
	snprintf(digits, sizeof(digits), "%d", port);
	if (port < 0) {
		dialect_unreadable(reading, "the port is not an integer of 1 to 65535");
	}
	json_t *address = port > 0 ? json_pack("{s:s, s:s}", "host", host, "port", digits)
				   : json_pack("{s:s}", "hostname", host);
	if (address && !record_target_read(&target, type, address)) {
		err_set(&reading->err, BERTH_INVALID_RECORD, "%s is not a host",
			quote_text(host).text);
	}
	json_t *addresses = json_pack("[o]", address);
	if (record_add_endpoint_take(reading->record, "external",
		    is_record_api(api) ? api : reading->member->service, protocol, type,
		    addresses)) {
		err_set(&reading->err, BERTH_FAILED, "no memory for a record");
	}
}

static void cannot_hold(struct dialect_reading *reading, const char *name)
{
	err_set(&reading->err, BERTH_INVALID_RECORD, "a record cannot hold %s",
		quote_text(name).text);
}

void dialect_set(struct dialect_reading *reading, const char *name, const json_t *value)
{
	if (!value || json_is_null(value)) {
		return;
	}
	if (record_set_attribute_take(reading->record, name, json_deep_copy(value))) {
		cannot_hold(reading, name);
	}
}

void dialect_set_text(struct dialect_reading *reading, const char *name, const char *value)
{
	if (value && record_set_text(reading->record, name, value)) {
		cannot_hold(reading, name);
	}
}

void dialect_set_pairs(struct dialect_reading *reading, const char *prefix, const json_t *object)
{
	const char *key;
	json_t *value;
	json_object_foreach ((json_t *)object, key, value) {
		char *name = NULL;
		if (!json_is_string(value)) {
			continue;
		}
		if (asprintf(&name, "%s.%s", prefix, key) < 0) {
			err_set(&reading->err, BERTH_FAILED, "no memory for a record");
			return;
		}
		dialect_set(reading, name, value);
		free(name);
	}
}
