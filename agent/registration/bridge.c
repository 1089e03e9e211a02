#include "agent/registration/bridge.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "agent/base/allocate.h"
#include "agent/bridge/bridge.h"
#include "agent/core/event.h"
#include "agent/core/state.h"
#include "agent/core/upgrade.h"
#include "agent/registration/components.h"
#include "agent/registration/holder.h"
#include "lib/base/array.h"
#include "lib/base/limits.h"
#include "lib/base/linux_calls.h"
#include "lib/base/text.h"

enum { NAME_BYTES = 256 /* a container's name, and some words; longer ones are cut */ };

static bool session_is_saved(void *context)
{
	const struct agent *agent = context;
	return agent_holder_is_saved(agent) && !timer_runs(&agent->session_save_timer);
}

static bool is_taken(void *context, const char *path)
{
	return agent_components_have_path(context, path);
}

static void on_event(void *context, const struct bridge_event *event)
{
	struct agent *agent = context;
	const char *name = event->container;
	char subject[LIMIT_PATH_BYTES + NAME_BYTES];
	text_printf(subject, sizeof(subject), "container %s%s%s", name, event->path ? " " : "",
		event->path ? event->path : "");
	if (event->path) {
		metrics_add(agent->metrics, METRIC_BRIDGE_TRANSITIONS, name, event->to, 1);
	}
	if (!event->counts_only) {
		agent_event(agent,
			&(struct transition){ .subject = subject,
				.from = event->from,
				.to = event->to,
				.why = event->why,
				.limited = true });
	}
}

static void on_change(void *context)
{
	struct agent *agent = context;
	if (agent->api) {
		api_follows_changed(agent->api);
	}
	agent_wake(agent);
}

/* Nothing else opens what lies in a container's directory without being led astray. */
static int check_kernel(struct err *err)
{
	const struct open_how how = { .flags = O_PATH | O_CLOEXEC, .resolve = RESOLVE_BENEATH };
	int fd = linux_openat2(AT_FDCWD, ".", &how, sizeof(how));
	if (fd < 0 && (errno == ENOSYS || errno == EPERM)) {
		return err_set_errno(err, BERTH_FAILED, errno,
			"[bridge] containers: needs openat2(), as Linux has it since 5.6");
	}
	if (fd >= 0) {
		close(fd);
	}
	return 0;
}

int agent_bridge_open(struct agent *agent, struct upgrade *received, struct err *err)
{
	/* In another session there is nothing to take over: its nodes end with it. */
	int code = 0;
	json_t *book = bridge_book_load(&agent->state);
	const json_t *parents = json_object_get(book, "parents");
	const json_t *inherited = agent->session_resumed ? json_object_get(book, "paths") : NULL;
	if (*agent->config->bridge.containers || agent->config->runtime_count > 0 ||
		json_object_size(inherited) > 0 || json_object_size(parents) > 0) {
		agent->bridge_book = bridge_book_create(
			agent->loop, &agent->state, on_change, agent);
		const struct bridge_environment environment = {
			.loop = agent->loop,
			.registry = agent->registry,
			.book = agent->bridge_book,
			.holder = &agent->holder,
			.drains = &agent->container_drains,
			.scheduler = agent->scheduler,
			.http = agent->http,
			.sockets = received->bridge,
			.socket_count = received->bridge_count,
			.owners = received->owners,
			.owner_count = received->owner_count,
			.abandoned = received->abandoned,
			.abandoned_count = received->abandoned_count,
			.left = book,
			.inherited = inherited,
			.session_is_saved = session_is_saved,
			.is_taken = is_taken,
			.on_event = on_event,
			.on_change = on_change,
			.context = agent,
		};
		code = *agent->config->bridge.containers && check_kernel(err)
			? err->code
			: bridge_create(&agent->bridge, &environment, agent->config, err);
	}
	json_decref(book);
	for (size_t i = 0; i < received->bridge_count; i++) {
		if (received->bridge[i].fd >= 0) {
			close(received->bridge[i].fd); /* its container has gone */
			received->bridge[i].fd = -1;
		}
	}
	for (size_t i = 0; i < received->owner_count; i++) {
		if (received->owners[i].fd >= 0) {
			close(received->owners[i].fd);
			received->owners[i].fd = -1;
		}
	}
	return code;
}

void agent_bridge_pass(const struct agent *agent, struct upgrade *passed)
{
	if (agent->bridge) {
		bridge_book_settle(agent->bridge_book);
		size_t max = bridge_containers(agent->bridge);
		passed->abandoned_count = bridge_pass_abandoned(agent->bridge, &passed->abandoned);
		passed->owner_count = bridge_pass_owners(agent->bridge, &passed->owners);
		passed->bridge = allocate_zeroed(max, sizeof(*passed->bridge));
		passed->bridge_count = bridge_pass(agent->bridge, passed->bridge, max);
	}
}

void agent_bridge_close(struct agent *agent)
{
	if (agent->bridge) {
		bridge_destroy(agent->bridge);
		agent->bridge = NULL;
	}
}

void agent_bridge_forget(struct agent *agent)
{
	bridge_book_destroy(agent->bridge_book);
	agent->bridge_book = NULL;
}

void agent_bridge_on_registry_state(struct agent *agent, enum registry_state state, const char *why)
{
	if (agent->bridge) {
		bridge_on_registry_state(agent->bridge, state, why);
	}
}

void agent_bridge_apply_options(struct agent *agent)
{
	if (agent->bridge) {
		bridge_set_config(agent->bridge, agent->config);
	}
}

void agent_bridge_proceed(struct agent *agent)
{
	if (agent->bridge) {
		bridge_proceed(agent->bridge);
	}
}

bool agent_bridge_has(const struct agent *agent, const char *name)
{
	return agent->bridge && bridge_has_container(agent->bridge, name);
}

void agent_bridge_review(struct agent *agent, const char *name)
{
	if (agent->bridge) {
		bridge_review(agent->bridge, name);
	}
}

size_t agent_bridge_records_left(const struct agent *agent, const char *name)
{
	return agent->bridge ? bridge_records_left(agent->bridge, name) : 0;
}

static void set_count(void *context, const char *state, size_t count)
{
	metrics_set(context, METRIC_BRIDGE_RECORDS, state, (double)count);
}

/* The counters are there before their first event, or a rate misses that one. */
static void set_container(
	void *context, const char *container, const char *state, size_t registered)
{
	static const char *const words[] = { "registered", "withdrawn", "refused", "conflict",
		"failed" };
	struct metrics *metrics = context;
	(void)state;
	metrics_set(metrics, METRIC_BRIDGE_REGISTERED, container, (double)registered);
	for (size_t i = 0; i < ARRAY_LEN(words); i++) {
		metrics_add(metrics, METRIC_BRIDGE_TRANSITIONS, container, words[i], 0);
	}
}

static bool is_container(void *context, const char *name)
{
	return bridge_has_container(context, name);
}

void agent_bridge_update_metrics(struct agent *agent)
{
	if (agent->bridge) {
		metrics_retain(
			agent->metrics, METRIC_BRIDGE_REGISTERED, is_container, agent->bridge);
		metrics_retain(
			agent->metrics, METRIC_BRIDGE_TRANSITIONS, is_container, agent->bridge);
		bridge_each_container(agent->bridge, set_container, agent->metrics);
		metrics_set(agent->metrics, METRIC_BRIDGE_CONTAINERS, "",
			(double)bridge_containers(agent->bridge));
		bridge_each_count(agent->bridge, set_count, agent->metrics);
	}
}

static void count_container(void *context, const char *name, const char *state, size_t registered)
{
	json_t *counts = context;
	(void)name;
	(void)registered;
	json_int_t before = json_integer_value(json_object_get(counts, state));
	json_object_set_new(counts, state, json_integer(before + 1));
}

static void count_records(void *context, const char *state, size_t count)
{
	if (count > 0) {
		json_object_set_new(context, state, json_integer((json_int_t)count));
	}
}

json_t *agent_bridge_status(const struct agent *agent)
{
	if (!agent->bridge ||
		(!*agent->config->bridge.containers && agent->config->runtime_count == 0)) {
		return NULL;
	}
	json_t *containers = allocated(json_object());
	json_t *records = allocated(json_object());
	bridge_each_container(agent->bridge, count_container, containers);
	bridge_each_count(agent->bridge, count_records, records);
	return json_pack("{s:s, s:s, s:o, s:o}", "directory", agent->config->bridge.containers,
		"state", bridge_is_away(agent->bridge) ? "away" : "served", "containers",
		containers, "records", records);
}

json_t *agent_bridge_json(const struct agent *agent, const char *container, struct err *err)
{
	json_t *json = NULL;
	if (agent->bridge) {
		json_t *own = container ? bridge_container_status(agent->bridge, container) : NULL;
		json = own          ? json_pack("{s:[o]}", "containers", own)
			: container ? NULL
				    : bridge_json(agent->bridge);
	}
	if (!json) {
		err_set(err, BERTH_PATH_NOT_FOUND, "this agent serves no container%s%s",
			container ? " named " : "s: its configuration has no [bridge]",
			container ? container : "");
	}
	return json;
}
