#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#include "agent/component/verdict.h"

static struct component_check_view check_in(enum check_state state)
{
	return (struct component_check_view){
		.name = "c", .why = "because", .detail = "", .state = state, .whole = true
	};
}

Test(component_verdict, no_checks_and_an_open_gate_are_up)
{
	struct component_verdict verdict = component_verdict(COMPONENT_GATE_OPEN, "", NULL, 0);
	cr_assert(eq(int, verdict.wish, ANNOUNCE_UP));
	cr_assert(not(verdict.failing));
}

Test(component_verdict, every_check_has_to_be_up)
{
	struct component_check_view views[] = { check_in(CHECK_STATE_UP),
		check_in(CHECK_STATE_UP) };
	cr_assert(eq(int, component_verdict(COMPONENT_GATE_OPEN, "", views, 2).wish, ANNOUNCE_UP));
	views[1].state = CHECK_STATE_DOWN;
	struct component_verdict verdict = component_verdict(COMPONENT_GATE_OPEN, "", views, 2);
	cr_assert(eq(int, verdict.wish, ANNOUNCE_DOWN));
	cr_assert(verdict.failing);
	cr_assert(eq(str, verdict.why, "check c: because"));
}

Test(component_verdict, a_pending_check_leaves_the_record_as_it_is)
{
	struct component_check_view views[] = { check_in(CHECK_STATE_UP),
		check_in(CHECK_STATE_PENDING) };
	cr_assert(
		eq(int, component_verdict(COMPONENT_GATE_OPEN, "", views, 2).wish, ANNOUNCE_KEEP));
}

Test(component_verdict, down_wins_over_pending)
{
	struct component_check_view views[] = { check_in(CHECK_STATE_PENDING),
		check_in(CHECK_STATE_DOWN) };
	cr_assert(
		eq(int, component_verdict(COMPONENT_GATE_OPEN, "", views, 2).wish, ANNOUNCE_DOWN));
}

Test(component_verdict, a_check_of_some_endpoints_does_not_count)
{
	struct component_check_view view = check_in(CHECK_STATE_DOWN);
	view.whole = false;
	struct component_verdict verdict = component_verdict(COMPONENT_GATE_OPEN, "", &view, 1);
	cr_assert(eq(int, verdict.wish, ANNOUNCE_UP));
	cr_assert(not(verdict.failing));
}

Test(component_verdict, names_every_check_that_is_responsible)
{
	struct component_check_view views[] = { check_in(CHECK_STATE_DOWN),
		check_in(CHECK_STATE_UP), check_in(CHECK_STATE_DOWN),
		check_in(CHECK_STATE_PENDING) };
	views[2].name = "db";
	views[2].why = "no answer within 5s";
	views[3].name = "new";
	struct component_verdict verdict = component_verdict(COMPONENT_GATE_OPEN, "", views, 4);
	cr_assert(eq(str, verdict.why, "check c: because; check db: no answer within 5s"));
	views[0].state = views[2].state = CHECK_STATE_PENDING;
	views[0].detail = "cannot run /usr/bin/curl: No such file or directory";
	verdict = component_verdict(COMPONENT_GATE_OPEN, "", views, 4);
	cr_assert(eq(str, verdict.why,
		"check c has not passed yet: cannot run /usr/bin/curl: No such file or directory; "
		"check db has not passed yet; check new has not passed yet"));
}

Test(component_verdict, a_check_of_some_endpoints_is_silent_until_its_first_verdict)
{
	struct component_check_view view = check_in(CHECK_STATE_PENDING);
	cr_assert(not(component_verdict(COMPONENT_GATE_OPEN, "", &view, 1).silent));
	view.whole = false;
	cr_assert(component_verdict(COMPONENT_GATE_OPEN, "", &view, 1).silent);
	view.state = CHECK_STATE_DOWN;
	cr_assert(not(component_verdict(COMPONENT_GATE_OPEN, "", &view, 1).silent));
}

Test(component_verdict, a_closed_gate_is_down_but_not_failing)
{
	struct component_check_view view = check_in(CHECK_STATE_DOWN);
	struct component_verdict verdict = component_verdict(
		COMPONENT_GATE_CLOSED, "draining: upgrade", &view, 1);
	cr_assert(eq(int, verdict.wish, ANNOUNCE_DOWN));
	cr_assert(not(verdict.failing));
	cr_assert(eq(str, verdict.why, "draining: upgrade"));
}

Test(component_verdict, an_undecided_gate_keeps_unless_a_check_is_down)
{
	struct component_check_view view = check_in(CHECK_STATE_UP);
	struct component_verdict verdict = component_verdict(
		COMPONENT_GATE_UNDECIDED, "wait", &view, 1);
	cr_assert(eq(int, verdict.wish, ANNOUNCE_KEEP));
	cr_assert(eq(str, verdict.why, "wait"));
	view.state = CHECK_STATE_DOWN;
	cr_assert(eq(int, component_verdict(COMPONENT_GATE_UNDECIDED, "wait", &view, 1).wish,
		ANNOUNCE_DOWN));
}

Test(component_verdict, one_warning_is_a_warning_and_the_reason)
{
	struct component_check_view views[] = { check_in(CHECK_STATE_UP),
		check_in(CHECK_STATE_UP) };
	cr_assert(not(component_verdict(COMPONENT_GATE_OPEN, "", views, 2).warning));
	views[1].warning = true;
	views[1].name = "disk";
	views[1].why = "exit status 1";
	struct component_verdict verdict = component_verdict(COMPONENT_GATE_OPEN, "", views, 2);
	cr_assert(verdict.warning);
	cr_assert(eq(int, verdict.wish, ANNOUNCE_UP));
	cr_assert(eq(str, verdict.why, "check disk warns: exit status 1"));
	views[0].warning = true;
	verdict = component_verdict(COMPONENT_GATE_OPEN, "", views, 2);
	cr_assert(eq(str, verdict.why, "check c warns: because"));
}

Test(component_verdict, up_has_a_reason_that_counts_the_checks)
{
	struct component_check_view views[] = { check_in(CHECK_STATE_UP),
		check_in(CHECK_STATE_UP) };
	static const char *const reasons[] = { "no checks", "its check is up",
		"all checks are up" };
	for (size_t count = 0; count <= 2; count++) {
		cr_expect_str_eq(component_verdict(COMPONENT_GATE_OPEN, "", views, count).why,
			reasons[count]);
	}
}
