#include <criterion/criterion.h>
#include <math.h>

#include "agent/component/damping.h"
#include "lib/base/array.h"

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
