#include "agent/agent_metrics.h"

#include <string.h>

#include "agent/agent_components.h"
#include "agent/agent_internal.h"

static const enum metric of_checks[] = { METRIC_CHECK_UP, METRIC_CHECK_WARNING,
	METRIC_CHECK_DURATION, METRIC_CHECK_RUNS };
static const enum metric of_components[] = { METRIC_REGISTERED, METRIC_TRANSITIONS, METRIC_DAMPED,
	METRIC_PENALTY };

static bool is_check(void *context, const char *name)
{
	return agent_components_find_check(context, name) != NULL;
}

static bool is_component(void *context, const char *label)
{
	const struct agent *agent = context;
	for (size_t i = 0; i < agent->component_count; i++) {
		if (strcmp(component_label(agent->components[i]), label) == 0) {
			return true;
		}
	}
	return false;
}

void agent_metrics_forget_removed(struct agent *agent)
{
	for (size_t i = 0; i < sizeof(of_checks) / sizeof(of_checks[0]); i++) {
		metrics_retain(agent->metrics, of_checks[i], is_check, agent);
	}
	for (size_t i = 0; i < sizeof(of_components) / sizeof(of_components[0]); i++) {
		metrics_retain(agent->metrics, of_components[i], is_component, agent);
	}
}

void agent_metrics_update(struct agent *agent)
{
	for (size_t i = 0; i < agent->component_count; i++) {
		const struct component *component = agent->components[i];
		const char *label = component_label(component);
		metrics_set(agent->metrics, METRIC_DAMPED, label, component_damped(component));
		metrics_set(agent->metrics, METRIC_PENALTY, label, component_penalty(component));
	}
}
