/* A set, and its texts. */
#include "agent/set/question.h"

#include <stdlib.h>
#include <string.h>

#include "agent/base/allocate.h"
#include "lib/base/json_text.h"
#include "lib/names/of_path.h"

enum { BODY_BYTES = 256 << 20 };

static const char *const kinds[] = { [SET_OF_PATH] = "path",
	[SET_OF_NAME] = "name",
	[SET_NAMES] = "names",
	[SET_OF_NODE] = "path",
	[SET_OF_TREE] = "path",
	[SET_OF_PLACES] = "path" };

void set_hold(struct set *set)
{
	set->references++;
}

void set_release(struct set *set)
{
	if (!set || --set->references > 0) {
		return;
	}
	for (size_t i = 0; i < set->count; i++) {
		set_record_release(set->members[i].record);
	}
	for (size_t i = 0; i < SET_FORMS; i++) {
		free(set->texts[i].text);
	}
	set_question_release(set->question);
	free(set->members);
	free(set);
}

/* ---- texts ---- */

static void write_string(struct buffer *out, const char *text)
{
	json_t *json = json_string(text);
	json = json ? json : allocated(json_string(""));
	(void)json_text_append(out, json, JSON_ENCODE_ANY);
	json_decref(json);
}

/* Lines of NAME=VALUE as members of an object. */
static json_t *attributes_of(const char *selection)
{
	json_t *json = json_object();
	for (const char *line = selection; *line; line += *line == '\n') {
		size_t name_len = strcspn(line, "=");
		const char *value = line + name_len + (line[name_len] == '=');
		char *name = allocate_bytes(line, name_len);
		json_object_set_new(json, name, json_stringn(value, strcspn(value, "\n")));
		free(name);
		line = value + strcspn(value, "\n");
	}
	return json;
}

static void write_filter(struct buffer *out, const struct render_filter *filter)
{
	json_t *attributes = filter->attributes ? attributes_of(filter->attributes) : NULL;
	json_t *json = allocated(json_pack("{s:s*, s:s*, s:s*, s:o*}", "api", filter->api,
		"protocol", filter->protocol, "scope", filter->scope, "attributes", attributes));
	buffer_append_text(out, ",\"filter\":");
	(void)json_text_append(out, json, JSON_COMPACT);
	json_decref(json);
}

static void write_members(struct buffer *out, struct set *set)
{
	const char *comma = "";
	buffer_append_text(out, ",\"paths\":[");
	for (size_t i = 0; i < set->count; i++) {
		/* Paths are labels: they need no escapes. */
		buffer_printf(out, "%s\"%s\"", i > 0 ? "," : "", set->members[i].record->path);
	}
	buffer_append_text(out, "],\"members\":[");
	for (size_t i = 0; i < set->count; i++) {
		struct set_record *record = set->members[i].record;
		const struct set_item *items = set_record_items(record, &set->question->reader);
		for (size_t at = 0; at < record->count; at++) {
			const struct set_item *item = &items[at];
			buffer_append_text(out, comma);
			buffer_append(out, item->json, item->json_len);
			buffer_printf(out, ",\"tier\":%u}", set->members[i].tier);
			comma = ",";
		}
	}
	buffer_append_text(out, "]}\n");
}

static int by_text(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Each name once. */
static void write_names(struct buffer *out, const struct set *set)
{
	char **names = allocate_zeroed(set->count + 1, sizeof(*names));
	size_t count = 0;
	for (size_t i = 0; i < set->count; i++) {
		char name[NAMES_NAME_BYTES];
		if (names_of_path(name, set->members[i].record->path)) {
			names[count++] = allocate_text(name);
		}
	}
	qsort(names, count, sizeof(*names), by_text);
	buffer_append_text(out, ",\"names\":[");
	for (size_t i = 0; i < count; i++) {
		if (i == 0 || strcmp(names[i - 1], names[i]) != 0) {
			buffer_printf(out, "%s\"%s\"", i > 0 ? "," : "", names[i]);
		}
	}
	buffer_append_text(out, "]}\n");
	for (size_t i = 0; i < count; i++) {
		free(names[i]);
	}
	free(names);
}

/*
 * {"kind", "name" or "path", "filter": {}, "exists", "paths": [of the records], "members":
 * [{"path", "scope", "api", "protocol", "addressType", "address", "host", "port", "weight",
 * "health", "zone", "attributes": {}, "tier"}]}. Of SET_NAMES: {"kind", "path", "exists", "names"}.
 */
static void write_json(struct set *set, struct buffer *out)
{
	const struct set_key *key = &set->question->key;
	buffer_printf(out, "{\"kind\":\"%s\",\"%s\":", kinds[key->kind],
		key->kind == SET_OF_NAME ? "name" : "path");
	write_string(out, key->what);
	if (key->kind != SET_NAMES) {
		write_filter(out, &key->filter);
	}
	buffer_printf(out, ",\"exists\":%s%s%s%s", set->exists ? "true" : "false",
		set->confirmed ? "" : ",\"confirmed\":false",
		set->doubtful ? ",\"doubtful\":true" : "", set->enough ? "" : ",\"enough\":false");
	if (key->kind == SET_NAMES) {
		write_names(out, set);
	} else {
		write_members(out, set);
	}
}

static void write_lines(struct set *set, struct buffer *out)
{
	for (size_t i = 0; i < set->count; i++) {
		struct set_record *record = set->members[i].record;
		const struct set_item *items = set_record_items(record, &set->question->reader);
		for (size_t at = 0; at < record->count; at++) {
			const struct set_item *item = &items[at];
			if (*item->host && item->port) {
				bool ip6 = strchr(item->host, ':') != NULL;
				buffer_printf(
					out, ip6 ? "[%s]:%u\n" : "%s:%u\n", item->host, item->port);
			}
		}
	}
}

/* One record after the other: they need not all be decoded at a time. */
static void write_rendered(struct set *set, enum render_format format, struct buffer *out)
{
	const struct set_key *key = &set->question->key;
	const struct render_options options = {
		.format = format, .filter = key->filter, .tiers = key->near != NULL, .compact = true
	};
	size_t items = 0;
	buffer_append_text(out, format == RENDER_LINES ? "" : "[");
	for (size_t i = 0; i < set->count; i++) {
		const struct set_record *record = set->members[i].record;
		struct record *decoded = set_record_decode(record);
		const struct render_member member = {
			.path = record->path, .record = decoded, .tier = set->members[i].tier
		};
		const struct render_picture picture = { record->path, &member, 1 };
		struct err ignored = ERR_INIT;
		(void)!render_write_items(out, &picture, &options, &items, &ignored);
		record_free(decoded);
	}
	buffer_append_text(out, format == RENDER_LINES ? "" : "]\n");
}

const struct set_text *set_text(struct set *set, enum set_form form)
{
	static const enum render_format formats[] = { [SET_ENDPOINTS] = RENDER_JSON,
		[SET_ENDPOINT_LINES] = RENDER_LINES,
		[SET_TARGETS] = RENDER_PROMETHEUS };
	struct set_text *text = &set->texts[form];
	if (!text->text) {
		struct buffer out;
		buffer_init(&out, BODY_BYTES);
		if (form == SET_JSON) {
			write_json(set, &out);
		} else if (form == SET_LINES) {
			write_lines(set, &out);
		} else {
			write_rendered(set, formats[form], &out);
		}
		text->text = allocated(buffer_take(&out, &text->len));
	}
	return text;
}
