#include <criterion/criterion.h>

#include "agent/check/state.h"
#include "lib/base/array.h"

enum { LONGEST = 10, MOST = 4, STEP_MS = 1000 };

struct rules_case {
	int rise, fall, window;
	bool initial_passing;
};

/*
 * The state by the contract, computed from the whole history: results are bits, oldest first, one a
 * step.
 */
static enum check_state oracle(const struct rules_case *rules, unsigned results, int count)
{
	enum check_state state = rules->initial_passing ? CHECK_STATE_UP : CHECK_STATE_PENDING;
	for (int i = 0, since = 0; i < count; i++) {
		int good = 0, bad = 0, recent = 0;
		for (int k = i; k >= 0 && (results >> k & 1); k--) {
			good++;
		}
		for (int k = i; k >= 0 && !(results >> k & 1); k--) {
			bad++;
		}
		for (int k = i; k >= since && k >= i - rules->window; k--) {
			recent += !(results >> k & 1);
		}
		bool falls = rules->window ? recent >= rules->fall && bad : bad >= rules->fall;
		bool rises = good >= rules->rise;
		if (state != CHECK_STATE_UP && rises) {
			state = CHECK_STATE_UP;
			since = i + 1;
		} else if (state != CHECK_STATE_DOWN && falls) {
			state = CHECK_STATE_DOWN;
			since = i + 1;
		}
	}
	return state;
}

static struct check_state_rules machine_rules(const struct rules_case *rules)
{
	return (struct check_state_rules){
		.rise = rules->rise,
		.fall = rules->fall,
		.window_ms = rules->window * STEP_MS,
		.initial_passing = rules->initial_passing,
	};
}

static void compare_one(const struct rules_case *rules, unsigned results)
{
	struct check_state_rules its = machine_rules(rules);
	struct check_state_machine machine;
	check_state_init(&machine, &its, 0);
	for (int i = 0; i < LONGEST; i++) {
		enum check_state got = check_state_step(&machine, results >> i & 1, i * STEP_MS);
		enum check_state want = oracle(rules, results, i + 1);
		if (got != want) {
			cr_assert_fail("rise %d fall %d window %d initial %d "
				       "results %#x step %d: %s, not %s",
				rules->rise, rules->fall, rules->window, rules->initial_passing,
				results, i, check_state_name(got), check_state_name(want));
		}
	}
	check_state_finish(&machine);
}

static void compare_all_results(const struct rules_case *rules)
{
	for (unsigned results = 0; results < 1U << LONGEST; results++) {
		compare_one(rules, results);
	}
}

Test(check_state, agrees_with_the_oracle_on_everything_small)
{
	for (int rise = 1; rise <= MOST; rise++) {
		for (int fall = 1; fall <= MOST; fall++) {
			for (int window = 0; window <= MOST; window++) {
				compare_all_results(
					&(struct rules_case){ rise, fall, window, false });
				compare_all_results(
					&(struct rules_case){ rise, fall, window, true });
			}
		}
	}
}

static struct check_state_machine machine;

static void start(struct check_state_rules rules)
{
	check_state_init(&machine, &rules, 0);
}

static void finish(void)
{
	check_state_finish(&machine);
}

static void expect(bool good, int64_t now_ms, enum check_state state)
{
	cr_expect_str_eq(check_state_name(check_state_step(&machine, good, now_ms)),
		check_state_name(state), "at %lld ms", (long long)now_ms);
}

TestSuite(check_state, .fini = finish);

Test(check_state, failures_during_the_grace_do_not_count)
{
	start((struct check_state_rules){
		.rise = 1, .fall = 2, .start_grace_ms = 1000, .initial_passing = true });
	for (int64_t now = 0; now < 1000; now += 100) {
		expect(false, now, CHECK_STATE_UP);
	}
	expect(false, 1000, CHECK_STATE_UP);
	expect(false, 1100, CHECK_STATE_DOWN);
}

Test(check_state, the_first_success_ends_the_grace)
{
	start((struct check_state_rules){
		.rise = 1, .fall = 1, .start_grace_ms = 1000, .initial_passing = true });
	expect(false, 10, CHECK_STATE_UP);
	expect(true, 20, CHECK_STATE_UP);
	expect(false, 30, CHECK_STATE_DOWN);
}

Test(check_state, is_changing_while_results_speak_against_the_state)
{
	start((struct check_state_rules){ .rise = 2, .fall = 2 });
	cr_expect_not(check_state_changing(&machine));
	expect(true, 0, CHECK_STATE_PENDING);
	cr_expect(check_state_changing(&machine));
	expect(true, 1, CHECK_STATE_UP);
	cr_expect_not(check_state_changing(&machine));
	expect(false, 2, CHECK_STATE_UP);
	cr_expect(check_state_changing(&machine));
	expect(false, 3, CHECK_STATE_DOWN);
	cr_expect_not(check_state_changing(&machine));
}

Test(check_state, goes_on_after_a_restart_on_another_clock)
{
	start((struct check_state_rules){
		.rise = 1, .fall = 3, .window_ms = 1000, .initial_passing = true });
	expect(false, 100, CHECK_STATE_UP);
	expect(false, 900, CHECK_STATE_UP);
	json_t *saved = check_state_save(&machine, 1000);
	struct check_state_rules rules = machine.rules;
	check_state_finish(&machine);

	check_state_init(&machine, &rules, 5000000);
	cr_assert(check_state_restore(&machine, saved, 5000000));
	json_decref(saved);
	/* Now the first is 1,001 ms old, the second 201. */
	expect(false, 5000101, CHECK_STATE_UP);
	expect(false, 5000900, CHECK_STATE_DOWN);
}

/* As a successor does: on its own clock, with the rules of its own configuration. */
static void restart(struct check_state_rules rules, int64_t saved_ms, int64_t restored_ms)
{
	json_t *saved = check_state_save(&machine, saved_ms);
	check_state_finish(&machine);
	check_state_init(&machine, &rules, restored_ms);
	cr_assert(check_state_restore(&machine, saved, restored_ms));
	json_decref(saved);
}

static void restore_text(const char *text, int64_t now_ms)
{
	json_t *saved = json_loads(text, 0, NULL);
	cr_assert(check_state_restore(&machine, saved, now_ms), "%s", text);
	json_decref(saved);
}

Test(check_state, the_rest_of_the_grace_comes_after_a_restart)
{
	struct check_state_rules rules = { .rise = 1, .fall = 1, .start_grace_ms = 1000 };
	check_state_init(&machine, &rules, 100);
	expect(false, 600, CHECK_STATE_PENDING);
	restart(rules, 600, 5000000);
	expect(false, 5000499, CHECK_STATE_PENDING);
	expect(false, 5000500, CHECK_STATE_DOWN);
}

Test(check_state, a_failure_of_the_future_counts_as_one_of_now)
{
	start((struct check_state_rules){ .rise = 1, .fall = 2, .window_ms = 1000 });
	restore_text("{\"state\": \"up\", \"grace\": false, \"age_ms\": 0, \"good\": 0, "
		     "\"bad\": 1, \"failure_ages_ms\": [-86400000]}",
		5000);
	expect(false, 6000, CHECK_STATE_DOWN);
}

Test(check_state, keeps_its_state_when_the_saved_one_is_malformed)
{
	start((struct check_state_rules){ .rise = 1, .fall = 1 });
	expect(true, 0, CHECK_STATE_UP);
	static const char *const malformed[] = { "{}", "[]",
		"{\"state\": \"sideways\", \"grace\": false, "
		"\"age_ms\": 0, \"good\": 0, \"bad\": 0, \"failure_ages_ms\": []}",
		"{\"state\": \"down\", \"grace\": false, \"age_ms\": 0, \"good\": -1, \"bad\": 0, "
		"\"failure_ages_ms\": []}",
		"{\"state\": \"down\", \"grace\": false, \"age_ms\": 0, \"good\": 0, \"bad\": -1, "
		"\"failure_ages_ms\": []}",
		"{\"state\": \"down\", \"grace\": false, \"age_ms\": -1, \"good\": 0, \"bad\": 0, "
		"\"failure_ages_ms\": []}",
		"{\"state\": \"down\", \"grace\": false, \"age_ms\": 0, \"good\": 0, \"bad\": 0, "
		"\"failure_ages_ms\": {}}" };
	for (size_t i = 0; i < ARRAY_LEN(malformed); i++) {
		json_t *saved = json_loads(malformed[i], 0, NULL);
		cr_assert_not_null(saved);
		cr_expect_not(check_state_restore(&machine, saved, 0), "%s", malformed[i]);
		json_decref(saved);
	}
	cr_expect_eq(machine.state, CHECK_STATE_UP);
}
