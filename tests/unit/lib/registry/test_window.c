#include <criterion/criterion.h>

#include "lib/registry/window.h"

enum { START_MS = 1000000 };

Test(registry_window, is_due_at_once_without_confirmations)
{
	struct registry_window window;
	registry_window_open(&window, 0, START_MS, 30000);
	cr_assert_eq(registry_window_due(&window, START_MS), 0);
}

Test(registry_window, spreads_confirmations_evenly)
{
	struct registry_window window;
	registry_window_open(&window, 100, START_MS, 30000);
	cr_assert_eq(window.length_ms, 2000);
	cr_assert_eq(registry_window_due(&window, START_MS), 1, "the first begins at once");
	cr_assert_eq(registry_window_due(&window, START_MS + 1000), 51);
	cr_assert_eq(registry_window_due(&window, START_MS + 2000), 100);
	cr_assert_eq(registry_window_due(&window, START_MS + 60000), 100);
}

Test(registry_window, names_the_time_at_which_the_next_one_is_due)
{
	struct registry_window window;
	registry_window_open(&window, 1000, START_MS, 10000);
	for (window.begun = 1; window.begun < window.count; window.begun++) {
		int64_t next_ms = registry_window_next_ms(&window);
		cr_assert_gt(registry_window_due(&window, next_ms), window.begun);
		cr_assert_lt(next_ms, START_MS + window.length_ms + 10);
	}
}

Test(registry_window, is_no_longer_than_half_of_a_session)
{
	struct registry_window window;
	registry_window_open(&window, 100000, START_MS, 6000);
	cr_assert_eq(window.length_ms, 3000);
	registry_window_open(&window, 100000, START_MS, 600000);
	cr_assert_eq(window.length_ms, 15000);
	registry_window_open(&window, 100000, START_MS, 0);
	cr_assert_eq(window.length_ms, 15000, "a registry without sessions");
}
