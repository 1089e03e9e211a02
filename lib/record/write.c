/* From a record to its text: keys in one order, and only what the rules allow. */
#include <string.h>

#include "lib/base/json_text.h"
#include "lib/record/internal.h"

static const char *const record_order[] = { "type", "description", "external", "internal",
	"yarn:id", "yarn:persistence", NULL };

static const char *const endpoint_order[] = { "api", "addressType", "protocol", "protocolType",
	"addresses", NULL };

/*
 * A shallow copy with the named keys first, the others behind them in their old order.
 * json_object_update_missing() would not say that it has no memory.
 */
static json_t *in_order(json_t *object, const char *const first[])
{
	json_t *copy = json_object();
	bool failed = !copy;
	for (size_t i = 0; first[i] && !failed; i++) {
		json_t *value = json_object_get(object, first[i]);
		failed = value && json_object_set(copy, first[i], value);
	}
	const char *key;
	json_t *value;
	json_object_foreach (object, key, value) {
		failed = failed ||
			(!json_object_get(copy, key) && json_object_set(copy, key, value));
	}
	if (failed) {
		json_decref(copy);
		return NULL;
	}
	return copy;
}

static json_t *canonical_endpoints(const json_t *endpoints)
{
	json_t *copy = json_array();
	size_t i;
	json_t *endpoint;
	json_array_foreach (endpoints, i, endpoint) {
		if (json_array_append_new(copy, in_order(endpoint, endpoint_order))) {
			json_decref(copy);
			return NULL;
		}
	}
	return copy;
}

static json_t *canonical(const struct record *record)
{
	json_t *copy = in_order(record->json, record_order);
	for (size_t i = 0; record_scopes[i]; i++) {
		json_t *endpoints = json_object_get(record->json, record_scopes[i]);
		if (json_object_set_new(copy, record_scopes[i], canonical_endpoints(endpoints))) {
			json_decref(copy);
			return NULL;
		}
	}
	return copy;
}

int record_encode(const struct record *record, char **ret_text, size_t *ret_len, struct err *err)
{
	int code = record_check(record, err);
	if (code) {
		return code;
	}
	json_t *json = canonical(record);
	char *text = json_text(json, RECORD_DUMP_FLAGS);
	json_decref(json);
	if (!text) {
		return record_no_memory(err);
	}
	*ret_text = text;
	*ret_len = strlen(text);
	return 0;
}
