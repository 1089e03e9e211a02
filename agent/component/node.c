#include "agent/component/node.h"

#include <stdlib.h>
#include <string.h>

#include "agent/base/allocate.h"
#include "lib/base/quote.h"
#include "lib/base/text.h"

/* ---- wanted ---- */

/* Every other scheme names its instances by where they are. */
static bool names_instance(const struct announce_wanted *wanted)
{
	struct record *record = NULL;
	if (wanted->type != DIALECT_YARN) {
		return true;
	}
	bool named = allocated_code(record_decode(&record, wanted->data, wanted->len, NULL)) == 0 &&
		*record_id(record);
	record_free(record);
	return named;
}

void announce_wanted_set(struct announce_wanted *wanted, const struct dialect_node *node)
{
	char *data = allocate_bytes(node->data, node->len);
	free(wanted->data);
	wanted->data = data;
	wanted->len = node->len;
	wanted->kind = node->kind;
	wanted->change = node->change;
	wanted->container_parents = node->container_parents;
	wanted->has_id = names_instance(wanted);
}

void announce_wanted_finish(struct announce_wanted *wanted)
{
	free(wanted->data);
	wanted->data = NULL;
}

/* ---- seen ---- */

void announce_seen_forget(struct announce_seen *seen, enum announce_node node)
{
	free(seen->data);
	seen->data = NULL;
	seen->len = 0;
	seen->node = node;
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
	const struct registry_stat *stat, const char *data, size_t len)
{
	announce_seen_forget(seen, node_of(type, data, len));
	seen->data = allocate_bytes(data, len);
	seen->len = len;
	seen->stat = *stat;
}

/* ---- both ---- */

static enum announce_likeness record_likeness(
	const struct announce_wanted *wanted, const struct announce_seen *seen)
{
	struct record *there = NULL;
	struct record *own = NULL;
	enum announce_likeness likeness = ANNOUNCE_LIKE_NOTHING;
	if (allocated_code(record_decode(&there, seen->data, seen->len, NULL)) == 0 &&
		allocated_code(record_decode(&own, wanted->data, wanted->len, NULL)) == 0 &&
		strcmp(record_id(there), record_id(own)) == 0) {
		likeness = record_equal(there, own) ? ANNOUNCE_LIKE_RECORD : ANNOUNCE_LIKE_ID;
	}
	record_free(there);
	record_free(own);
	return likeness;
}

enum announce_likeness announce_likeness_of(
	const struct announce_wanted *wanted, const struct announce_seen *seen)
{
	if (!wanted->data) {
		return ANNOUNCE_LIKE_NOTHING;
	}
	if (seen->len == wanted->len && memcmp(seen->data, wanted->data, wanted->len) == 0) {
		return ANNOUNCE_LIKE_BYTES;
	}
	if (wanted->type == DIALECT_YARN) {
		return record_likeness(wanted, seen);
	}
	return dialect_same_instance(wanted->type, seen->data, seen->len, wanted->data, wanted->len)
		? ANNOUNCE_LIKE_ID
		: ANNOUNCE_LIKE_NOTHING;
}

static void describe_record(
	const struct announce_seen *seen, const char *path, char *why, size_t size)
{
	struct record *other = NULL;
	int code = allocated_code(record_decode(&other, seen->data, seen->len, NULL));
	if (code == BERTH_NO_RECORD) {
		text_printf(why, size, "another instance's node is at %s", path);
	} else if (code) {
		text_printf(why, size, "an unreadable record is at %s", path);
	} else {
		const char *id = record_id(other);
		const char *description = record_description(other);
		text_printf(why, size, "another record is at %s (%s%s%s%s)", path,
			*id ? "yarn:id " : "no yarn:id", *id ? quote_text(id).text : "",
			*description ? ", " : "", *description ? quote_text(description).text : "");
	}
	record_free(other);
}

void announce_describe_other(
	const struct announce_seen *seen, const char *path, char *why, size_t size)
{
	switch (seen->node) {
	case ANNOUNCE_NODE_EMPTY:
		text_printf(why, size, "another client's ephemeral node is at %s", path);
		break;
	case ANNOUNCE_NODE_FOREIGN:
		text_printf(why, size,
			"a node of another program, with data that is no record, is at %s", path);
		break;
	default:
		describe_record(seen, path, why, size);
		break;
	}
}
