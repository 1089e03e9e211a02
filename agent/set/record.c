#include "agent/set/record.h"

#include <stdlib.h>
#include <string.h>

#include "agent/base/allocate.h"
#include "agent/base/holder.h"
#include "lib/base/array.h"
#include "lib/base/hash.h"
#include "lib/base/json_text.h"
#include "lib/base/json_visible.h"
#include "lib/record/select.h"
#include "lib/record/service.h"
#include "lib/render/locality.h"

struct writing {
	const struct set_reader *reader;
	json_t *attributes;
	const char *zone;
	const char *health;
	struct buffer texts;
	struct set_item *items; /* their texts are places in the buffer until it is complete */
	size_t count;
};

/* All but the structure of the record, and our own mark. */
static json_t *attributes_of(const struct record *record)
{
	static const char *const others[] = { "type", "external", "internal", HOLDER_MARK };
	json_t *attributes = allocated(json_copy((json_t *)(uintptr_t)record_json(record)));
	for (size_t i = 0; i < ARRAY_LEN(others); i++) {
		json_object_del(attributes, others[i]);
	}
	return attributes;
}

static size_t keep(struct writing *writing, const char *text, size_t len)
{
	size_t place = writing->texts.len;
	buffer_append(&writing->texts, text, len);
	buffer_append(&writing->texts, "", 1);
	return place;
}

static void keep_json(struct writing *writing, const struct render_item *item, struct set_item *to)
{
	struct buffer text;
	const struct record_endpoint *endpoint = item->endpoint;
	const char *host = item->target.host;
	json_t *json = allocated(json_pack(
		"{s:s, s:s, s:s, s:s, s:s, s:O, s:s*, s:i, s:s, s:s*, s:O}", "path", item->path,
		"scope", endpoint->scope, "api", endpoint->api, "protocol", endpoint->protocol,
		"addressType", endpoint->address_type, "address", item->address, "host",
		*host ? host : NULL, "weight", (int)item->weight, "health", writing->health, "zone",
		*writing->zone ? writing->zone : NULL, "attributes", writing->attributes));
	if (item->target.port) {
		json_object_set_new(json, "port", json_integer(item->target.port));
	}
	buffer_init(&text, SIZE_MAX);
	(void)json_text_append(&text, json, JSON_COMPACT);
	json_make_visible(&text, 0);
	to->json_len = text.len - 1;
	to->json = (const char *)keep(writing, buffer_text(&text), to->json_len);
	buffer_finish(&text);
	json_decref(json);
}

static bool is_member(const struct set_reader *reader, const struct render_item *item)
{
	const struct names_name *name = reader->name;
	return !name || name->service_labels == 0 ||
		(name->service && record_endpoint_offers(item->endpoint, name->service));
}

static const char *write_item(void *context, const struct render_item *item)
{
	struct writing *writing = context;
	if (is_member(writing->reader, item)) {
		struct set_item *to = &writing->items[writing->count++];
		const char *host = item->target.host;
		*to = (struct set_item){ .port = item->target.port,
			.host = (const char *)keep(writing, host, strlen(host)) };
		keep_json(writing, item, to);
	}
	return NULL;
}

static void each_item(const struct set_reader *reader, const char *path,
	const struct record *record, const char *(*take)(void *, const struct render_item *),
	void *context)
{
	struct render_result ignored;
	const struct render_member member = { .path = path, .record = record };
	const struct render_picture picture = { path, &member, 1 };
	if (reader->filter) {
		render_each(&picture, reader->filter, take, context, &ignored);
	}
}

struct record *set_record_decode(const struct set_record *record)
{
	struct record *decoded;
	/* It was possible before. */
	allocated_code(record_decode(&decoded, record->value->data, record->value->data_len, NULL));
	return decoded;
}

const struct set_item *set_record_items(struct set_record *record, const struct set_reader *reader)
{
	static const char *const words[] = { [RENDER_HEALTH_UNKNOWN] = "passing",
		[RENDER_HEALTH_DRAINING] = "draining",
		[RENDER_HEALTH_DEGRADED] = "warning" };
	if (record->items || record->count == 0) {
		return record->items;
	}
	struct record *decoded = set_record_decode(record);
	struct writing writing = { .reader = reader,
		.attributes = attributes_of(decoded),
		.zone = record->zone,
		.health = words[render_health(decoded)],
		.items = allocate_zeroed(record->count, sizeof(*record->items)) };
	buffer_init(&writing.texts, SIZE_MAX);
	each_item(reader, record->path, decoded, write_item, &writing);
	record->text = allocated(buffer_take(&writing.texts, NULL));
	record->items = writing.items;
	for (size_t i = 0; i < writing.count; i++) {
		record->items[i].host = record->text + (size_t)record->items[i].host;
		record->items[i].json = record->text + (size_t)record->items[i].json;
	}
	json_decref(writing.attributes);
	record_free(decoded);
	return record->items;
}

struct counting {
	const struct set_reader *reader;
	size_t count;
};

static const char *count_item(void *context, const struct render_item *item)
{
	struct counting *counting = context;
	counting->count += is_member(counting->reader, item);
	return NULL;
}

struct set_record *set_record_read(
	const struct set_reader *reader, const char *path, const struct registry_value *value)
{
	struct record *record;
	struct set_record *made = NULL;
	if (allocated_code(record_decode(&record, value->data, value->data_len, NULL))) {
		return NULL;
	}
	if (!reader->filter || select_takes(reader->filter->attributes, record)) {
		struct counting counting = { .reader = reader };
		each_item(reader, path, record, count_item, &counting);
		made = allocate_zeroed(1, sizeof(*made));
		*made = (struct set_record){ .references = 1,
			.bytes = sizeof(*made) + strlen(path) + value->data_len +
				counting.count * sizeof(*made->items),
			.path = allocate_text(path),
			.value = registry_value_hold(value),
			.hash = hash_bytes(
				hash_text(HASH_INIT, path), value->data, value->data_len),
			.zone = allocate_text(render_zone(record)),
			.weight = render_weight(record),
			.count = counting.count };
		for (int i = 0; reader->name && i < NAMES_TRAITS; i++) {
			made->is[i] = names_record_is(reader->name, record, (enum names_trait)i);
		}
	}
	record_free(record);
	return made;
}

struct set_record *set_record_hold(struct set_record *record)
{
	record->references++;
	return record;
}

void set_record_release(struct set_record *record)
{
	if (record && --record->references == 0) {
		registry_value_release(record->value);
		free(record->path);
		free(record->zone);
		free(record->items);
		free(record->text);
		free(record);
	}
}
