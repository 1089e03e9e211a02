/*
 * The socket API over HTTP, on a registry in memory: nothing happens but when a test says so. The
 * agent behind it is a status that the test sets.
 */
#ifndef TESTS_UNIT_AGENT_API_API_STAGE_H
#define TESTS_UNIT_AGENT_API_API_STAGE_H

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "agent/api/internal.h"
#include "agent/cache/parts.h"
#include "lib/base/clock.h"
#include "tests/support/cache_stage.h"
#include "tests/support/http_stage.h"
#include "tests/support/memory_backend.h"
#include "tests/support/names_stage.h"

enum { CONFIRM_S = 2, TIMEOUT_S = 5, HEARTBEAT_S = 10, MAX_WATCHERS = 10 };

static struct {
	struct registry *registry;
	struct cache *cache;
	struct names_lookups *names;
	struct history *history;
	struct metrics *metrics;
	struct api *api;
	int client;
	const char *state; /* of the agent, in GET /v1/agent */
	json_t *status;    /* in its place; or NULL */
	int uptime;
	const char *unready;             /* the reason why it is not ready; NULL: it is */
	struct component *components[2]; /* or NULL */
	struct check_set *checks;        /* or NULL */
	char acts[256];    /* what it was ordered to do: "drain web 'reason' 5000; " */
	bool saves;        /* a drain has to be saved first */
	json_t *problems;  /* of a reload */
	json_t *container; /* of GET /v1/bridge; NULL: there is none */
	bool wanted_body;  /* of the last request */
} stage;

static inline void handle(struct http_request *request)
{
	stage.wanted_body = api_wants_body(stage.api, request);
	api_on_request(stage.api, request);
}

static inline void turn(void)
{
	for (int i = 0; i < 20; i++) {
		registry_dispatch(stage.registry, 1);
		http_stage_turn();
	}
}

/* ---- the agent behind the API ---- */

static inline struct component *find(void *context, size_t index)
{
	(void)context;
	return index < 2 ? stage.components[index] : NULL;
}

static inline struct check *find_check(void *context, size_t index)
{
	(void)context;
	return stage.checks ? check_set_at(stage.checks, index) : NULL;
}

static inline void carry_out(struct api_act *act, struct err *err)
{
	static const char *const words[] = { [API_DRAIN] = "drain",
		[API_UNDRAIN] = "undrain",
		[API_UNDAMP] = "undamp",
		[API_RELOAD] = "reload" };
	size_t len = strlen(stage.acts);
	if (act->component && strcmp(act->component, "nobody") == 0) {
		err_set(err, BERTH_PATH_NOT_FOUND, "no component is named nobody");
		return;
	}
	snprintf(stage.acts + len, sizeof(stage.acts) - len, "%s %s '%s' %lld%s; ",
		words[act->kind], act->component ? act->component : "-",
		act->reason ? act->reason : "", (long long)act->for_ms, act->dry_run ? " dry" : "");
	act->is_being_saved = stage.saves && act->kind != API_RELOAD;
	act->result = act->kind == API_RELOAD ? json_incref(stage.problems) : NULL;
	act->changes = act->dry_run && !stage.problems ? json_pack("[s]", "a change") : NULL;
}

static inline int act(void *context, struct api_act *act, struct err *err)
{
	(void)context;
	switch (act->kind) {
	case API_STATUS:
		act->result = stage.status
			? json_incref(stage.status)
			: json_pack("{s:s, s:i}", "state", stage.state, "uptime", stage.uptime++);
		break;
	case API_READY:
		if (stage.unready && !act->away_ok) {
			err_set(err, BERTH_REGISTRY_UNAVAILABLE, "%s", stage.unready);
		}
		break;
	case API_BRIDGE:
		if (!stage.container) {
			err_set(err, BERTH_PATH_NOT_FOUND, "there is no such container");
			break;
		}
		act->result = json_pack("{s:[O], s:s}", "containers", stage.container, "for",
			act->container ? act->container : "everybody");
		break;
	case API_UPDATE_METRICS:
		break;
	case API_DRAIN:
	case API_UNDRAIN:
	case API_DRAIN_CONTAINER:
	case API_UNDRAIN_CONTAINER:
	case API_UNDAMP:
	case API_RELOAD:
		carry_out(act, err);
		break;
	}
	return err->code;
}

/* ---- life ---- */

static inline void open_api(void)
{
	static const struct api_hooks hooks = { find, find_check, act, NULL };
	static const struct api_options options = { .version = "0",
		.max_watchers = MAX_WATCHERS,
		.heartbeat_interval_ms = HEARTBEAT_S * 1000 };
	static const struct cache_options cache_options = { .max_size_bytes = 64 * 1024 * 1024,
		.confirm_ms = CONFIRM_S * 1000,
		.resync_ms = 1000,
		.release_rendering = api_release_rendering };
	http_stage_begin();
	memset(&stage, 0, sizeof(stage));
	stage.state = "running";
	stage.registry = memory_open("api", &(struct registry_options){ .context = NULL });
	stage.cache = cache_create(http_stage.loop, stage.registry, &cache_options);
	stage.names = names_stage_create(http_stage.loop, stage.cache);
	stage.history = history_create();
	stage.metrics = metrics_create();
	stage.api = api_create(http_stage.loop, stage.cache, stage.names, stage.registry,
		stage.history, stage.metrics, &hooks, &options);
	http_stage.handle = handle;
	memory_set_state(stage.registry, REGISTRY_CONNECTED);
	turn();
	cache_on_registry_state(stage.cache, REGISTRY_CONNECTED);
	stage.client = http_stage_connect();
}

static inline void close_api(void)
{
	close(stage.client);
	turn();
	cr_assert_eq(api_watchers(stage.api), 0, "a watcher is left");
	cr_assert_eq(stage.api->remote_watchers, 0);
	cr_assert_eq(stage.api->remote_finds + stage.api->further_finds, 0);
	cr_assert_eq(stage.api->follow_bytes, 0);
	cr_assert_eq(stage.cache->waiting, 0, "somebody is taken to wait");
	http_close(http_stage.http);
	http_stage.http = NULL;
	api_destroy(stage.api);
	metrics_destroy(stage.metrics);
	history_destroy(stage.history);
	names_stage_destroy(stage.names);
	cache_destroy(stage.cache);
	registry_close(stage.registry);
	cr_assert_not(ev_run(http_stage.loop, EVRUN_NOWAIT), "something goes on");
	http_stage_end();
}

/* The connection to the registry changes. */
static inline void set_state(enum registry_state state)
{
	memory_set_state(stage.registry, state);
	turn();
	cache_on_registry_state(stage.cache, state);
	turn();
}

static inline void hear_now(void)
{
	memory_set_heard_ms(stage.registry, clock_monotonic_ms());
}

/* ---- clients ---- */

/* After a long time, when the server has closed the connection. */
static inline void connect_again(void)
{
	close(stage.client);
	stage.client = http_stage_connect();
}

/* One answer at most, and a problem is the one that its status line says. */
static inline void check_answer(const char *answer)
{
	int status;
	char member[32];
	const char *first = strstr(answer, "HTTP/1.1 ");
	cr_assert_not(first && strstr(first + 1, "HTTP/1.1 "), "answered twice: %s", answer);
	if (first && sscanf(first, "HTTP/1.1 %d", &status) == 1 &&
		strstr(answer, "application/problem+json")) {
		snprintf(member, sizeof(member), "\"status\":%d,", status);
		cr_assert(strstr(answer, member), "%s", answer);
	}
}

/* Sends a request and returns the part of its answer that has come; "" while it waits. */
static inline const char *ask_as(
	int client, const char *method, const char *target, const char *fields)
{
	char text[8192];
	snprintf(text, sizeof(text), "%s %s HTTP/1.1\r\nHost: a\r\n%s\r\n", method, target, fields);
	http_stage_send(client, text);
	turn();
	const char *answer = http_stage_receive(client);
	check_answer(answer);
	return answer;
}

static inline const char *get(int client, const char *target, const char *fields)
{
	return ask_as(client, "GET", target, fields);
}

static inline const char *more(int client)
{
	turn();
	const char *answer = http_stage_receive(client);
	check_answer(answer);
	return answer;
}

static inline bool has(const char *answer, const char *text)
{
	return strstr(answer, text) != NULL;
}

static inline bool has_status(const char *answer, int status)
{
	char line[32];
	snprintf(line, sizeof(line), "HTTP/1.1 %d ", status);
	return strncmp(answer, line, strlen(line)) == 0;
}

/* Asks, and then asks again with the answer's tag, for as many seconds: a long poll. */
static inline const char *poll_from(int client, const char *target, const char *more_fields, int s)
{
	char fields[256];
	char tag[80];
	const char *answer = get(client, target, "");
	const char *etag = strstr(answer, "ETag: ");
	cr_assert(has_status(answer, 200) && etag, "%s", answer);
	cr_assert_eq(sscanf(etag, "ETag: %79[^\r]", tag), 1);
	snprintf(fields, sizeof(fields), "If-None-Match: %s\r\nPrefer: wait=%d\r\n%s", tag, s,
		more_fields);
	return get(client, target, fields);
}

#endif
