/* Which of several paths are in use, and when they go out again. */
#include <criterion/criterion.h>
#include <string.h>

#include "lib/base/array.h"
#include "lib/render/failover.h"

TestSuite(failover);

enum { HOLD_MS = 1000 };

/* A decision: the paths at that time, and how many of them are to be in use. */
struct step {
	const char *known; /* a digit: confirmed with so many instances; "?": not confirmed */
	int64_t now_ms;
	size_t used;
	int64_t due_ms;
};

static bool know(void *context, size_t index, struct failover_path *ret_path)
{
	*ret_path = ((const struct failover_path *)context)[index];
	return true;
}

static void take(struct failover *failover, size_t least, const struct step *steps, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		struct failover_path paths[4];
		size_t path_count = strlen(steps[i].known);
		for (size_t at = 0; at < path_count; at++) {
			char known = steps[i].known[at];
			paths[at].confirmed = known != '?';
			/* The instances of an unconfirmed path count for nothing. */
			paths[at].instances = known == '?' ? 5 : (size_t)(known - '0');
		}
		size_t used = failover_walk(
			failover, path_count, least, HOLD_MS, steps[i].now_ms, know, paths);
		int64_t due_ms = failover_due_ms(failover, HOLD_MS, steps[i].now_ms);
		cr_expect_eq(used, steps[i].used, "step %zu: %zu", i, used);
		cr_expect_eq(due_ms, steps[i].due_ms, "step %zu: %lld", i, (long long)due_ms);
	}
}

#define TAKE(least, ...)                                                                           \
	do {                                                                                       \
		const struct step steps[] = { __VA_ARGS__ };                                       \
		struct failover failover = { .further = 0 };                                       \
		take(&failover, least, steps, ARRAY_LEN(steps));                                   \
	} while (0)

Test(failover, the_nearest_is_in_use_alone_while_it_has_enough)
{
	TAKE(1, { "1", 0, 1, -1 }, { "0", 1, 1, -1 });
	TAKE(2, { "23", 0, 1, -1 }, { "90", 1, 1, -1 }, { "2?", 2, 1, -1 });
}

Test(failover, the_next_one_comes_in_at_once_when_too_few_are_left)
{
	TAKE(2, { "20", 0, 1, -1 }, { "12", 1, 2, -1 });
	TAKE(1, { "000", 0, 3, -1 });
	TAKE(1, { "001", 0, 3, -1 });
	TAKE(1, { "010", 0, 2, -1 });
}

Test(failover, it_goes_out_when_the_nearer_ones_have_had_enough_for_the_hold)
{
	TAKE(1, { "01", 0, 2, -1 }, { "11", 10, 2, 1000 }, { "11", 1009, 2, 1 },
		{ "11", 1010, 1, -1 });
}

Test(failover, a_break_begins_the_hold_anew)
{
	TAKE(1, { "01", 0, 2, -1 }, { "11", 10, 2, 1000 }, { "01", 500, 2, -1 },
		{ "11", 600, 2, 1000 }, { "11", 1100, 2, 500 }, { "11", 1600, 1, -1 });
}

Test(failover, another_number_of_paths_begins_the_hold_anew)
{
	TAKE(1, { "001", 0, 3, -1 }, { "011", 10, 3, 1000 }, { "111", 900, 3, 1000 },
		{ "111", 1900, 1, -1 });
}

Test(failover, nothing_is_decided_from_a_nearest_that_is_not_confirmed)
{
	TAKE(1, { "?1", 0, 1, -1 }, { "01", 1, 2, -1 }, { "?1", 2, 2, -1 });
	/* It does not end a hold, either. */
	TAKE(1, { "01", 0, 2, -1 }, { "11", 10, 2, 1000 }, { "?1", 600, 2, -1 },
		{ "11", 700, 2, 1000 });
}

Test(failover, a_path_that_is_away_neither_comes_in_nor_is_passed_over)
{
	TAKE(1, { "0?1", 0, 1, -1 }, { "001", 1, 3, -1 }, { "0?1", 2, 3, -1 }, { "0??", 3, 3, -1 });
	TAKE(2, { "00?1", 0, 2, -1 });
}

Test(failover, a_path_that_is_away_does_not_keep_a_nearer_one_from_coming_back)
{
	TAKE(1, { "01", 0, 2, -1 }, { "0?", 1, 2, -1 }, { "1?", 10, 2, 1000 },
		{ "1?", 1010, 1, -1 });
}

Test(failover, it_says_when_an_unconfirmed_path_is_what_is_missing)
{
	struct failover failover = { .further = 0 };
	struct failover_path paths[2] = { { true, 0 }, { false, 0 } };
	failover_walk(&failover, 2, 1, HOLD_MS, 0, know, paths);
	cr_expect(failover.blocked);
	paths[0].instances = 1;
	failover_walk(&failover, 2, 1, HOLD_MS, 0, know, paths);
	cr_expect(!failover.blocked);
}
