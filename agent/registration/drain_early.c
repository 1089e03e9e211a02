#include "agent/registration/drain_early.h"

#include "agent/registration/drain.h"
#include "agent/core/event.h"
#include "agent/core/state.h"
#include "agent/base/log.h"
#include "agent/base/tcp_ports.h"

enum { LOOK_EVERY_MS = 1000 };

struct look {
	const struct tcp_ports *ports;
	bool any;  /* the component has a port */
	bool idle; /* so far */
};

static void look_at(void *context, uint16_t port)
{
	struct look *look = context;
	look->any = true;
	look->idle = look->idle && tcp_ports_has(look->ports->listening, port) &&
		!tcp_ports_has(look->ports->connected, port);
}

static bool is_idle(const struct component *component, const struct tcp_ports *ports)
{
	struct look look = { ports, false, true };
	component_each_port(component, look_at, &look);
	return look.any && look.idle;
}

/* Before drain_delay is over, or found to be. */
static bool all_wait(const struct agent *agent)
{
	bool stopping = agent->phase == AGENT_LINGERING && !drain_is_quiet(&agent->drain);
	bool draining = agent->drain.active && agent->drained_at > 0;
	return stopping || (draining && agent_drain_left_s(agent) > 0);
}

static bool any_waits(const struct agent *agent)
{
	bool any = all_wait(agent);
	for (size_t i = 0; i < agent->component_count; i++) {
		any = any || agent_drain_component_waits(agent, agent->components[i]);
	}
	return agent->config->agent.drain_early && agent->component_count > 0 && any;
}

static void note_idle(struct agent *agent, const struct tcp_ports *ports)
{
	bool all_idle = true;
	for (size_t i = 0; i < agent->component_count; i++) {
		struct component *component = agent->components[i];
		bool idle = is_idle(component, ports);
		all_idle = all_idle && idle;
		if (agent_drain_component_waits(agent, component) &&
			drain_look(component_drain(component), idle)) {
			log_info(component_label(component), "drained: no connection is left");
			agent_wake(agent);
		}
	}
	if (all_wait(agent) && drain_look(&agent->drain, all_idle)) {
		log_info("drain", "no connection is left");
		agent_wake(agent);
	}
}

static void look(struct agent *agent)
{
	static struct tcp_ports ports;
	struct err err = ERR_INIT;
	if (tcp_ports_read(&ports, "/proc/self/net", &err)) {
		log_info("drain", "drain_delay does not end early: %s", err.msg);
	} else {
		note_idle(agent, &ports);
	}
}

static void on_timer(void *context)
{
	struct agent *agent = context;
	look(agent);
	agent_drain_early_proceed(agent);
}

void agent_drain_early_init(struct agent *agent)
{
	timer_init(&agent->drain_early_timer, agent->loop, "early end of drain_delay", on_timer,
		agent);
}

void agent_drain_early_proceed(struct agent *agent)
{
	if (any_waits(agent) && !timer_runs(&agent->drain_early_timer)) {
		timer_start(&agent->drain_early_timer, LOOK_EVERY_MS);
	}
}
