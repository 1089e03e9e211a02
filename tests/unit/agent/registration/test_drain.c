/* Drains of the agent and of single components, and the components that a reload leaves out. */

#include "tests/unit/agent/registration/seams.h"
#include "tests/unit/agent/wiring_stage.h"

static bool is_done(struct wiring *wiring)
{
	json_t *json = agent_drain_json(&wiring->agent);
	bool done = json_is_true(json_object_get(json, "done"));
	json_decref(json);
	return done;
}

static bool component_is_done(struct wiring *wiring, const char *label)
{
	json_t *json = agent_drain_component_json(&wiring->agent, component_of(wiring, label));
	bool done = json_is_true(json_object_get(json, "done"));
	json_decref(json);
	return done;
}

static bool is_registered(struct wiring *wiring, const char *label)
{
	return component_registered(component_of(wiring, label));
}

#define TWO NO_DELAY COMPONENT("a") COMPONENT("b")

WIRED(drain, the_agent_is_drained_once_no_record_is_left, TWO)
{
	run_to_registered(wiring);
	cr_expect_not(is_done(wiring));
	agent_drain_begin(&wiring->agent, NULL, "a new kernel", 0);
	RUN_UNTIL(wiring->agent.loop, is_done(wiring));
	cr_expect_not(is_registered(wiring, "a"));
	cr_expect_not(is_registered(wiring, "b"));
	cr_expect_not_null(strstr(wiring->deleted, "/app/a; "));
	cr_expect_not_null(strstr(wiring->deleted, "/app/b; "));
	cr_expect(tells(wiring, "drain", "draining"));
	agent_drain_end(&wiring->agent, NULL);
	run_to_registered(wiring);
	cr_expect(tells(wiring, "drain", "serving"));
	cr_expect_not(is_done(wiring));
}

WIRED(drain, it_is_not_done_before_the_registry_has_confirmed_it, TWO)
{
	run_to_registered(wiring);
	wiring->failing_stats = 1;
	agent_drain_begin(&wiring->agent, NULL, "", 0);
	RUN_UNTIL(wiring->agent.loop, wiring->failing_stats == 0);
	RUN_UNTIL(wiring->agent.loop, wiring->agent.drain_confirmations == 0);
	cr_expect_not(is_done(wiring));
	cr_expect(timer_runs(&wiring->agent.drain_retry_timer), "it asks again");
	RUN_UNTIL(wiring->agent.loop, is_done(wiring));
}

WIRED(drain, a_drain_ends_when_its_time_is_over, TWO)
{
	run_to_registered(wiring);
	agent_drain_begin(&wiring->agent, NULL, "", 1);
	agent_drain_begin(&wiring->agent, component_of(wiring, "a"), "", 1);
	RUN_UNTIL(wiring->agent.loop,
		!wiring->agent.drain.active && !component_drain(component_of(wiring, "a"))->active);
	run_to_registered(wiring);
	cr_expect(tells(wiring, "drain", "serving"));
	cr_expect(tells(wiring, "drain of a", "serving"));
}

WIRED(drain, one_component_is_drained_by_itself, TWO)
{
	run_to_registered(wiring);
	agent_drain_begin(&wiring->agent, component_of(wiring, "a"), "", 0);
	RUN_UNTIL(wiring->agent.loop, component_is_done(wiring, "a"));
	cr_expect_not(is_registered(wiring, "a"));
	cr_expect(is_registered(wiring, "b"));
	cr_expect_null(agent_drain_component_json(&wiring->agent, component_of(wiring, "b")));
	cr_expect_not(is_done(wiring));
	struct err why = ERR_INIT;
	cr_expect_not(agent_components_ready(&wiring->agent, false, &why));
	cr_expect_not_null(strstr(why.msg, "component a is withdrawn"), "%s", why.msg);
}

WIRED(drain, drains_survive_a_restart, TWO)
{
	run_to_registered(wiring);
	agent_drain_begin(&wiring->agent, NULL, "a new disk", 0);
	agent_drain_begin(&wiring->agent, component_of(wiring, "b"), "too slow", 0);
	agent_end(wiring);
	agent_begin(wiring);
	cr_expect(wiring->agent.drain.active);
	cr_expect_str_eq(wiring->agent.drain.reason, "a new disk");
	cr_expect_not(component_drain(component_of(wiring, "a"))->active);
	cr_expect_str_eq(component_drain(component_of(wiring, "b"))->reason, "too slow");
	RUN_UNTIL(wiring->agent.loop, is_done(wiring));
	agent_drain_end(&wiring->agent, NULL);
	RUN_UNTIL(wiring->agent.loop, is_registered(wiring, "a"));
	cr_expect_not(is_registered(wiring, "b"), "its own drain goes on");
	agent_drain_end(&wiring->agent, component_of(wiring, "b"));
	agent_end(wiring);
	agent_begin(wiring);
	run_to_registered(wiring);
}

WIRED(drain, a_parent_goes_behind_its_children,
	NO_DELAY COMPONENT("a") "znode = persistent\n[component deep]\npath = /app/a/deep\n")
{
	run_to_registered(wiring);
	agent_drain_begin(&wiring->agent, NULL, "", 0);
	RUN_UNTIL(wiring->agent.loop, is_done(wiring));
	cr_expect_str_eq(wiring->deleted, "/app/a/deep; /app/a; ");
}

/* ---- reload ---- */

WIRED(reload, a_component_that_is_no_longer_configured_withdraws, TWO)
{
	run_to_registered(wiring);
	agent_components_reload(&wiring->agent, load(wiring, NO_DELAY COMPONENT("b")));
	cr_expect_eq(wiring->agent.component_count, 1);
	cr_expect(agent_components_have_path(&wiring->agent, "/app/a"), "it is not gone yet");
	RUN_UNTIL(wiring->agent.loop, wiring->agent.retired_count == 0);
	cr_expect_not_null(strstr(wiring->deleted, "/app/a; "));
	cr_expect_null(strstr(wiring->deleted, "/app/b; "), "the other one is left alone");
	cr_expect_not(agent_components_have_path(&wiring->agent, "/app/a"));
	cr_expect(is_registered(wiring, "b"));
}

WIRED(reload, one_that_comes_back_at_once_keeps_its_record_or_makes_it_again, TWO)
{
	run_to_registered(wiring);
	agent_components_reload(&wiring->agent, load(wiring, NO_DELAY COMPONENT("b")));
	agent_components_reload(&wiring->agent, load(wiring, TWO));
	cr_expect_eq(wiring->agent.retired_count, 0);
	run_to_registered(wiring);
	cr_expect(is_registered(wiring, "a"));
}

WIRED(reload, a_drain_goes_with_its_component_to_another_path, TWO)
{
	run_to_registered(wiring);
	agent_drain_begin(&wiring->agent, component_of(wiring, "a"), "too slow", 0);
	agent_components_reload(&wiring->agent,
		load(wiring, NO_DELAY "[component a]\npath = /app/moved\n" COMPONENT("b")));
	cr_expect_str_eq(component_drain(component_of(wiring, "a"))->reason, "too slow");
	RUN_UNTIL(wiring->agent.loop,
		wiring->agent.retired_count == 0 && component_is_done(wiring, "a"));
}
