#include "agent/registration/checks.h"

#include <string.h>

#include "agent/core/event.h"
#include "agent/core/state.h"
#include "agent/base/log.h"
#include "lib/base/text.h"

static void on_result(void *context, struct check *check, const struct check_result *result)
{
	struct agent *agent = context;
	const char *name = check_config(check)->name;
	metrics_add(
		agent->metrics, METRIC_CHECK_RUNS, name, check_verdict_name(result->verdict), 1);
	if (check_config(check)->type != CONFIG_CHECK_TTL) {
		metrics_observe(agent->metrics, METRIC_CHECK_DURATION, name, result->duration_s);
	}
	metrics_set(
		agent->metrics, METRIC_CHECK_UP, name, check_get_state(check) == CHECK_STATE_UP);
	metrics_set(agent->metrics, METRIC_CHECK_WARNING, name, check_is_warning(check));
	log_debug(name, "%s in %.3f s: %s", check_verdict_name(result->verdict), result->duration_s,
		result->detail);
	if (agent->api) {
		api_agent_changed(agent->api);
	}
}

static void report(
	struct agent *agent, struct check *check, const char *from, const char *to, const char *why)
{
	char subject[256];
	char output[256];
	text_printf(subject, sizeof(subject), "check %s", check_config(check)->name);
	check_last_line(check, output, sizeof(output));
	agent_event(agent,
		&(struct transition){ .component = check_components(check),
			.subject = subject,
			.from = from,
			.to = to,
			.why = why,
			.output = output });
}

static void on_change(
	void *context, struct check *check, const char *from, const char *to, const char *why)
{
	struct agent *agent = context;
	if (strcmp(from, to) != 0) {
		report(agent, check, from, to, why);
	}
	for (size_t i = 0; i < agent->component_count; i++) {
		component_check_changed(agent->components[i], check);
	}
}

static void on_overdue(void *context, struct check *check, double waited_s, const char *why)
{
	struct agent *agent = context;
	const char *name = check_config(check)->name;
	bool overdue = check_overdue(check);
	metrics_set(agent->metrics, METRIC_CHECK_OVERDUE, name, overdue);
	if (overdue) {
		log_warn(name, "overdue: it could not begin for %.3g s; %s", waited_s, why);
	} else {
		log_info(name, "begins %.3g s late", waited_s);
	}
	if (agent->api) {
		api_agent_changed(agent->api);
	}
}

void agent_checks_create(struct agent *agent, const json_t *saved)
{
	const struct check_callbacks callbacks = {
		.on_result = on_result,
		.on_change = on_change,
		.on_overdue = on_overdue,
		.context = agent,
	};
	agent->checks = check_set_create(agent->scheduler, &callbacks);
	check_set_arrange(agent->checks, agent->config, saved);
}

void agent_checks_destroy(struct agent *agent)
{
	check_set_destroy(agent->checks);
	agent->checks = NULL;
}

json_t *agent_checks_save(const struct agent *agent)
{
	return check_set_save(agent->checks);
}
