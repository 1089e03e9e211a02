#include "agent/api/follow.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "agent/api/poll.h"
#include "agent/api/stream.h"
#include "agent/base/allocate.h"
#include "lib/base/array.h"
#include "lib/base/clock.h"
#include "lib/base/json_read.h"
#include "lib/base/json_text.h"
#include "lib/base/text.h"

enum { FRAME_BYTES = 64 * 1024 * 1024 };

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
	if (!*follow->container) {
		return;
	}
	char *text = container_text(follow);
	if (strcmp(text, follow->told) == 0) {
		free(text);
		return;
	}
	free(follow->told);
	follow->told = text;
	struct buffer json = follow_begin(follow, "CONTAINER");
	buffer_append_text(&json, ",\"container\":");
	buffer_append_text(&json, text);
	follow_end(follow, &json);
}

static void append_why(const struct follow *follow, struct buffer *json)
{
	char why[128];
	text_printf(why, sizeof(why), "the registry of the %sagent is %s",
		*follow->container ? "host's " : "",
		registry_state_name(registry_state(follow->api->registry)));
	follow_append_member(json, "why", why);
}

static void tell_state(struct follow *follow)
{
	bool connected = registry_state(follow->api->registry) == REGISTRY_CONNECTED;
	if (connected == follow->connected) {
		return;
	}
	follow->connected = connected;
	struct buffer json = follow_begin(follow, connected ? "FRESH" : "STALE");
	if (!connected) {
		append_why(follow, &json);
	}
	follow_append_heard(follow, &json);
	follow_end(follow, &json);
}

static void subscribe(struct follow *follow)
{
	struct api *api = follow->api;
	struct buffer json = follow_begin(follow, "SUBSCRIBED");
	follow->connected = registry_state(api->registry) == REGISTRY_CONNECTED;
	buffer_printf(&json,
		",\"heartbeat_interval_seconds\":%g,\"stream_id\":\"%" PRIx64
		"\",\"session_timeout_ms\":%d,\"connected\":%s",
		(double)api->options.heartbeat_interval_ms / 1000., follow->id,
		registry_session_timeout_ms(api->registry), follow->connected ? "true" : "false");
	if (!follow->connected) {
		append_why(follow, &json);
	}
	follow_append_heard(follow, &json);
	if (*follow->container) {
		follow->told = container_text(follow);
		buffer_append_text(&json, ",\"container\":");
		buffer_append_text(&json, follow->told);
	}
	follow_end(follow, &json);
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
		struct buffer json = follow_begin(follow, "HEARTBEAT");
		follow_append_heard(follow, &json);
		follow_end(follow, &json);
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
		follow_reads_go_on(follow);
		follow_sets_go_on(follow);
	}
	return len;
}

static void on_closed(void *context)
{
	struct follow *follow = context;
	follow_reads_finish(follow);
	follow_sets_finish(follow);
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
		follow_stop(oldest, "the container has opened others since");
	}
}

static unsigned uid_of(const struct http_request *request)
{
	struct http_peer peer;
	http_peer(request, &peer);
	return peer.known ? peer.uid : (unsigned)-1;
}

void api_follow(struct api *api, struct http_request *request, const char *rest)
{
	struct err err = ERR_INIT;
	(void)rest;
	if (request->container) {
		end_older(api, request->container);
	}
	if (api_watcher_begin(api, request, &err)) {
		api_problem(request, 503, &err);
		return;
	}
	struct follow *follow = allocate_zeroed(1, sizeof(*follow));
	const struct http_stream_callbacks callbacks = { on_read, on_closed, follow };
	follow->api = api;
	follow->request = request;
	follow->id = ++api->next_stream;
	follow->uid = uid_of(request);
	text_printf(follow->container, sizeof(follow->container), "%s",
		request->container ? request->container : "");
	list_init(&follow->reads);
	list_init(&follow->put_off);
	list_init(&follow->confirms);
	list_init(&follow->due_sets);
	buffer_init(&follow->queue, FRAME_BYTES);
	list_append(&api->follows, &follow->link);
	timer_init(
		&follow->heartbeat, api->loop, "heartbeat of many questions", on_heartbeat, follow);
	timer_start(&follow->heartbeat, api->options.heartbeat_interval_ms);
	http_stream(request, "application/recordio", "", &callbacks);
	subscribe(follow);
}

/* ---- questions ---- */

/* The stream of this name, if it belongs to the client that asks. */
static struct follow *find_follow(
	const struct api *api, const struct http_request *request, const char *text)
{
	const char *container = request->container ? request->container : "";
	unsigned uid = uid_of(request);
	for (struct list *at = api->follows.next; at != &api->follows; at = at->next) {
		struct follow *follow = LIST_ITEM(at, struct follow, link);
		char id[32];
		text_printf(id, sizeof(id), "%" PRIx64, follow->id);
		if (!follow->ending && strcmp(id, text) == 0 &&
			strcmp(follow->container, container) == 0 &&
			(*container || follow->uid == uid)) {
			return follow;
		}
	}
	return NULL;
}

static void take_drop(struct follow *follow, const json_t *item)
{
	follow_drop_read(follow, item);
	follow_drop_set(follow, item);
}

static void take_confirm(struct follow *follow, const json_t *item)
{
	tell_container(follow); /* the container may ask because of it */
	follow_take_confirm(follow, item);
}

/* Members that this agent does not know are those of a newer one. */
void api_follow_ask(struct api *api, struct http_request *request, const char *rest)
{
	static const struct {
		const char *member;
		bool of_containers; /* nobody else asks so */
		void (*take)(struct follow *follow, const json_t *item);
	} kinds[] = { { "drops", false, take_drop }, { "reads", true, follow_take_read },
		{ "confirms", true, take_confirm }, { "sets", false, follow_take_set } };
	struct follow *follow = find_follow(api, request, rest);
	if (!follow) {
		api_refuse(request, 404, "Not Found", "no such stream of this client", NULL);
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
		bool asks = *follow->container || !kinds[kind].of_containers;
		json_array_foreach (json_object_get(body, kinds[kind].member), index, item) {
			if (asks) {
				kinds[kind].take(follow, item);
			}
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
