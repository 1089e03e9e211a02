/* Caches of further registries: which one a path belongs to, and how many may wait for one. */
#include <criterion/criterion.h>

#include "agent/cache/parts.h"
#include "tests/support/cache_stage.h"
#include "tests/support/memory_backend.h"
#include "tests/support/staged.h"

/* The first cache, and one that is attached to it. */
struct pair {
	struct cache_stage first;
	struct cache_stage other;
};

#define STAGED(name)                                                                               \
	STAGED_TEST(cache_attach, name, struct pair *, pair, open_pair(&(struct pair){ 0 }),       \
		close_pair)

static struct pair *open_pair(struct pair *pair)
{
	cache_stage_open(&pair->first, &(struct cache_options){ .resync_ms = 600000 });
	cache_stage_open(&pair->other, &(struct cache_options){ .resync_ms = 600000 });
	cache_attach(pair->first.cache, "/net/other", pair->other.cache);
	return pair;
}

static void close_pair(struct pair *pair)
{
	cache_detach(pair->first.cache, pair->other.cache);
	cache_stage_close(&pair->other);
	cache_stage_close(&pair->first);
}

STAGED(a_path_belongs_to_the_longest_attached_path_above_it)
{
	struct cache_stage between;
	struct cache *first = pair->first.cache;
	cache_stage_open(&between, &(struct cache_options){ .resync_ms = 600000 });
	cache_attach(first, "/net", between.cache);
	cr_assert_eq(cache_at(first, "/"), first);
	cr_assert_eq(cache_at(first, "/network"), first);
	cr_assert_eq(cache_at(first, "/users/net/other"), first);
	cr_assert_eq(cache_at(first, "/net"), between.cache);
	cr_assert_eq(cache_at(first, "/net/others"), between.cache);
	cr_assert_eq(cache_at(first, "/net/other"), pair->other.cache);
	cr_assert_eq(cache_at(first, "/net/other/users/joe"), pair->other.cache);
	cache_detach(first, pair->other.cache);
	cr_assert_eq(cache_at(first, "/net/other/users/joe"), between.cache);
	cache_detach(first, between.cache);
	cr_assert_eq(cache_at(first, "/net/other"), first);
	cache_stage_close(&between);
}

STAGED(an_attached_cache_has_a_bound_for_those_who_wait_and_the_first_has_none)
{
	struct err err = ERR_INIT;
	for (int i = 0; i < CACHE_MAX_WAITING; i++) {
		cr_assert(cache_enter(pair->other.cache, &err));
		cr_assert(cache_enter(pair->first.cache, &err));
	}
	cr_assert(cache_enter(pair->first.cache, &err));
	cr_assert_not(cache_enter(pair->other.cache, &err));
	cr_assert_eq(err.code, BERTH_LIMIT_EXCEEDED);
	cache_leave(pair->other.cache);
	cr_assert(cache_enter(pair->other.cache, &err));
}
