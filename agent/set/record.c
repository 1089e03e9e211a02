#include "agent/set/record.h"

#include <stdlib.h>
#include <string.h>

#include "agent/base/allocate.h"
#include "agent/base/holder.h"
#include "lib/base/array.h"
#include "lib/base/json_text.h"
#include "lib/base/json_visible.h"
#include "lib/record/select.h"
#include "lib/record/service.h"

struct reading {
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

static size_t keep(struct reading *reading, const char *text, size_t len)
{
	size_t place = reading->texts.len;
	buffer_append(&reading->texts, text, len);
	buffer_append(&reading->texts, "", 1);
	return place;
}

static void keep_json(struct reading *reading, const struct render_item *item, struct set_item *to)
{
	struct buffer text;
	const struct record_endpoint *endpoint = item->endpoint;
	const char *host = item->target.host;
	json_t *json = allocated(json_pack(
		"{s:s, s:s, s:s, s:s, s:s, s:O, s:s*, s:i, s:s, s:s*, s:O}", "path", item->path,
		"scope", endpoint->scope, "api", endpoint->api, "protocol", endpoint->protocol,
		"addressType", endpoint->address_type, "address", item->address, "host",
		*host ? host : NULL, "weight", (int)item->weight, "health", reading->health, "zone",
		*reading->zone ? reading->zone : NULL, "attributes", reading->attributes));
	if (item->target.port) {
		json_object_set_new(json, "port", json_integer(item->target.port));
	}
	buffer_init(&text, SIZE_MAX);
	(void)json_text_append(&text, json, JSON_COMPACT);
	json_make_visible(&text, 0);
	to->json_len = text.len - 1;
	to->json = (const char *)keep(reading, buffer_text(&text), to->json_len);
	buffer_finish(&text);
	json_decref(json);
}

static const char *take(void *context, const struct render_item *item)
{
	struct reading *reading = context;
	const struct names_name *name = reading->reader->name;
	if (name && name->service_labels > 0 &&
		(!name->service || !record_endpoint_offers(item->endpoint, name->service))) {
		return NULL;
	}
	reading->items = allocate_grow(reading->items, reading->count, sizeof(*reading->items));
	struct set_item *to = &reading->items[reading->count++];
	const char *host = item->target.host;
	*to = (struct set_item){ .port = item->target.port,
		.host = (const char *)keep(reading, host, strlen(host)) };
	keep_json(reading, item, to);
	return NULL;
}

static struct set_record *put_together(
	struct reading *reading, const char *path, const struct record *record)
{
	const struct names_name *name = reading->reader->name;
	size_t item_bytes = reading->count * sizeof(*reading->items);
	struct set_record *made = allocate_zeroed(1, sizeof(*made) + item_bytes);
	*made = (struct set_record){ .references = 1,
		.path = allocate_text(path),
		.zone = allocate_text(reading->zone),
		.weight = render_weight(record),
		.health = render_health(record),
		.count = reading->count };
	for (int i = 0; name && i < NAMES_TRAITS; i++) {
		made->is[i] = names_record_is(name, record, (enum names_trait)i);
	}
	made->bytes = sizeof(*made) + item_bytes + reading->texts.len + 2 * strlen(path);
	made->text = reading->texts.len > 0
		? allocate_bytes(reading->texts.data, reading->texts.len)
		: NULL;
	for (size_t i = 0; i < reading->count; i++) {
		made->items[i] = reading->items[i];
		made->items[i].host = made->text + (size_t)reading->items[i].host;
		made->items[i].json = made->text + (size_t)reading->items[i].json;
	}
	return made;
}

struct set_record *set_record_read(
	const struct set_reader *reader, const char *path, const char *data, size_t len)
{
	static const char *const words[] = { [RENDER_HEALTH_UNKNOWN] = "passing",
		[RENDER_HEALTH_DRAINING] = "draining",
		[RENDER_HEALTH_DEGRADED] = "warning" };
	struct record *record;
	struct render_result ignored;
	struct set_record *made = NULL;
	if (allocated_code(record_decode(&record, data, len, NULL))) {
		return NULL;
	}
	if (!reader->filter || select_takes(reader->filter->attributes, record)) {
		struct reading reading = { .reader = reader,
			.attributes = attributes_of(record),
			.zone = render_zone(record),
			.health = words[render_health(record)] };
		const struct render_member member = { .path = path, .record = record };
		const struct render_picture picture = { path, &member, 1 };
		buffer_init(&reading.texts, SIZE_MAX);
		if (reader->filter) {
			render_each(&picture, reader->filter, take, &reading, &ignored);
		}
		made = put_together(&reading, path, record);
		buffer_finish(&reading.texts);
		free(reading.items);
		json_decref(reading.attributes);
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
		free(record->path);
		free(record->zone);
		free(record->text);
		free(record);
	}
}
