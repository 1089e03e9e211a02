#include "agent/agent_internal.h"

#include <stdio.h>
#include <string.h>

#include "agent/base/log.h"
#include "agent/base/notify.h"
#include "lib/base/text.h"

/* ---- what components tell ------------------------------------------------------------------------ */

static void on_transition(
	void *context, const char *subject, const char *from, const char *to, const char *why)
{
	agent_transition(context, subject, from, to, why);
}

static void on_check_result(void *context, struct check *check, const struct check_result *result)
{
	struct agent *agent = context;
	const char *name = check_config(check)->name;
	metrics_add(agent->metrics, METRIC_CHECK_RUNS, name, check_verdict_name(result->verdict), 1);
	metrics_observe(agent->metrics, METRIC_CHECK_DURATION, name, result->duration_s);
	metrics_set(agent->metrics, METRIC_CHECK_UP, name, check_get_state(check) == CHECK_STATE_UP);
	metrics_set(agent->metrics, METRIC_CHECK_WARNING, name, check_is_warning(check));
	log_debug(name, "%s in %.3f s: %s", check_verdict_name(result->verdict), result->duration_s,
		result->detail);
}

static void tell_status(struct agent *agent)
{
	struct err why = ERR_INIT;
	bool ready = agent_components_ready(agent, &why);
	notify_status("%s", ready ? "every component is registered" : why.msg);
}

static void on_announced(void *context, struct component *component)
{
	struct agent *agent = context;
	const char *label = component_label(component);
	metrics_set(agent->metrics, METRIC_REGISTERED, label, component_registered(component));
	metrics_add(agent->metrics, METRIC_TRANSITIONS, label,
		announce_state_name(announce_get_state(component_announce(component))), 1);
	tell_status(agent);
	agent_reload_proceed(agent);
	agent_drain_proceed(agent);
	agent_stop_proceed(agent);
}

static size_t check_count(const struct config *config)
{
	size_t count = 0;
	for (size_t i = 0; i < config->component_count; i++) {
		count += config->components[i].check_count;
	}
	return count;
}

struct component_environment agent_component_environment(struct agent *agent)
{
	return (struct component_environment){
		.loop = agent->loop,
		.registry = agent->registry,
		.scheduler = agent->scheduler,
		.update_interval_ms = agent->config->registry.update_interval_ms,
		.jitter_first_runs = check_count(agent->config) > 1,
		.on_transition = on_transition,
		.on_check_result = on_check_result,
		.on_announced = on_announced,
		.context = agent,
	};
}

/* ---- gates ----------------------------------------------------------------------------------------- */

static void gate_of(const struct agent *agent, const struct config_component *config,
	enum component_gate *gate, char *why, size_t size)
{
	bool stopping = agent->phase != AGENT_RUNNING;
	if (stopping && config->persistence == PERSISTENCE_PERMANENT && !config->ephemeral) {
		/* It stays until somebody removes it: that is what permanent means. */
		*gate = COMPONENT_GATE_UNDECIDED;
		text_printf(why, size, "the agent is stopping, and the record is to outlive it");
	} else if (stopping) {
		*gate = COMPONENT_GATE_CLOSED;
		text_printf(why, size, "the agent is stopping");
	} else if (agent->drain.active) {
		*gate = COMPONENT_GATE_CLOSED;
		drain_describe(&agent->drain, why, size);
	} else if (agent->main_process && !agent->main_process_running) {
		*gate = agent->main_process_started ? COMPONENT_GATE_CLOSED
						    : COMPONENT_GATE_UNDECIDED;
		text_printf(why, size, "the main process is not running");
	} else {
		*gate = COMPONENT_GATE_OPEN;
		*why = '\0';
	}
}

void agent_components_update_gates(struct agent *agent)
{
	for (size_t i = 0; i < agent->component_count; i++) {
		enum component_gate gate;
		char why[300];
		gate_of(agent, component_config(agent->components[i]), &gate, why, sizeof(why));
		component_set_gate(agent->components[i], gate, why);
	}
	tell_status(agent);
}

/* ---- questions about all of them ----------------------------------------------------------------------- */

bool agent_components_ready(const struct agent *agent, struct err *ret_why)
{
	for (size_t i = 0; i < agent->component_count; i++) {
		const struct component *component = agent->components[i];
		if (!component_registered(component)) {
			err_set(ret_why, BERTH_REGISTRY_UNAVAILABLE, "component %s is %s: %s",
				component_label(component),
				announce_state_name(
					announce_get_state(component_announce(component))),
				announce_why(component_announce(component)));
			return false;
		}
	}
	return true;
}

bool agent_components_settled(const struct agent *agent)
{
	for (size_t i = 0; i < agent->component_count; i++) {
		if (!announce_settled(component_announce(agent->components[i]))) {
			return false;
		}
	}
	for (size_t i = 0; i < agent->retired_count; i++) {
		if (!announce_settled(component_announce(agent->retired[i]))) {
			return false;
		}
	}
	return true;
}

struct check *agent_find_check(const struct agent *agent, const char *name)
{
	for (size_t i = 0; i < agent->component_count; i++) {
		for (size_t j = 0; j < component_check_count(agent->components[i]); j++) {
			struct check *check = component_check(agent->components[i], j);
			if (strcmp(check_config(check)->name, name) == 0) {
				return check;
			}
		}
	}
	return NULL;
}

struct component *agent_find_endpoint(const struct agent *agent, const char *name)
{
	for (size_t i = 0; i < agent->component_count; i++) {
		if (component_endpoint_config(agent->components[i], name)) {
			return agent->components[i];
		}
	}
	return NULL;
}

/* ---- life -------------------------------------------------------------------------------------------------- */

int agent_components_create(struct agent *agent, const json_t *saved, struct err *err)
{
	const struct config *config = agent->config;
	struct component_environment environment = agent_component_environment(agent);
	agent->components = calloc(config->component_count + 1, sizeof(*agent->components));
	for (size_t i = 0; agent->components && i < config->component_count; i++) {
		const char *label = config_component_label(&config->components[i]);
		struct component *component = component_create(
			&environment, &config->components[i], json_object_get(saved, label));
		if (!component) {
			return err_set(err, BERTH_FAILED, "no memory");
		}
		agent->components[agent->component_count++] = component;
	}
	return agent->components ? 0 : err_set(err, BERTH_FAILED, "no memory");
}

void agent_components_destroy(struct agent *agent)
{
	for (size_t i = 0; i < agent->component_count; i++) {
		component_destroy(agent->components[i]);
	}
	free(agent->components);
	agent->components = NULL;
	agent->component_count = 0;
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
