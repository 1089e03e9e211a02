#include "agent/agent_internal.h"

#include "agent/base/log.h"
#include "agent/base/notify.h"

/* A registry that is away cannot be told; its session ends by itself. So long we wait for it to come back. */
static const double DEREGISTER_PATIENCE_S = 5.0;

static void done(struct agent *agent)
{
	agent->phase = AGENT_DONE;
	ev_timer_stop(agent->loop, &agent->phase_timer);
	ev_break(agent->loop, EVBREAK_ALL);
}

static void stop_main_process(struct agent *agent)
{
	if (!agent->main_process || !agent->main_process_running) {
		done(agent);
		return;
	}
	agent->phase = AGENT_STOPPING_PROCESS;
	ev_timer_stop(agent->loop, &agent->phase_timer);
	log_info("agent", "stopping the main process");
	supervise_stop(agent->main_process);
}

static void on_phase_timer(struct ev_loop *loop, ev_timer *timer, int events);

static void enter(struct agent *agent, enum agent_phase phase, double patience_s)
{
	agent->phase = phase;
	ev_timer_stop(agent->loop, &agent->phase_timer);
	ev_timer_init(&agent->phase_timer, on_phase_timer, patience_s, 0.0);
	agent->phase_timer.data = agent;
	ev_now_update(agent->loop);
	ev_timer_start(agent->loop, &agent->phase_timer);
}

/* Who was told of us by the registry has drain_delay to notice that we are gone: from now, or since the drain. */
static double linger_s(const struct agent *agent)
{
	if (agent->skip_linger) {
		return 0;
	}
	if (!agent->nothing_stood) {
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
	log_info("agent", "deregistered; staying for another %.3g s", left_s);
	enter(agent, AGENT_LINGERING, left_s);
}

static void on_phase_timer(struct ev_loop *loop, ev_timer *timer, int events)
{
	(void)loop;
	(void)events;
	struct agent *agent = timer->data;
	if (agent->phase == AGENT_DEREGISTERING) {
		log_warn("agent",
			"not everything could be deregistered in time; what is left ends with the session");
		deregistered(agent);
	} else if (agent->phase == AGENT_LINGERING) {
		stop_main_process(agent);
	}
}

/* Whoever stops does not start anything any more. */
static void begin(struct agent *agent, const char *why)
{
	log_info("agent", "stopping: %s", why);
	notify_stopping();
	if (agent->main_process) {
		supervise_forbid_restart(agent->main_process);
	}
}

void agent_stop(struct agent *agent, const char *why)
{
	if (agent->phase != AGENT_RUNNING) {
		log_info("agent", "%s: already stopping", why);
		return;
	}
	begin(agent, why);
	enter(agent, AGENT_DEREGISTERING, DEREGISTER_PATIENCE_S);
	agent_components_update_gates(agent);
	agent->nothing_stood = agent_components_settled(agent);
	agent_stop_proceed(agent);
}

void agent_quit(struct agent *agent, const char *why)
{
	if (agent->phase == AGENT_RUNNING) {
		begin(agent, why);
	}
	if (agent->phase == AGENT_STOPPING_PROCESS || agent->phase == AGENT_DONE) {
		return;
	}
	log_info("agent", "%s: leaving the session to a successor", why);
	agent->leave_session = true;
	stop_main_process(agent);
}

void agent_stop_proceed(struct agent *agent)
{
	if (agent->phase == AGENT_DEREGISTERING && agent_components_settled(agent)) {
		deregistered(agent);
	} else if (agent->phase == AGENT_LINGERING && agent->main_process &&
		!agent->main_process_running) {
		done(agent);
	} else if (agent->phase == AGENT_STOPPING_PROCESS && !agent->main_process_running) {
		done(agent);
	}
}
