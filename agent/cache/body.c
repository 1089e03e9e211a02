#include "agent/cache/body.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/allocate.h"
#include "agent/cache/listing.h"
#include "lib/base/json_text.h"
#include "lib/base/json_visible.h"
#include "lib/record/select.h"
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

/* How far the record is; NULL where nobody asked. */
static const unsigned *tier_of(
	const struct record *record, const struct cache_filter *filter, unsigned *room)
{
	*room = filter->near ? render_tier(0, render_zone(record), filter->near) : 0;
	return filter->near ? room : NULL;
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

/* The valid record that the filter selects; or NULL. */
static struct record *selected(struct cache_entry *data, const struct cache_filter *filter)
{
	struct record *record;
	if (!cache_entry_is_record(data) ||
		allocated_code(
			record_decode(&record, data->value->data, data->value->data_len, NULL))) {
		return NULL;
	}
	if (!select_takes(filter->attributes, record)) {
		record_free(record);
		return NULL;
	}
	return record;
}

static void write_members(struct cache_entry *data, const struct cache_filter *filter,
	struct cache_build *build, const char *path, enum render_format format)
{
	size_t start = build->out.len;
	unsigned room;
	struct record *record = selected(data, filter);
	if (!record) {
		return;
	}
	const unsigned *tier = tier_of(record, filter, &room);
	const struct render_member member = { .path = path, .record = record, .tier = room };
	const struct render_picture picture = { path, &member, 1 };
	const struct render_options options = { .format = format,
		.filter = { filter->api, filter->protocol, filter->scope, NULL },
		.tiers = tier != NULL,
		.compact = true };
	struct err ignored = ERR_INIT; /* the buffer has failed, too: seen at the end */
	(void)!render_write_items(&build->out, &picture, &options, &build->items, &ignored);
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
	struct record *record = selected(data, filter);
	if (!record) {
		return;
	}
	record_free(record);
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
	} else {
		write_members(data, filter, build, path,
			answer->kind == CACHE_TARGETS ? RENDER_PROMETHEUS
				: filter->text        ? RENDER_LINES
						      : RENDER_JSON);
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
