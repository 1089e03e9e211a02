/* Directories that were refused because they are too large: for how long. */

#include <criterion/criterion.h>

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
