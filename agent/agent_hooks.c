#include "agent/agent_hooks.h"

#include <stdlib.h>
#include <unistd.h>

#include "agent/agent_components.h"
#include "agent/agent_drain.h"
#include "agent/agent_internal.h"
#include "agent/agent_main_process.h"
#include "agent/agent_metrics.h"
#include "agent/agent_reload.h"

/* ---- who may do what -------------------------------------------------------------------------------- */

static bool in_group(const struct http_peer *peer, unsigned group)
{
	if (peer->gid == group) {
		return true;
	}
	for (size_t i = 0; i < peer->group_count; i++) {
		if (peer->groups[i] == group) {
			return true;
		}
	}
	return false;
}

static bool may_administer(void *context, const struct http_peer *peer)
{
	const struct agent *agent = context;
	if (!peer->known) {
		return false;
	}
	bool has_group = agent->config->agent.admin_group_id != (unsigned)-1;
	return peer->uid == 0 || peer->uid == geteuid() ||
		(has_group && in_group(peer, agent->config->agent.admin_group_id));
}

static bool may_write(
	const struct agent *agent, const struct config_writer *writer, const struct http_peer *peer)
{
	if (may_administer((void *)agent, peer)) {
		return true;
	}
	if (!peer->known) {
		return false;
	}
	switch (writer->kind) {
	case CONFIG_WRITER_USER:
		return peer->uid == writer->id;
	case CONFIG_WRITER_GROUP:
		return in_group(peer, writer->id);
	case CONFIG_WRITER_NONE:
		break;
	}
	return false;
}

static int refuse_writer(struct err *err, const char *what, const char *name)
{
	return err_set(err, BERTH_NO_PATH_PERMISSIONS,
		"%s %s takes this only from root, the agent's user, the admin_group and its own writer",
		what, name);
}

/* ---- status ------------------------------------------------------------------------------------------ */

static json_t *registry_status(const struct agent *agent)
{
	return json_pack("{s:s, s:s, s:s, s:f, s:i}", "url", registry_url(agent->registry), "state",
		registry_state_name(registry_state(agent->registry)), "session",
		registry_session_name(agent->registry), "since", agent->registry_since,
		"session_timeout_ms", registry_session_timeout_ms(agent->registry));
}

static json_t *components_status(const struct agent *agent)
{
	json_t *components = json_array();
	for (size_t i = 0; i < agent->component_count; i++) {
		json_array_append_new(components, component_json(agent->components[i]));
	}
	return components;
}

static json_t *main_process_status(const struct agent *agent)
{
	if (!agent->supervise) {
		return json_null();
	}
	return json_pack("{s:b, s:i}", "running", agent_main_process_runs(agent), "pid",
		(int)supervise_pid(agent->supervise));
}

static json_t *agent_status(void *context)
{
	const struct agent *agent = context;
	static const char *const phases[] = { "running", "deregistering", "lingering",
		"stopping the main process", "done" };
	return json_pack("{s:s, s:i, s:f, s:f, s:s, s:s, s:o, s:o, s:o, s:o, s:O?}", "version",
		BERTH_VERSION, "pid", (int)getpid(), "started", agent->started, "uptime",
		ev_now(agent->loop) - agent->started, "phase", phases[agent->phase], "config",
		agent->config_path, "registry", registry_status(agent), "components",
		components_status(agent), "drain", agent_drain_json(agent), "main_process",
		main_process_status(agent), "reload_problems", agent->reload_problems);
}

static json_t *checks_status(void *context)
{
	const struct agent *agent = context;
	json_t *checks = json_array();
	for (size_t i = 0; i < agent->component_count; i++) {
		for (size_t j = 0; j < component_check_count(agent->components[i]); j++) {
			json_array_append_new(
				checks, check_json(component_check(agent->components[i], j)));
		}
	}
	return checks;
}

static bool live(void *context)
{
	(void)context;
	return true; /* who answers, lives */
}

static bool ready(void *context, struct err *err)
{
	return agent_components_ready(context, err);
}

/* ---- orders -------------------------------------------------------------------------------------------- */

static int drain(void *context, const char *reason, int64_t for_ms, struct err *err)
{
	(void)err;
	agent_drain_begin(context, reason, for_ms);
	return 0;
}

static int undrain(void *context, struct err *err)
{
	(void)err;
	agent_drain_end(context);
	return 0;
}

static json_t *reload(void *context)
{
	return agent_reload(context);
}

/* ---- checks ---------------------------------------------------------------------------------------------- */

/* One who waits for a run; freed when the run has ended or he has gone. */
struct run_waiter {
	struct agent *agent;
	struct check *check;
	void (*done)(void *done_context, json_t *result);
	void *done_context;
	struct run_waiter *next;
};

static void free_waiter(struct run_waiter *waiter)
{
	struct run_waiter **at = &waiter->agent->run_waiters;
	while (*at != waiter) {
		at = &(*at)->next;
	}
	*at = waiter->next;
	free(waiter);
}

static void on_run_done(void *context, struct check *check, const struct check_result *result)
{
	struct run_waiter *waiter = context;
	waiter->done(waiter->done_context, result ? check_json(check) : NULL);
	free_waiter(waiter);
}

static int no_check(struct err *err, const char *name)
{
	return err_set(err, BERTH_PATH_NOT_FOUND, "no check is named \"%s\"", name);
}

static int run_check(void *context, const char *name,
	void (*done)(void *done_context, json_t *result), void *done_context, struct err *err)
{
	struct agent *agent = context;
	struct check *check = agent_components_find_check(agent, name);
	if (!check) {
		return no_check(err, name);
	}
	struct run_waiter *waiter = calloc(1, sizeof(*waiter));
	if (!waiter) {
		return err_set(err, BERTH_FAILED, "no memory");
	}
	*waiter = (struct run_waiter){ agent, check, done, done_context, agent->run_waiters };
	agent->run_waiters = waiter;
	if (check_run_now(check, on_run_done, waiter, err)) {
		free_waiter(waiter);
	}
	return err->code;
}

static void forget_run(void *context, const char *name, void *done_context)
{
	(void)name;
	struct agent *agent = context;
	for (struct run_waiter *waiter = agent->run_waiters; waiter; waiter = waiter->next) {
		if (waiter->done_context == done_context) {
			check_run_forget(waiter->check, waiter);
			free_waiter(waiter);
			return;
		}
	}
}

static int report_check(void *context, const char *name, const char *status, const char *output,
	const struct http_peer *peer, struct err *err)
{
	struct agent *agent = context;
	struct check *check = agent_components_find_check(agent, name);
	if (!check) {
		return no_check(err, name);
	}
	if (!may_write(agent, &check_config(check)->writer, peer)) {
		return refuse_writer(err, "check", name);
	}
	int verdict = check_verdict_from_name(status);
	if (verdict != CHECK_PASSING && verdict != CHECK_WARNING && verdict != CHECK_FAILING) {
		return err_set(
			err, BERTH_FAILED, "status is \"passing\", \"warning\" or \"failing\"");
	}
	return check_report(check, (enum check_verdict)verdict, output, err);
}

/* ---- dynamic endpoints -------------------------------------------------------------------------------------- */

static int set_addresses(struct agent *agent, const char *name, const json_t *addresses,
	const struct http_peer *peer, uint64_t connection, bool *ret_hold, struct err *err)
{
	struct component *component = agent_components_find_endpoint(agent, name);
	if (!component) {
		return err_set(err, BERTH_PATH_NOT_FOUND, "no endpoint is named \"%s\"", name);
	}
	const struct config_endpoint *config = component_endpoint_config(component, name);
	if (!may_write(agent, &config->writer, peer)) {
		return refuse_writer(err, "endpoint", name);
	}
	*ret_hold = addresses && config->hold_connection;
	return component_set_addresses(component, name, addresses, connection, err);
}

static int endpoint_set(void *context, const char *name, const json_t *addresses,
	const struct http_peer *peer, uint64_t connection, bool *ret_hold, struct err *err)
{
	return set_addresses(context, name, addresses, peer, connection, ret_hold, err);
}

static int endpoint_clear(
	void *context, const char *name, const struct http_peer *peer, struct err *err)
{
	bool hold;
	return set_addresses(context, name, NULL, peer, 0, &hold, err);
}

static void connection_closed(void *context, uint64_t connection)
{
	struct agent *agent = context;
	for (size_t i = 0; i < agent->component_count; i++) {
		component_connection_closed(agent->components[i], connection);
	}
}

struct api_hooks agent_hooks(struct agent *agent)
{
	return (struct api_hooks){
		.agent_status = agent_status,
		.checks = checks_status,
		.live = live,
		.ready = ready,
		.drain = drain,
		.undrain = undrain,
		.reload = reload,
		.check_run = run_check,
		.check_run_forget = forget_run,
		.check_report = report_check,
		.endpoint_set = endpoint_set,
		.endpoint_clear = endpoint_clear,
		.connection_closed = connection_closed,
		.may_administer = may_administer,
		.context = agent,
		.update_metrics = agent_metrics_update,
	};
}
