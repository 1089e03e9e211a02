#include "agent/cache/body.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/allocate.h"
#include "agent/cache/listing.h"
#include "lib/base/json_text.h"
#include "lib/base/json_visible.h"
#include "lib/record/record.h"
#include "lib/render/locality.h"
#include "lib/render/render.h"

enum { SLICE_CHILDREN = 128, BODY_BYTES = 256 * 1024 * 1024 };

void cache_write_list(const struct cache_entry *children, struct buffer *out)
{
	buffer_append_text(out, "[");
	for (size_t i = 0; i < cache_child_count(children); i++) {
		buffer_append_text(out, i ? ",\"" : "\""); /* paths need no escapes */
		buffer_append_text(out, children->value->children[i]);
		buffer_append_text(out, "\"");
	}
	buffer_append_text(out, "]\n");
}

/* ---- one record ---- */

static void write_json_string(struct buffer *out, const char *text)
{
	json_t *string = json_string_nocheck(text);
	(void)json_text_append(out, string, JSON_ENCODE_ANY);
	json_decref(string);
}

/* How far the record is; NULL where nobody asked. */
static const unsigned *tier_of(
	const struct record *record, const struct cache_filter *filter, unsigned *room)
{
	*room = filter->near ? render_tier(filter->rank, render_zone(record), filter->near) : 0;
	return filter->near ? room : NULL;
}

static void write_address(const char *path, const struct record_endpoint *endpoint,
	const json_t *address, bool text, const char *last_members, struct buffer *out)
{
	if (text) {
		char *line = NULL;
		if (record_address_text(endpoint->address_type, address, &line)) {
			allocated(NULL);
		}
		if (line && *line && !text_has_hidden(line, strlen(line))) {
			buffer_printf(out, "%s\n", line);
		}
		free(line);
		return;
	}
	size_t start = out->len;
	buffer_printf(out, "%s{\"path\":\"%s\",\"scope\":\"%s\",\"api\":", out->len > 1 ? "," : "",
		path, endpoint->scope);
	write_json_string(out, endpoint->api);
	buffer_append_text(out, ",\"protocol\":");
	write_json_string(out, endpoint->protocol);
	buffer_append_text(out, ",\"addressType\":");
	write_json_string(out, endpoint->address_type);
	buffer_append_text(out, ",\"address\":");
	(void)json_text_append(out, address, JSON_COMPACT);
	buffer_append_text(out, last_members);
	buffer_append_text(out, "}");
	json_make_visible(out, start);
}

/* The members that each endpoint of a record has behind its address. */
static void write_last_members(
	char *out, size_t size, const struct record *record, const unsigned *tier)
{
	unsigned weight;
	int len = 0;
	out[0] = '\0';
	if (render_weight_read(&weight, record)) {
		len = snprintf(out, size, ",\"weight\":%u", weight);
	}
	if (tier) {
		snprintf(out + len, size - (size_t)len, ",\"tier\":%u", *tier);
	}
}

static void note_serving(struct cache_build *build, size_t start, const struct record *record)
{
	build->serving = build->serving || (build->out.len > start && render_weight(record) > 0);
}

static void note_part(struct cache_build *build, size_t start, const unsigned *tier)
{
	if (tier && build->out.len > start) {
		build->parts = allocate_grow(
			build->parts, build->part_count, sizeof(*build->parts));
		build->parts[build->part_count] = (struct cache_part){ .start = start,
			.end = build->out.len,
			.place = build->part_count,
			.tier = *tier };
		build->part_count++;
	}
}

static void write_endpoints(struct cache_entry *data, const struct cache_filter *filter,
	struct cache_build *build, const char *path)
{
	struct buffer *out = &build->out;
	size_t start = out->len;
	unsigned room;
	char last_members[48];
	struct record *record;
	if (!cache_entry_is_record(data) ||
		allocated_code(
			record_decode(&record, data->value->data, data->value->data_len, NULL))) {
		return;
	}
	const unsigned *tier = tier_of(record, filter, &room);
	write_last_members(last_members, sizeof(last_members), record, tier);
	for (size_t i = 0; i < record_endpoint_count(record); i++) {
		struct record_endpoint endpoint = record_endpoint(record, i);
		size_t index;
		json_t *address;
		if (record_endpoint_matches(
			    &endpoint, filter->api, filter->protocol, filter->scope)) {
			json_array_foreach (endpoint.addresses, index, address) {
				write_address(
					path, &endpoint, address, filter->text, last_members, out);
			}
		}
	}
	note_serving(build, start, record);
	note_part(build, start, tier);
	record_free(record);
}

static void write_targets(struct cache_entry *data, const struct cache_filter *filter,
	struct cache_build *build, const char *path)
{
	size_t start = build->out.len;
	unsigned room;
	struct record *record;
	if (!cache_entry_is_record(data) ||
		allocated_code(
			record_decode(&record, data->value->data, data->value->data_len, NULL))) {
		return;
	}
	const unsigned *tier = tier_of(record, filter, &room);
	const struct render_member member = { .path = path, .record = record, .tier = room };
	const struct render_picture picture = { path, &member, 1 };
	const struct render_options options = { .format = RENDER_PROMETHEUS,
		.filter = { filter->api, filter->protocol, filter->scope },
		.tiers = tier != NULL };
	struct err ignored = ERR_INIT; /* the buffer has failed, too: seen at the end */
	(void)!render_write_items(&build->out, &picture, &options, &build->items, &ignored);
	note_serving(build, start, record);
	note_part(build, start, tier);
	record_free(record);
}

void cache_write_outside(const struct cache_entry *data, struct buffer *out)
{
	struct record *record;
	if (allocated_code(
		    record_decode(&record, data->value->data, data->value->data_len, NULL))) {
		return;
	}
	size_t start = out->len;
	json_t *json = allocated(json_copy((json_t *)(uintptr_t)record_json(record)));
	json_object_set_new(json, "internal", json_array());
	(void)json_text_append(out, json, JSON_COMPACT);
	json_make_visible(out, start);
	json_decref(json);
	record_free(record);
}

static void write_record(
	struct cache_entry *data, const struct cache_filter *filter, struct buffer *out)
{
	if (!cache_entry_is_record(data)) {
		return;
	}
	buffer_printf(out, "%s\"%s\":", out->len > 1 ? "," : "", data->node->path);
	if (filter->outside) {
		cache_write_outside(data, out);
	} else {
		cache_entry_append_data(data, out);
	}
}

/* ---- slices ---- */

static struct cache_filter filter_of(const struct answer *answer)
{
	return answer->filter ? *answer->filter : (struct cache_filter){ .text = false };
}

static void write_part(struct answer *answer, struct cache_entry *data,
	const struct cache_filter *filter, const char *path)
{
	struct cache_build *build = answer->build;
	if (answer->kind == CACHE_RECORDS) {
		write_record(data, filter, &build->out);
	} else if (answer->kind == CACHE_TARGETS) {
		write_targets(data, filter, build, path);
	} else {
		write_endpoints(data, filter, build, path);
	}
}

static void begin(struct answer *answer, const struct cache_filter *filter)
{
	struct cache_build *build = allocate_zeroed(1, sizeof(*build));
	build->answer = answer;
	list_init(&build->link);
	buffer_init(&build->out, BODY_BYTES);
	answer->build = build;
	if (answer->kind == CACHE_RECORDS) {
		buffer_append_text(&build->out, "{");
		return;
	}
	if (!filter->text) {
		buffer_append_text(&build->out, "[");
	}
	const char *path = answer->node->path;
	struct cache_entry *data = cache_need(answer->all->store, &build->need, path, CACHE_DATA);
	if (data) {
		write_part(answer, data, filter, path);
	}
}

static int by_tier(const void *a, const void *b)
{
	const struct cache_part *left = a;
	const struct cache_part *right = b;
	int order = (left->tier > right->tier) - (left->tier < right->tier);
	return order != 0 ? order : (left->place > right->place) - (left->place < right->place);
}

/* The parts in the order of their tiers; each but the first one written begins with a comma. */
static void order_parts(struct cache_build *build, bool text)
{
	struct buffer ordered;
	if (build->part_count == 0 || build->out.failed) {
		return;
	}
	buffer_init(&ordered, BODY_BYTES);
	buffer_append(&ordered, build->out.data, build->parts[0].start);
	qsort(build->parts, build->part_count, sizeof(*build->parts), by_tier);
	for (size_t i = 0; i < build->part_count; i++) {
		const struct cache_part *part = &build->parts[i];
		size_t comma = !text && part->place > 0;
		buffer_append_text(&ordered, !text && i > 0 ? "," : "");
		buffer_append(&ordered, build->out.data + part->start + comma,
			part->end - part->start - comma);
	}
	buffer_finish(&build->out);
	build->out = ordered;
}

static void write_slice(struct answer *answer, const struct cache_entry *children,
	const struct cache_filter *filter)
{
	struct cache_build *build = answer->build;
	size_t i = cache_child_behind(children, build->after);
	size_t end = i + SLICE_CHILDREN < cache_child_count(children) ? i + SLICE_CHILDREN
								      : cache_child_count(children);
	for (; i < end; i++) {
		const char *path = children->value->children[i];
		struct cache_entry *data = cache_need(
			answer->all->store, &build->need, path, CACHE_DATA);
		if (!data) {
			break;
		}
		write_part(answer, data, filter, path);
	}
	bool done = i == cache_child_count(children);
	char *after = i > 0 && !done ? allocate_text(children->value->children[i - 1]) : NULL;
	free(build->after);
	build->after = after;
	if (done) {
		order_parts(build, filter->text);
		const char *ends = answer->kind == CACHE_RECORDS ? "}\n"
			: filter->text                           ? ""
								 : "]\n";
		buffer_append_text(&build->out, ends);
	} else if (build->need.missing == 0) {
		list_remove(&build->link);
		list_append(&answer->all->builds, &build->link);
		cache_go_on(answer->all->turn);
	}
}

/* The answer is an error, because its path is not there or cannot be read. */
static bool lacks_path(const struct answer *answer, const struct cache_entry *children)
{
	bool may_be_absent = answer->kind == CACHE_TARGETS &&
		cache_code(children) == BERTH_PATH_NOT_FOUND;
	return cache_code(children) && !may_be_absent;
}

enum cache_verdict cache_build_go_on(struct answer *answer, struct err *err)
{
	const struct cache_filter filter = filter_of(answer);
	if (!answer->build) {
		begin(answer, &filter);
	}
	struct cache_build *build = answer->build;
	list_remove(&build->link);
	build->need.missing = 0;
	build->need.unavailable = 0;
	struct cache_entry *children = cache_need(
		answer->all->store, &build->need, answer->node->path, CACHE_CHILDREN);
	if (children && lacks_path(answer, children)) {
		cache_answer_fail(children, err);
		return CACHE_READY;
	}
	if (children) {
		write_slice(answer, children, &filter);
	}
	answer->missing = build->need.missing;
	bool more = answer->missing > 0 || !list_empty(&build->link);
	return build->need.unavailable > 0 ? CACHE_UNAVAILABLE : more ? CACHE_WAITING : CACHE_READY;
}

void cache_build_put_off(struct answer *answer)
{
	if (!answer->build) {
		answer->build = allocate_zeroed(1, sizeof(*answer->build));
		answer->build->answer = answer;
		answer->build->put_off = true;
		buffer_init(&answer->build->out, BODY_BYTES);
		list_append(&answer->all->builds, &answer->build->link);
		cache_go_on(answer->all->turn);
	}
}

void cache_build_free(struct answer *answer)
{
	struct cache_build *build = answer->build;
	if (build) {
		list_remove(&build->link);
		buffer_finish(&build->out);
		free(build->parts);
		free(build->after);
		free(build);
		answer->build = NULL;
	}
}
