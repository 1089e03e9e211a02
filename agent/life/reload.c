#include "agent/life/reload.h"

#include "agent/serving/api.h"
#include "agent/core/event.h"
#include "agent/core/state.h"
#include "agent/life/addresses.h"
#include "agent/life/apply.h"
#include "agent/life/privileges.h"
#include "agent/registration/components.h"
#include "agent/registration/registry.h"
#include "agent/base/log.h"
#include "agent/base/notify.h"
#include "agent/config/parts.h"
#include "agent/config/trusted.h"

/* The problems, or NULL and the configuration that a reload would put into force. */
static json_t *read_next(struct agent *agent, struct config **ret_next)
{
	struct config *next = NULL;
	struct config_problems problems = { 0 };
	if (config_load_trusted(&next, agent->config_path, &problems)) {
		json_t *list = config_problems_json(&problems);
		config_problems_finish(&problems);
		return list;
	}
	config_refuse_changes(agent->config, next, agent->config_path, &problems);
	agent_privileges_refuse_checks(agent, next, &problems);
	config_problems_log_warnings(&problems);
	if (problems.error_count > 0) {
		json_t *list = config_problems_json(&problems);
		config_problems_finish(&problems);
		config_unref(next);
		return list;
	}
	config_problems_finish(&problems);
	*ret_next = next;
	return NULL;
}

static json_t *stopping_problem(const struct agent *agent)
{
	return json_pack("[{s:s, s:i, s:s}]", "file", agent->config_path, "line", 0, "message",
		"the agent is stopping, and does not read it again");
}

json_t *agent_try_reload(struct agent *agent, json_t **ret_changes)
{
	if (agent->phase != AGENT_RUNNING) {
		return stopping_problem(agent);
	}
	struct config *next = NULL;
	json_t *problems = read_next(agent, &next);
	if (!problems) {
		*ret_changes = config_difference(agent->config, next);
		config_unref(next);
	}
	return problems;
}

json_t *agent_reload(struct agent *agent)
{
	if (agent->phase != AGENT_RUNNING) {
		return stopping_problem(agent);
	}
	notify_reloading();
	agent_api_renew_socket(agent);
	/* A listener that follows an address is not what the new configuration changes. */
	agent_addresses_look(agent);
	struct config *next = NULL;
	json_t *problems = read_next(agent, &next);
	if (!problems) {
		agent_components_reload(agent, next);
		agent_registry_reauthenticate(agent);
		agent_apply_rest(agent);
	}
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
		agent->reloaded = ev_now(agent->loop);
		agent_transition(agent, "config", "in force", "reloaded", "on request");
	}
	notify_ready();
	return problems;
}
