#include "agent/registration/components.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/core/event.h"
#include "agent/core/state.h"
#include "agent/registration/holder.h"
#include "agent/registration/persistent.h"
#include "agent/base/allocate.h"
#include "agent/base/log.h"
#include "agent/base/notify.h"
#include "lib/base/text.h"
#include "lib/registry/url.h"

/* ---- events of components ---- */

static void on_transition(void *context, const struct transition *transition)
{
	agent_event(context, transition);
}

static void on_announced(void *context, struct component *component)
{
	struct agent *agent = context;
	const char *label = component_label(component);
	metrics_set(agent->metrics, METRIC_REGISTERED, label, component_registered(component));
	metrics_add(agent->metrics, METRIC_TRANSITIONS, label,
		announce_state_name(component_state(component)), 1);
	agent_persistent_update(agent, component);
	agent_wake(agent);
}

/* A component that is no longer configured can be freed. */
static void on_gone(void *context)
{
	agent_wake(context);
}

static void on_hook_run(void *context, struct component *component, bool succeeded)
{
	struct agent *agent = context;
	metrics_add(agent->metrics, METRIC_HOOK_RUNS, component_label(component),
		succeeded ? "ok" : "failed", 1);
	agent_wake(agent);
}

/* A successor resumes the session, and knows the persistent node, also after a kill. */
static bool on_write(void *context, struct component *component)
{
	struct agent *agent = context;
	return agent_holder_is_saved(agent) &&
		(component_config(component)->ephemeral ? !timer_runs(&agent->session_save_timer)
							: agent_persistent_note(agent, component));
}

static bool is_on_zookeeper(const struct config *config)
{
	enum registry_url_kind kind;
	return registry_url_rest(config->registry.url, &kind) && kind == REGISTRY_URL_ZOOKEEPER;
}

static struct component_environment environment_of(struct agent *agent)
{
	return (struct component_environment){
		.loop = agent->loop,
		.registry = agent->registry,
		.lookups = agent->lookups,
		.hosted = agent->lookups != agent->registry,
		.checks = agent->checks,
		.update_interval_ms = agent->config->registry.update_interval_ms,
		.holder = &agent->holder,
		.session_outlives = is_on_zookeeper(agent->config),
		.session_resumed = agent->session_resumed,
		.persistent = agent->persistent,
		.on_transition = on_transition,
		.on_announced = on_announced,
		.on_gone = on_gone,
		.on_hook_run = on_hook_run,
		.on_write = on_write,
		.context = agent,
	};
}

/* ---- gates ---- */

struct gate {
	enum component_gate gate;
	char why[300];
};

static struct gate gate_of(const struct agent *agent, struct component *component)
{
	bool stopping = agent->phase != AGENT_RUNNING;
	struct gate gate = { COMPONENT_GATE_OPEN, "" };
	if (agent->drain.active) {
		gate.gate = COMPONENT_GATE_CLOSED;
		drain_describe(&agent->drain, gate.why, sizeof(gate.why));
	} else if (component_drain(component)->active) {
		gate.gate = COMPONENT_GATE_CLOSED;
		drain_describe(component_drain(component), gate.why, sizeof(gate.why));
	} else if (agent->phase == AGENT_SAVING && agent->leave_session) {
		gate.gate = COMPONENT_GATE_UNDECIDED;
		text_printf(
			gate.why, sizeof(gate.why), "the agent leaves its session to a successor");
	} else if (stopping && component_config(component)->keep_on_stop) {
		gate.gate = COMPONENT_GATE_UNDECIDED;
		text_printf(gate.why, sizeof(gate.why),
			"the agent is stopping, and the record outlives it");
	} else if (stopping) {
		gate.gate = COMPONENT_GATE_CLOSED;
		text_printf(gate.why, sizeof(gate.why), "the agent is stopping");
	} else if (component_config(component)->awaits) {
		gate.gate = COMPONENT_GATE_CLOSED;
		text_printf(gate.why, sizeof(gate.why), "it waits for an address: %s",
			component_config(component)->awaits);
	} else if (agent->supervise && agent->main_process != AGENT_MAIN_PROCESS_RUNNING) {
		gate.gate = agent->main_process == AGENT_MAIN_PROCESS_NONE
			? COMPONENT_GATE_UNDECIDED
			: COMPONENT_GATE_CLOSED;
		text_printf(gate.why, sizeof(gate.why), "the main process is not running");
	}
	return gate;
}

static bool is_below(const struct component *component, const char *path)
{
	size_t len = strlen(path);
	const char *other = component_config(component)->path;
	return strncmp(other, path, len) == 0 && other[len] == '/';
}

static bool has_record(const struct component *component)
{
	enum announce_state state = component_state(component);
	return announce_state_is_in(state) || state == ANNOUNCE_WRITING ||
		state == ANNOUNCE_WITHDRAWING;
}

/* Children are withdrawn before their parents: a node goes at once when it has no children. */
static bool waits_for_children(const struct agent *agent, const struct component *parent)
{
	const char *path = component_config(parent)->path;
	for (size_t i = 0; i < agent->component_count; i++) {
		struct component *component = agent->components[i];
		if (is_below(component, path) && has_record(component) &&
			gate_of(agent, component).gate == COMPONENT_GATE_CLOSED) {
			return true;
		}
	}
	return false;
}

void agent_components_update_gates(struct agent *agent)
{
	if (agent->leave_session) {
		return; /* every record stays as it is */
	}
	for (size_t i = 0; i < agent->component_count; i++) {
		struct component *component = agent->components[i];
		struct gate gate = gate_of(agent, component);
		if (gate.gate != COMPONENT_GATE_CLOSED || !has_record(component) ||
			!waits_for_children(agent, component)) {
			component_set_gate(component, gate.gate, gate.why);
		}
	}
}

void agent_components_go_on(struct agent *agent)
{
	for (size_t i = 0; i < agent->component_count; i++) {
		announce_noted(component_announce(agent->components[i]));
	}
}

void agent_components_on_registry_state(
	struct agent *agent, enum registry_state state, const char *why)
{
	for (size_t i = 0; i < agent->component_count; i++) {
		component_on_registry_state(agent->components[i], state, why);
	}
	for (size_t i = 0; i < agent->retired_count; i++) {
		component_on_registry_state(agent->retired[i], state, why);
	}
}

static void set_outcome(struct component *component, const json_t *container)
{
	const char *path = component_config(component)->path;
	const json_t *found = NULL;
	size_t index;
	json_t *record;
	json_array_foreach (json_object_get(container, "records"), index, record) {
		const char *at = json_string_value(json_object_get(record, "path"));
		if (at && strcmp(at, path) == 0) {
			found = record;
		}
	}
	component_set_outcome(component, container != NULL, found);
}

void agent_components_on_container(struct agent *agent, const json_t *container)
{
	for (size_t i = 0; i < agent->component_count; i++) {
		set_outcome(agent->components[i], container);
	}
	for (size_t i = 0; i < agent->retired_count; i++) {
		set_outcome(agent->retired[i], container);
	}
}

/* ---- questions about all of them ---- */

struct component *agent_components_find(const struct agent *agent, const char *label)
{
	for (size_t i = 0; i < agent->component_count; i++) {
		if (strcmp(component_label(agent->components[i]), label) == 0) {
			return agent->components[i];
		}
	}
	return NULL;
}

bool agent_components_ready(const struct agent *agent, bool away_ok, struct err *ret_why)
{
	for (size_t i = 0; i < agent->component_count; i++) {
		const struct component *component = agent->components[i];
		if (!component_registered(component) &&
			!(away_ok && component_outlasts_outage(component))) {
			err_set(ret_why, BERTH_REGISTRY_UNAVAILABLE, "component %s is %s: %s",
				component_label(component),
				announce_state_name(component_state(component)),
				component_why(component));
			return false;
		}
	}
	if (agent->config->wait_count > 0) {
		err_set(ret_why, BERTH_REGISTRY_UNAVAILABLE, "the agent waits for an address: %s",
			agent->config->waits[0].text);
		return false;
	}
	return true;
}

bool agent_components_settled(const struct agent *agent)
{
	for (size_t i = 0; i < agent->component_count; i++) {
		if (!component_settled(agent->components[i])) {
			return false;
		}
	}
	for (size_t i = 0; i < agent->retired_count; i++) {
		if (!component_settled(agent->retired[i])) {
			return false;
		}
	}
	return true;
}

bool agent_components_untold(const struct agent *agent)
{
	for (size_t i = 0; i < agent->component_count; i++) {
		if (component_untold(agent->components[i])) {
			return true;
		}
	}
	return false;
}

static void log_left(const struct component *component)
{
	if (component_settled(component)) {
		return;
	}
	bool ephemeral = component_config(component)->ephemeral;
	log_warn(component_label(component), "its record may be left at %s, %s (%s)",
		component_config(component)->path,
		ephemeral ? "until the session ends" : "until a person removes or purges it",
		component_why(component));
}

void agent_components_log_left(const struct agent *agent)
{
	for (size_t i = 0; i < agent->component_count; i++) {
		log_left(agent->components[i]);
	}
	for (size_t i = 0; i < agent->retired_count; i++) {
		log_left(agent->retired[i]);
	}
}

static bool has_path(struct component *const *components, size_t count, const char *path)
{
	for (size_t i = 0; i < count; i++) {
		if (strcmp(component_config(components[i])->path, path) == 0) {
			return true;
		}
	}
	return false;
}

bool agent_components_have_path(const struct agent *agent, const char *path)
{
	return has_path(agent->components, agent->component_count, path) ||
		has_path(agent->retired, agent->retired_count, path);
}

void agent_components_add_paths(const struct agent *agent, json_t *paths)
{
	for (size_t i = 0; i < agent->component_count; i++) {
		json_array_append_new(
			paths, json_string(component_config(agent->components[i])->path));
	}
	for (size_t i = 0; i < agent->retired_count; i++) {
		json_array_append_new(
			paths, json_string(component_config(agent->retired[i])->path));
	}
}

/* ---- life ---- */

void agent_components_create(struct agent *agent, const json_t *saved)
{
	const struct config *config = agent->config;
	struct component_environment environment = environment_of(agent);
	agent->components = allocate_zeroed(config->component_count, sizeof(*agent->components));
	for (size_t i = 0; i < config->component_count; i++) {
		const char *label = config_component_label(&config->components[i]);
		struct component *component = component_create(
			&environment, &config->components[i], json_object_get(saved, label));
		/* Not in one expression: a callback looks at the components that exist already. */
		agent->components[agent->component_count++] = component;
	}
}

json_t *agent_components_save(const struct agent *agent)
{
	json_t *saved = json_object();
	for (size_t i = 0; i < agent->component_count; i++) {
		json_object_set_new(saved, component_label(agent->components[i]),
			component_save(agent->components[i]));
	}
	return saved;
}

/* ---- reload ---- */

/* A retired component withdraws its record and is then freed. */
static void retire(struct agent *agent, struct component *component)
{
	agent->retired = allocate_grow(
		agent->retired, agent->retired_count, sizeof(*agent->retired));
	agent->retired[agent->retired_count++] = component;
	component_retire(component);
}

static struct component *take_retired_at(struct agent *agent, size_t index)
{
	struct component *component = agent->retired[index];
	agent->retired[index] = agent->retired[--agent->retired_count];
	return component;
}

static bool free_retired(struct agent *agent, bool all)
{
	bool any = false;
	for (size_t i = agent->retired_count; i-- > 0;) {
		if (all || component_finished(agent->retired[i])) {
			component_destroy(take_retired_at(agent, i));
			any = true;
		}
	}
	if (agent->retired_count == 0) {
		free(agent->retired);
		agent->retired = NULL;
	}
	return any;
}

bool agent_components_free_withdrawn(struct agent *agent)
{
	return free_retired(agent, false);
}

void agent_components_destroy(struct agent *agent)
{
	for (size_t i = 0; i < agent->component_count; i++) {
		component_destroy(agent->components[i]);
	}
	free(agent->components);
	agent->components = NULL;
	agent->component_count = 0;
	(void)free_retired(agent, true);
}

struct predecessors {
	struct component **components; /* NULL where a component goes on */
	size_t count;
};

/* The component at this path, which goes on under a new configuration. */
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

/* The part of a component that it keeps at another path: its dynamic addresses, its damping. */
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

static struct drain drain_by_label(const struct predecessors *before, const char *label)
{
	for (size_t i = 0; i < before->count; i++) {
		struct component *component = before->components[i];
		if (component && strcmp(component_label(component), label) == 0) {
			return *component_drain(component);
		}
	}
	return (struct drain){ .active = false };
}

static struct component *arrange_component(
	struct agent *agent, struct predecessors *before, const struct config_component *config)
{
	struct component_environment environment = environment_of(agent);
	struct component *component = take_by_path(agent, before, config->path);
	if (!component) {
		json_t *saved = saved_by_label(before, config_component_label(config));
		component = component_create(&environment, config, saved);
		json_decref(saved);
		*component_drain(component) = drain_by_label(
			before, config_component_label(config));
		return component;
	}
	component_reload(component, config, &environment);
	return component;
}

static void take_up(struct agent *agent, struct config *next_take, const json_t *saved_checks)
{
	struct predecessors before = { agent->components, agent->component_count };
	config_unref(agent->config);
	agent->config = next_take;
	check_set_arrange(agent->checks, next_take, saved_checks);
	agent->components = allocate_zeroed(next_take->component_count, sizeof(*agent->components));
	agent->component_count = 0;
	for (size_t i = 0; i < next_take->component_count; i++) {
		struct component *component = arrange_component(
			agent, &before, &next_take->components[i]);
		agent->components[agent->component_count++] = component;
	}
	for (size_t i = 0; i < before.count; i++) {
		if (before.components[i]) {
			retire(agent, before.components[i]);
		}
	}
	free(before.components);
	agent_components_update_gates(agent);
}

void agent_components_reload(struct agent *agent, struct config *next_take)
{
	take_up(agent, next_take, NULL);
}

void agent_components_follow(struct agent *agent, struct config *next_take)
{
	json_t *checks = check_set_save(agent->checks);
	take_up(agent, next_take, checks);
	json_decref(checks);
}
