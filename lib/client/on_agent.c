/*
 * A handle on an agent: lookups are requests to its socket, watches are its event streams.
 */
#include "lib/client/handle.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/json_read.h"
#include "lib/base/limits.h"
#include "lib/base/path.h"
#include "lib/base/quote.h"
#include "lib/client/endpoints.h"

enum { TARGET_BYTES = LIMIT_PATH_BYTES + 4 * 1024 };

/* ---- requests ---- */

/* "/v1/" + verb + path, and the query in `query` (may be ""). BERTH_INVALID_PATHNAME. */
static int make_target(char *out, size_t size, const char *verb, const char *path,
	const char *query, struct err *err)
{
	const size_t len = strlen(path);
	const size_t whole = strlen("/v1/") + strlen(verb) + len + strlen(query);
	int code = path_check(path, len, err);
	if (code != 0) {
		return code;
	}
	if (whole >= size) {
		return err_set(err, BERTH_LIMIT_EXCEEDED, "the request is too long");
	}
	/* A hit in memory takes less time than a formatted print. */
	stpcpy(stpcpy(stpcpy(stpcpy(out, "/v1/"), verb), path), query);
	return 0;
}

void handle_add_query(struct buffer *query, const char *name, const char *value)
{
	if (!value) {
		return;
	}
	buffer_printf(query, "%c%s=", query->len ? '&' : '?', name);
	for (; *value; value++) {
		unsigned char byte = (unsigned char)*value;
		bool plain = (byte >= '0' && byte <= '9') || (byte >= 'a' && byte <= 'z') ||
			(byte >= 'A' && byte <= 'Z') || strchr("-._~/", byte);
		buffer_printf(query, plain ? "%c" : "%%%02X", byte);
	}
}

int handle_add_attributes(struct buffer *query, const char *const *attributes, struct err *err)
{
	for (size_t i = 0; attributes && attributes[i]; i++) {
		size_t len = strcspn(attributes[i], "=");
		if (len == 0 || !attributes[i][len] || strcspn(attributes[i], " &?#%") < len) {
			return err_set(err, BERTH_FAILED, "attribute %s: must be NAME=VALUE",
				quote_text(attributes[i]).text);
		}
		struct buffer name;
		buffer_init(&name, TARGET_BYTES);
		buffer_append_text(&name, "attribute.");
		buffer_append(&name, attributes[i], len);
		handle_add_query(query, buffer_text(&name), attributes[i] + len + 1);
		query->failed = query->failed || name.failed;
		buffer_finish(&name);
	}
	return 0;
}

int handle_request(struct berth *berth, const struct client_request *request,
	struct berth_answer *ret, struct err *err)
{
	struct client_response response;
	int code = client_call(berth->client, request, berth->timeout_ms, &response, NULL, err);
	if (code != 0) {
		return code;
	}
	struct berth_answer answer = { .freshness = client_freshness(berth->client) };
	answer.json = buffer_take(&response.body, &answer.len);
	memcpy(answer.tag, response.tag, sizeof(answer.tag));
	client_response_finish(&response);
	if (!answer.json) {
		return err_set(err, BERTH_FAILED, "out of memory");
	}
	*ret = answer;
	return 0;
}

/* The answer that memory has; BERTH_FAILED without memory for a copy of it. */
static int take_from_memory(struct berth *berth, struct berth_answer *ret, struct err *err)
{
	const struct memory *memory = &berth->memory;
	struct berth_answer answer = { .len = memory->answer.len };
	client_set_fresh(berth->client);
	if (memory->answer.error) {
		return err_set(err, memory->answer.error, "%s", memory->value);
	}
	answer.json = malloc(answer.len + 1);
	if (!answer.json) {
		return err_set(err, BERTH_FAILED, "out of memory");
	}
	memcpy(answer.json, memory->value, answer.len + 1);
	memcpy(answer.tag, memory->answer.tag, sizeof(memory->answer.tag));
	*ret = answer;
	return 0;
}

int handle_look_up(
	struct berth *berth, const char *target, struct berth_answer *ret, struct err *err)
{
	struct memory *memory = &berth->memory;
	if (memory_read(memory, target, client_socket_path(berth->client), berth->timeout_ms)) {
		return take_from_memory(berth, ret, err);
	}
	struct client_request request = {
		.method = "GET", .target = target, .shared = memory_is_open(memory)
	};
	return handle_request(berth, &request, ret, err);
}

static int get(struct berth *berth, const char *target, bool no_cache, struct berth_answer *ret,
	struct err *err)
{
	struct client_request request = { .method = "GET", .target = target, .no_cache = true };
	berth->memory.found = false;
	return no_cache ? handle_request(berth, &request, ret, err)
			: handle_look_up(berth, target, ret, err);
}

static int ask(struct berth *berth, const char *verb, const char *path, struct berth_answer *ret,
	struct err *err)
{
	char target[TARGET_BYTES];
	int code = make_target(target, sizeof(target), verb, path, "", err);
	return code ? code : get(berth, target, false, ret, err);
}

/* ---- lookups ---- */

static int resolve(struct berth *berth, const char *path, struct berth_answer *ret, struct err *err)
{
	return ask(berth, "resolve", path, ret, err);
}

static int records(struct berth *berth, const char *path, struct berth_answer *ret, struct err *err)
{
	return ask(berth, "records", path, ret, err);
}

/* Copies an array of strings; false for any other value, or without memory. */
static bool strings_from_json(char ***ret_items, size_t *ret_count, const json_t *array)
{
	size_t count = json_array_size(array);
	char **items = calloc(count ? count : 1, sizeof(*items));
	*ret_items = items;
	for (size_t i = 0; items && i < count; i++) {
		const char *text = json_string_value(json_array_get(array, i));
		items[i] = text ? strdup(text) : NULL;
		if (!items[i]) {
			return false;
		}
		(*ret_count)++;
	}
	return items && json_is_array(array);
}

/* The paths are in the list, foreign names in the stat. */
static int paths_from_answers(const struct berth_answer *listed, const struct berth_answer *stat,
	struct berth_paths *ret, struct err *err)
{
	struct berth_paths paths = { .freshness = listed->freshness };
	json_t *array = json_read(listed->json, listed->len, 0, NULL);
	json_t *object = json_read(stat->json, stat->len, 0, NULL);
	const json_t *foreign = json_object_get(object, "foreign");
	bool good = strings_from_json(&paths.items, &paths.count, array) &&
		json_is_object(object) &&
		(!foreign || strings_from_json(&paths.foreign, &paths.foreign_count, foreign));
	json_decref(array);
	json_decref(object);
	if (!good) {
		berth_paths_finish(&paths);
		return err_set(
			err, BERTH_FAILED, "the agent's list is malformed, or out of memory");
	}
	*ret = paths;
	return 0;
}

static int list(struct berth *berth, const char *path, struct berth_paths *ret, struct err *err)
{
	struct berth_answer listed = { .json = NULL };
	struct berth_answer stat = { .json = NULL };
	int code = ask(berth, "list", path, &listed, err);
	if (code) {
		return code;
	}
	code = ask(berth, "stat", path, &stat, err);
	if (code == 0) {
		code = paths_from_answers(&listed, &stat, ret, err);
		berth_answer_finish(&stat);
	}
	berth_answer_finish(&listed);
	return code;
}

static int stat_from_answer(
	const struct berth_answer *answer, struct berth_stat *ret, struct err *err)
{
	json_t *object = json_read(answer->json, answer->len, 0, NULL);
	if (!json_is_object(object)) {
		json_decref(object);
		return err_set(err, BERTH_FAILED, "the agent's answer is not an object");
	}
	*ret = (struct berth_stat){
		.time_ms = json_integer_value(json_object_get(object, "time")),
		.size = (size_t)json_integer_value(json_object_get(object, "size")),
		.children = (size_t)json_integer_value(json_object_get(object, "children")),
		.foreign = json_array_size(json_object_get(object, "foreign")),
		.freshness = answer->freshness,
	};
	json_decref(object);
	return 0;
}

static int stat_node(struct berth *berth, const char *path, struct berth_stat *ret, struct err *err)
{
	struct berth_answer answer = { .json = NULL };
	int code = ask(berth, "stat", path, &answer, err);
	if (code == 0) {
		code = stat_from_answer(&answer, ret, err);
		berth_answer_finish(&answer);
	}
	return code;
}

static int endpoints_from_json(const json_t *array, struct berth_endpoints *ret, struct err *err)
{
	struct endpoint_list list = { .count = 0 };
	int code = endpoint_list_add_json(&list, array, err);
	if (code != 0) {
		endpoint_list_finish(&list);
		return code;
	}
	*ret = endpoint_list_take(&list);
	return 0;
}

static int endpoints_from_answer(
	const struct berth_answer *answer, struct berth_endpoints *ret, struct err *err)
{
	json_t *array = json_read(answer->json, answer->len, 0, NULL);
	int code = endpoints_from_json(array, ret, err);
	json_decref(array);
	if (code == 0) {
		ret->freshness = answer->freshness;
	}
	return code;
}

/* `zone`: NULL, or what the answer is near to. */
static int endpoints_target(char *out, size_t size, const char *path,
	const struct berth_endpoint_filter *filter, const char *zone, struct err *err)
{
	struct buffer query;
	buffer_init(&query, size);
	if (filter) {
		handle_add_query(&query, "api", filter->api);
		handle_add_query(&query, "protocol", filter->protocol);
		handle_add_query(&query, "scope", filter->scope);
	}
	handle_add_query(&query, "near", zone);
	int code = query.failed
		? err_set(err, BERTH_LIMIT_EXCEEDED, "the request is too long")
		: make_target(out, size, "endpoints", path, buffer_text(&query), err);
	buffer_finish(&query);
	return code;
}

static int endpoints(struct berth *berth, const char *path,
	const struct berth_endpoint_filter *filter, bool no_cache, struct berth_endpoints *ret,
	struct err *err)
{
	char target[TARGET_BYTES];
	struct berth_answer answer = { .json = NULL };
	int code = endpoints_target(target, sizeof(target), path, filter, NULL, err);
	if (code == 0) {
		code = get(berth, target, no_cache, &answer, err);
	}
	if (code == 0) {
		code = endpoints_from_answer(&answer, ret, err);
		berth_answer_finish(&answer);
	}
	return code;
}

/* The tier that each endpoint of a list has. */
static int tiers_from_json(const json_t *array, unsigned **ret, struct err *err)
{
	size_t index;
	json_t *entry;
	unsigned *tiers = calloc(json_array_size(array) + 1, sizeof(*tiers));
	if (!tiers) {
		return err_set(err, BERTH_FAILED, "out of memory");
	}
	json_array_foreach (array, index, entry) {
		const json_t *tier = json_object_get(entry, "tier");
		if (!json_is_integer(tier)) {
			free(tiers);
			return err_set(err, BERTH_FAILED,
				"the agent's endpoints have no tiers: is it an older agent?");
		}
		tiers[index] = (unsigned)json_integer_value(tier);
	}
	*ret = tiers;
	return 0;
}

/* Both are of one reading of the answer: there is a tier for each endpoint. */
static int near_from_answer(const struct berth_answer *answer, struct berth_endpoints *ret,
	unsigned **ret_tiers, struct err *err)
{
	json_t *array = json_read(answer->json, answer->len, 0, NULL);
	unsigned *tiers = NULL;
	int code = tiers_from_json(array, &tiers, err);
	if (code == 0) {
		code = endpoints_from_json(array, ret, err);
		if (code == 0) {
			ret->freshness = answer->freshness;
			*ret_tiers = tiers;
		} else {
			free(tiers);
		}
	}
	json_decref(array);
	return code;
}

int handle_endpoints_near(struct berth *berth, const char *path,
	const struct berth_endpoint_filter *filter, const char *zone, struct berth_endpoints *ret,
	unsigned **ret_tiers, struct err *err)
{
	char target[TARGET_BYTES];
	struct berth_answer answer;
	const struct client_request request = { .method = "GET", .target = target };
	int code = endpoints_target(target, sizeof(target), path, filter, zone, err);
	if (code == 0) {
		code = handle_request(berth, &request, &answer, err);
	}
	if (code != 0) {
		return code;
	}
	code = near_from_answer(&answer, ret, ret_tiers, err);
	berth_answer_finish(&answer);
	return code;
}

int handle_find(struct berth *berth, const struct berth_criteria *criteria,
	const char *const *attributes, struct berth_answer *ret, struct err *err)
{
	char target[TARGET_BYTES];
	struct buffer query;
	buffer_init(&query, sizeof(target));
	handle_add_query(&query, "under", criteria->under);
	handle_add_query(&query, "api", criteria->api);
	handle_add_query(&query, "protocol", criteria->protocol);
	handle_add_query(&query, "type", criteria->type);
	handle_add_query(&query, "id", criteria->id);
	handle_add_query(&query, "persistence", criteria->persistence);
	int code = handle_add_attributes(&query, attributes, err);
	if (code == 0 && query.failed) {
		code = err_set(err, BERTH_LIMIT_EXCEEDED, "the request is too long");
	}
	if (code == 0) {
		snprintf(target, sizeof(target), "/v1/find%s", buffer_text(&query));
		struct client_request request = { .method = "GET", .target = target };
		code = handle_request(berth, &request, ret, err);
	}
	buffer_finish(&query);
	return code;
}

static int find(struct berth *berth, const struct berth_criteria *criteria,
	berth_on_progress *on_progress, void *context, struct berth_answer *ret, struct err *err)
{
	(void)on_progress;
	(void)context;
	return handle_find(berth, criteria, NULL, ret, err);
}

/* ---- watches ---- */

static int watch(struct berth *berth, const char *path, bool recursive,
	const char *const *attributes, client_emit_take *emit, struct berth_watch *context,
	void **ret_source, struct err *err)
{
	char target[TARGET_BYTES];
	struct client_stream *made;
	struct buffer query;
	buffer_init(&query, sizeof(target));
	handle_add_query(&query, "recursive", recursive ? "yes" : "no");
	int code = handle_add_attributes(&query, attributes, err);
	if (code == 0 && query.failed) {
		code = err_set(err, BERTH_LIMIT_EXCEEDED, "the request is too long");
	}
	if (code == 0) {
		code = make_target(target, sizeof(target), "watch", path, buffer_text(&query), err);
	}
	buffer_finish(&query);
	if (code == 0) {
		code = client_stream_create(&made, client_socket_path(berth->client), target,
			berth->epoll_fd, emit, context, err);
	}
	if (code == 0) {
		*ret_source = made;
	}
	return code;
}

static void source_free(void *source)
{
	client_stream_free(source);
}

static int64_t source_due_ms(const void *source)
{
	return client_stream_due_ms(source);
}

static void source_dispatch(void *source, int64_t now_ms)
{
	client_stream_dispatch(source, now_ms);
}

static int source_trouble(const struct berth *berth, const void *source, struct err *err)
{
	(void)berth;
	*err = *client_stream_trouble(source);
	return err->code;
}

/* ---- the handle ---- */

static int64_t due_ms(struct berth *berth)
{
	(void)berth;
	return INT64_MAX; /* the watches know */
}

static void dispatch(struct berth *berth, int64_t now_ms)
{
	(void)berth;
	(void)now_ms;
}

static void close_client(struct berth *berth)
{
	memory_close(&berth->memory);
	client_free(berth->client);
}

const struct handle_ops handle_agent_ops = {
	.resolve = resolve,
	.records = records,
	.list = list,
	.stat = stat_node,
	.endpoints = endpoints,
	.find = find,
	.watch = watch,
	.source_free = source_free,
	.source_due_ms = source_due_ms,
	.source_dispatch = source_dispatch,
	.source_trouble = source_trouble,
	.due_ms = due_ms,
	.dispatch = dispatch,
	.close = close_client,
};

int handle_open_agent(struct berth *berth, const char *where, struct err *err)
{
	const char *shared = secure_getenv("BERTH_SHARED");
	berth->memory.off = shared && strcmp(shared, "off") == 0;
	berth->ops = &handle_agent_ops;
	return client_create(&berth->client, client_socket(where), err);
}
