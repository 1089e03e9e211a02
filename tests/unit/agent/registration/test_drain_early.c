/* drain_early: the delay of a drain ends with the last connection. */
#include "agent/registration/drain_early.h"
#include "tests/unit/agent/registration/opened_stage.h"

#define EARLY "[registry]\nupdate_interval = 0s\n[agent]\ndrain_delay = 1m\ndrain_early = yes\n"
#define ENDPOINT(component, port)                                                                  \
	"[endpoint " component "-" port "]\ncomponent = " component                                \
	"\napi = web\nprotocol = http\naddress_type = host/port\naddress = 10.0.0.1:" port "\n"
#define A COMPONENT("a") ENDPOINT("a", "81")
#define B COMPONENT("b") ENDPOINT("b", "82")

static struct component *of(struct opened *stage, const char *label)
{
	return component_of(&stage->wiring, label);
}

static void set(uint8_t *ports, int port, bool on)
{
	uint8_t bit = (uint8_t)(1 << (port % 8));
	ports[port / 8] = on ? ports[port / 8] | bit : ports[port / 8] & (uint8_t)~bit;
}

static void listen_at(int port)
{
	set(seams.ports.listening, port, true);
}

static void connect_to(int port, bool on)
{
	set(seams.ports.connected, port, on);
}

static bool looks(const struct opened *stage)
{
	return timer_runs(&stage->agent->drain_early_timer);
}

/* A look, whose time has come. */
static void look(struct opened *stage)
{
	stage->wakes = 0;
	end_timer(&stage->agent->drain_early_timer);
	run_a_while(stage);
}

static void begin_looking(struct opened *stage)
{
	agent_drain_early_init(stage->agent);
	run_to_records(stage);
	agent_drain_early_proceed(stage->agent);
	cr_expect_not(looks(stage), "nothing is drained");
}

static void end_looking(struct opened *stage)
{
	timer_stop(&stage->agent->drain_early_timer);
}

static void drain_component(struct opened *stage, const char *label)
{
	agent_drain_begin(stage->agent, of(stage, label), "", 0);
	RUN_UNTIL(stage->agent->loop, agent_drain_component_waits(stage->agent, of(stage, label)));
	agent_drain_early_proceed(stage->agent);
}

static void drain_agent(struct opened *stage)
{
	agent_drain_begin(stage->agent, NULL, "", 0);
	RUN_UNTIL(stage->agent->loop, stage->agent->drained_at > 0);
	agent_drain_early_proceed(stage->agent);
}

static bool component_waits(struct opened *stage, const char *label)
{
	return agent_drain_component_waits(stage->agent, of(stage, label));
}

OPENED(drain_early, two_looks_without_a_connection_end_the_delay_of_a_component, EARLY A B)
{
	begin_looking(stage);
	listen_at(81);
	drain_component(stage, "a");
	look(stage);
	cr_expect(component_waits(stage, "a"), "a client may be about to connect");
	look(stage);
	cr_expect_not(component_waits(stage, "a"));
	cr_expect_gt(stage->wakes, 0);
}

OPENED(drain_early, without_a_port_the_whole_delay_passes, EARLY COMPONENT("a"))
{
	begin_looking(stage);
	drain_component(stage, "a");
	look(stage);
	look(stage);
	cr_expect(component_waits(stage, "a"));
	end_looking(stage);
}

OPENED(drain_early, the_agent_waits_for_all, EARLY A B)
{
	begin_looking(stage);
	listen_at(81);
	listen_at(82);
	connect_to(81, true);
	drain_agent(stage);
	cr_expect(looks(stage));
	look(stage);
	look(stage);
	cr_expect_gt(agent_drain_left_s(stage->agent), 0);
	connect_to(81, false);
	connect_to(82, true);
	look(stage);
	look(stage);
	cr_expect_gt(agent_drain_left_s(stage->agent), 0);
	cr_expect_not(was_logged("no connection is left"));
	connect_to(82, false);
	look(stage);
	cr_expect_gt(agent_drain_left_s(stage->agent), 0);
	look(stage);
	cr_expect_eq(agent_drain_left_s(stage->agent), 0);
	cr_expect_gt(stage->wakes, 0);
	cr_expect(was_logged("drain: no connection is left\n"));
	cr_expect_not(looks(stage));
}

OPENED(drain_early, an_agent_that_stops_looks_while_it_lingers, EARLY A B)
{
	struct agent *agent = stage->agent;
	begin_looking(stage);
	listen_at(81);
	listen_at(82);
	agent->phase = AGENT_DEREGISTERING;
	agent_drain_early_proceed(agent);
	cr_expect_not(looks(stage));
	agent->phase = AGENT_LINGERING;
	agent_drain_early_proceed(agent);
	cr_expect(looks(stage));
	end_looking(stage);
}
