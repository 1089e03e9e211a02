#include "agent/component/node.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/allocate.h"
#include "agent/base/holder.h"
#include "lib/base/quote.h"
#include "lib/base/text.h"

/* ---- data ---- */

static void drop_bytes(struct announce_data *data)
{
	if (data->value) {
		registry_value_release(data->value);
	} else {
		free((char *)(uintptr_t)data->bytes);
	}
}

static void finish_data(struct announce_data *data)
{
	drop_bytes(data);
	record_free(data->record);
	*data = (struct announce_data){ .bytes = NULL };
}

static bool is_data(const struct announce_data *data, const char *bytes, size_t len)
{
	return data->bytes && bytes && data->len == len && memcmp(data->bytes, bytes, len) == 0;
}

/* True when they are others than before. */
static bool set_data(struct announce_data *data, const char *bytes, size_t len,
	const struct registry_value *value)
{
	bool same = is_data(data, bytes, len);
	if (same && (!value || value == data->value)) {
		return false;
	}
	const char *kept = value ? bytes : allocate_bytes(bytes, len);
	registry_value_hold(value);
	if (same) {
		drop_bytes(data);
	} else {
		finish_data(data);
	}
	data->value = value;
	data->bytes = kept;
	data->len = len;
	return !same;
}

static void read_record(struct announce_data *data)
{
	if (!data->is_read) {
		data->code = allocated_code(
			record_decode(&data->record, data->bytes, data->len, NULL));
		data->is_read = true;
	}
}

/* ---- wanted ---- */

/* Every other scheme names its instances by where they are. */
static bool names_instance(const struct announce_wanted *wanted)
{
	struct record *record = NULL;
	if (wanted->type != DIALECT_YARN) {
		return true;
	}
	bool named = allocated_code(record_decode(
			     &record, wanted->data.bytes, wanted->data.len, NULL)) == 0 &&
		*record_id(record);
	record_free(record);
	return named;
}

bool announce_wanted_set(struct announce_wanted *wanted, const struct dialect_node *node)
{
	wanted->kind = node->kind;
	wanted->change = node->change;
	wanted->container_parents = node->container_parents;
	bool changed = set_data(&wanted->data, node->data, node->len, NULL);
	if (changed) {
		wanted->has_id = names_instance(wanted);
	}
	return changed;
}

void announce_wanted_finish(struct announce_wanted *wanted)
{
	finish_data(&wanted->data);
}

/* ---- seen ---- */

void announce_seen_forget(struct announce_seen *seen, enum announce_node node)
{
	seen->node = node;
}

void announce_seen_finish(struct announce_seen *seen)
{
	finish_data(&seen->data);
}

static enum announce_node node_of(enum dialect_type type, const char *data, size_t len)
{
	if (len == 0) {
		return ANNOUNCE_NODE_EMPTY;
	}
	if (type == DIALECT_YARN) {
		return record_kind(data, len) == RECORD_KIND_RECORD ? ANNOUNCE_NODE_RECORD
								    : ANNOUNCE_NODE_FOREIGN;
	}
	json_t *json = json_loadb(data, len, 0, NULL);
	bool is_object = json_is_object(json);
	json_decref(json);
	return is_object ? ANNOUNCE_NODE_RECORD : ANNOUNCE_NODE_FOREIGN;
}

void announce_seen_set(struct announce_seen *seen, enum dialect_type type,
	const struct registry_stat *stat, const char *data, size_t len,
	const struct registry_value *value)
{
	if (set_data(&seen->data, data, len, data ? value : NULL)) {
		seen->kind = node_of(type, data, len);
	}
	seen->node = seen->kind;
	seen->stat = *stat;
}

/* ---- both ---- */

void announce_share_data(struct announce_wanted *wanted, const struct announce_seen *seen)
{
	const struct announce_data *there = &seen->data;
	if (there->value && is_data(&wanted->data, there->bytes, there->len)) {
		(void)set_data(&wanted->data, there->bytes, there->len, there->value);
	}
}

static const char *mark_of(const struct announce_data *data)
{
	const char *mark = data->code == 0
		? json_string_value(record_attribute(data->record, HOLDER_MARK))
		: NULL;
	return mark ? mark : "";
}

enum announce_proof announce_proof_of(struct announce_wanted *wanted, struct announce_seen *seen)
{
	if (wanted->type != DIALECT_YARN || !wanted->data.bytes) {
		return ANNOUNCE_UNMARKED;
	}
	read_record(&wanted->data);
	read_record(&seen->data);
	const char *own = mark_of(&wanted->data);
	const char *there = mark_of(&seen->data);
	if (!*there) {
		return ANNOUNCE_UNMARKED;
	}
	return strcmp(own, there) == 0 ? ANNOUNCE_PROVEN : ANNOUNCE_STRANGE;
}

static bool equal_but_for_marks(const struct record *a, const struct record *b)
{
	json_t *bare_a = allocated(json_copy((json_t *)(uintptr_t)record_json(a)));
	json_t *bare_b = allocated(json_copy((json_t *)(uintptr_t)record_json(b)));
	json_object_del(bare_a, HOLDER_MARK);
	json_object_del(bare_b, HOLDER_MARK);
	bool equal = json_equal(bare_a, bare_b);
	json_decref(bare_a);
	json_decref(bare_b);
	return equal;
}

static enum announce_likeness record_likeness(
	struct announce_data *own, struct announce_data *there)
{
	read_record(own);
	read_record(there);
	if (own->code || there->code ||
		strcmp(record_id(there->record), record_id(own->record)) != 0) {
		return ANNOUNCE_LIKE_NOTHING;
	}
	if (!equal_but_for_marks(there->record, own->record)) {
		return ANNOUNCE_LIKE_ID;
	}
	/* A program before ours did not mark it: that alone does not make it write. */
	bool as_before = *mark_of(own) && !*mark_of(there);
	return as_before ? ANNOUNCE_LIKE_BYTES : ANNOUNCE_LIKE_RECORD;
}

enum announce_likeness announce_likeness_of(
	struct announce_wanted *wanted, struct announce_seen *seen)
{
	struct announce_data *own = &wanted->data;
	struct announce_data *there = &seen->data;
	if (!own->bytes) {
		return ANNOUNCE_LIKE_NOTHING;
	}
	if (is_data(there, own->bytes, own->len)) {
		return ANNOUNCE_LIKE_BYTES;
	}
	if (wanted->type == DIALECT_YARN) {
		return record_likeness(own, there);
	}
	return dialect_same_instance(wanted->type, there->bytes, there->len, own->bytes, own->len)
		? ANNOUNCE_LIKE_ID
		: ANNOUNCE_LIKE_NOTHING;
}

static void describe_record(struct announce_data *data, const char *path, char *why, size_t size)
{
	read_record(data);
	if (data->code == BERTH_NO_RECORD) {
		text_printf(why, size, "another instance's node is at %s", path);
	} else if (data->code) {
		text_printf(why, size, "an unreadable record is at %s", path);
	} else {
		const char *id = record_id(data->record);
		const char *description = record_description(data->record);
		text_printf(why, size, "another record is at %s (%s%s%s%s)", path,
			*id ? "yarn:id " : "no yarn:id", *id ? quote_text(id).text : "",
			*description ? ", " : "", *description ? quote_text(description).text : "");
	}
}

void announce_describe_other(struct announce_seen *seen, const char *path, char *why, size_t size)
{
	switch (seen->node) {
	case ANNOUNCE_NODE_EMPTY:
		text_printf(why, size, "another client's ephemeral node is at %s", path);
		break;
	case ANNOUNCE_NODE_FOREIGN:
		text_printf(why, size, "%s holds another program's node whose data is not a record",
			path);
		break;
	default:
		describe_record(&seen->data, path, why, size);
		break;
	}
}
