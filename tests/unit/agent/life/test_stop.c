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

#define LONG_DELAY "[agent]\ndrain_delay = 1h\n"

/* The time of the phase is over. */
static void let_time_pass(struct wiring *wiring)
{
	ev_feed_event(wiring->agent.loop, &wiring->agent.phase_timer.timer, EV_TIMER);
	ev_run(wiring->agent.loop, EVRUN_NOWAIT);
}

WIRED(stop, a_registry_that_does_not_answer_is_waited_for_in_vain, LONG_DELAY COMPONENT("a"))
{
	struct agent *agent = &wiring->agent;
	run_to_registered(wiring);
	memory_set_answering(agent->registry, false);
	agent_stop(agent, "SIGTERM");
	for (int i = 0; i < 5; i++) {
		ev_run(agent->loop, EVRUN_NOWAIT);
	}
	cr_expect_eq(agent->phase, AGENT_DEREGISTERING);
	int64_t left_ms = timer_left_ms(&agent->phase_timer);
	cr_expect(left_ms > 0 && left_ms <= 3000, "%d", (int)left_ms);
	let_time_pass(wiring);
	cr_expect_eq(agent->phase, AGENT_LINGERING);
	left_ms = timer_left_ms(&agent->phase_timer);
	cr_expect(left_ms > 3000000 && left_ms <= 3600000, "%d", (int)left_ms);
	let_time_pass(wiring);
	cr_expect(has_ended(wiring));
	let_time_pass(wiring);
	cr_expect(has_ended(wiring));
	memory_set_answering(agent->registry, true);
}

WIRED(stop, an_early_end_of_the_wait_is_that_of_the_last_connection, LONG_DELAY COMPONENT("a"))
{
	struct agent *agent = &wiring->agent;
	run_to_registered(wiring);
	agent->drain.quiet_looks = 2; /* of an earlier drain */
	agent_stop(agent, "SIGTERM");
	RUN_UNTIL(agent->loop, agent->phase != AGENT_DEREGISTERING);
	agent_stop_proceed(agent);
	cr_expect_eq(agent->phase, AGENT_LINGERING, "it begins to look");
	cr_expect_eq(agent->drain.quiet_looks, 0);
	agent->drain.quiet_looks = 1;
	agent_stop_proceed(agent);
	cr_expect_eq(agent->phase, AGENT_LINGERING);
	agent->drain.quiet_looks = 2;
	agent_stop_proceed(agent);
	cr_expect(has_ended(wiring));
	cr_expect_not(timer_runs(&agent->phase_timer));
}

WIRED(stop, an_agent_that_was_drained_a_moment_ago_stays_for_the_rest, LONG_DELAY COMPONENT("a"))
{
	struct agent *agent = &wiring->agent;
	run_to_registered(wiring);
	agent_drain_begin(agent, NULL, "", 0);
	RUN_UNTIL(agent->loop, agent->drained_at > 0);
	agent->drained_at -= 1800;
	agent_stop(agent, "SIGTERM");
	RUN_UNTIL(agent->loop, agent->phase != AGENT_DEREGISTERING);
	cr_expect_eq(agent->phase, AGENT_LINGERING);
	int64_t left_ms = timer_left_ms(&agent->phase_timer);
	cr_expect(left_ms > 1700000 && left_ms <= 1800000, "%d", (int)left_ms);
}
