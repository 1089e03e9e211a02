/* The verdict of a component: its checks, their history, its host's word. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <math.h>

#include "agent/component/damping.h"
#include "agent/component/outcome.h"
#include "agent/component/verdict.h"
#include "lib/base/array.h"

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

enum { HALF_LIFE_MS = 60000 };

static struct check_damping damping;

static void start(void)
{
	damping_init(&damping, 3, 1, HALF_LIFE_MS);
}

TestSuite(check_damping, .init = start);

Test(check_damping, holds_above_the_threshold_only)
{
	for (int down = 1; down <= 3; down++) {
		damping_down(&damping, 0);
		cr_expect_not(damping_held(&damping, 0), "after %d", down);
	}
	damping_down(&damping, 0);
	cr_expect(damping_held(&damping, 0));
}

Test(check_damping, halves_in_each_half_life)
{
	damping_down(&damping, 0);
	damping_down(&damping, 0);
	cr_expect_float_eq(damping_penalty(&damping, HALF_LIFE_MS), 1, 1e-9);
	cr_expect_float_eq(damping_penalty(&damping, 2 * HALF_LIFE_MS), 0.5, 1e-9);
}

Test(check_damping, releases_when_it_said_it_would)
{
	for (int down = 0; down < 4; down++) {
		damping_down(&damping, 1000);
	}
	/* 4 to 1: two half-lives, and then it has to be below. */
	int64_t release_ms = damping_release_ms(&damping, 1000);
	cr_expect_eq(release_ms, 1000 + 2 * HALF_LIFE_MS + 1);
	cr_expect(damping_held(&damping, release_ms - 1));
	cr_expect_not(damping_held(&damping, release_ms));
	cr_expect_eq(damping_release_ms(&damping, release_ms - 1), release_ms);
	damping_init(&damping, 7, 2, HALF_LIFE_MS);
	for (int down = 0; down < 8; down++) {
		damping_down(&damping, 1000);
	}
	cr_expect_eq(damping_release_ms(&damping, 1000), release_ms, "8 to 2");
}

Test(check_damping, between_the_thresholds_it_stays_as_it_was)
{
	for (int down = 0; down < 4; down++) {
		damping_down(&damping, 0);
	}
	cr_expect(damping_held(&damping, HALF_LIFE_MS), "on the way down from above");
	damping_init(&damping, 3, 1, HALF_LIFE_MS);
	damping_down(&damping, 0);
	damping_down(&damping, 0);
	cr_expect_not(damping_held(&damping, 0), "on the way up from below");
}

Test(check_damping, a_release_is_final_until_the_threshold_is_passed_again)
{
	for (int down = 0; down < 4; down++) {
		damping_down(&damping, 0);
	}
	int64_t released_ms = damping_release_ms(&damping, 0);
	damping_down(&damping, released_ms);
	cr_expect_not(damping_held(&damping, released_ms));
}

Test(check_damping, a_night_of_flapping_is_held_for_a_bounded_time)
{
	for (int64_t now = 0; now < 1000000; now += 1000) {
		damping_down(&damping, now);
	}
	int64_t longest_ms = (int64_t)ceil(log2(12) * HALF_LIFE_MS) + 1;
	cr_expect_leq(damping_release_ms(&damping, 1000000), 1000000 + longest_ms);
}

Test(check_damping, goes_on_after_a_restart_on_another_clock)
{
	for (int down = 0; down < 4; down++) {
		damping_down(&damping, 0);
	}
	int64_t left_ms = damping_release_ms(&damping, 0) - 30000;
	json_t *saved = damping_save(&damping, 30000);
	damping_init(&damping, 3, 1, HALF_LIFE_MS);
	cr_assert(damping_load(&damping, saved, 7000000));
	json_decref(saved);
	cr_expect(damping_held(&damping, 7000000));
	cr_expect_leq(llabs(damping_release_ms(&damping, 7000000) - 7000000 - left_ms), 1);
}

Test(check_damping, keeps_what_it_has_when_the_saved_text_is_malformed)
{
	damping_down(&damping, 0);
	static const char *const malformed[] = { "{}", "[]",
		"{\"penalty\": -1, \"suppressed\": true}",
		"{\"penalty\": \"x\", \"suppressed\": true}" };
	for (size_t i = 0; i < ARRAY_LEN(malformed); i++) {
		json_t *saved = json_loads(malformed[i], 0, NULL);
		cr_expect_not(damping_load(&damping, saved, 0), "%s", malformed[i]);
		json_decref(saved);
	}
	cr_expect_float_eq(damping_penalty(&damping, 0), 1, 1e-9);
}

Test(check_damping, begins_anew_when_it_is_cleared)
{
	for (int down = 0; down < 5; down++) {
		damping_down(&damping, 0);
	}
	damping_clear(&damping);
	cr_expect_not(damping_held(&damping, 0));
	damping_down(&damping, 0);
	cr_expect_not(damping_held(&damping, 0));
	cr_expect_float_eq(damping_penalty(&damping, 0), 1, 1e-9);
}

static struct component_outcome hosted(void)
{
	return (struct component_outcome){ .hosted = true };
}

static void say(struct component_outcome *outcome, const char *state)
{
	json_t *record = state ? json_pack("{s:s, s:s}", "state", state, "why", "because") : NULL;
	component_outcome_take(outcome, true, record);
	json_decref(record);
}

static enum announce_state shown(struct component_outcome *outcome, enum announce_state own)
{
	component_outcome_show(outcome, own, "its check is up", 4711);
	return outcome->shown;
}

Test(component_outcome, the_hosts_word_decides_about_a_record_that_is_written)
{
	static const struct {
		const char *state;
		enum announce_state shown;
	} rows[] = { { NULL, ANNOUNCE_WRITING }, { "registered", ANNOUNCE_REGISTERED },
		{ "outdated", ANNOUNCE_OUTDATED }, { "conflict", ANNOUNCE_CONFLICT },
		{ "refused", ANNOUNCE_FAILED }, { "failed", ANNOUNCE_FAILED },
		{ "waiting", ANNOUNCE_WAITING }, { "lingering", ANNOUNCE_WAITING },
		{ "of a later version", ANNOUNCE_WAITING } };
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct component_outcome outcome = hosted();
		say(&outcome, rows[i].state);
		cr_assert_eq(shown(&outcome, ANNOUNCE_REGISTERED), rows[i].shown, "%s",
			rows[i].state ? rows[i].state : "-");
	}
}

Test(component_outcome, a_record_that_the_host_may_have_seen_is_asked_for)
{
	struct component_outcome outcome = hosted();
	say(&outcome, NULL);
	(void)shown(&outcome, ANNOUNCE_REGISTERED);
	cr_assert(not(component_outcome_is_unseen(&outcome, ANNOUNCE_REGISTERED)));
	cr_assert(eq(int, shown(&outcome, ANNOUNCE_WITHDRAWN), ANNOUNCE_WITHDRAWING));
	cr_assert(component_outcome_is_unseen(&outcome, ANNOUNCE_WITHDRAWN));
	say(&outcome, NULL); /* the list may be older than the record */
	cr_assert(eq(int, shown(&outcome, ANNOUNCE_WITHDRAWN), ANNOUNCE_WITHDRAWING));
	component_outcome_asked(&outcome);
	cr_assert(eq(int, shown(&outcome, ANNOUNCE_WITHDRAWN), ANNOUNCE_WITHDRAWN));
}

Test(component_outcome, a_record_that_was_seen_goes_by_the_hosts_word)
{
	struct component_outcome outcome = hosted();
	say(&outcome, NULL);
	(void)shown(&outcome, ANNOUNCE_REGISTERED);
	say(&outcome, "writing");
	(void)shown(&outcome, ANNOUNCE_WITHDRAWN);
	cr_assert(not(component_outcome_is_unseen(&outcome, ANNOUNCE_WITHDRAWN)));
	cr_assert(eq(int, outcome.shown, ANNOUNCE_WITHDRAWING));
	say(&outcome, NULL);
	cr_assert(eq(int, shown(&outcome, ANNOUNCE_WITHDRAWN), ANNOUNCE_WITHDRAWN));
}

Test(component_outcome, nobody_waits_for_a_host_that_is_away)
{
	struct component_outcome outcome = hosted();
	say(&outcome, NULL);
	(void)shown(&outcome, ANNOUNCE_REGISTERED);
	component_outcome_take(&outcome, false, NULL);
	cr_assert(eq(int, shown(&outcome, ANNOUNCE_WITHDRAWN), ANNOUNCE_WITHDRAWN));
	say(&outcome, NULL); /* it is back, and looked since */
	cr_assert(eq(int, shown(&outcome, ANNOUNCE_WITHDRAWN), ANNOUNCE_WITHDRAWN));
}

Test(component_outcome, reasons_are_the_hosts_where_it_decides)
{
	struct component_outcome outcome = hosted();
	say(&outcome, "refused");
	(void)shown(&outcome, ANNOUNCE_REGISTERED);
	cr_assert(eq(str, outcome.shown_why, "the host's agent says refused: because"));
	say(&outcome, "registered");
	(void)shown(&outcome, ANNOUNCE_REGISTERED);
	cr_assert(eq(str, outcome.shown_why, "its check is up"));
	(void)shown(&outcome, ANNOUNCE_CONFLICT);
	cr_assert(eq(str, outcome.shown_why, "its check is up"));
}

Test(component_outcome, a_record_is_withdrawn_when_the_host_has_it_no_longer)
{
	struct component_outcome outcome = hosted();
	cr_assert(eq(int, shown(&outcome, ANNOUNCE_WITHDRAWN), ANNOUNCE_WITHDRAWN));
	say(&outcome, "registered");
	cr_assert(eq(int, shown(&outcome, ANNOUNCE_WITHDRAWN), ANNOUNCE_WITHDRAWING));
	component_outcome_take(&outcome, false, NULL);
	cr_assert(eq(int, shown(&outcome, ANNOUNCE_WITHDRAWN), ANNOUNCE_WITHDRAWING));
	say(&outcome, "waiting"); /* its registry is away */
	cr_assert(eq(int, shown(&outcome, ANNOUNCE_WITHDRAWN), ANNOUNCE_WITHDRAWING));
	say(&outcome, NULL);
	cr_assert(eq(int, shown(&outcome, ANNOUNCE_WITHDRAWN), ANNOUNCE_WITHDRAWN));
}

Test(component_outcome, a_state_keeps_its_time)
{
	struct component_outcome outcome = hosted();
	say(&outcome, "registered");
	cr_assert(component_outcome_show(&outcome, ANNOUNCE_REGISTERED, "", 1));
	cr_assert(not(component_outcome_show(&outcome, ANNOUNCE_REGISTERED, "", 2)));
	cr_assert(eq(dbl, outcome.shown_since, 1));
}

Test(component_outcome, elsewhere_the_own_announcement_decides)
{
	struct component_outcome outcome = { .hosted = false };
	cr_assert(eq(int, shown(&outcome, ANNOUNCE_REGISTERED), ANNOUNCE_REGISTERED));
}
