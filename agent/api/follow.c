#include "agent/api/follow.h"

#include <inttypes.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>

#include "agent/api/poll.h"
#include "agent/api/stream.h"
#include "agent/base/allocate.h"
#include "agent/base/log.h"
#include "lib/base/array.h"
#include "lib/base/clock.h"
#include "lib/base/json_read.h"
#include "lib/base/json_text.h"
#include "lib/base/path.h"
#include "lib/base/text.h"

enum {
	QUEUE_BYTES = 64 * 1024,       /* unread, beyond which no read is answered */
	MOST_BYTES = 16 * 1024 * 1024, /* unread, beyond which the client is given up */
	FRAME_BYTES = 64 * 1024 * 1024,
	MOST_CONFIRMS = 16,
	WATCHED_BYTES = 2300 /* what the cache needs for a watched node, besides its content */
};

struct follow {
	struct api *api;
	struct http_request *request;
	char container[HTTP_CONTAINER_BYTES];
	struct list link; /* api->follows, the oldest first */
	uint64_t id;
	uint64_t sequence;
	struct buffer queue;
	size_t read;          /* bytes of the queue that were written */
	struct list reads;    /* that wait for their answer, or for a change */
	struct list put_off;  /* that are asked again when there is room */
	struct list confirms; /* that wait for the server */
	size_t read_count;
	size_t bytes;  /* of its reads */
	void *watched; /* tsearch() tree of the reads with `watch` */
	char *told;    /* the container's state as the client knows it */
	bool connected;
	struct timer heartbeat;
	bool ending;
};

/*
 * ASKED --answer--> (freed), or WATCHED --another answer--> (freed, CHANGED)
 */
struct follow_read {
	struct follow *follow;
	struct list link;
	uint64_t id;
	bool list; /* of the children, else the node itself */
	bool watch;
	bool answered;
	size_t bytes; /* of the cache, that it holds as long as it is watched */
	struct cache_wait wait;
	char path[];
};

struct follow_confirm {
	struct follow *follow;
	struct list link;
	uint64_t id;
	struct cache_wait wait;
};

/* ---- frames ---- */

static void stop(struct follow *follow, const char *why)
{
	if (!follow->ending) {
		follow->ending = true;
		log_limited(http_log_rate(follow->request), LOG_LEVEL_WARN, "api",
			"container %s: its agent is cut off: %s", follow->container, why);
		http_stream_end(follow->request);
	}
}

static struct buffer begin_event(struct follow *follow, const char *type)
{
	struct buffer json;
	buffer_init(&json, FRAME_BYTES);
	buffer_printf(&json, "{\"type\":\"%s\",\"sequence\":%" PRIu64 ",\"time\":%.6f", type,
		++follow->sequence, clock_wall_s());
	return json;
}

static void end_event(struct follow *follow, struct buffer *json)
{
	buffer_append_text(json, "}");
	if (follow->read > follow->queue.len / 2) {
		buffer_consume(&follow->queue, follow->read);
		follow->read = 0;
	}
	buffer_printf(&follow->queue, "%zu\n", json->len);
	buffer_append(&follow->queue, json->data, json->len);
	bool failed = json->failed || follow->queue.failed || follow->queue.len > MOST_BYTES;
	buffer_finish(json);
	http_hold(follow->request, follow->queue.len);
	if (failed) {
		stop(follow, "too much is unread");
	} else {
		http_stream_wake(follow->request);
	}
}

static void append_member(struct buffer *json, const char *name, const char *text)
{
	json_t *value = json_string(text);
	value = value ? value : allocated(json_string(""));
	buffer_printf(json, ",\"%s\":", name);
	(void)json_text_append(json, value, JSON_ENCODE_ANY);
	json_decref(value);
}

static bool has_room(const struct follow *follow)
{
	return follow->queue.len - follow->read <= QUEUE_BYTES && http_has_room(follow->request);
}

/* ---- reads ---- */

struct read_key {
	const char *path;
	bool list;
};

static int compare_key(const void *a, const void *b)
{
	const struct read_key *key = a;
	const struct follow_read *read = b;
	return key->list != read->list ? (key->list ? 1 : -1) : strcmp(key->path, read->path);
}

static int compare_reads(const void *a, const void *b)
{
	const struct follow_read *read = a;
	const struct read_key key = { .path = read->path, .list = read->list };
	return compare_key(&key, b);
}

static void free_read(struct follow_read *read)
{
	struct follow *follow = read->follow;
	if (read->watch) {
		tdelete(read, &follow->watched, compare_reads);
	}
	cache_cancel(&read->wait);
	list_remove(&read->link);
	follow->read_count--;
	follow->bytes -= read->bytes;
	follow->api->follow_bytes -= read->bytes;
	free(read);
}

static void send_changed(struct follow_read *read)
{
	struct buffer json = begin_event(read->follow, "CHANGED");
	buffer_printf(
		&json, ",\"path\":\"%s\",\"list\":%s", read->path, read->list ? "true" : "false");
	end_event(read->follow, &json);
	free_read(read);
}

static void fail_read(struct follow_read *read, const struct err *err)
{
	struct buffer json = begin_event(read->follow, "READ");
	buffer_printf(&json, ",\"id\":%" PRIu64 ",\"error\":\"%s\"", read->id,
		berth_error_name(err->code));
	append_member(&json, "why", err->msg);
	end_event(read->follow, &json);
	free_read(read);
}

static struct cache_query query_of(const struct follow_read *read)
{
	return (struct cache_query){ .path = read->path,
		.kind = read->list ? CACHE_NODE_LIST : CACHE_NODE,
		.max_age_ms = -1,
		.now_ms = clock_monotonic_ms() };
}

static size_t bytes_of_container(const struct follow *follow)
{
	size_t bytes = 0;
	for (struct list *at = follow->api->follows.next; at != &follow->api->follows;
		at = at->next) {
		const struct follow *other = LIST_ITEM(at, struct follow, link);
		bytes += strcmp(other->container, follow->container) == 0 ? other->bytes : 0;
	}
	return bytes;
}

/*
 * The cache cannot evict a watched node. So all containers together watch as much as half of it
 * holds, and one of them three times as much as it leaves for the others.
 */
static int reserve(struct follow_read *read, const struct cache_answer *answer, struct err *err)
{
	struct follow *follow = read->follow;
	struct cache_stats stats;
	cache_get_stats(follow->api->cache, &stats);
	size_t bytes = WATCHED_BYTES + 4 * strlen(read->path) + 2 * answer->len;
	size_t all = follow->api->follow_bytes + bytes;
	size_t most = stats.max_bytes / 2;
	if (all > most || bytes_of_container(follow) + bytes > 3 * (most - all)) {
		return err_set(err, BERTH_LIMIT_EXCEEDED,
			"the cache of the host's agent has no room for more paths that containers "
			"follow; `max_size` in its [cache] may be larger");
	}
	read->bytes = bytes;
	follow->bytes += bytes;
	follow->api->follow_bytes += bytes;
	return 0;
}

/* From the answer that the client gets now. */
static void watch(struct follow_read *read, const char *etag)
{
	const struct cache_query query = query_of(read);
	struct cache_answer *answer;
	struct err err = ERR_INIT;
	read->answered = true;
	strcpy(read->wait.unlike, etag);
	if (cache_ask(read->follow->api->cache, &query, &read->wait, &answer, &err) !=
		CACHE_WAITING) {
		send_changed(read);
	}
}

static void answer_read(struct follow_read *read, const struct cache_answer *answer)
{
	struct err err = ERR_INIT;
	bool absent = answer->err && answer->err->code == BERTH_PATH_NOT_FOUND;
	if (!answer->live) {
		err_set(&err, BERTH_REGISTRY_UNAVAILABLE,
			"the host's agent cannot reach its registry");
		fail_read(read, &err);
		return;
	}
	if (answer->err && !absent) {
		fail_read(read, answer->err);
		return;
	}
	if (read->watch && reserve(read, answer, &err)) {
		fail_read(read, &err);
		return;
	}
	struct buffer json = begin_event(read->follow, "READ");
	buffer_printf(&json, ",\"id\":%" PRIu64 ",\"node\":", read->id);
	buffer_append(&json, absent ? "null" : answer->body, absent ? 4 : answer->len);
	end_event(read->follow, &json);
	if (read->watch) {
		watch(read, answer->etag);
	} else {
		free_read(read);
	}
}

static void ask(struct follow_read *read)
{
	struct follow *follow = read->follow;
	const struct cache_query query = query_of(read);
	struct cache_answer *answer;
	struct err err = ERR_INIT;
	list_remove(&read->link);
	if (!has_room(follow)) {
		list_append(&follow->put_off, &read->link);
		return;
	}
	list_append(&follow->reads, &read->link);
	switch (cache_ask(follow->api->cache, &query, &read->wait, &answer, &err)) {
	case CACHE_READY:
		answer_read(read, answer);
		break;
	case CACHE_UNAVAILABLE:
		fail_read(read, &err);
		break;
	case CACHE_WAITING:
		break;
	}
}

static void on_answer(void *context, struct cache_answer *answer, const struct err *err)
{
	struct follow_read *read = context;
	if (read->answered) {
		send_changed(read);
	} else if (!answer) {
		fail_read(read, err);
	} else if (!has_room(read->follow)) {
		list_remove(&read->link);
		list_append(&read->follow->put_off, &read->link);
	} else {
		answer_read(read, answer);
	}
}

static void drop(struct follow *follow, const char *path, bool list)
{
	const struct read_key key = { .path = path, .list = list };
	struct follow_read **found = tfind(&key, &follow->watched, compare_key);
	if (found) {
		free_read(*found);
	}
}

static void begin_read(struct follow *follow, uint64_t id, const char *path, bool list, bool watch)
{
	size_t bytes = strlen(path) + 1;
	struct err err = ERR_INIT;
	if (watch) {
		drop(follow, path, list); /* one watch of a kind is enough */
	}
	struct follow_read *read = allocate_zeroed(1, sizeof(*read) + bytes);
	memcpy(read->path, path, bytes);
	read->follow = follow;
	read->id = id;
	read->list = list;
	read->wait.on_answer = on_answer;
	read->wait.context = read;
	list_append(&follow->reads, &read->link);
	follow->read_count++;
	if (path_check(path, strlen(path), &err)) {
		fail_read(read, &err);
	} else if (follow->read_count > API_FOLLOW_READS) {
		err_set(&err, BERTH_LIMIT_EXCEEDED, "a container follows %d paths at most",
			API_FOLLOW_READS);
		fail_read(read, &err);
	} else {
		read->watch = watch && allocated(tsearch(read, &follow->watched, compare_reads));
		ask(read);
	}
}

/* ---- confirmations ---- */

/* The changes that are known already, but wait for the end of the loop's turn. */
static void send_changes(struct follow *follow)
{
	struct list *next;
	for (struct list *at = follow->reads.next; at != &follow->reads; at = next) {
		struct follow_read *read = LIST_ITEM(at, struct follow_read, link);
		next = at->next;
		if (read->answered) {
			const struct cache_query query = query_of(read);
			const struct cache_answer *answer = cache_find(follow->api->cache, &query);
			if (!answer || strcmp(answer->etag, read->wait.unlike) != 0) {
				send_changed(read);
			}
		}
	}
}

static void append_heard(struct follow *follow, struct buffer *json)
{
	char text[API_STREAM_HEARD_BYTES];
	const char *heard = api_stream_heard(follow->api->cache, text);
	buffer_printf(json, "%s%s", heard ? "," : "", heard ? heard : "");
}

/* Without `heard_ms` nothing was confirmed. */
static void answer_confirm(struct follow *follow, uint64_t id, bool confirmed)
{
	if (confirmed) {
		send_changes(follow);
	}
	struct buffer json = begin_event(follow, "CONFIRMED");
	buffer_printf(&json, ",\"id\":%" PRIu64, id);
	if (confirmed) {
		append_heard(follow, &json);
	}
	end_event(follow, &json);
}

static void free_confirm(struct follow_confirm *confirm)
{
	cache_cancel(&confirm->wait);
	list_remove(&confirm->link);
	free(confirm);
}

static void on_confirmed(void *context, struct cache_answer *answer, const struct err *err)
{
	struct follow_confirm *confirm = context;
	(void)answer;
	answer_confirm(confirm->follow, confirm->id, err->code == 0);
	free_confirm(confirm);
}

static void begin_confirm(struct follow *follow, uint64_t id, int64_t max_age_ms)
{
	if (list_count(&follow->confirms) >= MOST_CONFIRMS) {
		answer_confirm(follow, id, false);
		return;
	}
	struct follow_confirm *confirm = allocate_zeroed(1, sizeof(*confirm));
	confirm->follow = follow;
	confirm->id = id;
	confirm->wait.on_answer = on_confirmed;
	confirm->wait.context = confirm;
	list_append(&follow->confirms, &confirm->link);
	enum cache_verdict verdict = cache_confirm_within(
		follow->api->cache, max_age_ms, clock_monotonic_ms(), &confirm->wait);
	if (verdict != CACHE_WAITING) {
		answer_confirm(follow, id, verdict == CACHE_READY);
		free_confirm(confirm);
	}
}

/* ---- the state of the registry, and of the container's records ---- */

static char *container_text(const struct follow *follow)
{
	struct api *api = follow->api;
	struct api_act act = { .kind = API_BRIDGE, .container = follow->container };
	struct err err = ERR_INIT;
	if (api->hooks.act(api->hooks.context, &act, &err)) {
		return allocate_text("null"); /* it is going */
	}
	const json_t *containers = json_object_get(act.result, "containers");
	char *text = allocated(json_text(json_array_get(containers, 0), JSON_COMPACT));
	json_decref(act.result);
	return text;
}

static void tell_container(struct follow *follow)
{
	char *text = container_text(follow);
	if (strcmp(text, follow->told) == 0) {
		free(text);
		return;
	}
	free(follow->told);
	follow->told = text;
	struct buffer json = begin_event(follow, "CONTAINER");
	buffer_append_text(&json, ",\"container\":");
	buffer_append_text(&json, text);
	end_event(follow, &json);
}

static void append_why(const struct follow *follow, struct buffer *json)
{
	char why[128];
	text_printf(why, sizeof(why), "the registry of the host's agent is %s",
		registry_state_name(registry_state(follow->api->registry)));
	append_member(json, "why", why);
}

static void tell_state(struct follow *follow)
{
	bool connected = registry_state(follow->api->registry) == REGISTRY_CONNECTED;
	if (connected == follow->connected) {
		return;
	}
	follow->connected = connected;
	struct buffer json = begin_event(follow, connected ? "FRESH" : "STALE");
	if (!connected) {
		append_why(follow, &json);
	}
	append_heard(follow, &json);
	end_event(follow, &json);
}

static void subscribe(struct follow *follow)
{
	struct api *api = follow->api;
	struct buffer json = begin_event(follow, "SUBSCRIBED");
	follow->connected = registry_state(api->registry) == REGISTRY_CONNECTED;
	follow->told = container_text(follow);
	buffer_printf(&json,
		",\"heartbeat_interval_seconds\":%g,\"stream_id\":\"%" PRIx64
		"\",\"session_timeout_ms\":%d,\"connected\":%s",
		(double)api->options.heartbeat_interval_ms / 1000., follow->id,
		registry_session_timeout_ms(api->registry), follow->connected ? "true" : "false");
	if (!follow->connected) {
		append_why(follow, &json);
	}
	append_heard(follow, &json);
	buffer_printf(&json, ",\"container\":");
	buffer_append_text(&json, follow->told);
	end_event(follow, &json);
}

static void on_news(void *context)
{
	struct api *api = context;
	for (struct list *at = api->follows.next; at != &api->follows; at = at->next) {
		struct follow *follow = LIST_ITEM(at, struct follow, link);
		tell_state(follow);
		tell_container(follow);
	}
}

void api_follows_changed(struct api *api)
{
	if (!list_empty(&api->follows) && !timer_runs(&api->follow_news)) {
		timer_start(&api->follow_news, 0);
	}
}

/* ---- the stream ---- */

static void on_heartbeat(void *context)
{
	struct follow *follow = context;
	timer_start(&follow->heartbeat, follow->api->options.heartbeat_interval_ms);
	if (follow->queue.len == 0) {
		struct buffer json = begin_event(follow, "HEARTBEAT");
		append_heard(follow, &json);
		end_event(follow, &json);
	}
}

/* Reads that waited for room: asked anew, since what was known then may be old. */
static void go_on(struct follow *follow)
{
	while (!list_empty(&follow->put_off) && has_room(follow)) {
		ask(LIST_ITEM(follow->put_off.next, struct follow_read, link));
	}
}

static size_t on_read(void *context, char *buffer, size_t size)
{
	struct follow *follow = context;
	size_t left = follow->queue.len - follow->read;
	size_t len = left < size ? left : size;
	memcpy(buffer, buffer_text(&follow->queue) + follow->read, len);
	follow->read += len;
	if (follow->read == follow->queue.len) {
		buffer_finish(&follow->queue);
		follow->read = 0;
		http_hold(follow->request, 0);
		go_on(follow);
	}
	return len;
}

static void on_closed(void *context)
{
	struct follow *follow = context;
	while (!list_empty(&follow->reads)) {
		free_read(LIST_ITEM(follow->reads.next, struct follow_read, link));
	}
	while (!list_empty(&follow->put_off)) {
		free_read(LIST_ITEM(follow->put_off.next, struct follow_read, link));
	}
	while (!list_empty(&follow->confirms)) {
		/* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): the one before is off the list */
		free_confirm(LIST_ITEM(follow->confirms.next, struct follow_confirm, link));
	}
	timer_stop(&follow->heartbeat);
	buffer_finish(&follow->queue);
	list_remove(&follow->link);
	api_watcher_end(follow->api, true);
	free(follow->told);
	free(follow);
}

/* An agent that was replaced has a stream for a moment longer. */
static void end_older(const struct api *api, const char *container)
{
	struct follow *oldest = NULL;
	size_t count = 0;
	for (struct list *at = api->follows.next; at != &api->follows; at = at->next) {
		struct follow *follow = LIST_ITEM(at, struct follow, link);
		if (!follow->ending && strcmp(follow->container, container) == 0) {
			oldest = oldest ? oldest : follow;
			count++;
		}
	}
	if (count >= API_FOLLOW_STREAMS) {
		stop(oldest, "the container has opened others since");
	}
}

void api_follow(struct api *api, struct http_request *request, const char *rest)
{
	struct err err = ERR_INIT;
	(void)rest;
	end_older(api, request->container);
	if (api_watcher_begin(api, request, &err)) {
		api_problem(request, 503, &err);
		return;
	}
	struct follow *follow = allocate_zeroed(1, sizeof(*follow));
	const struct http_stream_callbacks callbacks = { on_read, on_closed, follow };
	follow->api = api;
	follow->request = request;
	follow->id = ++api->next_stream;
	text_printf(follow->container, sizeof(follow->container), "%s", request->container);
	list_init(&follow->reads);
	list_init(&follow->put_off);
	list_init(&follow->confirms);
	buffer_init(&follow->queue, FRAME_BYTES);
	list_append(&api->follows, &follow->link);
	timer_init(&follow->heartbeat, api->loop, "heartbeat of a container", on_heartbeat, follow);
	timer_start(&follow->heartbeat, api->options.heartbeat_interval_ms);
	http_stream(request, "application/recordio", "", &callbacks);
	subscribe(follow);
}

/* ---- questions ---- */

static struct follow *find_follow(
	const struct api *api, const struct http_request *request, const char *text)
{
	for (struct list *at = api->follows.next; at != &api->follows; at = at->next) {
		struct follow *follow = LIST_ITEM(at, struct follow, link);
		char id[32];
		text_printf(id, sizeof(id), "%" PRIx64, follow->id);
		if (!follow->ending && strcmp(id, text) == 0 &&
			strcmp(follow->container, request->container) == 0) {
			return follow;
		}
	}
	return NULL;
}

static void take_read(struct follow *follow, const json_t *item)
{
	const char *path = json_string_value(json_object_get(item, "path"));
	if (path) {
		begin_read(follow, (uint64_t)json_integer_value(json_object_get(item, "id")), path,
			json_is_true(json_object_get(item, "list")),
			json_is_true(json_object_get(item, "watch")));
	}
}

static void take_drop(struct follow *follow, const json_t *item)
{
	const char *path = json_string_value(json_object_get(item, "path"));
	if (path) {
		drop(follow, path, json_is_true(json_object_get(item, "list")));
	}
}

static void take_confirm(struct follow *follow, const json_t *item)
{
	json_int_t max_age_ms = json_integer_value(json_object_get(item, "max_age_ms"));
	tell_container(follow); /* the container may ask because of it */
	begin_confirm(follow, (uint64_t)json_integer_value(json_object_get(item, "id")),
		max_age_ms > 0 ? max_age_ms : 0);
}

/* Members that this agent does not know are those of a newer one. */
void api_follow_ask(struct api *api, struct http_request *request, const char *rest)
{
	static const struct {
		const char *member;
		void (*take)(struct follow *follow, const json_t *item);
	} kinds[] = { { "drops", take_drop }, { "reads", take_read },
		{ "confirms", take_confirm } };
	struct follow *follow = find_follow(api, request, rest);
	if (!follow) {
		api_refuse(request, 404, "Not Found", "no such stream of this container", NULL);
		return;
	}
	json_t *body = json_read(request->body, request->body_len, 0, NULL);
	if (!json_is_object(body)) {
		json_decref(body);
		api_bad_request(request, "the body must be a JSON object");
		return;
	}
	for (size_t kind = 0; kind < ARRAY_LEN(kinds); kind++) {
		size_t index;
		json_t *item;
		json_array_foreach (json_object_get(body, kinds[kind].member), index, item) {
			kinds[kind].take(follow, item);
		}
	}
	json_decref(body);
	struct http_response *response = http_response_create(NULL, "", 0);
	http_answer(request, 204, response);
	http_response_free(response);
}

/* ---- life ---- */

void api_follows_init(struct api *api)
{
	list_init(&api->follows);
	timer_init(&api->follow_news, api->loop, "news for containers", on_news, api);
}

void api_follows_finish(struct api *api)
{
	timer_stop(&api->follow_news);
}
