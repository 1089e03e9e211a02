/* Views of the agent's own state, at once or as long polls. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/api/poll.h"
#include "agent/api/stream.h"
#include "agent/base/allocate.h"
#include "lib/base/array.h"
#include "lib/base/hash.h"
#include "lib/base/json_text.h"
#include "lib/http/field.h"

/*
 * The views of the agent itself: GET /v1/agent, checks and history, with ETag and Prefer: wait, and
 * GET /v1/agent/watch, the stream of all three. The wiring calls api_agent_changed() after any
 * change; the agent makes views with waiting clients again before the loop sleeps, and sends those
 * that differ.
 */

enum { TAG_BYTES = 24 };

/* ---- the content of the views ---- */

static json_t *make_status(const struct api *api)
{
	struct api_act act = { .kind = API_STATUS };
	struct err err = ERR_INIT;
	return api->hooks.act(api->hooks.context, &act, &err) ? json_object() : act.result;
}

/* Output may hold secrets of the application: it is for peers that may write, so never for TCP. */
static json_t *make_check(
	const struct api *api, const struct http_request *request, const struct check *check)
{
	json_t *json = check_json(check);
	json_t *last = json_object_get(json, "last");
	if (json_is_object(last) && !api_may_write_check(api, request, check)) {
		json_object_set_new(last, "output", json_null());
	}
	return json;
}

static json_t *make_checks(const struct api *api, const struct http_request *request)
{
	json_t *checks = json_array();
	const struct check *check;
	for (size_t i = 0; (check = api->hooks.find_check(api->hooks.context, i)) != NULL; i++) {
		json_array_append_new(checks, make_check(api, request, check));
	}
	return checks;
}

static double number(const struct http_request *request, const char *name, struct err *err)
{
	char text[32];
	int found = http_parameter(request, name, text, sizeof(text), err);
	if (found <= 0 || !*text) {
		return -1;
	}
	char *end;
	double value = strtod(text, &end);
	if (*end || !(value >= 0)) {
		err_set(err, BERTH_FAILED, "query parameter %s: must be a number", name);
	}
	return value;
}

/* ?since=: later ones only; ?n=: the last ones. */
static json_t *make_history(
	const struct api *api, const struct http_request *request, struct err *err)
{
	double since = number(request, "since", err);
	double count = number(request, "n", err);
	json_t *all = history_json(api->history, api_may_administer(api, request));
	json_t *some = json_array();
	size_t size = json_array_size(all);
	size_t first = count >= 0 && count < (double)size ? size - (size_t)count : 0;
	for (size_t i = first; i < size; i++) {
		json_t *item = json_array_get(all, i);
		if (json_number_value(json_object_get(item, "time")) > since) {
			json_array_append(some, item);
		}
	}
	json_decref(all);
	return some;
}

enum view { VIEW_STATUS, VIEW_CHECKS, VIEW_HISTORY };

static json_t *make_view(
	const struct api *api, const struct http_request *request, enum view view, struct err *err)
{
	switch (view) {
	case VIEW_STATUS:
		return make_status(api);
	case VIEW_CHECKS:
		return make_checks(api, request);
	case VIEW_HISTORY:
		break;
	}
	return make_history(api, request, err);
}

static bool changes_by_time_alone(const char *name)
{
	static const char *const moving[] = { "uptime", "penalty", "next_run" };
	for (size_t i = 0; i < ARRAY_LEN(moving); i++) {
		if (strcmp(name, moving[i]) == 0) {
			return true;
		}
	}
	return false;
}

/* A text with its end, so that what is in one and what is in the next differ. */
static uint64_t hash_whole_text(uint64_t hash, const char *text)
{
	return hash_bytes(hash_text(hash, text), "", 1);
}

static uint64_t hash_scalar(uint64_t hash, const json_t *value)
{
	double number = json_number_value(value);
	json_int_t integer = json_integer_value(value);
	if (json_is_string(value)) {
		return hash_whole_text(hash, json_string_value(value));
	}
	return json_is_real(value) ? hash_bytes(hash, &number, sizeof(number))
				   : hash_bytes(hash, &integer, sizeof(integer));
}

/* Without the members that change by time alone. */
static uint64_t hash_view(uint64_t hash, const json_t *view)
{
	const unsigned char type = (unsigned char)json_typeof(view);
	const unsigned char end = UCHAR_MAX;
	const char *name;
	json_t *value;
	size_t index;
	hash = hash_bytes(hash, &type, 1);
	if (!json_is_array(view) && !json_is_object(view)) {
		return hash_scalar(hash, view);
	}
	json_array_foreach (view, index, value) {
		hash = hash_view(hash, value);
	}
	json_object_foreach ((json_t *)(uintptr_t)view, name, value) {
		if (!changes_by_time_alone(name)) {
			hash = hash_view(hash_whole_text(hash, name), value);
		}
	}
	return hash_bytes(hash, &end, 1);
}

static bool same_but_for_time(const json_t *view, const json_t *other)
{
	return hash_view(HASH_INIT, view) == hash_view(HASH_INIT, other);
}

/* A weak tag: two views that differ by the passage of time alone have the same. */
static void write_tag(const json_t *view, char tag[TAG_BYTES])
{
	snprintf(tag, TAG_BYTES, "W/\"a-%016llx\"", (unsigned long long)hash_view(HASH_INIT, view));
}

/* ---- answers and long polls ---- */

/* A request that has the current view and waits for the next. */
struct view_poll {
	struct api_poll poll;
	struct http_request *request;
	struct list link; /* api->view_polls */
	enum view view;
	char tag[TAG_BYTES];
};

static void answer_view(
	struct http_request *request, json_t *view_take, const char *tag, bool polled)
{
	char *text = api_json_text(view_take);
	struct http_response *response = http_response_create_borrowed(
		"application/json", text, strlen(text), free, text);
	http_response_etag(response, tag);
	http_response_header(response, "Cache-Control", "no-cache");
	if (polled) {
		api_poll_applied(request, response);
	}
	http_answer(request, 200, response);
	http_response_free(response);
}

static void end_poll(struct view_poll *poll)
{
	list_remove(&poll->link);
	api_poll_end(&poll->poll);
	free(poll);
}

static void on_poll_closed(void *context)
{
	end_poll(context);
}

/* `over`: answers even if nothing has changed. */
static void try_poll(struct view_poll *poll, bool over)
{
	struct err err = ERR_INIT;
	char tag[TAG_BYTES];
	/* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): the one before is off the list */
	json_t *view = make_view(poll->poll.api, poll->request, poll->view, &err);
	write_tag(view, tag);
	if (over || strcmp(tag, poll->tag) != 0) {
		answer_view(poll->request, view, tag, true);
		end_poll(poll);
	} else {
		json_decref(view);
	}
}

static void on_poll_over(struct api_poll *poll)
{
	try_poll(LIST_ITEM(poll, struct view_poll, poll), true);
}

static void begin_poll(
	struct api *api, struct http_request *request, enum view view, const char *tag)
{
	struct err err = ERR_INIT;
	struct view_poll *poll = allocate_zeroed(1, sizeof(*poll));
	if (api_poll_begin(&poll->poll, api, request, on_poll_over, &err)) {
		free(poll);
		api_problem(request, 503, &err);
		return;
	}
	poll->request = request;
	poll->view = view;
	strcpy(poll->tag, tag);
	list_append(&api->view_polls, &poll->link);
	http_on_closed(request, on_poll_closed, poll);
}

static void show(struct api *api, struct http_request *request, enum view view)
{
	struct err err = ERR_INIT;
	char tag[TAG_BYTES];
	json_t *json = make_view(api, request, view, &err);
	if (err.code) {
		json_decref(json);
		api_bad_request(request, err.msg);
		return;
	}
	write_tag(json, tag);
	if (api_poll_wanted(request, tag)) {
		json_decref(json);
		begin_poll(api, request, view, tag);
	} else {
		answer_view(request, json, tag, false);
	}
}

void api_agent_status(struct api *api, struct http_request *request, const char *rest)
{
	(void)rest;
	show(api, request, VIEW_STATUS);
}

void api_agent_checks(struct api *api, struct http_request *request, const char *rest)
{
	(void)rest;
	show(api, request, VIEW_CHECKS);
}

void api_agent_history(struct api *api, struct http_request *request, const char *rest)
{
	(void)rest;
	show(api, request, VIEW_HISTORY);
}

/* ---- the stream ---- */

struct agent_stream {
	struct api_stream stream; /* first */
	struct list link;         /* api->agent_streams */
	json_t *status;           /* as sent last */
	json_t *checks;
	uint64_t transitions; /* history_last() at that time */
};

static struct agent_stream *agent_stream_of(const struct api_stream *stream)
{
	return (struct agent_stream *)(uintptr_t)stream;
}

static const char *name(const struct api_stream *stream)
{
	(void)stream;
	return "the agent";
}

static void remember(json_t **place, json_t *view)
{
	json_decref(*place);
	*place = json_incref(view);
}

static void write_snapshot(struct api_stream *stream, struct buffer *out)
{
	struct agent_stream *agent = agent_stream_of(stream);
	json_t *status = make_status(stream->api);
	json_t *checks = make_checks(stream->api, stream->request);
	remember(&agent->status, status);
	remember(&agent->checks, checks);
	agent->transitions = history_last(stream->api->history);
	char *text = api_json_text(json_pack("{s:o, s:o}", "agent", status, "checks", checks));
	buffer_append_text(out, text);
	free(text);
}

static void on_closed(struct api_stream *stream)
{
	struct agent_stream *agent = agent_stream_of(stream);
	list_remove(&agent->link);
	json_decref(agent->status);
	json_decref(agent->checks);
	api_stream_finish(stream);
	free(agent);
}

static const struct api_stream_source source = { name, NULL, write_snapshot, NULL, on_closed };

static void send_member(
	struct api_stream *stream, const char *type, const char *member, json_t *value_take)
{
	char *text = api_json_text(value_take);
	char *members = allocate_format("\"%s\":%s", member, text);
	api_stream_send(stream, type, members);
	free(members);
	free(text);
}

static void send_transitions(struct agent_stream *agent)
{
	struct api *api = agent->stream.api;
	json_t *fresh = history_json_after(
		api->history, agent->transitions, api_may_administer(api, agent->stream.request));
	size_t index;
	json_t *transition;
	json_array_foreach (fresh, index, transition) {
		send_member(&agent->stream, "TRANSITION", "transition", json_incref(transition));
	}
	agent->transitions = history_last(api->history);
	json_decref(fresh);
}

static void send_checks(struct agent_stream *agent, json_t *checks)
{
	size_t index;
	json_t *check;
	json_array_foreach (checks, index, check) {
		if (!same_but_for_time(check, json_array_get(agent->checks, index))) {
			send_member(&agent->stream, "CHECK", "check", json_incref(check));
		}
	}
	remember(&agent->checks, checks);
}

static bool same_names(const json_t *checks, const json_t *others)
{
	size_t index;
	json_t *check;
	bool same = json_array_size(checks) == json_array_size(others);
	json_array_foreach (checks, index, check) {
		same = same &&
			json_equal(json_object_get(check, "name"),
				json_object_get(json_array_get(others, index), "name"));
	}
	return same;
}

static void send_status(struct agent_stream *agent)
{
	json_t *status = make_status(agent->stream.api);
	if (!same_but_for_time(status, agent->status)) {
		send_member(&agent->stream, "AGENT", "agent", json_incref(status));
	}
	remember(&agent->status, status);
	json_decref(status);
}

static void update_stream(struct agent_stream *agent)
{
	struct api_stream *stream = &agent->stream;
	if (stream->state != API_STREAM_FOLLOWING) {
		return;
	}
	json_t *checks = make_checks(stream->api, stream->request);
	if (same_names(checks, agent->checks)) {
		send_transitions(agent);
		send_checks(agent, checks);
		send_status(agent);
	} else { /* after a reload: a snapshot says best what there is */
		api_stream_resync(stream);
	}
	json_decref(checks);
}

void api_agent_watch(struct api *api, struct http_request *request, const char *rest)
{
	(void)rest;
	enum api_framing framing;
	if (!api_stream_admit(api, request, &framing)) {
		return;
	}
	struct agent_stream *agent = allocate_zeroed(1, sizeof(*agent));
	api_stream_init(&agent->stream, &source, api, request, framing);
	list_init(&agent->link);
	list_append(&api->agent_streams, &agent->link);
	api_stream_begin(&agent->stream);
}

/* ---- changes ---- */

static void on_changed(struct ev_loop *loop, ev_prepare *prepare, int events)
{
	(void)events;
	struct api *api = prepare->data;
	struct list *next;
	ev_prepare_stop(loop, prepare);
	for (struct list *at = api->view_polls.next; at != &api->view_polls; at = next) {
		next = at->next;
		try_poll(LIST_ITEM(at, struct view_poll, link), false);
	}
	for (struct list *at = api->agent_streams.next; at != &api->agent_streams; at = next) {
		next = at->next;
		update_stream(LIST_ITEM(at, struct agent_stream, link));
	}
}

void api_agent_changed(struct api *api)
{
	if (!list_empty(&api->view_polls) || !list_empty(&api->agent_streams)) {
		ev_prepare_start(api->loop, &api->changed);
	}
}

void api_views_init(struct api *api)
{
	list_init(&api->view_polls);
	list_init(&api->agent_streams);
	ev_prepare_init(&api->changed, on_changed);
	api->changed.data = api;
}

void api_views_finish(struct api *api)
{
	ev_prepare_stop(api->loop, &api->changed);
}
