#include "lib/client/endpoints.h"

#include <stdlib.h>
#include <string.h>

#include "lib/record/record.h"

/* What the strings of a struct berth_endpoints belong to. */
struct memory {
	json_t *array;
	size_t count;
	struct {
		char *address; /* in one line */
		json_t *parts; /* the address's keys: host and port are in there */
		char *json;    /* the same as text */
	} items[];
};

static bool passes(
	const struct record_endpoint *endpoint, const struct berth_endpoint_filter *filter)
{
	return !filter ||
		record_endpoint_matches(endpoint, filter->api, filter->protocol, filter->scope);
}

static int append_addresses(
	json_t *array, const char *path, const struct record_endpoint *endpoint, struct err *err)
{
	size_t index;
	json_t *address;
	json_array_foreach (endpoint->addresses, index, address) {
		json_t *entry = json_pack("{s:s, s:s, s:s, s:s, s:s, s:O}", "path", path, "scope",
			endpoint->scope, "api", endpoint->api, "protocol", endpoint->protocol,
			"addressType", endpoint->address_type, "address", address);
		if (!entry || json_array_append_new(array, entry) != 0) {
			return err_set(err, BERTH_FAILED, "out of memory");
		}
	}
	return 0;
}

int endpoints_append(json_t *array, const char *path, const json_t *record,
	const struct berth_endpoint_filter *filter, struct err *err)
{
	struct record *decoded = NULL;
	int code = 0;
	if (record_from_json(&decoded, record, NULL) == 0) {
		for (size_t i = 0; code == 0 && i < record_endpoint_count(decoded); i++) {
			struct record_endpoint endpoint = record_endpoint(decoded, i);
			if (passes(&endpoint, filter)) {
				code = append_addresses(array, path, &endpoint, err);
			}
		}
	}
	record_free(decoded);
	return code;
}

static const char *text_of(const json_t *object, const char *name)
{
	const char *text = json_string_value(json_object_get(object, name));
	return text ? text : "";
}

static void memory_free(struct memory *memory)
{
	for (size_t i = 0; i < memory->count; i++) {
		free(memory->items[i].address);
		json_decref(memory->items[i].parts);
		free(memory->items[i].json);
	}
	json_decref(memory->array);
	free(memory);
}

void berth_endpoints_finish(struct berth_endpoints *endpoints)
{
	if (endpoints->memory) {
		memory_free(endpoints->memory);
	}
	free(endpoints->items);
	*endpoints = (struct berth_endpoints){ .items = NULL };
}

static const char *host_of(const json_t *parts)
{
	const char *host = json_string_value(json_object_get(parts, "host"));
	return host ? host : json_string_value(json_object_get(parts, "hostname"));
}

/* Fills one entry; its address may be text or the record's own map. False without memory. */
static bool fill(struct memory *memory, size_t index, struct berth_endpoint *ret)
{
	const json_t *entry = json_array_get(memory->array, index);
	const char *type = text_of(entry, "addressType");
	json_t *address = json_object_get(entry, "address");
	if (json_is_string(address)) {
		struct err ignored = ERR_INIT;
		memory->items[index].address = strdup(json_string_value(address));
		memory->items[index].parts = record_address_parse(
			type, json_string_value(address), &ignored);
	} else {
		char *text = record_address_text(type, address);
		memory->items[index].address = text ? text : strdup("");
		memory->items[index].parts = json_incref(address);
	}
	const json_t *parts = memory->items[index].parts;
	memory->items[index].json = json_dumps(
		parts ? parts : address, JSON_COMPACT | JSON_ENCODE_ANY);
	*ret = (struct berth_endpoint){
		.path = text_of(entry, "path"),
		.scope = text_of(entry, "scope"),
		.api = text_of(entry, "api"),
		.protocol = text_of(entry, "protocol"),
		.address_type = type,
		.address = memory->items[index].address,
		.host = host_of(parts),
		.port = (unsigned)strtoul(text_of(parts, "port"), NULL, 10),
		.address_json = memory->items[index].json,
	};
	return ret->address && ret->address_json;
}

int endpoints_from_json(struct berth_endpoints *ret, json_t *array, struct err *err)
{
	if (!json_is_array(array)) {
		return err_set(err, BERTH_FAILED, "the agent's list of endpoints is no array");
	}
	size_t count = json_array_size(array);
	struct berth_endpoints endpoints = { .count = count };
	struct memory *memory = calloc(1, sizeof(*memory) + count * sizeof(memory->items[0]));
	endpoints.items = calloc(count ? count : 1, sizeof(*endpoints.items));
	if (!memory || !endpoints.items) {
		free(memory);
		free(endpoints.items);
		return err_set(err, BERTH_FAILED, "out of memory");
	}
	memory->count = count;
	memory->array = json_incref(array);
	endpoints.memory = memory;
	for (size_t i = 0; i < count; i++) {
		if (!fill(memory, i, &endpoints.items[i])) {
			berth_endpoints_finish(&endpoints);
			return err_set(err, BERTH_FAILED, "out of memory");
		}
	}
	*ret = endpoints;
	return 0;
}
