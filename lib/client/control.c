/*
 * Calls on an agent alone: its state, drains, checks, and the reports of the application.
 */
#include "lib/berth.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/json_text.h"
#include "lib/base/limits.h"
#include "lib/base/quote.h"
#include "lib/client/handle.h"

enum { TARGET_BYTES = 1024, PROBLEM_BYTES = 1024 * 1024 };

/* ---- requests ---- */

/* A request without a body; NULL for a body means that it could not be made. */
static json_t *no_body(void)
{
	return json_null();
}

static int encode(const json_t *body, char **ret_text, struct err *err)
{
	if (json_is_null(body)) {
		*ret_text = NULL;
		return 0;
	}
	char *text = json_text(body, JSON_COMPACT);
	if (!text) {
		return err_set(err, BERTH_FAILED, "out of memory, or a text that is not UTF-8");
	}
	*ret_text = text;
	return 0;
}

static int take_answer(struct client_response *response, struct berth_answer *ret, struct err *err)
{
	struct berth_answer answer = { .json = NULL };
	answer.json = buffer_take(&response->body, &answer.len);
	if (!answer.json) {
		return err_set(err, BERTH_FAILED, "out of memory");
	}
	*ret = answer;
	return 0;
}

/* Sends a request; `ret` and `ret_problem` may be NULL. Takes the reference `body`. */
static int send_take(struct berth *berth, const char *what, const char *method, const char *target,
	json_t *body, struct berth_answer *ret, struct buffer *ret_problem, struct err *err)
{
	char *text = NULL;
	int code = handle_need_agent(berth, what, err);
	code = code ? code : encode(body, &text, err);
	if (code == 0) {
		struct client_request request = {
			.method = method, .target = target, .body = text
		};
		struct client_response response;
		code = client_call(
			berth->client, &request, berth->timeout_ms, &response, ret_problem, err);
		if (code == 0) {
			if (ret) {
				code = take_answer(&response, ret, err);
			}
			client_response_finish(&response);
		}
	}
	free(text);
	json_decref(body);
	return code;
}

/* ---- reading ---- */

static const struct document {
	const char *what;
	const char *target;
} documents[] = {
	[BERTH_STATUS] = { "status", "/v1/agent" },
	[BERTH_CHECKS] = { "checks", "/v1/agent/checks" },
	[BERTH_HISTORY] = { "history", "/v1/agent/history" },
};

static int read_document(struct berth *berth, const char *what,
	const struct client_request *request, struct berth_answer *ret_answer,
	struct berth_failure *failure)
{
	struct err err = ERR_INIT;
	int code = handle_need_agent(berth, what, &err);
	if (code == 0) {
		code = handle_request(berth, request, ret_answer, &err);
	}
	return code ? handle_fail(failure, &err) : 0;
}

int berth_await(struct berth *berth, enum berth_document document, const char *tag, unsigned wait_s,
	struct berth_answer *ret_answer, struct berth_failure *failure)
{
	const struct client_request request = { .method = "GET",
		.target = documents[document].target,
		.tag = *tag ? tag : NULL,
		.wait_s = wait_s };
	return read_document(berth, documents[document].what, &request, ret_answer, failure);
}

int berth_status(
	struct berth *berth, struct berth_answer *ret_status, struct berth_failure *failure)
{
	return berth_await(berth, BERTH_STATUS, "", 0, ret_status, failure);
}

int berth_checks(
	struct berth *berth, struct berth_answer *ret_checks, struct berth_failure *failure)
{
	return berth_await(berth, BERTH_CHECKS, "", 0, ret_checks, failure);
}

int berth_history(
	struct berth *berth, struct berth_answer *ret_history, struct berth_failure *failure)
{
	return berth_await(berth, BERTH_HISTORY, "", 0, ret_history, failure);
}

int berth_bridge(
	struct berth *berth, struct berth_answer *ret_bridge, struct berth_failure *failure)
{
	const struct client_request request = { .method = "GET", .target = "/v1/bridge" };
	return read_document(berth, "bridge", &request, ret_bridge, failure);
}

/* A name is part of the request's target as it is: other bytes than those of names are not sent. */
static bool is_name(const char *name)
{
	static const char bytes[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
	size_t len = strlen(name);
	return len > 0 && len <= LIMIT_DNS_NAME_BYTES + 1 && strspn(name, bytes) == len;
}

/* `zone`: NULL, or what the answer is near to. */
static int name_target(char *out, size_t size, const struct berth *berth, const char *name,
	const char *type, const char *zone, struct err *err)
{
	struct buffer query;
	int code = handle_need_agent(berth, "a name", err);
	if (code != 0) {
		return code;
	}
	if (!is_name(name) || (type && !is_name(type))) {
		return err_set(err, BERTH_PATH_NOT_FOUND, "%s is not a DNS name",
			quote_text(is_name(name) ? type : name).text);
	}
	buffer_init(&query, size - sizeof("/v1/names/") - strlen(name));
	if (type) {
		buffer_printf(&query, "?type=%s", type);
	}
	handle_add_query(&query, "near", zone);
	if (query.failed) {
		code = err_set(err, BERTH_LIMIT_EXCEEDED, "the request is too long");
	} else {
		snprintf(out, size, "/v1/names/%s%s", name, buffer_text(&query));
	}
	buffer_finish(&query);
	return code;
}

int berth_name(struct berth *berth, const char *name, const char *type,
	struct berth_answer *ret_answer, struct berth_failure *failure)
{
	char target[TARGET_BYTES];
	struct err err = ERR_INIT;
	int code = name_target(target, sizeof(target), berth, name, type, NULL, &err);
	if (code == 0) {
		code = handle_look_up(berth, target, ret_answer, &err);
	}
	return code ? handle_fail(failure, &err) : 0;
}

/* Never from the agent's memory, in which a "self" could be that of an earlier zone. */
int berth_name_near(struct berth *berth, const char *name, const char *type, const char *zone,
	struct berth_answer *ret_answer, struct berth_failure *failure)
{
	char target[TARGET_BYTES];
	struct err err = ERR_INIT;
	const struct client_request request = { .method = "GET", .target = target };
	int code = name_target(target, sizeof(target), berth, name, type, zone, &err);
	if (code == 0) {
		code = handle_request(berth, &request, ret_answer, &err);
	}
	return code ? handle_fail(failure, &err) : 0;
}

/* A probe's 503 is an answer; without one the agent cannot be reached. */
static int probe(
	struct berth *berth, const char *what, const char *target, struct berth_failure *failure)
{
	struct err err = ERR_INIT;
	struct buffer problem;
	buffer_init(&problem, PROBLEM_BYTES);
	int code = send_take(berth, what, "GET", target, no_body(), NULL, &problem, &err);
	if (problem.len) {
		err.code = BERTH_FAILED;
	}
	buffer_finish(&problem);
	return code ? handle_fail(failure, &err) : 0;
}

int berth_ready(struct berth *berth, bool away_ok, struct berth_failure *failure)
{
	return probe(berth, "ready", away_ok ? "/ready?away=ok" : "/ready", failure);
}

int berth_live(struct berth *berth, struct berth_failure *failure)
{
	return probe(berth, "live", "/live", failure);
}

/* ---- asking for something to be done ---- */

#define NAME_LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"

/* "/v1/agent/<kind>/<name><suffix>". A name that a configuration could not give is not sent. */
static int named_target(char *out, size_t size, const char *kind, const char *name,
	const char *suffix, struct err *err)
{
	int len = snprintf(out, size, "/v1/agent/%s/%s%s", kind, name, suffix);
	if (!*name || name[strspn(name, NAME_LETTERS)] || (size_t)len >= size) {
		/* The singular of checks, components, endpoints. */
		return err_set(err, BERTH_PATH_NOT_FOUND, "the agent has no %.*s named %s",
			(int)strlen(kind) - 1, kind, quote_text(name).text);
	}
	return 0;
}

/* Sends a request about one named thing of the agent; `ret` may be NULL. */
static int send_named_take(struct berth *berth, const char *what, const char *method,
	const char *kind, const char *name, const char *suffix, json_t *body,
	struct berth_answer *ret, struct berth_failure *failure)
{
	struct err err = ERR_INIT;
	char target[TARGET_BYTES];
	int code = named_target(target, sizeof(target), kind, name, suffix, &err);
	if (code == 0) {
		code = send_take(berth, what, method, target, body, ret, NULL, &err);
	} else {
		json_decref(body);
	}
	return code ? handle_fail(failure, &err) : 0;
}

static json_t *drain_body(const char *reason, unsigned for_s)
{
	json_t *body = json_pack("{s:s*}", "reason", reason);
	if (for_s && json_object_set_new(body, "for", json_integer(for_s))) {
		json_decref(body);
		return NULL;
	}
	return body;
}

int berth_drain(
	struct berth *berth, const char *reason, unsigned for_s, struct berth_failure *failure)
{
	struct err err = ERR_INIT;
	return send_take(berth, "drain", "POST", "/v1/agent/drain", drain_body(reason, for_s), NULL,
		       NULL, &err)
		? handle_fail(failure, &err)
		: 0;
}

int berth_undrain(struct berth *berth, struct berth_failure *failure)
{
	struct err err = ERR_INIT;
	return send_take(berth, "undrain", "DELETE", "/v1/agent/drain", no_body(), NULL, NULL, &err)
		? handle_fail(failure, &err)
		: 0;
}

int berth_drain_component(struct berth *berth, const char *component, const char *reason,
	unsigned for_s, struct berth_failure *failure)
{
	return send_named_take(berth, "drain", "POST", "components", component, "/drain",
		drain_body(reason, for_s), NULL, failure);
}

int berth_undrain_component(
	struct berth *berth, const char *component, struct berth_failure *failure)
{
	return send_named_take(berth, "undrain", "DELETE", "components", component, "/drain",
		no_body(), NULL, failure);
}

static int send_container_take(struct berth *berth, const char *what, const char *method,
	const char *container, json_t *body, struct berth_failure *failure)
{
	struct err err = ERR_INIT;
	char target[TARGET_BYTES];
	const char *slash = strchr(container, '/');
	int len = snprintf(target, sizeof(target), "/v1/bridge/%s/drain", container);
	int code;
	if (!slash || slash == container || !slash[1] ||
		container[strspn(container, NAME_LETTERS "/")] || (size_t)len >= sizeof(target)) {
		json_decref(body);
		code = err_set(&err, BERTH_PATH_NOT_FOUND,
			"a container's name is SOURCE/NAME, such as docker/web-1 or dir/web-1, not "
			"%s",
			quote_text(container).text);
	} else {
		code = send_take(berth, what, method, target, body, NULL, NULL, &err);
	}
	return code ? handle_fail(failure, &err) : 0;
}

int berth_drain_container(struct berth *berth, const char *container, const char *reason,
	unsigned for_s, struct berth_failure *failure)
{
	return send_container_take(
		berth, "drain", "POST", container, drain_body(reason, for_s), failure);
}

int berth_undrain_container(
	struct berth *berth, const char *container, struct berth_failure *failure)
{
	return send_container_take(berth, "undrain", "DELETE", container, no_body(), failure);
}

int berth_undamp(struct berth *berth, const char *component, struct berth_failure *failure)
{
	return send_named_take(berth, "undamp", "POST", "components", component, "/undamp",
		no_body(), NULL, failure);
}

static int reload(struct berth *berth, const char *target, struct berth_answer *ret_answer,
	struct berth_failure *failure)
{
	struct err err = ERR_INIT;
	struct buffer problem;
	struct berth_answer answer = { .json = NULL };
	buffer_init(&problem, PROBLEM_BYTES);
	if (send_take(berth, "reload", "POST", target, no_body(), &answer, &problem, &err) != 0) {
		answer.len = problem.len;
		answer.json = buffer_take(&problem, NULL);
	}
	buffer_finish(&problem);
	if (ret_answer) {
		*ret_answer = answer;
	} else {
		berth_answer_finish(&answer);
	}
	return err.code ? handle_fail(failure, &err) : 0;
}

int berth_reload(
	struct berth *berth, struct berth_answer *ret_answer, struct berth_failure *failure)
{
	return reload(berth, "/v1/agent/reload", ret_answer, failure);
}

int berth_try_reload(
	struct berth *berth, struct berth_answer *ret_answer, struct berth_failure *failure)
{
	return reload(berth, "/v1/agent/reload?dry_run=yes", ret_answer, failure);
}

int berth_run_check(struct berth *berth, const char *check, struct berth_answer *ret_result,
	struct berth_failure *failure)
{
	return send_named_take(berth, "run-check", "POST", "checks", check, "/run", no_body(),
		ret_result, failure);
}

/* ---- reports of the application ---- */

int berth_report(struct berth *berth, const char *check, enum berth_health health,
	const char *output, struct berth_failure *failure)
{
	static const char *const names[] = { "passing", "warning", "failing" };
	json_t *body = json_pack("{s:s, s:s*}", "status", names[health], "output", output);
	return send_named_take(berth, "report", "PUT", "checks", check, "", body, NULL, failure);
}

static json_t *supply_body(const char *const *addresses, size_t count)
{
	json_t *list = json_array();
	for (size_t i = 0; i < count; i++) {
		if (json_array_append_new(list, json_string(addresses[i]))) {
			json_decref(list);
			return NULL;
		}
	}
	return json_pack("{s:o}", "addresses", list);
}

int berth_supply(struct berth *berth, const char *endpoint, const char *const *addresses,
	size_t count, struct berth_failure *failure)
{
	return send_named_take(berth, "supply", "PUT", "endpoints", endpoint, "",
		supply_body(addresses, count), NULL, failure);
}

int berth_withdraw(struct berth *berth, const char *endpoint, struct berth_failure *failure)
{
	return send_named_take(
		berth, "withdraw", "DELETE", "endpoints", endpoint, "", no_body(), NULL, failure);
}
