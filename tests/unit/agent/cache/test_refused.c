/* Directories that were refused because they are too large: for how long, and how many of them. */

#include <criterion/criterion.h>

#include <stdio.h>

#include "agent/cache/refused.h"
#include "tests/support/shifted_clock.h"

Test(cache_refused, a_directory_is_read_again_after_a_time_that_grows_with_it)
{
	struct cache_refusals refusals = { .next = 0 };
	cache_refused_note(&refusals, "/large", 20000);
	cache_refused_note(&refusals, "/larger", 200000);
	cr_assert(cache_refused(&refusals, "/large"));
	cr_assert_not(cache_refused(&refusals, "/other"));
	clock_shift_ms += 10 * 1000;
	cr_assert_not(cache_refused(&refusals, "/large"));
	cr_assert(cache_refused(&refusals, "/larger"));
	cache_refused_note(&refusals, "/large", 20000);
	cr_assert(cache_refused(&refusals, "/large"), "it is as large as before");
	cache_refused_forget(&refusals);
}

Test(cache_refused, no_directory_is_refused_for_much_longer_than_a_minute)
{
	struct cache_refusals refusals = { .next = 0 };
	cache_refused_note(&refusals, "/large", 100 * 1000 * 1000);
	clock_shift_ms += 30 * 1000;
	cr_assert(cache_refused(&refusals, "/large"));
	clock_shift_ms += 40 * 1000;
	cr_assert_not(cache_refused(&refusals, "/large"));
	cache_refused_forget(&refusals);
}

enum { NOTED = CACHE_REFUSED_MAX + 1 };

static void check_refused(struct cache_refusals *refusals, int first)
{
	for (int i = 0; i < NOTED; i++) {
		char path[16];
		snprintf(path, sizeof(path), "/%d", i);
		cr_assert_eq(cache_refused(refusals, path), i >= first, "%s", path);
	}
}

Test(cache_refused, the_last_ones_are_remembered_until_there_are_other_limits)
{
	struct cache_refusals refusals = { .next = 0 };
	for (int i = 0; i < NOTED; i++) {
		char path[16];
		snprintf(path, sizeof(path), "/%d", i);
		cache_refused_note(&refusals, path, 500000);
	}
	check_refused(&refusals, 1);
	for (int i = 0; i < NOTED; i++) {
		cache_refused_note(&refusals, "/1", 500000);
	}
	check_refused(&refusals, 1);
	cache_refused_forget(&refusals);
	check_refused(&refusals, NOTED);
}
