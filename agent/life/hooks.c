#include "agent/life/hooks.h"

#include <unistd.h>

#include "agent/registration/bridge.h"
#include "agent/registration/components.h"
#include "agent/registration/drain.h"
#include "agent/core/state.h"
#include "agent/life/main_process.h"
#include "agent/serving/further.h"
#include "agent/serving/metrics.h"
#include "agent/serving/outputs.h"
#include "agent/serving/xds.h"
#include "agent/registration/registry.h"
#include "agent/life/reload.h"
#include "lib/base/clock.h"

/* ---- status ---- */

static json_t *registry_status(const struct agent *agent)
{
	return json_pack("{s:s, s:s, s:s, s:s, s:f, s:i}", "url", registry_url(agent->lookups),
		"state", registry_state_name(registry_state(agent->lookups)), "error",
		agent->registry_error, "session", registry_session_name(agent->lookups), "since",
		agent->registry_since, "session_timeout_ms",
		registry_session_timeout_ms(agent->lookups));
}

static json_t *components_status(const struct agent *agent)
{
	json_t *components = json_array();
	for (size_t i = 0; i < agent->component_count; i++) {
		struct component *component = agent->components[i];
		json_t *json = component_json(component);
		json_t *drain = agent_drain_component_json(agent, component);
		if (drain) {
			json_object_set_new(json, "drain", drain);
		}
		json_array_append_new(components, json);
	}
	return components;
}

static json_t *main_process_status(const struct agent *agent)
{
	if (!agent->supervise) {
		return json_null();
	}
	pid_t pid = supervise_pid(agent->supervise);
	return json_pack("{s:b, s:i}", "running", pid > 0, "pid", (int)pid);
}

/* The values that wait for an address of this machine. */
static json_t *waits_status(const struct agent *agent)
{
	json_t *waits = json_array();
	for (size_t i = 0; i < agent->config->wait_count; i++) {
		json_array_append_new(waits, json_string(agent->config->waits[i].text));
	}
	return waits;
}

static json_t *bridge_status(const struct agent *agent)
{
	json_t *json = agent_bridge_status(agent);
	if (json) {
		json_object_set_new(json, "drains", agent_drain_containers_json(agent));
	}
	return json;
}

static json_t *agent_status(const struct agent *agent)
{
	static const char *const phases[] = { [AGENT_RUNNING] = "running",
		[AGENT_DEREGISTERING] = "deregistering",
		[AGENT_LINGERING] = "lingering",
		[AGENT_STOPPING_PROCESS] = "stopping the main process",
		[AGENT_TELLING] = "waiting for on_change",
		[AGENT_SAVING] = "saving the cache",
		[AGENT_DONE] = "done" };
	return json_pack(
		"{s:s, s:i, s:f, s:f, s:s, s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o?, s:o, s:o, s:o, "
		"s:o, s:o, s:O?, s:o*}",
		"version", BERTH_VERSION, "pid", (int)getpid(), "started", agent->started, "uptime",
		(double)(clock_monotonic_ms() - agent->started_ms) / 1000.0, "phase",
		phases[agent->phase], "config", agent->config_path, "registry",
		registry_status(agent), "registries", agent_further_json(agent), "components",
		components_status(agent), "outputs", agent_outputs_json(agent), "imports",
		agent_registry_imports_json(agent), "zones", zones_report(agent->zones), "dns",
		agent->dns ? dns_json(agent->dns) : NULL, "xds", agent_xds_json(agent), "drain",
		agent_drain_json(agent), "state", state_dir_json(&agent->state), "main_process",
		main_process_status(agent), "waits", waits_status(agent), "reload_problems",
		agent->reload_problems, "bridge", bridge_status(agent));
}

/* ---- requests of the API ---- */

static struct component *find(void *context, size_t index)
{
	const struct agent *agent = context;
	return index < agent->component_count ? agent->components[index] : NULL;
}

static struct check *find_check(void *context, size_t index)
{
	const struct agent *agent = context;
	return check_set_at(agent->checks, index);
}

static int no_component(struct err *err, const char *name)
{
	return err_set(err, BERTH_PATH_NOT_FOUND, "no component is named \"%s\"", name);
}

static int act(void *context, struct api_act *act, struct err *err)
{
	struct agent *agent = context;
	struct component *component = act->component ? agent_components_find(agent, act->component)
						     : NULL;
	if (act->component && !component) {
		return no_component(err, act->component);
	}
	switch (act->kind) {
	case API_STATUS:
		act->result = agent_status(agent);
		break;
	case API_READY:
		(void)agent_components_ready(agent, act->away_ok, err);
		break;
	case API_BRIDGE:
		act->result = agent_bridge_json(agent, act->container, err);
		break;
	case API_UPDATE_METRICS:
		agent_metrics_update(agent);
		break;
	case API_DRAIN_CONTAINER:
		(void)agent_drain_begin_container(
			agent, act->container, act->reason, act->for_ms, err);
		act->is_being_saved = !err->code && agent_drain_is_being_saved(agent);
		break;
	case API_UNDRAIN_CONTAINER:
		(void)agent_drain_end_container(agent, act->container, err);
		act->is_being_saved = !err->code && agent_drain_is_being_saved(agent);
		break;
	case API_DRAIN:
		agent_drain_begin(agent, component, act->reason, act->for_ms);
		act->is_being_saved = agent_drain_is_being_saved(agent);
		break;
	case API_UNDRAIN:
		agent_drain_end(agent, component);
		act->is_being_saved = agent_drain_is_being_saved(agent);
		break;
	case API_RELOAD:
		act->result = act->dry_run ? agent_try_reload(agent, &act->changes)
					   : agent_reload(agent);
		break;
	case API_UNDAMP:
		component_undamp(component);
		break;
	}
	return err->code;
}

struct api_hooks agent_hooks(struct agent *agent)
{
	return (struct api_hooks){
		.find = find, .find_check = find_check, .act = act, .context = agent
	};
}
