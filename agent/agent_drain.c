#include "agent/agent_drain.h"

#include "agent/agent_components.h"
#include "agent/agent_event.h"
#include "agent/agent_internal.h"
#include "agent/base/log.h"

static const char DRAIN_DOCUMENT[] = "drain";
static const double CONFIRM_AGAIN_S = 1.0;

static void serve_again(struct agent *agent, const char *why)
{
	agent_transition(agent, "drain", "draining", "serving", why);
	state_dir_remove(&agent->state, DRAIN_DOCUMENT);
	ev_periodic_stop(agent->loop, &agent->drain_end_timer);
	ev_timer_stop(agent->loop, &agent->drain_retry_timer);
	agent_wake(agent);
}

static void on_end_timer(struct ev_loop *loop, ev_periodic *timer, int events)
{
	(void)events;
	struct agent *agent = timer->data;
	if (drain_expire(&agent->drain, ev_now(loop))) {
		serve_again(agent, "its time is over");
	}
}

/* ---- is it done? ----------------------------------------------------------------------------- */

static void confirmed(struct agent *agent)
{
	bool out = agent->drain.active && agent_components_settled(agent);
	if (out && !agent->drain_unconfirmed) {
		agent->drained_at = ev_now(agent->loop);
	} else if (out) {
		ev_timer_stop(agent->loop, &agent->drain_retry_timer);
		ev_timer_set(&agent->drain_retry_timer, CONFIRM_AGAIN_S, 0.0);
		ev_timer_start(agent->loop, &agent->drain_retry_timer);
	}
}

static void on_confirmed(void *context, const struct registry_result *result)
{
	struct agent *agent = context;
	bool gone = result->err.code == BERTH_PATH_NOT_FOUND ||
		(result->err.code == 0 && !result->stat.own);
	agent->drain_unconfirmed = agent->drain_unconfirmed || !gone;
	if (--agent->drain_confirmations == 0) {
		confirmed(agent);
	}
}

void agent_drain_proceed(struct agent *agent)
{
	bool wanted = agent->drain.active && agent->drained_at <= 0 &&
		agent->drain_confirmations == 0;
	if (!wanted || !agent_components_settled(agent)) {
		return;
	}
	agent->drain_unconfirmed = false;
	if (agent->component_count == 0) {
		confirmed(agent);
	}
	for (size_t i = 0; i < agent->component_count; i++) {
		const char *path = component_config(agent->components[i])->path;
		if (registry_stat(agent->registry, path, on_confirmed, agent)) {
			agent->drain_confirmations++;
		}
	}
}

static void on_retry_timer(struct ev_loop *loop, ev_timer *timer, int events)
{
	(void)loop;
	(void)events;
	agent_drain_proceed(timer->data);
}

double agent_drain_left_s(const struct agent *agent)
{
	double delay_s = (double)agent->config->agent.drain_delay_ms / 1000.0;
	return agent->drained_at > 0 ? agent->drained_at + delay_s - ev_now(agent->loop) : delay_s;
}

json_t *agent_drain_json(const struct agent *agent)
{
	json_t *json = drain_json(&agent->drain);
	bool done = agent->drain.active && agent->drained_at > 0 && agent_drain_left_s(agent) <= 0;
	json_object_set_new(json, "done", json_boolean(done));
	return json;
}

/* ---- begin and end --------------------------------------------------------------------------- */

/* By the wall clock: the drain ends in time also on a machine that was suspended. */
static void arm(struct agent *agent)
{
	ev_periodic_stop(agent->loop, &agent->drain_end_timer);
	if (agent->drain.active && agent->drain.until > 0) {
		ev_periodic_set(&agent->drain_end_timer, agent->drain.until, 0.0, NULL);
		ev_periodic_start(agent->loop, &agent->drain_end_timer);
	}
}

static void save(struct agent *agent)
{
	json_t *document = drain_json(&agent->drain);
	struct err err = ERR_INIT;
	if (!document || state_dir_save(&agent->state, DRAIN_DOCUMENT, document, &err)) {
		log_warn("drain", "it does not survive a restart: %s", err.msg);
	}
	json_decref(document);
}

void agent_drain_load(struct agent *agent, const json_t *passed)
{
	ev_init(&agent->drain_end_timer, on_end_timer);
	ev_init(&agent->drain_retry_timer, on_retry_timer);
	agent->drain_end_timer.data = agent;
	agent->drain_retry_timer.data = agent;
	struct err err = ERR_INIT;
	json_t *document = passed ? json_incref((json_t *)passed)
				  : state_dir_load(&agent->state, DRAIN_DOCUMENT, &err);
	if (err.code) {
		log_warn("drain", "the saved drain cannot be read and is ignored: %s", err.msg);
	}
	if (document && !drain_from_json(&agent->drain, document, ev_time())) {
		log_warn("drain", "the saved drain has an unknown shape and is ignored");
	}
	if (agent->drain.active) {
		char what[sizeof(agent->drain.reason) + 16];
		drain_describe(&agent->drain, what, sizeof(what));
		log_info("drain", "still %s", what);
	} else if (document && (!passed || json_is_true(json_object_get(document, "active")))) {
		state_dir_remove(&agent->state, DRAIN_DOCUMENT);
	}
	json_decref(document);
	arm(agent);
}

void agent_drain_begin(struct agent *agent, const char *reason, int64_t for_ms)
{
	bool was_active = agent->drain.active;
	if (!was_active) {
		agent->drained_at = 0;
	}
	drain_begin(&agent->drain, reason, (double)for_ms / 1000.0, ev_time());
	agent_transition(agent, "drain", was_active ? "draining" : "serving", "draining", reason);
	save(agent);
	arm(agent);
	agent_wake(agent);
}

void agent_drain_confirm_again(struct agent *agent)
{
	agent->drained_at = 0;
	agent_wake(agent);
}

void agent_drain_end(struct agent *agent)
{
	if (agent->drain.active) {
		drain_end(&agent->drain);
		serve_again(agent, "ended by request");
	}
}
