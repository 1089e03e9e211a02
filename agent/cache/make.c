#include "agent/cache/make.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/allocate.h"
#include "agent/cache/body.h"
#include "agent/cache/listing.h"
#include "lib/base/json_text.h"
#include "lib/base/limits.h"
#include "lib/record/record.h"

static struct cache_body *make_resolve(
	struct cache_entry *data, const struct cache_filter *filter, struct err *err)
{
	if (cache_code(data)) {
		cache_answer_fail(data, err);
		return NULL;
	}
	bool outside = filter && filter->outside;
	if (cache_entry_is_record(data) && !data->hidden && !outside) {
		return cache_body_of_value(data->value);
	}
	struct buffer out;
	struct record *record = NULL;
	struct cache_body *body = NULL;
	buffer_init(&out, SIZE_MAX);
	if (outside && cache_entry_is_record(data)) {
		cache_write_outside(data, &out);
	} else {
		cache_entry_append_data(data, &out);
	}
	if (allocated_code(record_decode(&record, buffer_text(&out), out.len, err))) {
		err_wrap(err, "%s", data->node->path);
	} else {
		body = cache_body_of_text(buffer_text(&out), out.len, data->value);
	}
	record_free(record);
	buffer_finish(&out);
	return body;
}

static struct cache_body *take_text(
	struct buffer *out, const char *path, const struct registry_value *value, struct err *err)
{
	struct cache_body *body = out->failed
		? NULL
		: cache_body_of_text(buffer_text(out), out->len, value);
	if (!body) {
		err_set(err, BERTH_LIMIT_EXCEEDED, "%s: the answer is too large", path);
	}
	buffer_finish(out);
	return body;
}

static struct cache_body *make_list(const struct cache_entry *children, struct err *err)
{
	struct buffer out;
	if (cache_code(children)) {
		cache_answer_fail(children, err);
		return NULL;
	}
	buffer_init(&out, SIZE_MAX);
	cache_write_list(children, &out);
	return take_text(&out, children->node->path, children->value, err);
}

/* Bytes of what the filter shows: those of the whole would say how much it hides. */
static size_t shown_size(struct cache_entry *data, const struct cache_filter *filter)
{
	if (!filter || !filter->outside) {
		return data->value->stat.size;
	}
	struct buffer out;
	buffer_init(&out, SIZE_MAX);
	if (cache_entry_is_record(data)) {
		cache_write_outside(data, &out);
	}
	size_t size = out.len;
	buffer_finish(&out);
	return size;
}

static struct cache_body *make_stat(struct cache_entry *data, const struct cache_entry *children,
	const struct cache_filter *filter, struct err *err)
{
	/* A node has a stat whatever it holds. */
	if (!cache_entry_exists(data)) {
		cache_answer_fail(data, err);
		return NULL;
	}
	const struct registry_value *list = children->value;
	struct buffer out;
	buffer_init(&out, SIZE_MAX);
	buffer_printf(&out, "{\"path\":\"%s\",\"time\":%lld,\"size\":%zu,\"children\":%zu",
		data->node->path, (long long)data->value->stat.created_ms, shown_size(data, filter),
		list->stat.children);
	/* Foreign names come with escapes, so that they need nothing more. */
	for (size_t i = 0; i < list->stat.foreign; i++) {
		buffer_printf(&out, "%s\"%s\"", i ? "," : ",\"foreign\":[",
			list->children[list->stat.children + i]);
	}
	buffer_append_text(&out, list->stat.foreign ? "]}\n" : "}\n");
	return take_text(&out, data->node->path, NULL, err);
}

static void write_stat(struct buffer *out, const struct registry_stat *stat)
{
	buffer_printf(out,
		"{\"created_ms\":%lld,\"modified_ms\":%lld,\"node_id\":%lld,\"version\":%lld,"
		"\"size\":%zu,\"ephemeral\":%s",
		(long long)stat->created_ms, (long long)stat->modified_ms, (long long)stat->node_id,
		(long long)stat->version, stat->size, stat->ephemeral ? "true" : "false");
}

/* The data of other programs stay hidden. A record that is not text is damaged. */
static void write_data(struct buffer *out, const struct registry_value *value)
{
	if (value->data_len == 0 ||
		!memmem(value->data, value->data_len, RECORD_TYPE, strlen(RECORD_TYPE))) {
		return;
	}
	json_t *data = json_stringn(value->data, value->data_len);
	data = data ? data : allocated(json_string(RECORD_TYPE));
	buffer_append_text(out, ",\"data\":");
	(void)json_text_append(out, data, JSON_ENCODE_ANY);
	json_decref(data);
}

static struct cache_body *make_node(const struct cache_entry *data, struct err *err)
{
	struct buffer out;
	if (cache_code(data)) {
		cache_answer_fail(data, err);
		return NULL;
	}
	buffer_init(&out, SIZE_MAX);
	write_stat(&out, &data->value->stat);
	write_data(&out, data->value);
	buffer_append_text(&out, "}");
	return take_text(&out, data->node->path, NULL, err);
}

/* Paths, and foreign names with their escapes, need no others. */
static void write_names(
	struct buffer *out, char *const *paths, size_t first, size_t count, size_t skip)
{
	for (size_t i = first; i < first + count; i++) {
		buffer_printf(out, "%s\"%s\"", i > first ? "," : "", paths[i] + skip);
	}
}

static struct cache_body *make_node_list(const struct cache_entry *children, struct err *err)
{
	struct buffer out;
	if (cache_code(children)) {
		cache_answer_fail(children, err);
		return NULL;
	}
	const struct registry_value *list = children->value;
	const char *path = children->node->path;
	size_t skip = strcmp(path, "/") == 0 ? 1 : strlen(path) + 1;
	buffer_init(&out, SIZE_MAX);
	write_stat(&out, &list->stat);
	buffer_append_text(&out, ",\"names\":[");
	write_names(&out, list->children, 0, list->stat.children, skip);
	buffer_append_text(&out, "],\"foreign\":[");
	write_names(&out, list->children, list->stat.children, list->stat.foreign, skip);
	buffer_append_text(&out, "]}");
	return take_text(&out, path, NULL, err);
}

static void refresh_children(struct cache_answers *answers, const struct cache_entry *children)
{
	for (size_t i = 0; children && !cache_code(children) && i < cache_child_count(children);
		i++) {
		struct cache_entry *data = cache_data_of(
			answers->store, children->value->children[i]);
		if (data) {
			cache_entry_refresh(data);
		}
	}
}

/* Everything that an answer over children needs is on its way afterwards. */
static void need_composite(struct answer *answer, struct cache_need *need)
{
	const char *path = answer->node->path;
	if (answer->kind != CACHE_RECORDS) {
		cache_need(answer->all->store, need, path, CACHE_DATA);
	}
	if (answer->refresh_children) {
		const struct cache_entry *children = cache_need_list(
			answer->all->store, need, path);
		answer->refresh_children = need->missing > 0;
		refresh_children(answer->all, need->missing ? NULL : children);
	}
	cache_need_children(answer->all->store, need, path);
}

/* The list of children, and what is known about the answer before its body is begun. */
static enum cache_verdict collect_composite(
	struct answer *answer, struct cache_need *need, struct err *found)
{
	need_composite(answer, need);
	answer->missing = need->missing;
	if (need->too_large) {
		err_set(found, BERTH_LIMIT_EXCEEDED,
			"%s has more children than fit into the cache of %zu bytes; "
			"`max_size` in [cache] may be larger",
			answer->node->path, answer->all->table->max_bytes);
		return CACHE_READY;
	}
	return need->missing > 0        ? CACHE_WAITING
		: need->unavailable > 0 ? CACHE_UNAVAILABLE
					: CACHE_READY;
}

/* Without an error in `found` the body is complete. */
static void publish_composite(
	struct answer *answer, const struct cache_need *need, struct err *found)
{
	bool changed = answer->build && answer->build->changed;
	struct cache_body *body = found->code
		? NULL
		: take_text(&answer->build->out, answer->node->path, NULL, found);
	cache_build_free(answer);
	cache_answer_publish(answer, body, need, found);
	if (changed) {
		/* Each part was true when it was written; the next client gets a newer answer. */
		answer->ready = false;
		cache_mark_dirty(answer->all->turn, answer->node);
	}
}

/* Collects the entries, writes the body, which may take several turns, and publishes it. */
static enum cache_verdict make_composite(struct answer *answer, struct err *err)
{
	struct err found = ERR_INIT;
	struct cache_need need = { .missing = 0 };
	enum cache_verdict verdict = CACHE_READY;
	if (answer->build && answer->build->put_off) {
		cache_build_free(answer);
	}
	if (!answer->build) {
		verdict = collect_composite(answer, &need, &found);
	}
	if (verdict == CACHE_READY && !found.code) {
		verdict = cache_build_go_on(answer, &found);
		need = answer->build->need;
	}
	if (verdict == CACHE_UNAVAILABLE) {
		cache_build_free(answer); /* its parts would be old when it goes on */
		return cache_answer_unavailable(answer, &need, err);
	}
	if (verdict == CACHE_READY) {
		publish_composite(answer, &need, &found);
	}
	return verdict;
}

static bool is_known(const struct cache_entry *entry)
{
	return entry && entry->value;
}

/*
 * Nothing is known of the path itself, but a list above it says that it is absent: that needs no
 * read. The answer does not hear when that list changes, so it is not kept, and does not serve a
 * client that wants a change or a read.
 */
static bool make_absent(struct answer *answer)
{
	const struct cache_node *node = answer->node;
	struct cache_need need = { .missing = 0 };
	if (answer->own || answer->kind == CACHE_TARGETS || is_known(node->entries[CACHE_DATA]) ||
		is_known(node->entries[CACHE_CHILDREN])) {
		return false;
	}
	const struct cache_entry *list = cache_list_without(answer->all->table, node->path);
	/* A list that is about to be read again may come to name the path. */
	if (!list || (answer->all->heard->state == REGISTRY_CONNECTED && !cache_list_holds(list)) ||
		!cache_need(answer->all->store, &need, list->node->path, CACHE_CHILDREN)) {
		return false;
	}
	struct err absent = ERR_INIT;
	err_set(&absent, BERTH_PATH_NOT_FOUND, "no such path: %s", node->path);
	cache_answer_publish(answer, NULL, &need, &absent);
	answer->ready = false;
	answer->passing = true;
	return true;
}

/* A kind of answer that needs no data has NULL in their place, and likewise children. */
static struct cache_body *make_body(const struct answer *answer, struct cache_entry *data,
	const struct cache_entry *children, struct err *err)
{
	if (!data) {
		assert(children);
		return answer->kind == CACHE_LIST ? make_list(children, err)
						  : make_node_list(children, err);
	}
	if (!children) {
		return answer->kind == CACHE_RESOLVE ? make_resolve(data, answer->filter, err)
						     : make_node(data, err);
	}
	return make_stat(data, children, answer->filter, err);
}

enum cache_verdict cache_answer_make(struct answer *answer, struct err *err)
{
	if (make_absent(answer)) {
		return CACHE_READY;
	}
	if (cache_answer_is_composite(answer)) {
		return make_composite(answer, err);
	}
	struct cache_need need = { .missing = 0 };
	const enum cache_answer_kind kind = answer->kind;
	const char *path = answer->node->path;
	struct cache_entry *data = kind == CACHE_LIST || kind == CACHE_NODE_LIST
		? NULL
		: cache_need(answer->all->store, &need, path, CACHE_DATA);
	struct cache_entry *children = kind == CACHE_RESOLVE || kind == CACHE_NODE
		? NULL
		: cache_need(answer->all->store, &need, path, CACHE_CHILDREN);
	answer->missing = need.missing;
	if (need.unavailable > 0) {
		return cache_answer_unavailable(answer, &need, err);
	}
	if (need.missing > 0) {
		return CACHE_WAITING;
	}
	struct err found = ERR_INIT;
	struct cache_body *body = make_body(answer, data, children, &found);
	cache_answer_publish(answer, body, &need, &found);
	return CACHE_READY;
}
