/* The agent's components: their gates, what all hear of them, and questions about all of them. */
#include "tests/unit/agent/registration/opened_stage.h"

/* Records may change at any time. */
#define QUICK "[registry]\nupdate_interval = 0s\n"
#define A COMPONENT("a")
#define B COMPONENT("b")
#define PERSISTENT "znode = persistent\n"
#define KEPT PERSISTENT "on_stop = keep\n"

static enum announce_state state_of(struct opened *stage, const char *label)
{
	return component_state(component_of(&stage->wiring, label));
}

static bool is_registered(struct opened *stage, const char *label)
{
	return component_registered(component_of(&stage->wiring, label));
}

static bool is_because(struct opened *stage, const char *label, const char *reason)
{
	const char *why = component_why(component_of(&stage->wiring, label));
	bool is = strstr(why, reason) != NULL;
	cr_expect(is, "%s", why);
	return is;
}

static void decide(struct opened *stage)
{
	agent_wake(stage->agent);
	run_a_while(stage);
}

/* ---- gates ---- */

OPENED(gates, an_agent_that_stops_takes_its_records_out, QUICK A)
{
	struct agent *agent = stage->agent;
	run_to_records(stage);
	agent->phase = AGENT_DEREGISTERING;
	decide(stage);
	RUN_UNTIL(agent->loop, !is_registered(stage, "a"));
	is_because(stage, "a", "the agent is stopping");
	cr_expect_eq(state_of(stage, "a"), ANNOUNCE_WITHDRAWN);
	agent->phase = AGENT_RUNNING;
	decide(stage);
	run_to_records(stage);
	agent->phase = AGENT_LINGERING;
	decide(stage);
	RUN_UNTIL(agent->loop, !is_registered(stage, "a"));
}

OPENED(gates, nothing_is_registered_before_the_main_process_runs, QUICK A)
{
	struct agent *agent = stage->agent;
	agent->supervise = NEIGHBOUR;
	RUN_UNTIL(agent->loop, registry_state(agent->registry) == REGISTRY_CONNECTED);
	decide(stage);
	cr_expect_not(other_sees(stage, "/app/a"));
	is_because(stage, "a", "the main process is not running");
	agent->main_process = AGENT_MAIN_PROCESS_RUNNING;
	decide(stage);
	run_to_records(stage);
	agent->main_process = AGENT_MAIN_PROCESS_DOWN;
	decide(stage);
	RUN_UNTIL(agent->loop, state_of(stage, "a") == ANNOUNCE_WITHDRAWN);
	is_because(stage, "a", "the main process is not running");
	cr_expect_not(other_sees(stage, "/app/a"));
	agent->main_process = AGENT_MAIN_PROCESS_RUNNING;
	decide(stage);
	run_to_records(stage);
	agent->main_process = AGENT_MAIN_PROCESS_ENDED;
	decide(stage);
	RUN_UNTIL(agent->loop, state_of(stage, "a") == ANNOUNCE_WITHDRAWN);
	agent->supervise = NULL;
	decide(stage);
	run_to_records(stage);
}

OPENED(gates, a_record_of_a_predecessor_stays_until_the_main_process_runs, QUICK A)
{
	struct agent *agent = stage->agent;
	run_to_records(stage);
	agent->supervise = NEIGHBOUR;
	decide(stage);
	cr_expect(is_registered(stage, "a"));
	cr_expect(other_sees(stage, "/app/a"));
	agent->supervise = NULL;
}

OPENED(components, each_that_is_no_longer_configured_has_to_be_settled, QUICK A B)
{
	struct agent *agent = stage->agent;
	run_to_records(stage);
	run_a_while(stage);
	memory_put(stage->other, "/app/p", "");
	agent_components_reload(agent,
		load(&stage->wiring, QUICK COMPONENT("p") KEPT "on_conflict = takeover\n" A B));
	agent_wake(agent);
	run_to_records(stage);
	run_a_while(stage);
	memory_put(stage->other, "/app/p/child", "");
	stage->late = "delete /app/b";
	agent_components_reload(agent, load(&stage->wiring, QUICK A));
	agent_wake(agent);
	RUN_UNTIL(agent->loop, stage->late == NULL);
	run_a_while(stage);
	cr_expect_eq(agent->retired_count, 2, "a node with a child stays");
	cr_expect(component_settled(agent->retired[0]));
	cr_expect_not(agent_components_settled(agent), "but the other one is not settled");
	memory_answer_late(agent->registry);
	RUN_UNTIL(agent->loop, agent->retired_count == 1);
	cr_expect(agent_components_settled(agent));
	memory_remove(stage->other, "/app/p/child");
	RUN_UNTIL(agent->loop, agent->retired_count == 0);
}

OPENED(components, those_that_are_no_longer_configured_hear_of_an_outage, QUICK A B)
{
	struct agent *agent = stage->agent;
	run_to_records(stage);
	run_a_while(stage);
	memory_set_answering(agent->registry, false);
	agent_components_reload(agent, load(&stage->wiring, QUICK));
	run_a_while(stage);
	cr_assert_eq(agent->retired_count, 2);
	memory_set_state(agent->registry, REGISTRY_AWAY);
	RUN_UNTIL(agent->loop, agent->registry_was == REGISTRY_AWAY);
	for (size_t i = 0; i < 2; i++) {
		cr_expect_eq(component_state(agent->retired[i]), ANNOUNCE_WAITING);
	}
	memory_set_answering(agent->registry, true);
	memory_set_state(agent->registry, REGISTRY_CONNECTED);
	RUN_UNTIL(agent->loop, agent->retired_count == 0);
}

/* ---- life ---- */

#define DYNAMIC                                                                                    \
	"[endpoint http]\ncomponent = a\napi = web\nprotocol = http\n"                             \
	"address_type = host/port\ndynamic = yes\n"

static void supply(struct opened *stage, const char *label, const char *address)
{
	struct err err = ERR_INIT;
	json_t *addresses = json_pack("[s]", address);
	cr_assert_eq(component_set_addresses(
			     component_of(&stage->wiring, label), "http", addresses, 0, &err),
		0, "%s", err.msg);
	json_decref(addresses);
}

/* The record at the path, as another client reads it, has this text. */
static bool record_has(const struct opened *stage, const char *path, const char *text)
{
	struct answer answer = { 0 };
	bool has = client_get(stage->other, path, &answer) == 0 && strstr(answer.data, text);
	answer_clear(&answer);
	return has;
}

/* ---- reload ---- */

#define MOVED(label, path) "[component " label "]\npath = " path "\n"

OPENED(components, lessons_go_with_their_names_to_other_paths, QUICK A B DYNAMIC)
{
	struct agent *agent = stage->agent;
	run_to_records(stage);
	supply(stage, "a", "10.1.2.3:80");
	RUN_UNTIL(agent->loop, record_has(stage, "/app/a", "10.1.2.3"));
	agent_drain_begin(agent, component_of(&stage->wiring, "a"), "too old", 0);
	agent_drain_begin(agent, component_of(&stage->wiring, "b"), "too slow", 0);
	agent_components_reload(agent,
		load(&stage->wiring,
			QUICK MOVED("c", "/app/c") MOVED("b", "/app/b2") MOVED("a", "/app/a2")
				DYNAMIC));
	agent_wake(agent);
	cr_expect_eq(agent->retired_count, 2);
	cr_expect_str_eq(component_drain(component_of(&stage->wiring, "a"))->reason, "too old");
	cr_expect_str_eq(component_drain(component_of(&stage->wiring, "b"))->reason, "too slow");
	cr_expect_not(component_drain(component_of(&stage->wiring, "c"))->active);
	RUN_UNTIL(agent->loop, agent->retired_count == 0);
	cr_expect_not(other_sees(stage, "/app/a"));
	cr_expect_not(other_sees(stage, "/app/b"));
	RUN_UNTIL(agent->loop, other_sees(stage, "/app/c"));
	cr_expect_not(other_sees(stage, "/app/a2"), "it is drained");
	agent_drain_end(agent, component_of(&stage->wiring, "a"));
	RUN_UNTIL(agent->loop, record_has(stage, "/app/a2", "10.1.2.3"));
	cr_expect_not(other_sees(stage, "/app/b2"));
}

OPENED(components, one_that_comes_back_is_the_same_one, QUICK A B COMPONENT("c"))
{
	struct agent *agent = stage->agent;
	run_to_records(stage);
	const struct component *a = component_of(&stage->wiring, "a");
	const struct component *c = component_of(&stage->wiring, "c");
	agent_components_reload(agent, load(&stage->wiring, QUICK B));
	cr_expect_eq(agent->retired_count, 2);
	agent_components_reload(agent, load(&stage->wiring, QUICK COMPONENT("c") B));
	cr_expect_eq(agent->retired_count, 1);
	cr_expect_eq(component_of(&stage->wiring, "c"), c);
	agent_components_reload(agent, load(&stage->wiring, QUICK COMPONENT("c") B A));
	cr_expect_eq(component_of(&stage->wiring, "a"), a);
	cr_expect_eq(agent->retired_count, 0);
	run_to_records(stage);
	cr_expect(other_sees(stage, "/app/a"));
	cr_expect(other_sees(stage, "/app/c"));
}
