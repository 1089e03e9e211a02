#include "lib/client/endpoints.h"

#include <stdlib.h>
#include <string.h>

#include "lib/base/array.h"
#include "lib/base/json_text.h"

static const char *text_of(const json_t *object, const char *name)
{
	const char *text = json_string_value(json_object_get(object, name));
	return text ? text : "";
}

static const char *host_of(const json_t *parts)
{
	const char *host = json_string_value(json_object_get(parts, "host"));
	return host ? host : json_string_value(json_object_get(parts, "hostname"));
}

/*
 * Copies the strings into one block, which ret->path begins. NULL stays NULL. False without memory.
 */
static bool copy_strings(struct berth_endpoint *ret, const struct berth_endpoint *from)
{
	const char *const source[] = { from->path, from->scope, from->api, from->protocol,
		from->address_type, from->address, from->address_json, from->host };
	const char **const target[] = { &ret->path, &ret->scope, &ret->api, &ret->protocol,
		&ret->address_type, &ret->address, &ret->address_json, &ret->host };
	size_t len = 0;
	for (size_t i = 0; i < ARRAY_LEN(source); i++) {
		len += source[i] ? strlen(source[i]) + 1 : 0;
	}
	char *at = malloc(len);
	for (size_t i = 0; at && i < ARRAY_LEN(source); i++) {
		*target[i] = source[i] ? at : NULL;
		at = source[i] ? stpcpy(at, source[i]) + 1 : at;
	}
	return at != NULL;
}

static int append(
	struct endpoint_list *list, const struct berth_endpoint *endpoint, struct err *err)
{
	if (list->count == list->size) {
		size_t size = list->size ? 2 * list->size : 16;
		void *items = realloc(list->items, size * sizeof(*list->items));
		if (!items) {
			return err_set(err, BERTH_FAILED, "out of memory");
		}
		list->items = items;
		list->size = size;
	}
	struct berth_endpoint copy = { .port = endpoint->port };
	if (!copy_strings(&copy, endpoint)) {
		return err_set(err, BERTH_FAILED, "out of memory");
	}
	list->items[list->count++] = copy;
	return 0;
}

/* Adds one address: a record's map of strings, or text that is one already. */
static int add(struct endpoint_list *list, const char *path, const struct record_endpoint *endpoint,
	const json_t *address, struct err *err)
{
	const char *given = json_string_value(address);
	struct err refusal = ERR_INIT;
	json_t *parsed = given ? record_address_parse(endpoint->address_type, given, &refusal)
			       : NULL;
	const json_t *parts = parsed ? parsed : address;
	char *line = NULL;
	/* Text of another form is an address without parts. */
	bool no_memory = given ? refusal.code == BERTH_FAILED
			       : record_address_text(endpoint->address_type, address, &line) != 0;
	char *json = json_text(parts, JSON_COMPACT | JSON_ENCODE_ANY);
	const struct berth_endpoint entry = {
		.path = path,
		.scope = endpoint->scope,
		.api = endpoint->api,
		.protocol = endpoint->protocol,
		.address_type = endpoint->address_type,
		.address = given ? given
			: line   ? line
				 : "",
		.host = host_of(parts),
		.port = (unsigned)strtoul(text_of(parts, "port"), NULL, 10),
		.address_json = json,
	};
	int code = json && !no_memory ? append(list, &entry, err)
				      : err_set(err, BERTH_FAILED, "out of memory");
	free(json);
	free(line);
	json_decref(parsed);
	return code;
}

int endpoint_list_add_record(struct endpoint_list *list, const char *path,
	const struct record *record, const struct berth_endpoint_filter *filter, struct err *err)
{
	static const struct berth_endpoint_filter any;
	int code = 0;
	filter = filter ? filter : &any;
	for (size_t i = 0; code == 0 && i < record_endpoint_count(record); i++) {
		struct record_endpoint endpoint = record_endpoint(record, i);
		if (!record_endpoint_matches(
			    &endpoint, filter->api, filter->protocol, filter->scope)) {
			continue;
		}
		size_t index;
		json_t *address;
		json_array_foreach (endpoint.addresses, index, address) {
			code = code ? code : add(list, path, &endpoint, address, err);
		}
	}
	return code;
}

int endpoint_list_add_json(struct endpoint_list *list, const json_t *array, struct err *err)
{
	size_t index;
	json_t *entry;
	int code = json_is_array(array)
		? 0
		: err_set(err, BERTH_FAILED, "the agent's list of endpoints is not an array");
	json_array_foreach (array, index, entry) {
		const struct record_endpoint endpoint = { .scope = text_of(entry, "scope"),
			.api = text_of(entry, "api"),
			.protocol = text_of(entry, "protocol"),
			.address_type = text_of(entry, "addressType") };
		if (code == 0) {
			code = add(list, text_of(entry, "path"), &endpoint,
				json_object_get(entry, "address"), err);
		}
	}
	return code;
}

struct berth_endpoints endpoint_list_take(struct endpoint_list *list)
{
	return (struct berth_endpoints){ .items = list->items, .count = list->count };
}

void endpoint_list_finish(struct endpoint_list *list)
{
	struct berth_endpoints endpoints = endpoint_list_take(list);
	berth_endpoints_finish(&endpoints);
}

void berth_endpoints_finish(struct berth_endpoints *endpoints)
{
	for (size_t i = 0; i < endpoints->count; i++) {
		free((char *)endpoints->items[i].path); /* the block of all its strings */
	}
	free(endpoints->items);
	*endpoints = (struct berth_endpoints){ .items = NULL };
}
