#include "agent/agent_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/allocate.h"
#include "agent/base/log.h"
#include "agent/base/notify.h"

/* ---- what cannot change while the agent runs --------------------------------------------------- */

static void refuse(json_t *problems, const char *path, const char *key, const char *before)
{
	json_t *message = json_sprintf(
		"%s cannot change while the agent runs (it is \"%s\"); restart it, or send USR2",
		key, before);
	json_array_append_new(problems,
		json_pack("{s:s, s:i, s:o?}", "file", path, "line", 0, "message", message));
}

static void refuse_texts(
	json_t *problems, const char *path, const struct config *now, const struct config *next)
{
	const struct {
		const char *key;
		const char *before;
		const char *after;
	} texts[] = {
		{ "[agent] socket", now->agent.socket, next->agent.socket },
		{ "[agent] socket_group", now->agent.socket_group, next->agent.socket_group },
		{ "[agent] state_dir", now->agent.state_dir, next->agent.state_dir },
		{ "[agent] listen", now->agent.listen, next->agent.listen },
		{ "[registry] url", now->registry.url, next->registry.url },
		{ "[registry] auth", now->registry.auth, next->registry.auth },
		{ "[registry] auth_file", now->registry.auth_file, next->registry.auth_file },
		{ "[registry] system_accounts", now->registry.system_accounts,
			next->registry.system_accounts },
		{ "[registry] realm", now->registry.realm, next->registry.realm },
	};
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		if (strcmp(texts[i].before, texts[i].after) != 0) {
			refuse(problems, path, texts[i].key, texts[i].before);
		}
	}
}

static json_t *refused_changes(const struct agent *agent, const struct config *next)
{
	const struct config *now = agent->config;
	const char *path = agent->config_path;
	json_t *problems = json_array();
	char before[32];
	refuse_texts(problems, path, now, next);
	if (now->registry.session_timeout_ms != next->registry.session_timeout_ms) {
		snprintf(before, sizeof(before), "%lldms",
			(long long)now->registry.session_timeout_ms);
		refuse(problems, path, "[registry] session_timeout", before);
	}
	if (now->registry.secure != next->registry.secure) {
		refuse(problems, path, "[registry] secure", now->registry.secure ? "yes" : "no");
	}
	if (now->agent.socket_mode != next->agent.socket_mode) {
		snprintf(before, sizeof(before), "%04o", now->agent.socket_mode);
		refuse(problems, path, "[agent] socket_mode", before);
	}
	if (now->agent.max_watchers != next->agent.max_watchers) {
		snprintf(before, sizeof(before), "%d", now->agent.max_watchers);
		refuse(problems, path, "[agent] max_watchers", before);
	}
	return problems;
}

/* ---- components that go ------------------------------------------------------------------------ */

/* A retired component withdraws its record and is then freed; till then it needs its configuration. */
static void retire(struct agent *agent, struct component *component)
{
	agent->retired = allocate_again(
		agent->retired, agent->retired_count + 1, sizeof(*agent->retired));
	agent->retired[agent->retired_count++] = component;
	component_set_gate(component, COMPONENT_GATE_CLOSED, "no longer configured");
}

static struct component *take_retired_at(struct agent *agent, size_t index)
{
	struct component *component = agent->retired[index];
	agent->retired[index] = agent->retired[--agent->retired_count];
	return component;
}

static void keep_old_config(struct agent *agent, struct config *config)
{
	agent->old_configs = allocate_again(
		agent->old_configs, agent->old_config_count + 1, sizeof(*agent->old_configs));
	agent->old_configs[agent->old_config_count++] = config;
}

static void sweep(struct agent *agent, bool all)
{
	for (size_t i = agent->retired_count; i-- > 0;) {
		if (all || announce_settled(component_announce(agent->retired[i]))) {
			component_destroy(take_retired_at(agent, i));
		}
	}
	if (agent->retired_count > 0) {
		return;
	}
	for (size_t i = 0; i < agent->old_config_count; i++) {
		config_free(agent->old_configs[i]);
	}
	free(agent->old_configs);
	free(agent->retired);
	agent->old_configs = NULL;
	agent->retired = NULL;
	agent->old_config_count = 0;
}

static void on_sweep_timer(struct ev_loop *loop, ev_timer *timer, int events)
{
	(void)loop;
	(void)events;
	struct agent *agent = timer->data;
	sweep(agent, false);
	agent_metrics_forget_gone(agent);
	agent_registry_save_session(agent);
}

void agent_reload_proceed(struct agent *agent)
{
	if (agent->old_config_count > 0 && !ev_is_active(&agent->sweep_timer)) {
		ev_timer_init(&agent->sweep_timer, on_sweep_timer, 0.0, 0.0);
		agent->sweep_timer.data = agent;
		ev_timer_start(agent->loop, &agent->sweep_timer);
	}
}

void agent_reload_finish(struct agent *agent)
{
	ev_timer_stop(agent->loop, &agent->sweep_timer);
	sweep(agent, true);
}

/* ---- the change -------------------------------------------------------------------------------- */

struct predecessors {
	struct component **components; /* NULL where one goes on */
	size_t count;
};

/* The component that goes on under a new configuration: the one whose node it is. */
static struct component *take_by_path(
	struct agent *agent, struct predecessors *before, const char *path)
{
	for (size_t i = 0; i < before->count; i++) {
		struct component *component = before->components[i];
		if (component && strcmp(component_config(component)->path, path) == 0) {
			before->components[i] = NULL;
			return component;
		}
	}
	for (size_t i = 0; i < agent->retired_count; i++) {
		if (strcmp(component_config(agent->retired[i])->path, path) == 0) {
			return take_retired_at(agent, i);
		}
	}
	return NULL;
}

/* What a component that moves to another path takes along: the state of its checks, its dynamic addresses. */
static json_t *saved_by_label(const struct predecessors *before, const char *label)
{
	for (size_t i = 0; i < before->count; i++) {
		struct component *component = before->components[i];
		if (component && strcmp(component_label(component), label) == 0) {
			return component_save(component);
		}
	}
	return NULL;
}

static struct component *arrange_component(
	struct agent *agent, struct predecessors *before, const struct config_component *config)
{
	struct component_environment environment = agent_component_environment(agent);
	struct component *component = take_by_path(agent, before, config->path);
	if (!component) {
		json_t *saved = saved_by_label(before, config_component_label(config));
		component = component_create(&environment, config, saved);
		json_decref(saved);
		return component;
	}
	struct err err = ERR_INIT;
	if (component_reload(component, config, &environment, &err)) {
		log_error(config_component_label(config), "%s", err.msg);
	}
	return component;
}

static void apply(struct agent *agent, struct config *next)
{
	struct predecessors before = { agent->components, agent->component_count };
	struct config *old = agent->config;
	agent->config = next;
	agent->components = allocate_zeroed(next->component_count + 1, sizeof(*agent->components));
	agent->component_count = 0;
	for (size_t i = 0; i < next->component_count; i++) {
		struct component *component = arrange_component(
			agent, &before, &next->components[i]);
		if (component) {
			agent->components[agent->component_count++] = component;
		}
	}
	for (size_t i = 0; i < before.count; i++) {
		if (before.components[i]) {
			retire(agent, before.components[i]);
		}
	}
	free(before.components);
	keep_old_config(agent, old);
	agent_apply_options(agent);
	agent_components_update_gates(agent);
	agent_registry_save_session(agent);
	agent_reload_proceed(agent);
	if (agent->drain.active) {
		agent->drained_at = 0; /* a new component must be confirmed too */
		agent_drain_proceed(agent);
	}
}

static json_t *reload(struct agent *agent)
{
	struct config *next = NULL;
	struct config_problems problems = { 0 };
	if (config_load(&next, agent->config_path, &problems)) {
		json_t *list = config_problems_json(&problems);
		config_problems_finish(&problems);
		return list;
	}
	config_problems_finish(&problems);
	json_t *refused = refused_changes(agent, next);
	if (json_array_size(refused) > 0) {
		config_free(next);
		return refused;
	}
	json_decref(refused);
	apply(agent, next);
	return NULL;
}

static json_t *stopping_problem(const struct agent *agent)
{
	return json_pack("[{s:s, s:i, s:s}]", "file", agent->config_path, "line", 0, "message",
		"the agent is stopping, and does not read it again");
}

json_t *agent_reload(struct agent *agent)
{
	if (agent->phase != AGENT_RUNNING) {
		return stopping_problem(agent);
	}
	notify_reloading();
	json_t *problems = reload(agent);
	json_decref(agent->reload_problems);
	agent->reload_problems = json_incref(problems);
	size_t index;
	json_t *problem;
	json_array_foreach (problems, index, problem) {
		log_error("config", "%s:%lld: %s",
			json_string_value(json_object_get(problem, "file")),
			(long long)json_integer_value(json_object_get(problem, "line")),
			json_string_value(json_object_get(problem, "message")));
	}
	if (problems) {
		agent_transition(agent, "config", "in force", "refused",
			"the new configuration is bad, the old one stays");
	} else {
		agent_transition(agent, "config", "in force", "reloaded", "on request");
	}
	notify_ready();
	return problems;
}
