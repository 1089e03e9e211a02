#include "agent/agent_reload.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/agent_api.h"
#include "agent/agent_cache.h"
#include "agent/agent_components.h"
#include "agent/agent_drain.h"
#include "agent/agent_event.h"
#include "agent/agent_internal.h"
#include "agent/agent_main_process.h"
#include "agent/agent_metrics.h"
#include "agent/agent_registry.h"
#include "agent/base/log.h"
#include "agent/base/notify.h"

/* ---- options that cannot change while the agent runs ----------------------------------------- */

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

/* ---- the change ------------------------------------------------------------------------------ */

/* Puts the options into force that may change at run time: log, limits, policies. */
static void apply_options(struct agent *agent)
{
	const struct config *config = agent->config;
	log_set(config->agent.log_level, config->agent.log_json);
	check_scheduler_set_max_parallel(agent->scheduler, config->agent.max_parallel_checks);
	agent_api_apply_options(agent);
	agent_cache_apply_options(agent);
	agent_main_process_apply_options(agent);
}

static void apply(struct agent *agent, struct config *next)
{
	agent_components_reload(agent, next);
	apply_options(agent);
	agent_metrics_forget_removed(agent);
	agent_registry_save_session(agent);
	if (agent->drain.active) {
		agent_drain_confirm_again(agent); /* a new component may have a record */
	}
	agent_wake(agent);
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
		config_unref(next);
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
