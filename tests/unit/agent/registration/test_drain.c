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

/* ---- reload ---- */

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
