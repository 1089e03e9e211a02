#include "agent/life/stop.h"

#include "agent/serving/cache.h"
#include "agent/serving/further.h"
#include "agent/registration/components.h"
#include "agent/registration/drain.h"
#include "agent/core/event.h"
#include "agent/core/state.h"
#include "agent/life/main_process.h"
#include "agent/base/log.h"
#include "agent/base/notify.h"

/*
 * A registry that is away cannot be reached; our session ends by itself. We wait this long for its
 * return.
 */
enum { DEREGISTER_PATIENCE_MS = 3000 };
/* A disk that takes longer for the cache hangs. */
enum { SAVE_PATIENCE_MS = 5000 };

static void done(struct agent *agent)
{
	agent->phase = AGENT_DONE;
	timer_stop(&agent->phase_timer);
	ev_break(agent->loop, EVBREAK_ALL);
}

static void enter(struct agent *agent, enum agent_phase phase, int64_t patience_ms)
{
	agent->phase = phase;
	timer_start(&agent->phase_timer, patience_ms);
}

/* The last thing that waits for something; look-ups are answered meanwhile. */
static void save(struct agent *agent)
{
	agent_cache_save(agent);
	agent_further_save(agent);
	if (agent->cache_save || agent_further_is_saving(agent)) {
		enter(agent, AGENT_SAVING, SAVE_PATIENCE_MS);
	} else {
		done(agent);
	}
}

/* The components' on_change learn their last state. */
static void end(struct agent *agent)
{
	if (agent->leave_session || !agent_components_untold(agent)) {
		save(agent);
	} else if (agent->phase != AGENT_TELLING) {
		enter(agent, AGENT_TELLING, agent->config->agent.hook_timeout_ms);
	}
}

static void stop_main_process(struct agent *agent)
{
	if (agent_main_process_over(agent)) {
		end(agent);
		return;
	}
	agent->phase = AGENT_STOPPING_PROCESS;
	timer_stop(&agent->phase_timer);
	log_info("agent", "stopping the main process");
	supervise_stop(agent->supervise);
}

/*
 * Clients that know us from the registry have drain_delay to notice: from now on, or from the drain
 * on.
 */
static double linger_s(const struct agent *agent)
{
	if (agent->main_process == AGENT_MAIN_PROCESS_ENDED) {
		return 0; /* it serves no client any more */
	}
	if (!agent->nothing_withdrawn) {
		return (double)agent->config->agent.drain_delay_ms / 1000.0;
	}
	return agent->drain.active && agent->component_count > 0 ? agent_drain_left_s(agent) : 0;
}

static void deregistered(struct agent *agent)
{
	double left_s = linger_s(agent);
	if (left_s <= 0) {
		stop_main_process(agent);
		return;
	}
	log_info("agent", "deregistered; staying for another %.3g s%s", left_s,
		agent->config->agent.drain_early ? ", or until no connection is left" : "");
	agent->drain.quiet_looks = 0;
	enter(agent, AGENT_LINGERING, (int64_t)(left_s * 1000.0));
}

static void on_phase_timer(void *context)
{
	struct agent *agent = context;
	if (agent->phase == AGENT_DEREGISTERING) {
		log_warn("agent", "not everything could be deregistered in time");
		agent_components_log_left(agent);
		deregistered(agent);
	} else if (agent->phase == AGENT_LINGERING) {
		stop_main_process(agent);
	} else if (agent->phase == AGENT_TELLING) {
		log_warn("agent", "an on_change did not take the last state within hook_timeout");
		save(agent);
	} else if (agent->phase == AGENT_SAVING) {
		done(agent);
	}
}

/* An agent that stops does not restart its main process. */
static void begin(struct agent *agent, const char *why)
{
	log_info("agent", "stopping: %s", why);
	notify_stopping();
	if (agent->supervise) {
		supervise_forbid_restart(agent->supervise);
	}
}

void agent_stop_init(struct agent *agent)
{
	timer_init(&agent->phase_timer, agent->loop, "phase", on_phase_timer, agent);
}

void agent_stop(struct agent *agent, const char *why)
{
	if (agent->phase != AGENT_RUNNING) {
		log_info("agent", "%s: already stopping", why);
		return;
	}
	begin(agent, why);
	enter(agent, AGENT_DEREGISTERING, DEREGISTER_PATIENCE_MS);
	agent_components_update_gates(agent);
	agent->nothing_withdrawn = agent_components_settled(agent);
	agent_wake(agent);
}

void agent_quit(struct agent *agent, const char *why)
{
	if (agent->phase == AGENT_RUNNING) {
		begin(agent, why);
	}
	if (agent->phase == AGENT_STOPPING_PROCESS || agent->phase == AGENT_TELLING ||
		agent->phase == AGENT_SAVING || agent->phase == AGENT_DONE) {
		return;
	}
	log_info("agent", "%s: leaving the session to a successor", why);
	agent->leave_session = true;
	stop_main_process(agent);
}

void agent_stop_proceed(struct agent *agent)
{
	switch (agent->phase) {
	case AGENT_DEREGISTERING:
		if (agent_components_settled(agent)) {
			deregistered(agent);
		}
		break;
	case AGENT_LINGERING:
		if (agent->supervise && agent_main_process_over(agent)) {
			end(agent);
		} else if (drain_is_quiet(&agent->drain)) {
			stop_main_process(agent);
		}
		break;
	case AGENT_STOPPING_PROCESS:
		if (agent_main_process_over(agent)) {
			end(agent);
		}
		break;
	case AGENT_TELLING:
		end(agent);
		break;
	case AGENT_SAVING:
		if (!agent->cache_save && !agent_further_is_saving(agent)) {
			done(agent);
		}
		break;
	case AGENT_RUNNING:
	case AGENT_DONE:
		break;
	}
}
