/* A component that flaps is held out. */
#include "tests/unit/agent/component/component_stage.h"

#define DAMPING "damping_suppress = 1.5\ndamping_half_life = 7d\n"

static void flap(struct stage *stage)
{
	run_to(stage, ANNOUNCE_REGISTERED);
	report(stage, "one", CHECK_FAILING);
	run_to(stage, ANNOUNCE_WITHDRAWN);
	report(stage, "one", CHECK_PASSING);
}

STAGED(a_component_that_flaps_is_held_out_until_it_is_let_in, DAMPING CHECK("one"))
{
	report(stage, "one", CHECK_PASSING);
	cr_assert_eq(component_penalty(stage->component), 0);
	flap(stage);
	run_to(stage, ANNOUNCE_REGISTERED);
	cr_assert_float_eq(component_penalty(stage->component), 1, 0.01);
	cr_assert_not(component_damped(stage->component));
	flap(stage);
	cr_assert(component_damped(stage->component));
	cr_assert_eq(state_of(stage), ANNOUNCE_WITHDRAWN);
	cr_assert(explains(stage,
		"flap damping holds it out until its penalty has decayed to 1, "
		"at 2"));
	cr_assert_not_null(strstr(stage->trail, "damping of c2 free>held; "));
	cr_assert_null(strstr(stage->whys, "; its penalty has decayed;"));
	report(stage, "one", CHECK_FAILING);
	cr_assert_float_eq(component_penalty(stage->component), 3, 0.01);
	report(stage, "one", CHECK_WARNING);
	cr_assert_eq(state_of(stage), ANNOUNCE_WITHDRAWN);
	component_undamp(stage->component);
	run_to(stage, ANNOUNCE_REGISTERED);
	cr_assert_not(component_damped(stage->component));
	cr_assert_eq(component_penalty(stage->component), 0);
	cr_assert_not_null(strstr(stage->trail, "damping of c2 held>free; "));
}

STAGED(damping_lasts_through_a_restart, DAMPING CHECK("one"))
{
	report(stage, "one", CHECK_PASSING);
	flap(stage);
	flap(stage);
	cr_assert(component_damped(stage->component));
	json_t *saved = component_save(stage->component);
	stage->trail[0] = '\0';
	component_anew(stage, saved);
	json_decref(saved);
	component_set_gate(stage->component, COMPONENT_GATE_OPEN, "");
	cr_assert_null(strstr(stage->trail, "damping"), "it is not news: %s", stage->trail);
	cr_assert(component_damped(stage->component));
	cr_assert_float_eq(component_penalty(stage->component), 2, 0.01);
	RUN_UNTIL(stage->loop, state_of(stage) == ANNOUNCE_WITHDRAWN);
	reload(stage, "damping = no\n" CHECK("one"));
	run_to(stage, ANNOUNCE_REGISTERED);
}

STAGED(a_failure_after_a_restart_is_flapping, DAMPING CHECK("one"))
{
	report(stage, "one", CHECK_PASSING);
	run_to(stage, ANNOUNCE_REGISTERED);
	json_t *saved = component_save(stage->component);
	component_destroy(stage->component);
	stage->component = NULL;
	checks_anew(stage);
	component_anew(stage, saved);
	json_decref(saved);
	component_set_gate(stage->component, COMPONENT_GATE_OPEN, "");
	report(stage, "one", CHECK_FAILING);
	cr_assert_float_eq(component_penalty(stage->component), 1, 0.01);
}

static void on_end(struct ev_loop *loop, ev_timer *timer, int events)
{
	(void)timer;
	(void)events;
	ev_break(loop, EVBREAK_ALL);
}

STAGED(a_component_that_is_in_leaves_the_loop_alone, CHECK("one"))
{
	report(stage, "one", CHECK_PASSING);
	run_to(stage, ANNOUNCE_REGISTERED);
	ev_timer end;
	ev_timer_init(&end, on_end, 0.05, 0.);
	ev_timer_start(stage->loop, &end);
	unsigned before = ev_iteration(stage->loop);
	ev_run(stage->loop, 0);
	cr_assert_lt(ev_iteration(stage->loop) - before, 4);
}

STAGED(a_penalty_that_has_decayed_lets_it_in,
	"damping_suppress = 0.5\ndamping_reuse = 0.4\ndamping_half_life = 150ms\n" CHECK("one"))
{
	report(stage, "one", CHECK_PASSING);
	flap(stage);
	run_to(stage, ANNOUNCE_REGISTERED);
	cr_assert_not_null(strstr(stage->trail, "damping of c2 free>held; "));
	cr_assert_not_null(strstr(stage->trail, "damping of c2 held>free; "));
	cr_assert_not_null(strstr(stage->whys, "; its penalty has decayed; "));
}

STAGED(a_failure_while_the_gate_is_closed_is_no_flapping, DAMPING CHECK("one"))
{
	report(stage, "one", CHECK_FAILING);
	report(stage, "one", CHECK_PASSING);
	run_to(stage, ANNOUNCE_REGISTERED);
	cr_assert_eq(component_penalty(stage->component), 0, "it had never been in");
	component_set_gate(stage->component, COMPONENT_GATE_CLOSED, "drained");
	report(stage, "one", CHECK_FAILING);
	component_set_gate(stage->component, COMPONENT_GATE_OPEN, "");
	report(stage, "one", CHECK_PASSING);
	run_to(stage, ANNOUNCE_REGISTERED);
	cr_assert_eq(component_penalty(stage->component), 0);
}
