#include "agent/serving/metrics.h"

#include <string.h>

#include "agent/registration/bridge.h"
#include "agent/base/log.h"
#include "agent/registration/components.h"
#include "agent/core/state.h"
#include "agent/serving/further.h"
#include "agent/serving/names.h"
#include "agent/serving/outputs.h"
#include "agent/serving/xds.h"
#include "lib/base/array.h"

static const enum metric of_checks[] = { METRIC_CHECK_UP, METRIC_CHECK_WARNING,
	METRIC_CHECK_OVERDUE, METRIC_CHECK_DURATION, METRIC_CHECK_RUNS };
static const enum metric of_components[] = { METRIC_REGISTERED, METRIC_TRANSITIONS,
	METRIC_HOOK_RUNS, METRIC_DAMPED, METRIC_PENALTY, METRIC_DRAINING };

static bool is_check(void *context, const char *name)
{
	const struct agent *agent = context;
	return check_set_find(agent->checks, name) != NULL;
}

static bool is_component(void *context, const char *label)
{
	return agent_components_find(context, label) != NULL;
}

static bool is_dialect(void *context, const char *name)
{
	const struct agent *agent = context;
	bool registered;
	for (size_t i = 0; i < agent->component_count; i++) {
		for (size_t j = 0; j < component_dialect_count(agent->components[i]); j++) {
			if (strcmp(component_dialect(agent->components[i], j, &registered), name) ==
				0) {
				return true;
			}
		}
	}
	return false;
}

void agent_metrics_forget_removed(struct agent *agent)
{
	for (size_t i = 0; i < ARRAY_LEN(of_checks); i++) {
		metrics_retain(agent->metrics, of_checks[i], is_check, agent);
	}
	for (size_t i = 0; i < ARRAY_LEN(of_components); i++) {
		metrics_retain(agent->metrics, of_components[i], is_component, agent);
	}
	metrics_retain(agent->metrics, METRIC_DIALECT_REGISTERED, is_dialect, agent);
}

/* Counters exist, at 0, before the first event: otherwise a rate would miss it. */
static void make_check_series(struct metrics *metrics, const struct check *check)
{
	const char *name = check_config(check)->name;
	for (int verdict = 0; verdict < CHECK_VERDICT_COUNT; verdict++) {
		metrics_add(metrics, METRIC_CHECK_RUNS, name,
			check_verdict_name((enum check_verdict)verdict), 0);
	}
	metrics_set(metrics, METRIC_CHECK_UP, name, check_get_state(check) == CHECK_STATE_UP);
	metrics_set(metrics, METRIC_CHECK_WARNING, name, check_is_warning(check));
	metrics_set(metrics, METRIC_CHECK_OVERDUE, name, check_overdue(check));
}

static void update_component(struct agent *agent, struct component *component)
{
	struct metrics *metrics = agent->metrics;
	const char *label = component_label(component);
	bool draining = agent->drain.active || component_drain(component)->active;
	metrics_set(metrics, METRIC_REGISTERED, label, component_registered(component));
	metrics_set(metrics, METRIC_DAMPED, label, component_damped(component));
	metrics_set(metrics, METRIC_PENALTY, label, component_penalty(component));
	metrics_set(metrics, METRIC_DRAINING, label, draining);
	for (size_t i = 0; i < component_dialect_count(component); i++) {
		bool registered;
		const char *name = component_dialect(component, i, &registered);
		metrics_set(metrics, METRIC_DIALECT_REGISTERED, name, registered);
	}
	for (int state = 0; state < ANNOUNCE_STATE_COUNT; state++) {
		metrics_add(metrics, METRIC_TRANSITIONS, label,
			announce_state_name((enum announce_state)state), 0);
	}
	if (component_config(component)->on_change_argv) {
		metrics_add(metrics, METRIC_HOOK_RUNS, label, "ok", 0);
		metrics_add(metrics, METRIC_HOOK_RUNS, label, "failed", 0);
	}
}

void agent_metrics_update(struct agent *agent)
{
	struct metrics *metrics = agent->metrics;
	metrics_set(metrics, METRIC_REGISTRY_CONNECTED, "",
		registry_state(agent->lookups) == REGISTRY_CONNECTED);
	metrics_add(metrics, METRIC_SESSION_EXPIRATIONS, "", "", 0);
	metrics_set(metrics, METRIC_RELOAD_OK, "", agent->reload_problems == NULL);
	metrics_set(metrics, METRIC_RELOAD_TIME, "",
		agent->reloaded > 0 ? agent->reloaded : agent->started);
	metrics_add(metrics, METRIC_MAIN_RESTARTS, "", "", 0);
	metrics_set(metrics, METRIC_LOG_LOST, "", (double)log_lost());
	metrics_set(metrics, METRIC_STATE_SAVED, "", state_dir_saved(&agent->state));
	for (size_t i = 0; i < agent->component_count; i++) {
		update_component(agent, agent->components[i]);
	}
	const struct check *check;
	for (size_t i = 0; (check = check_set_at(agent->checks, i)) != NULL; i++) {
		make_check_series(metrics, check);
	}
	agent_bridge_update_metrics(agent);
	agent_further_update_metrics(agent);
	agent_names_update_metrics(agent);
	agent_outputs_update_metrics(agent);
	agent_xds_update_metrics(agent);
}
