/* The phases of a stop. */

#include "tests/unit/agent/wiring_stage.h"

#define DELAY "[agent]\ndrain_delay = 100ms\n"

static bool has_ended(const struct wiring *wiring)
{
	return wiring->agent.phase == AGENT_DONE;
}

WIRED(stop, a_stop_withdraws_waits_and_ends, DELAY COMPONENT("a"))
{
	run_to_registered(wiring);
	agent_stop(&wiring->agent, "SIGTERM");
	cr_expect_eq(wiring->agent.phase, AGENT_DEREGISTERING);
	RUN_UNTIL(wiring->agent.loop, wiring->agent.phase != AGENT_DEREGISTERING);
	cr_expect_eq(wiring->agent.phase, AGENT_LINGERING);
	cr_expect_str_eq(wiring->deleted, "/app/a; ");
	agent_stop(&wiring->agent, "SIGINT");
	cr_expect_eq(wiring->agent.phase, AGENT_LINGERING, "once is enough");
	RUN_UNTIL(wiring->agent.loop, has_ended(wiring));
	cr_expect_not(wiring->agent.leave_session);
}

WIRED(stop, without_a_record_nobody_has_to_notice, DELAY)
{
	agent_stop(&wiring->agent, "SIGTERM");
	RUN_UNTIL(wiring->agent.loop, wiring->agent.phase != AGENT_DEREGISTERING);
	cr_expect(has_ended(wiring), "it does not wait for drain_delay");
}

WIRED(stop, after_a_drain_the_rest_of_its_delay_counts, NO_DELAY COMPONENT("a"))
{
	run_to_registered(wiring);
	agent_drain_begin(&wiring->agent, NULL, "", 0);
	RUN_UNTIL(wiring->agent.loop, wiring->agent.drained_at > 0);
	agent_stop(&wiring->agent, "SIGTERM");
	RUN_UNTIL(wiring->agent.loop, wiring->agent.phase != AGENT_DEREGISTERING);
	cr_expect(has_ended(wiring));
}

WIRED(stop, a_record_that_outlives_the_agent_stays,
	DELAY COMPONENT("a") "znode = persistent\non_stop = keep\n" COMPONENT("b"))
{
	run_to_registered(wiring);
	agent_stop(&wiring->agent, "SIGTERM");
	RUN_UNTIL(wiring->agent.loop, has_ended(wiring));
	cr_expect_str_eq(wiring->deleted, "/app/b; ");
}

WIRED(stop, a_quit_leaves_everything_to_a_successor, DELAY COMPONENT("a"))
{
	run_to_registered(wiring);
	agent_quit(&wiring->agent, "SIGQUIT");
	cr_expect(has_ended(wiring));
	cr_expect(wiring->agent.leave_session);
	agent_components_update_gates(&wiring->agent);
	cr_expect(all_registered(wiring), "no gate closes any more");
	cr_expect_str_eq(wiring->deleted, "");
}

WIRED(stop, a_quit_ends_a_stop_that_waits, DELAY COMPONENT("a"))
{
	run_to_registered(wiring);
	agent_stop(&wiring->agent, "SIGTERM");
	agent_quit(&wiring->agent, "SIGQUIT");
	cr_expect(has_ended(wiring));
	cr_expect(wiring->agent.leave_session);
}

WIRED(stop, a_registry_that_is_away_is_not_waited_for, DELAY COMPONENT("a"))
{
	run_to_registered(wiring);
	memory_set_answering(wiring->agent.registry, false);
	memory_set_state(wiring->agent.registry, REGISTRY_AWAY);
	RUN_UNTIL(wiring->agent.loop, !all_registered(wiring));
	agent_stop(&wiring->agent, "SIGTERM");
	RUN_UNTIL(wiring->agent.loop, has_ended(wiring));
	cr_expect_str_eq(wiring->deleted, "");
}
