/* Directories that were refused because they are too large: for how long, and how many of them. */

#include <criterion/criterion.h>

#include <stdio.h>

#include "agent/cache/internal.h"
#include "tests/support/cache_stage.h"
#include "tests/support/shifted_clock.h"
#include "tests/support/staged.h"

static struct cache_stage *open_stage(struct cache_stage *stage)
{
	cache_stage_open(stage, &(struct cache_options){ .resync_ms = 600000 });
	return stage;
}

#define STAGED(name)                                                                               \
	STAGED_TEST(cache_refused, name, struct cache_stage *, stage,                              \
		open_stage(&(struct cache_stage){ 0 }), cache_stage_close)

STAGED(a_directory_is_read_again_after_a_time_that_grows_with_it)
{
	struct cache *cache = stage->cache;
	cache_refused_note(cache, "/large", 20000);
	cache_refused_note(cache, "/larger", 200000);
	cr_assert(cache_refused(cache, "/large"));
	cr_assert_not(cache_refused(cache, "/other"));
	clock_shift_ms += 10 * 1000;
	cr_assert_not(cache_refused(cache, "/large"));
	cr_assert(cache_refused(cache, "/larger"));
	cache_refused_note(cache, "/large", 20000);
	cr_assert(cache_refused(cache, "/large"), "it is as large as before");
}

STAGED(no_directory_is_refused_for_much_longer_than_a_minute)
{
	cache_refused_note(stage->cache, "/large", 100 * 1000 * 1000);
	clock_shift_ms += 30 * 1000;
	cr_assert(cache_refused(stage->cache, "/large"));
	clock_shift_ms += 40 * 1000;
	cr_assert_not(cache_refused(stage->cache, "/large"));
}

enum { NOTED = CACHE_REFUSED_MAX + 1 };

static void check_refused(struct cache *cache, int first)
{
	for (int i = 0; i < NOTED; i++) {
		char path[16];
		snprintf(path, sizeof(path), "/%d", i);
		cr_assert_eq(cache_refused(cache, path), i >= first, "%s", path);
	}
}

STAGED(the_last_ones_are_remembered_until_there_are_other_limits)
{
	for (int i = 0; i < NOTED; i++) {
		char path[16];
		snprintf(path, sizeof(path), "/%d", i);
		cache_refused_note(stage->cache, path, 500000);
	}
	check_refused(stage->cache, 1);
	for (int i = 0; i < NOTED; i++) {
		cache_refused_note(stage->cache, "/1", 500000);
	}
	check_refused(stage->cache, 1);
	cache_refused_forget(stage->cache);
	check_refused(stage->cache, NOTED);
}
