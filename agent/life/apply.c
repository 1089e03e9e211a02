#include "agent/life/apply.h"

#include "agent/base/log.h"
#include "agent/core/event.h"
#include "agent/core/state.h"
#include "agent/life/main_process.h"
#include "agent/registration/bridge.h"
#include "agent/registration/components.h"
#include "agent/registration/drain.h"
#include "agent/registration/registry.h"
#include "agent/serving/api.h"
#include "agent/serving/cache.h"
#include "agent/serving/further.h"
#include "agent/serving/metrics.h"
#include "agent/serving/names.h"
#include "agent/serving/outputs.h"

/* Puts the options into force that may change at run time: log, limits, policies. */
static void apply_options(struct agent *agent)
{
	const struct config *config = agent->config;
	log_set(config->agent.log_level, config->agent.log_json);
	check_scheduler_set_max_parallel(agent->scheduler, config->agent.max_parallel_checks);
	agent_registry_apply_options(agent);
	agent_bridge_apply_options(agent);
	agent_api_apply_options(agent);
	agent_cache_apply_options(agent);
	agent_names_apply_options(agent);
	agent_main_process_apply_options(agent);
}

void agent_apply_rest(struct agent *agent)
{
	apply_options(agent);
	agent_further_reload(agent);
	agent_outputs_reload(agent);
	agent_further_retire(agent);
	agent_metrics_forget_removed(agent);
	agent_registry_save_session(agent);
	if (agent->drain.active) {
		agent_drain_confirm_again(agent); /* a new component may have a record */
	}
	agent_wake(agent);
}
