#include "agent/cache/internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/allocate.h"
#include "lib/base/path.h"
#include "lib/record/record.h"
#include "lib/base/clock.h"
#include "lib/base/hash.h"

enum {
	VARIANT_BYTES = 1400, /* api, protocol, scope */
	VARIANTS_PER_PATH = 32,
	BODY_BYTES = 256 * 1024 * 1024,
	FRONT_BYTES = 1024, /* what a front end keeps with an answer */
	ALLOCATION_BYTES = 16
};

/* ---- which answer ---- */

static void write_variant(char *out, const struct cache_filter *filter)
{
	out[0] = '\0';
	if (filter) {
		snprintf(out, VARIANT_BYTES, "%s\n%s\n%s\n%s", filter->text ? "text" : "json",
			filter->scope ? filter->scope : "",
			filter->protocol ? filter->protocol : "", filter->api ? filter->api : "");
	}
}

/* The fields of a variant again, in place; what is empty is NULL. */
static struct cache_filter read_variant(char *variant)
{
	char *fields[4] = { variant };
	for (int i = 1; i < 4; i++) {
		char *end = strchr(fields[i - 1], '\n');
		*end = '\0';
		fields[i] = end + 1;
	}
	return (struct cache_filter){
		.text = strcmp(fields[0], "text") == 0,
		.scope = *fields[1] ? fields[1] : NULL,
		.protocol = *fields[2] ? fields[2] : NULL,
		.api = *fields[3] ? fields[3] : NULL,
	};
}

static struct answer *find(
	const struct cache_node *node, enum cache_answer_kind kind, const char *variant)
{
	struct answer *answer = node->answers;
	while (answer && (answer->kind != kind || strcmp(answer->variant, variant) != 0)) {
		answer = answer->next;
	}
	return answer;
}

struct cache_answer *cache_find(struct cache *cache, const char *path, enum cache_answer_kind kind,
	const struct cache_filter *filter)
{
	struct cache_node *node = cache_node_find(cache, path, strlen(path));
	if (!node) {
		return NULL;
	}
	char variant[VARIANT_BYTES];
	write_variant(variant, filter);
	struct answer *answer = find(node, kind, variant);
	if (!answer || !answer->ready || !answer->public.live) {
		return NULL;
	}
	cache_node_use(node);
	return &answer->public;
}

/* ---- bodies ---- */

static void write_json_string(struct buffer *out, const char *text)
{
	json_t *string = json_string_nocheck(text);
	char *dump = string ? json_dumps(string, JSON_ENCODE_ANY) : NULL;
	buffer_append_text(out, dump ? dump : "\"\"");
	free(dump);
	json_decref(string);
}

static int write_list(const struct cache_entry *children, struct buffer *out)
{
	buffer_append_text(out, "[");
	for (size_t i = 0; i < children->children_count; i++) {
		buffer_printf(out, "%s\"%s\"", i ? "," : "",
			children->children[i]); /* paths need no escapes */
	}
	return buffer_append_text(out, "]\n");
}

/* Foreign names are escaped already, so that they need nothing more either. */
static void write_stat(
	const struct cache_entry *data, const struct cache_entry *children, struct buffer *out)
{
	buffer_printf(out, "{\"path\":\"%s\",\"time\":%lld,\"size\":%zu,\"children\":%zu",
		data->node->path, (long long)data->stat.created_ms,
		data->blob ? data->blob->len : data->stat.size, children->children_count);
	for (size_t i = 0; i < children->foreign_count; i++) {
		buffer_printf(out, "%s\"%s\"", i ? "," : ",\"foreign\":[",
			children->children[children->children_count + i]);
	}
	buffer_append_text(out, children->foreign_count ? "]}\n" : "}\n");
}

static bool holds_record(const struct cache_entry *data)
{
	struct record *record;
	if (!data || data->code || record_decode(&record, data->blob->data, data->blob->len, NULL)) {
		return false;
	}
	record_free(record);
	return true;
}

/* Lists the children's data among the needs; the walk that follows finds them. */
static const struct cache_entry *need_children(
	struct cache *cache, struct cache_need *need, const char *path)
{
	const struct cache_entry *children = cache_need(cache, need, path, CACHE_CHILDREN);
	if (children && !children->code) {
		for (size_t i = 0; i < children->children_count; i++) {
			cache_need(cache, need, children->children[i], CACHE_DATA);
		}
	}
	return children;
}

static const struct cache_entry *data_of(const struct cache *cache, const char *path)
{
	const struct cache_node *node = cache_node_find(cache, path, strlen(path));
	return node ? node->entries[CACHE_DATA] : NULL;
}

static void write_records(
	const struct cache *cache, const struct cache_entry *children, struct buffer *out)
{
	const char *separator = "{";
	for (size_t i = 0; i < children->children_count; i++) {
		const struct cache_entry *data = data_of(cache, children->children[i]);
		if (holds_record(data)) {
			buffer_printf(out, "%s\"%s\":", separator, children->children[i]);
			buffer_append(out, data->blob->data, data->blob->len);
			separator = ",";
		}
	}
	buffer_append_text(out, *separator == '{' ? "{}\n" : "}\n");
}

static void write_address(const char *path, const struct record_endpoint *endpoint,
	const json_t *address, bool text, struct buffer *out)
{
	if (text) {
		char *line = record_address_text(endpoint->address_type, address);
		if (line && !strpbrk(line, "\r\n")) {
			buffer_printf(out, "%s\n", line);
		}
		free(line);
		return;
	}
	buffer_printf(out, "%s{\"path\":\"%s\",\"scope\":\"%s\",\"api\":", out->len > 1 ? "," : "",
		path, endpoint->scope);
	write_json_string(out, endpoint->api);
	buffer_append_text(out, ",\"protocol\":");
	write_json_string(out, endpoint->protocol);
	buffer_append_text(out, ",\"addressType\":");
	write_json_string(out, endpoint->address_type);
	char *dump = json_dumps(address, JSON_COMPACT);
	buffer_printf(out, ",\"address\":%s}", dump ? dump : "{}");
	free(dump);
}

static void write_endpoints_of(const struct cache_entry *data, const char *path,
	const struct cache_filter *filter, struct buffer *out)
{
	struct record *record;
	if (!data || data->code || record_decode(&record, data->blob->data, data->blob->len, NULL)) {
		return;
	}
	for (size_t i = 0; i < record_endpoint_count(record); i++) {
		struct record_endpoint endpoint = record_endpoint(record, i);
		size_t index;
		json_t *address;
		if (record_endpoint_matches(
			    &endpoint, filter->api, filter->protocol, filter->scope)) {
			json_array_foreach (endpoint.addresses, index, address) {
				write_address(path, &endpoint, address, filter->text, out);
			}
		}
	}
	record_free(record);
}

static void write_endpoints(const struct cache *cache, const struct answer *answer,
	const struct cache_entry *children, struct buffer *out)
{
	char variant[VARIANT_BYTES];
	strcpy(variant, answer->variant);
	struct cache_filter filter = read_variant(variant);
	const char *path = answer->node->path;
	if (!filter.text) {
		buffer_append_text(out, "[");
	}
	write_endpoints_of(data_of(cache, path), path, &filter, out);
	for (size_t i = 0; i < children->children_count; i++) {
		const char *child = children->children[i];
		write_endpoints_of(data_of(cache, child), child, &filter, out);
	}
	if (!filter.text) {
		buffer_append_text(out, "]\n");
	}
}

/* ---- building ---- */

static void clear(struct cache *cache, struct answer *answer)
{
	if (answer->public.front) {
		cache->options.release_front(answer->public.front);
		answer->public.front = NULL;
	}
	cache_body_release(answer->blob);
	answer->blob = NULL;
	free(answer->public.err);
	answer->public.err = NULL;
	answer->ready = false;
	answer->public.live = false;
	cache_charge(cache, answer->charged, 0);
	answer->charged = 0;
}

static void publish(struct cache *cache, struct answer *answer, const struct cache_need *need,
	const struct err *err)
{
	struct cache_answer *public = &answer->public;
	if (err->code) {
		public->err = allocate_zeroed(1, sizeof(*err));
		*public->err = *err;
	}
	public->body = answer->blob ? answer->blob->data : "";
	public->len = answer->blob ? answer->blob->len : 0;
	public->live = !need->stale;
	public->known_true = need->known_true;
	snprintf(public->etag, sizeof(public->etag), "\"%x-%016llx\"", (unsigned)-err->code & 0xff,
		(unsigned long long)hash_bytes(HASH_INIT, public->body, public->len));
	answer->ready = true;
	/* A resolved record is charged with its entry. */
	bool shared = answer->kind == CACHE_RESOLVE || !answer->blob;
	answer->charged = sizeof(*answer) + strlen(answer->variant) + FRONT_BYTES +
		2 * ALLOCATION_BYTES + (err->code ? sizeof(*err) : 0) +
		(shared ? 0 : sizeof(*answer->blob) + public->len);
	cache_charge(cache, 0, answer->charged);
}

static void fail(const struct cache_entry *entry, struct err *err)
{
	const char *path = entry->node->path;
	if (entry->code == BERTH_PATH_NOT_FOUND) {
		err_set(err, entry->code, "no such path: %s", path);
	} else {
		err_set(err, entry->code, "%s: %s", path, berth_error_name(entry->code));
	}
}

static void make_resolve(struct answer *answer, const struct cache_entry *data, struct err *err)
{
	struct record *record;
	if (data->code) {
		fail(data, err);
	} else if (record_decode(&record, data->blob->data, data->blob->len, err) == 0) {
		record_free(record);
		answer->blob = data->blob;
		answer->blob->references++;
	} else {
		err_wrap(err, "%s", answer->node->path);
	}
}

static void make_written(struct cache *cache, struct answer *answer, const struct cache_entry *data,
	const struct cache_entry *children, struct err *err)
{
	const struct cache_entry *decisive = answer->kind == CACHE_STAT ? data : children;
	/* A node has a stat whatever it holds. */
	bool odd = decisive->code == BERTH_NO_RECORD || decisive->code == BERTH_INVALID_RECORD;
	if (decisive->code && !(odd && answer->kind == CACHE_STAT)) {
		fail(decisive, err);
		return;
	}
	struct buffer out;
	buffer_init(&out, BODY_BYTES);
	switch (answer->kind) {
	case CACHE_LIST:
		write_list(children, &out);
		break;
	case CACHE_RECORDS:
		write_records(cache, children, &out);
		break;
	case CACHE_ENDPOINTS:
		write_endpoints(cache, answer, children, &out);
		break;
	default:
		write_stat(data, children, &out);
	}
	if (out.failed) {
		err_set(err, BERTH_LIMIT_EXCEEDED, "%s: the answer is too large",
			answer->node->path);
	} else {
		answer->blob = cache_blob_create(buffer_text(&out), out.len);
	}
	buffer_finish(&out);
}

static void refresh_children(struct cache *cache, const struct cache_entry *children)
{
	for (size_t i = 0; children && !children->code && i < children->children_count; i++) {
		const struct cache_node *node = cache_node_find(
			cache, children->children[i], strlen(children->children[i]));
		struct cache_entry *data = node ? node->entries[CACHE_DATA] : NULL;
		if (data && data->watch && !data->loading) {
			data->loading = true;
			cache_entry_refresh(cache, data);
		}
	}
}

static enum cache_verdict build(struct cache *cache, struct answer *answer, struct err *err)
{
	struct cache_need need = { .missing = 0 };
	const char *path = answer->node->path;
	const struct cache_entry *data = NULL;
	const struct cache_entry *children = NULL;
	if (answer->kind != CACHE_LIST && answer->kind != CACHE_RECORDS) {
		data = cache_need(cache, &need, path, CACHE_DATA);
	}
	if (answer->kind == CACHE_LIST || answer->kind == CACHE_STAT) {
		children = cache_need(cache, &need, path, CACHE_CHILDREN);
	} else if (answer->kind != CACHE_RESOLVE) {
		if (answer->refresh_children) {
			children = cache_need(cache, &need, path, CACHE_CHILDREN);
			answer->refresh_children = need.missing > 0;
			refresh_children(cache, need.missing ? NULL : children);
		}
		children = need_children(cache, &need, path);
	}
	answer->missing = need.missing;
	if (need.unavailable > 0) {
		err_set(err, BERTH_REGISTRY_UNAVAILABLE, "the registry is %s, and %s is %s",
			registry_state_name(cache->state), path,
			need.outdated ? "known no later than max_stale allows" : "not known");
		return CACHE_UNAVAILABLE;
	}
	if (need.missing > 0) {
		return CACHE_WAITING;
	}
	clear(cache, answer);
	struct err found = ERR_INIT;
	if (answer->kind == CACHE_RESOLVE) {
		make_resolve(answer, data, &found);
	} else {
		make_written(cache, answer, data, children, &found);
	}
	publish(cache, answer, &need, &found);
	return CACHE_READY;
}

/* ---- waiting ---- */

static void add_wait(struct answer *answer, struct cache_wait *wait)
{
	wait->answer = answer;
	wait->prev = NULL;
	wait->next = answer->waits;
	if (answer->waits) {
		answer->waits->prev = wait;
	}
	answer->waits = wait;
}

void cache_cancel(struct cache_wait *wait)
{
	struct answer *answer = wait->answer;
	if (!answer) {
		return;
	}
	*(wait->prev ? &wait->prev->next : &answer->waits) = wait->next;
	if (wait->next) {
		wait->next->prev = wait->prev;
	}
	wait->answer = NULL;
}

static void deliver(struct answer *answer, enum cache_verdict verdict, const struct err *err)
{
	for (struct cache_wait *wait = answer->waits, *next; wait; wait = next) {
		next = wait->next;
		bool ready = verdict == CACHE_READY &&
			strcmp(wait->unlike, answer->public.etag) != 0;
		bool given_up = verdict == CACHE_UNAVAILABLE && !wait->unlike[0];
		if (ready || given_up) {
			cache_cancel(wait);
			wait->on_answer(wait->context, ready ? &answer->public : NULL, err);
		}
	}
}

static void retry(struct cache *cache, struct answer *answer)
{
	struct err err = ERR_INIT;
	enum cache_verdict verdict = build(cache, answer, &err);
	if (verdict != CACHE_WAITING) {
		deliver(answer, verdict, &err);
	}
}

static bool is_composite(const struct answer *answer)
{
	return answer->kind == CACHE_RECORDS || answer->kind == CACHE_ENDPOINTS;
}

void cache_answers_flush(struct cache *cache, struct cache_node *node)
{
	for (struct answer *answer = node->answers; answer; answer = answer->next) {
		if (answer->waits) {
			retry(cache, answer);
		}
	}
	struct cache_node *parent = cache_node_parent(cache, node);
	for (struct answer *answer = parent ? parent->answers : NULL; answer;
		answer = answer->next) {
		if (!is_composite(answer) || !answer->waits) {
			continue;
		}
		if (answer->missing > 1) {
			answer->missing--;
		} else {
			retry(cache, answer);
		}
	}
}

void cache_answers_drop(struct cache *cache, struct cache_node *node)
{
	for (struct answer *answer = node->answers; answer; answer = answer->next) {
		clear(cache, answer);
	}
	struct cache_node *parent = cache_node_parent(cache, node);
	for (struct answer *answer = parent ? parent->answers : NULL; answer;
		answer = answer->next) {
		if (is_composite(answer)) {
			clear(cache, answer);
		}
	}
}

void cache_answers_stale(struct cache_node *node)
{
	for (struct answer *answer = node->answers; answer; answer = answer->next) {
		answer->public.live = false;
	}
}

bool cache_answers_waited(const struct cache_node *node)
{
	for (const struct answer *answer = node->answers; answer; answer = answer->next) {
		if (answer->waits) {
			return true;
		}
	}
	return false;
}

static void answer_free(struct cache *cache, struct answer *answer)
{
	clear(cache, answer);
	free(answer);
}

void cache_answers_free(struct cache *cache, struct cache_node *node)
{
	while (node->answers) {
		struct answer *answer = node->answers;
		node->answers = answer->next;
		answer_free(cache, answer);
	}
}

/* ---- asking ---- */

/* Filters are the asker's to choose: only so many answers of them are kept for a path. */
static void limit_variants(struct cache *cache, struct cache_node *node)
{
	size_t count = 0;
	struct answer **oldest = NULL;
	for (struct answer **at = &node->answers; *at; at = &(*at)->next) {
		count++;
		if (!(*at)->waits) {
			oldest = at;
		}
	}
	if (count >= VARIANTS_PER_PATH && oldest) {
		struct answer *answer = *oldest;
		*oldest = answer->next;
		answer_free(cache, answer);
	}
}

static struct answer *get(struct cache *cache, struct cache_node *node, enum cache_answer_kind kind,
	const char *variant)
{
	struct answer *answer = find(node, kind, variant);
	if (!answer) {
		limit_variants(cache, node);
		answer = allocate_zeroed(1, sizeof(*answer) + strlen(variant) + 1);
		strcpy(answer->variant, variant);
		answer->kind = kind;
		answer->node = node;
		answer->next = node->answers;
		node->answers = answer;
	}
	return answer;
}

static void refresh(struct cache *cache, struct answer *answer)
{
	for (int kind = CACHE_DATA; kind <= CACHE_CHILDREN; kind++) {
		struct cache_entry *entry = answer->node->entries[kind];
		if (entry && entry->watch && !entry->loading && cache->state == REGISTRY_CONNECTED) {
			entry->loading = true;
			cache_entry_refresh(cache, entry);
		}
	}
	answer->refresh_children = is_composite(answer) && cache->state == REGISTRY_CONNECTED;
}

enum cache_verdict cache_ask(struct cache *cache, const char *path, enum cache_answer_kind kind,
	const struct cache_filter *filter, bool again, struct cache_wait *wait,
	struct cache_answer **ret_answer, struct err *err)
{
	char variant[VARIANT_BYTES];
	write_variant(variant, filter);
	struct cache_node *node = cache_node_get(cache, path);
	cache_node_use(node);
	ev_prepare_start(cache->loop, &cache->flush); /* the new path may be one too many */
	struct answer *answer = get(cache, node, kind, variant);
	if (again) {
		refresh(cache, answer);
	}
	enum cache_verdict verdict = !again && answer->ready && answer->public.live
		? CACHE_READY
		: build(cache, answer, err);
	if (verdict == CACHE_READY && strcmp(wait->unlike, answer->public.etag) == 0) {
		verdict = CACHE_WAITING;
	}
	if (verdict == CACHE_READY) {
		*ret_answer = &answer->public;
	} else if (verdict == CACHE_WAITING) {
		add_wait(answer, wait);
	}
	return verdict;
}

double cache_answer_age_s(const struct cache_answer *answer)
{
	return answer->live ? 0 : clock_monotonic_s() - answer->known_true;
}

void *cache_body_hold(const struct cache_answer *answer)
{
	const char *inside = (const char *)answer;
	const struct answer *whole = (const void *)(inside - offsetof(struct answer, public));
	struct cache_blob *blob = whole->blob;
	blob->references++;
	return blob;
}
