/* Requests that change something: who may make them, their bodies, and what they do. */
#include "agent/api/internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/base/allocate.h"
#include "lib/base/duration.h"

/*
 * The requests that change something. None exists on TCP. The peer's credentials, which the kernel
 * vouches for, decide: root, the agent's own user and admin_group may do all of it, a check's or
 * endpoint's writer just that.
 */

enum { NAME_BYTES = 256 };

/* ---- permissions ---- */

static bool in_group(const struct http_peer *peer, unsigned group)
{
	bool found = peer->gid == group;
	for (size_t i = 0; i < peer->group_count && !found; i++) {
		found = peer->groups[i] == group;
	}
	return found;
}

static bool is_admin(const struct api *api, const struct http_peer *peer)
{
	unsigned group = api->options.admin_group_id;
	return peer->known &&
		(peer->uid == 0 || peer->uid == geteuid() ||
			(group != (unsigned)-1 && in_group(peer, group)));
}

static bool is_writer(const struct config_writer *writer, const struct http_peer *peer)
{
	return peer->known &&
		((writer->kind == CONFIG_WRITER_USER && peer->uid == writer->id) ||
			(writer->kind == CONFIG_WRITER_GROUP && in_group(peer, writer->id)));
}

bool api_may_administer(const struct api *api, const struct http_request *request)
{
	struct http_peer peer;
	http_peer(request, &peer);
	return is_admin(api, &peer);
}

bool api_may_write_check(
	const struct api *api, const struct http_request *request, const struct check *check)
{
	struct http_peer peer;
	http_peer(request, &peer);
	return is_admin(api, &peer) || is_writer(&check_config(check)->writer, &peer);
}

static int require_admin(const struct api *api, const struct http_request *request, struct err *err)
{
	return api_may_administer(api, request)
		? 0
		: err_set(err, BERTH_NO_PATH_PERMISSIONS,
			  "only root, the agent's own user and admin_group may do this");
}

static int require_writer(const struct api *api, const struct http_request *request,
	const struct config_writer *writer, const char *what, struct err *err)
{
	struct http_peer peer;
	http_peer(request, &peer);
	return is_admin(api, &peer) || is_writer(writer, &peer)
		? 0
		: err_set(err, BERTH_NO_PATH_PERMISSIONS,
			  "only root, the agent's own user, admin_group and "
			  "the %s's writer may do this",
			  what);
}

/* ---- answers and bodies ---- */

static void answer_result(struct http_request *request, const struct err *err)
{
	if (!err->code) {
		struct http_response *response = http_response_create(NULL, "", 0);
		http_answer(request, 204, response);
		http_response_free(response);
	} else {
		/* Here these are the request's fault: a body of a wrong shape, a wrong address. */
		int status = err->code == BERTH_FAILED      ? 400
			: err->code == BERTH_INVALID_RECORD ? 422
							    : 0;
		api_problem(request, status, err);
	}
}

/* A misspelled member must not count as an absent one. */
static void check_members(const json_t *body, const char *const *members, struct err *err)
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
}

/*
 * The body as an object of these members; an empty one counts as {}. With err filled it is
 * anything, or NULL, for json_decref() alone.
 */
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
	} else {
		check_members(body, members, err);
	}
	return body;
}

/*
 * An optional string member; `missing` when it is absent, NULL with err filled when it is not a
 * string.
 */
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

/*
 * "for": seconds as a whole number, or a duration of the configuration's form (500ms 30s 2m 1h
 * 7d).
 */
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
	}
	return ms;
}

/* ---- the agent and its components ---- */

static void act(struct api *api, struct api_act *act, struct err *err)
{
	(void)api->hooks.act(api->hooks.context, act, err);
}

/* An order to drain that waits for its answer until a restart knows of it. */
struct drain_order {
	struct list link;
	struct http_request *request;
};

static void on_drain_closed(void *context)
{
	struct drain_order *order = context;
	list_remove(&order->link);
	free(order);
}

static void answer_when_saved(struct api *api, struct http_request *request)
{
	struct drain_order *order = allocate_zeroed(1, sizeof(*order));
	order->request = request;
	list_append(&api->drains, &order->link);
	http_on_closed(request, on_drain_closed, order);
}

void api_drain_saved(struct api *api)
{
	const struct err none = ERR_INIT;
	struct list saved;
	list_init(&saved);
	list_move_all(&saved, &api->drains);
	while (!list_empty(&saved)) {
		struct drain_order *order = LIST_ITEM(saved.next, struct drain_order, link);
		list_remove(&order->link);
		answer_result(order->request, &none);
		free(order);
	}
}

static void begin_drain(
	struct api *api, const struct http_request *request, struct api_act *order, struct err *err)
{
	static const char *const members[] = { "reason", "for", NULL };
	json_t *body = read_body(request, members, err);
	order->reason = text_member(body, "reason", "", err);
	order->for_ms = read_duration_ms(body, err);
	if (!err->code) {
		act(api, order, err);
	}
	json_decref(body);
}

/* `order`: that to begin, with what it is about. */
static void drain(struct api *api, struct http_request *request, struct api_act *order)
{
	struct err err = ERR_INIT;
	if (require_admin(api, request, &err)) {
		/* The error is the answer. */
	} else if (request->method == HTTP_POST) {
		begin_drain(api, request, order, &err);
	} else {
		order->kind = order->kind == API_DRAIN ? API_UNDRAIN : API_UNDRAIN_CONTAINER;
		act(api, order, &err);
	}
	if (order->is_being_saved) {
		answer_when_saved(api, request);
	} else {
		answer_result(request, &err);
	}
}

void api_order_drain(struct api *api, struct http_request *request, const char *rest)
{
	(void)rest;
	drain(api, request, &(struct api_act){ .kind = API_DRAIN });
}

void api_order_reload(struct api *api, struct http_request *request, const char *rest)
{
	(void)rest;
	char dry[8] = "";
	struct err err = ERR_INIT;
	struct api_act order = { .kind = API_RELOAD };
	if (http_parameter(request, "dry_run", dry, sizeof(dry), &err) < 0 ||
		(*dry && strcmp(dry, "yes") != 0)) {
		api_bad_request(request, "query parameter dry_run: must be yes");
		return;
	}
	order.dry_run = *dry != '\0';
	if (require_admin(api, request, &err) == 0) {
		act(api, &order, &err);
	}
	size_t count = json_array_size(order.result);
	if (err.code) {
		answer_result(request, &err);
	} else if (count > 0) {
		err_set(&err, BERTH_FAILED,
			"the configuration has %zu problem%s; the old one stays", count,
			count == 1 ? "" : "s");
		api_problem_with(request, 422, &err,
			json_pack("{s:b, s:O}", "reloaded", 0, "problems", order.result));
	} else {
		api_answer_json(request, 200,
			json_pack("{s:b, s:[], s:O*}", "reloaded", !order.dry_run, "problems",
				"changes", order.changes));
	}
	json_decref(order.result);
	json_decref(order.changes);
}

/* Copies the name in front of the suffix; else PATH_NOT_FOUND. */
static int copy_name(char *out, const char *rest, const char *suffix, struct err *err)
{
	size_t len = strlen(rest) - strlen(suffix);
	if (len == 0 || len >= NAME_BYTES) {
		return err_set(err, BERTH_PATH_NOT_FOUND,
			"no component, container, check or endpoint has this name");
	}
	memcpy(out, rest, len);
	out[len] = '\0';
	return 0;
}

void api_order_component_drain(struct api *api, struct http_request *request, const char *rest)
{
	char name[NAME_BYTES];
	struct err err = ERR_INIT;
	if (copy_name(name, rest, "/drain", &err)) {
		answer_result(request, &err);
	} else {
		drain(api, request, &(struct api_act){ .kind = API_DRAIN, .component = name });
	}
}

void api_order_container_drain(struct api *api, struct http_request *request, const char *rest)
{
	char name[NAME_BYTES];
	struct err err = ERR_INIT;
	if (copy_name(name, rest, "/drain", &err)) {
		answer_result(request, &err);
	} else {
		drain(api, request,
			&(struct api_act){ .kind = API_DRAIN_CONTAINER, .container = name });
	}
}

void api_order_undamp(struct api *api, struct http_request *request, const char *rest)
{
	char name[NAME_BYTES];
	struct err err = ERR_INIT;
	if (require_admin(api, request, &err) == 0 && copy_name(name, rest, "/undamp", &err) == 0) {
		act(api, &(struct api_act){ .kind = API_UNDAMP, .component = name }, &err);
	}
	answer_result(request, &err);
}

/* ---- checks ---- */

static struct check *find_check(const struct api *api, const char *name, struct err *err)
{
	struct check *check;
	for (size_t i = 0; (check = api->hooks.find_check(api->hooks.context, i)) != NULL; i++) {
		if (strcmp(check_config(check)->name, name) == 0) {
			return check;
		}
	}
	err_set(err, BERTH_PATH_NOT_FOUND, "no check is named \"%s\"", name);
	return NULL;
}

/* A request that waits for the end of a check's run. */
struct run {
	struct http_request *request;
	struct check *check;
	char name[NAME_BYTES];
};

static void on_run_done(void *context, struct check *check, const struct check_result *result)
{
	struct run *run = context;
	if (result) {
		api_answer_json(run->request, 200, check_json(check));
	} else {
		struct err err = ERR_INIT;
		err_set(&err, BERTH_PATH_NOT_FOUND,
			"check %s was removed before the end of its run", run->name);
		api_problem(run->request, 0, &err);
	}
	free(run);
}

static void on_run_closed(void *context)
{
	struct run *run = context;
	check_run_forget(run->check, run);
	free(run);
}

void api_order_run(struct api *api, struct http_request *request, const char *rest)
{
	struct run *run = allocate_zeroed(1, sizeof(*run));
	struct err err = ERR_INIT;
	run->request = request;
	if (require_admin(api, request, &err) == 0 &&
		copy_name(run->name, rest, "/run", &err) == 0 &&
		(run->check = find_check(api, run->name, &err)) != NULL) {
		http_on_closed(request, on_run_closed, run);
		(void)check_run_now(run->check, on_run_done, run, &err);
	}
	if (err.code) {
		answer_result(request, &err);
		free(run);
	}
}

static void report_verdict(struct check *check, int verdict, const char *output, struct err *err)
{
	if (verdict != CHECK_PASSING && verdict != CHECK_WARNING && verdict != CHECK_FAILING) {
		err_set(err, BERTH_FAILED, "status: must be passing, warning or failing");
	} else {
		(void)check_report(check, (enum check_verdict)verdict, output, err);
	}
}

static void report(struct check *check, const struct http_request *request, struct err *err)
{
	static const char *const members[] = { "status", "output", NULL };
	json_t *body = read_body(request, members, err);
	const char *status = text_member(body, "status", "", err);
	const char *output = text_member(body, "output", "", err);
	if (!err->code) {
		report_verdict(check, check_verdict_from_name(status), output, err);
	}
	json_decref(body);
}

void api_order_report(struct api *api, struct http_request *request, const char *rest)
{
	struct err err = ERR_INIT;
	struct check *check = find_check(api, rest, &err);
	if (check &&
		require_writer(api, request, &check_config(check)->writer, "check", &err) == 0) {
		report(check, request, &err);
	}
	answer_result(request, &err);
}

/* ---- dynamic endpoints ---- */

static struct component *find_endpoint(const struct api *api, const char *name, struct err *err)
{
	struct component *component;
	for (size_t i = 0; (component = api->hooks.find(api->hooks.context, i)) != NULL; i++) {
		if (component_endpoint_config(component, name)) {
			return component;
		}
	}
	err_set(err, BERTH_PATH_NOT_FOUND, "no endpoint is named \"%s\"", name);
	return NULL;
}

static void supply(struct component *component, const struct config_endpoint *config,
	struct http_request *request, struct err *err)
{
	static const char *const members[] = { "addresses", NULL };
	json_t *body = read_body(request, members, err);
	const json_t *addresses = json_object_get(body, "addresses");
	if (!err->code && !json_is_array(addresses)) {
		err_set(err, BERTH_FAILED, "addresses: must be an array");
	}
	if (!err->code &&
		component_set_addresses(
			component, config->name, addresses, request->connection, err) == 0 &&
		config->hold_connection) {
		http_pin(request);
	}
	json_decref(body);
}

void api_order_endpoint(struct api *api, struct http_request *request, const char *rest)
{
	struct err err = ERR_INIT;
	struct component *component = find_endpoint(api, rest, &err);
	const struct config_endpoint *config = component
		? component_endpoint_config(component, rest)
		: NULL;
	if (!config || require_writer(api, request, &config->writer, "endpoint", &err)) {
		/* The error is the answer. */
	} else if (request->method == HTTP_PUT) {
		supply(component, config, request, &err);
	} else {
		(void)component_set_addresses(component, rest, NULL, 0, &err);
	}
	answer_result(request, &err);
}

bool api_order_permits(const struct api *api, const struct http_request *request, const char *rest,
	api_handler *handler)
{
	struct err err = ERR_INIT;
	if (handler == api_follow_ask) {
		return request->local;
	}
	if (handler == api_order_report) {
		struct check *check = find_check(api, rest, &err);
		return check &&
			require_writer(api, request, &check_config(check)->writer, "check", &err) ==
			0;
	}
	if (handler == api_order_endpoint) {
		struct component *component = find_endpoint(api, rest, &err);
		return component &&
			require_writer(api, request,
				&component_endpoint_config(component, rest)->writer, "endpoint",
				&err) == 0;
	}
	return api_may_administer(api, request);
}

/* A supplier with `hold = connection` has gone. */
void api_on_pinned_closed(void *context, uint64_t connection)
{
	struct api *api = context;
	struct component *component;
	for (size_t i = 0; (component = api->hooks.find(api->hooks.context, i)) != NULL; i++) {
		component_connection_closed(component, connection);
	}
}
