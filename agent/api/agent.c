#include "agent/api/internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/log.h"
#include "lib/base/duration.h"

enum { NAME_BYTES = 256 };

void api_agent_status(struct api *api, struct http_request *request, const char *rest)
{
	(void)rest;
	api_answer_json(request, 200, api->hooks.agent_status(api->hooks.context));
}

void api_agent_checks(struct api *api, struct http_request *request, const char *rest)
{
	(void)rest;
	api_answer_json(request, 200, api->hooks.checks(api->hooks.context));
}

void api_agent_history(struct api *api, struct http_request *request, const char *rest)
{
	(void)rest;
	api_answer_json(request, 200, history_json(api->history));
}

/* ---- what changes something ---- */

static void refuse(struct http_request *request)
{
	struct err err = ERR_INIT;
	err_set(&err, BERTH_NO_PATH_PERMISSIONS,
		"only root, the agent's own user and admin_group may do this");
	api_problem(request, 0, &err);
}

static bool may_administer(struct api *api, const struct http_request *request)
{
	struct http_peer peer;
	http_peer(request, &peer);
	return peer.known && api->hooks.may_administer(api->hooks.context, &peer);
}

static void answer_result(struct http_request *request, const struct err *err)
{
	if (!err->code) {
		struct http_response *response = http_response_create(NULL, "", 0);
		http_answer(request, 204, response);
		http_response_free(response);
	} else {
		/* These are the request's fault here: a body of the wrong shape, a check of another type, addresses that are none. */
		int status = err->code == BERTH_FAILED      ? 400
			: err->code == BERTH_INVALID_RECORD ? 422
							    : 0;
		api_problem(request, status, err);
	}
}

/* What is misspelled would else be taken for absent. */
static int check_members(const json_t *body, const char *const *members, struct err *err)
{
	struct buffer allowed;
	buffer_init(&allowed, 256);
	const char *name;
	json_t *value;
	json_object_foreach ((json_t *)(uintptr_t)body, name, value) {
		bool known = false;
		buffer_clear(&allowed);
		for (const char *const *member = members; *member; member++) {
			known = known || strcmp(name, *member) == 0;
			buffer_printf(&allowed, "%s%s", allowed.len ? ", " : "", *member);
		}
		if (!known) {
			err_set(err, BERTH_FAILED, "the body has a member \"%s\": allowed are %s",
				name, buffer_text(&allowed));
			break;
		}
	}
	buffer_finish(&allowed);
	return err->code;
}

/* The body as an object of these members; an empty one counts as {}. NULL with err filled otherwise. */
static json_t *read_body(
	const struct http_request *request, const char *const *members, struct err *err)
{
	if (request->body_len == 0) {
		return json_object();
	}
	json_error_t error;
	json_t *body = json_loadb(request->body, request->body_len, JSON_REJECT_DUPLICATES, &error);
	if (!json_is_object(body)) {
		err_set(err, BERTH_FAILED, "the body must be a JSON object%s%s", body ? "" : ": ",
			body ? "" : error.text);
	}
	if (err->code || check_members(body, members, err)) {
		json_decref(body);
		return NULL;
	}
	return body;
}

/* An optional string member; `missing` when it is absent, NULL with err filled when it is no string. */
static const char *text_member(
	const json_t *body, const char *name, const char *missing, struct err *err)
{
	const json_t *member = json_object_get(body, name);
	if (!member || json_is_null(member)) {
		return missing;
	}
	if (!json_is_string(member)) {
		err_set(err, BERTH_FAILED, "%s: must be a string", name);
	}
	return json_string_value(member);
}

/* "for": seconds as a whole number, or a duration of the configuration's form (500ms 30s 2m 1h 7d). */
static int64_t read_duration_ms(const json_t *body, struct err *err)
{
	enum { SECONDS_MAX = INT32_MAX };
	const json_t *member = json_object_get(body, "for");
	int64_t ms = 0;
	if (!member || json_is_null(member)) {
		return 0;
	}
	if (json_is_string(member)) {
		(void)duration_parse(json_string_value(member), &ms);
	} else if (json_is_integer(member) && json_integer_value(member) <= SECONDS_MAX) {
		ms = json_integer_value(member) * 1000;
	}
	if (ms <= 0 || ms / 1000 > SECONDS_MAX) {
		err_set(err, BERTH_FAILED,
			"for: must be whole seconds, or a duration such as 30s, 10m, 2h or 7d");
		return 0;
	}
	return ms;
}

static void drain_on(struct api *api, const struct http_request *request, struct err *err)
{
	static const char *const members[] = { "reason", "for", NULL };
	json_t *body = read_body(request, members, err);
	if (!body) {
		return;
	}
	const char *reason = text_member(body, "reason", "", err);
	int64_t for_ms = read_duration_ms(body, err);
	if (!err->code) {
		(void)api->hooks.drain(api->hooks.context, reason, for_ms, err);
	}
	json_decref(body);
}

void api_agent_drain(struct api *api, struct http_request *request, const char *rest)
{
	(void)rest;
	if (!may_administer(api, request)) {
		refuse(request);
		return;
	}
	struct err err = ERR_INIT;
	if (request->method == HTTP_POST) {
		drain_on(api, request, &err);
	} else {
		(void)api->hooks.undrain(api->hooks.context, &err);
	}
	answer_result(request, &err);
}

/* A problem document with one member more, the list. Takes the reference. */
static void refuse_configuration(struct http_request *request, json_t *problems)
{
	size_t count = json_array_size(problems);
	char detail[64];
	snprintf(detail, sizeof(detail), "the configuration has %zu problem%s; the old one stays",
		count, count == 1 ? "" : "s");
	json_t *json = json_pack("{s:s, s:s, s:i, s:s, s:s, s:b, s:o}", "type", "about:blank",
		"title", "Failed", "status", 422, "detail", detail, "instance", request->path,
		"reloaded", 0, "problems", problems);
	char *text = json ? json_dumps(json, JSON_COMPACT) : NULL;
	json_decref(json);
	struct http_response *response = text
		? http_response_create("application/problem+json", text, strlen(text))
		: NULL;
	free(text);
	http_answer(request, 422, response);
	http_response_free(response);
}

void api_agent_reload(struct api *api, struct http_request *request, const char *rest)
{
	(void)rest;
	if (!may_administer(api, request)) {
		refuse(request);
		return;
	}
	json_t *problems = api->hooks.reload(api->hooks.context);
	if (json_array_size(problems) > 0) {
		refuse_configuration(request, problems);
		return;
	}
	json_decref(problems);
	api_answer_json(request, 200, json_pack("{s:b, s:[]}", "reloaded", 1, "problems"));
}

/* ---- checks ---- */

struct check_run {
	struct api *api;
	struct http_request *request;
	char name[NAME_BYTES];
};

static void on_run_done(void *context, json_t *result)
{
	struct check_run *run = context;
	if (result) {
		api_answer_json(run->request, 200, result);
	} else {
		struct err err = ERR_INIT;
		err_set(&err, BERTH_PATH_NOT_FOUND,
			"check %s has been removed before the end of its run", run->name);
		api_problem(run->request, 0, &err);
	}
	free(run);
}

static void on_run_closed(void *context)
{
	struct check_run *run = context;
	run->api->hooks.check_run_forget(run->api->hooks.context, run->name, run);
	free(run);
}

static void run_check(struct api *api, struct http_request *request, const char *name, size_t len)
{
	struct err err = ERR_INIT;
	if (!may_administer(api, request)) {
		refuse(request);
		return;
	}
	struct check_run *run = calloc(1, sizeof(*run));
	if (!run) {
		log_error("api", "no memory");
		abort();
	}
	run->api = api;
	run->request = request;
	memcpy(run->name, name, len);
	http_closed(request, on_run_closed, run);
	if (api->hooks.check_run(api->hooks.context, run->name, on_run_done, run, &err)) {
		answer_result(request, &err);
		free(run);
	}
}

static bool is_status(const char *status)
{
	return status &&
		(strcmp(status, "passing") == 0 || strcmp(status, "warning") == 0 ||
			strcmp(status, "failing") == 0);
}

static void report_check(struct api *api, struct http_request *request, const char *name)
{
	static const char *const members[] = { "status", "output", NULL };
	struct err err = ERR_INIT;
	json_t *body = read_body(request, members, &err);
	const char *status = body ? text_member(body, "status", NULL, &err) : NULL;
	const char *output = body ? text_member(body, "output", "", &err) : NULL;
	if (!err.code && !is_status(status)) {
		err_set(&err, BERTH_FAILED, "status: must be passing, warning or failing");
	}
	if (!err.code) {
		struct http_peer peer;
		http_peer(request, &peer);
		(void)api->hooks.check_report(api->hooks.context, name, status, output, &peer, &err);
	}
	json_decref(body);
	answer_result(request, &err);
}

/* Copies a check's or endpoint's name without its suffix; false when it cannot be one. */
static bool copy_name(char *out, const char *rest, size_t suffix)
{
	size_t len = strlen(rest);
	if (len <= suffix || len - suffix >= NAME_BYTES) {
		return false;
	}
	memcpy(out, rest, len - suffix);
	out[len - suffix] = '\0';
	return true;
}

static void no_such_name(struct http_request *request)
{
	struct err err = ERR_INIT;
	err_set(&err, BERTH_PATH_NOT_FOUND, "no check or endpoint of that name");
	api_problem(request, 0, &err);
}

void api_agent_check(struct api *api, struct http_request *request, const char *rest)
{
	char name[NAME_BYTES];
	bool run = request->method == HTTP_POST;
	if (!copy_name(name, rest, run ? strlen("/run") : 0)) {
		no_such_name(request);
	} else if (run) {
		run_check(api, request, name, strlen(name));
	} else {
		report_check(api, request, name);
	}
}

/* ---- dynamic endpoints ---- */

static void set_endpoint(struct api *api, struct http_request *request, const char *name,
	const struct http_peer *peer, struct err *err)
{
	static const char *const members[] = { "addresses", NULL };
	json_t *body = read_body(request, members, err);
	if (!body) {
		return;
	}
	const json_t *addresses = json_object_get(body, "addresses");
	bool hold = false;
	if (!json_is_array(addresses)) {
		err_set(err, BERTH_FAILED, "addresses: must be an array");
	} else if (api->hooks.endpoint_set(api->hooks.context, name, addresses, peer,
			   request->connection, &hold, err) == 0 &&
		hold) {
		http_pin(request);
	}
	json_decref(body);
}

void api_agent_endpoint(struct api *api, struct http_request *request, const char *rest)
{
	char name[NAME_BYTES];
	if (!copy_name(name, rest, 0)) {
		no_such_name(request);
		return;
	}
	struct err err = ERR_INIT;
	struct http_peer peer;
	http_peer(request, &peer);
	if (request->method == HTTP_PUT) {
		set_endpoint(api, request, name, &peer, &err);
	} else {
		(void)api->hooks.endpoint_clear(api->hooks.context, name, &peer, &err);
	}
	answer_result(request, &err);
}
