/*
 * GET /v1/find under pressure: the API with this file in the place of HTTP, on a registry that does
 * nothing between dispatches.
 */

#include <criterion/criterion.h>
#include <ev.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/api/api.h"
#include "tests/support/memory_backend.h"

enum { SEARCHES = 40, CHILDREN = 20, MAX_WALKS = 4 };

struct http_response {
	char *body;
	bool retry;
	bool stale;
};

/* A client that searches for an api of its own. */
struct client {
	struct http_request request; /* first */
	char api[64];
	int status;
	char body[512]; /* its beginning */
	bool retry;
	bool stale;
	void (*on_closed)(void *context);
	void *on_closed_context;
};

struct stage {
	struct ev_loop *loop;
	struct registry *registry;
	struct cache *cache;
	struct names_lookups *names;
	struct history *history;
	struct metrics *metrics;
	struct api *api;
	size_t tasks;
	struct client clients[SEARCHES];
};

/* ---- HTTP ---- */

static struct client *client_of(const struct http_request *request)
{
	return (struct client *)(uintptr_t)request;
}

int http_parameter(const struct http_request *request, const char *name, char *out, size_t size,
	struct err *err)
{
	(void)err;
	bool found = strcmp(name, "api") == 0;
	snprintf(out, size, "%s", found ? client_of(request)->api : "");
	return found;
}

struct http_response *http_response_create_borrowed(const char *content_type, const char *body,
	size_t len, void (*release)(void *context), void *context)
{
	struct http_response *response = http_response_create(content_type, body, len);
	release(context);
	return response;
}

struct http_response *http_response_create(const char *content_type, const char *body, size_t len)
{
	(void)content_type;
	struct http_response *response = calloc(1, sizeof(*response));
	response->body = strndup(body, len);
	return response;
}

void http_response_header(struct http_response *response, const char *name, const char *value)
{
	response->retry = response->retry || strcmp(name, "Retry-After") == 0;
	response->stale = response->stale || strcmp(value, "STALE") == 0;
}

void http_response_etag(struct http_response *response, const char *etag)
{
	http_response_header(response, "ETag", etag);
}

struct http_response *http_response_create_problem(int status, const char *title,
	const char *detail, const char *instance, json_t *members_take)
{
	(void)instance;
	json_decref(members_take);
	char *body;
	int len = asprintf(&body, "{\"title\":\"%s\",\"detail\":\"%s\"}", title, detail);
	struct http_response *response = http_response_create(
		"application/problem+json", body, (size_t)len);
	free(body);
	response->retry = status == 503;
	return response;
}

void http_response_free(struct http_response *response)
{
	if (response) {
		free(response->body);
		free(response);
	}
}

void http_answer(struct http_request *request, int status, struct http_response *response)
{
	struct client *client = client_of(request);
	cr_assert_eq(client->status, 0, "answered twice");
	client->status = status;
	snprintf(client->body, sizeof(client->body), "%s", response->body);
	client->retry = response->retry;
	client->stale = response->stale;
}

void http_on_closed(struct http_request *request, void (*on_closed)(void *context), void *context)
{
	client_of(request)->on_closed = on_closed;
	client_of(request)->on_closed_context = context;
}

void http_stream(struct http_request *request, const char *content_type,
	const struct http_stream_callbacks *callbacks)
{
	(void)request;
	(void)content_type;
	(void)callbacks;
}

void http_stream_wake(struct http_request *request)
{
	(void)request;
}

void http_stream_end(struct http_request *request)
{
	(void)request;
}

void http_peer(const struct http_request *request, struct http_peer *peer)
{
	(void)request;
	peer->known = false;
}

bool http_watch(struct http_request *request, size_t total, size_t limit)
{
	(void)request;
	return total < limit;
}

bool http_search(struct http_request *request, size_t total, size_t limit)
{
	return http_watch(request, total, limit);
}

void http_end_search(const struct http_request *request)
{
	(void)request;
}

void http_hold(struct http_request *request, size_t bytes)
{
	(void)request;
	(void)bytes;
}

bool http_response_descriptor(struct http_response *response, int fd)
{
	(void)response;
	(void)fd;
	return false;
}

bool http_may_hand_over(const struct http_request *request)
{
	(void)request;
	return false;
}

bool http_has_room(const struct http_request *request)
{
	(void)request;
	return true;
}

void http_set_lasting(struct http_request *request)
{
	(void)request;
}

void http_pin(const struct http_request *request)
{
	(void)request;
}

size_t http_connections(const struct http *http)
{
	(void)http;
	return 0;
}

/* ---- the stage ---- */

static void count_task(void *context, const struct registry_task *task, struct err *err)
{
	(void)task;
	(void)err;
	((struct stage *)context)->tasks++;
}

static void dispatch(struct stage *stage)
{
	for (int i = 0; i < 100; i++) {
		registry_dispatch(stage->registry, 1);
		ev_run(stage->loop, EVRUN_NOWAIT);
	}
}

static void open_stage(struct stage *stage)
{
	static const struct api_hooks hooks;
	static const struct api_options options = { .version = "0", .max_watchers = 10 };
	static const struct cache_options cache_options = { .max_size_bytes = 1024 * 1024,
		.resync_ms = 600000,
		.release_rendering = api_release_rendering };
	*stage = (struct stage){ .loop = ev_loop_new(EVFLAG_AUTO) };
	stage->registry = memory_open("find", &(struct registry_options){ .context = stage });
	memory_on_task(stage->registry, count_task, stage);
	stage->cache = cache_create(stage->loop, stage->registry, &cache_options);
	stage->names = names_lookups_create(stage->loop, stage->cache, "berth");
	stage->history = history_create();
	stage->metrics = metrics_create();
	stage->api = api_create(stage->loop, stage->cache, stage->names, stage->registry,
		stage->history, stage->metrics, &hooks, &options);
	for (int i = 0; i < CHILDREN; i++) {
		char path[16];
		snprintf(path, sizeof(path), "/n%d", i);
		memory_put(stage->registry, path, "");
	}
	memory_set_state(stage->registry, REGISTRY_CONNECTED);
	dispatch(stage);
	stage->tasks = 0;
}

static void close_stage(struct stage *stage)
{
	api_destroy(stage->api);
	metrics_destroy(stage->metrics);
	history_destroy(stage->history);
	names_lookups_destroy(stage->names);
	cache_destroy(stage->cache);
	registry_close(stage->registry);
	ev_loop_destroy(stage->loop);
}

/* Everybody asks for something else. */
static void search(struct stage *stage, bool local)
{
	for (int i = 0; i < SEARCHES; i++) {
		struct client *client = &stage->clients[i];
		*client = (struct client){
			.request = { .method = HTTP_GET, .path = "/v1/find", .local = local }
		};
		snprintf(client->api, sizeof(client->api), "urn:%d", i);
		api_on_request(stage->api, &client->request);
	}
}

static void leave(struct client *client)
{
	if (!client->status) {
		client->on_closed(client->on_closed_context);
	}
}

static int count_answers(const struct stage *stage, int status)
{
	int count = 0;
	for (int i = 0; i < SEARCHES; i++) {
		count += stage->clients[i].status == status;
	}
	return count;
}

Test(api_find, only_some_walk_at_once_and_only_some_wait)
{
	struct stage stage;
	open_stage(&stage);
	search(&stage, true);
	cr_assert_eq(memory_tasks(stage.registry), MAX_WALKS);
	cr_assert_eq(count_answers(&stage, 503), 8);
	cr_assert(stage.clients[SEARCHES - 1].retry);
	dispatch(&stage);
	cr_assert_eq(count_answers(&stage, 200), 32);
	close_stage(&stage);
}

Test(api_find, remote_clients_do_not_use_up_the_turns_of_local_ones)
{
	struct stage stage;
	open_stage(&stage);
	search(&stage, false);
	cr_assert_eq(count_answers(&stage, 503), SEARCHES - 8);
	struct client local = { .request = { .path = "/v1/find", .local = true },
		.api = "urn:local" };
	api_on_request(stage.api, &local.request);
	dispatch(&stage);
	cr_assert_eq(local.status, 200);
	close_stage(&stage);
}

Test(api_find, a_walk_ends_when_its_last_client_leaves)
{
	struct stage stage;
	open_stage(&stage);
	search(&stage, true);
	for (int i = 0; i < SEARCHES; i++) {
		leave(&stage.clients[i]);
	}
	dispatch(&stage);
	cr_assert_lt(stage.tasks, CHILDREN, "%zu tasks for nobody", stage.tasks);
	search(&stage, true);
	dispatch(&stage);
	cr_assert_eq(count_answers(&stage, 200), 32, "what was left can be asked for again");
	close_stage(&stage);
}

Test(api_find, the_last_answers_are_kept_within_bounds)
{
	struct stage stage;
	open_stage(&stage);
	for (int round = 0; round < 3; round++) {
		search(&stage, true);
		dispatch(&stage);
	}
	memory_set_state(stage.registry, REGISTRY_AWAY);
	dispatch(&stage);
	search(&stage, true);
	dispatch(&stage);
	int stale = 0;
	for (int i = 0; i < SEARCHES; i++) {
		stale += stage.clients[i].stale;
	}
	cr_assert_gt(stale, 0);
	cr_assert_leq(stale, 32);
	close_stage(&stage);
}

Test(api_find, gives_records_as_stored_by_path)
{
	struct stage stage;
	open_stage(&stage);
	struct client client = { .request = { .path = "/v1/find", .local = true } };
	memory_put(stage.registry, "/n3", "{\"type\": \"JSONServiceRecord\",\n\"x\":  1}");
	memory_put(stage.registry, "/n10", "{\"type\":\"JSONServiceRecord\"}");
	memory_put(stage.registry, "/n4", "{\"type\":\"Other\"}");
	api_on_request(stage.api, &client.request);
	dispatch(&stage);
	cr_assert_eq(client.status, 200);
	cr_assert_str_eq(client.body,
		"{\"/n10\":{\"type\":\"JSONServiceRecord\"},"
		"\"/n3\":{\"type\": \"JSONServiceRecord\",\n\"x\":  1}}\n");
	close_stage(&stage);
}

Test(api_find, a_search_that_finds_too_much_is_refused)
{
	enum { RECORD_BYTES = 100000, RECORDS = 200 };
	static char record[RECORD_BYTES + 1];
	struct stage stage;
	open_stage(&stage);
	struct client client = { .request = { .path = "/v1/find", .local = true } };
	memset(record, ' ', RECORD_BYTES);
	memcpy(record, "{\"type\":\"JSONServiceRecord\"}", 28);
	for (int i = 0; i < RECORDS; i++) {
		char path[32];
		snprintf(path, sizeof(path), "/large%d", i);
		memory_put(stage.registry, path, record);
	}
	api_on_request(stage.api, &client.request);
	dispatch(&stage);
	cr_assert_eq(client.status, 422);
	cr_assert(strstr(client.body, "LimitExceeded"), "%s", client.body);
	close_stage(&stage);
}
