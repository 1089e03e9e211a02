/* Caches of further registries: which one a path belongs to, and how one ends in use. */
#include <criterion/criterion.h>

#include "agent/cache/parts.h"
#include "lib/base/array.h"
#include "lib/base/clock.h"
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

STAGED(the_order_in_which_caches_are_attached_does_not_matter)
{
	static const char *const paths[] = { "/a", "/a/b/c", "/a/b" };
	enum { COUNT = ARRAY_LEN(paths) };
	struct cache_stage stages[COUNT];
	struct cache *first = pair->first.cache;
	for (size_t i = 0; i < COUNT; i++) {
		cache_stage_open(&stages[i], &(struct cache_options){ .resync_ms = 600000 });
		cache_attach(first, paths[i], stages[i].cache);
	}
	for (size_t i = 0; i < COUNT; i++) {
		cr_expect_eq(cache_at(first, paths[i]), stages[i].cache, "%s", paths[i]);
	}
	cr_expect_eq(cache_at(first, "/net/other"), pair->other.cache);
	for (size_t i = 0; i < COUNT; i++) {
		cache_detach(first, stages[i].cache);
		cr_expect_neq(cache_at(first, paths[i]), stages[i].cache, "%s", paths[i]);
		cache_stage_close(&stages[i]);
	}
	cr_expect_eq(cache_at(first, "/net/other"), pair->other.cache);
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

static void on_refused(void *context, const struct err *err)
{
	cr_assert_eq(err->code, BERTH_PATH_NOT_FOUND);
	++*(int *)context;
}

static void on_confirmed(void *context, struct cache_answer *answer, const struct err *err)
{
	cr_assert_null(answer);
	*(int *)context = err->code;
}

STAGED(a_cache_that_is_about_to_end_is_like_one_without_a_registry)
{
	struct cache_stage *other = &pair->other;
	struct cache_outcome outcome;
	int code = 0;
	struct cache_wait wait = { .on_answer = on_confirmed, .context = &code };
	const struct cache_query query = {
		.path = "/net/other/a", .kind = CACHE_RESOLVE, .max_age_ms = -1
	};
	struct err err = ERR_INIT;
	memory_put(other->registry, "/net", "");
	memory_put(other->registry, "/net/other", "");
	memory_put(other->registry, "/net/other/a", cache_stage_record("one"));
	cr_assert_eq(cache_stage_look(other, &outcome, "/net/other/a", CACHE_RESOLVE), 0);
	cr_assert_not_null(cache_find(other->cache, &query));
	memory_set_heard_ms(other->registry, clock_monotonic_ms() - 3600 * 1000);
	memory_set_answering(other->registry, false);
	cr_assert_eq(cache_confirm(other->cache, clock_monotonic_ms(), &wait), CACHE_WAITING);

	err_set(&err, BERTH_PATH_NOT_FOUND, "no further registry has this name any more");
	cache_refuse_all(other->cache, &err);
	cr_assert_eq(code, BERTH_REGISTRY_UNAVAILABLE);
	cr_assert_eq(cache_registry_state(other->cache), REGISTRY_LOST);
	cr_assert_eq(cache_confirm(other->cache, clock_monotonic_ms(), &wait), CACHE_UNAVAILABLE);
	memory_set_heard_ms(other->registry, INT64_MAX);
	cr_assert_null(cache_find(other->cache, &query));
	cr_assert_eq(cache_stage_ask(other, &outcome, "/net/other/b", CACHE_RESOLVE, "", false),
		CACHE_UNAVAILABLE);
	cr_assert_eq(cache_registry_state(pair->first.cache), REGISTRY_CONNECTED);
	memory_set_answering(other->registry, true);
}

STAGED(all_that_waits_for_a_cache_is_refused_before_it_ends)
{
	struct cache_stage *other = &pair->other;
	struct cache_outcome read;
	struct cache_outcome poll;
	struct cache_outcome search;
	struct cache_outcome elsewhere;
	int refused = 0;
	struct cache_observer observer = {
		.scope = CACHE_TREE, .on_refused = on_refused, .context = &refused
	};
	const char *warm = "/net/other/**";
	memory_put(other->registry, "/net", "");
	memory_put(other->registry, "/net/other", "");
	memory_put(other->registry, "/net/other/a", cache_stage_record("one"));
	cache_set_options(other->cache,
		&(struct cache_options){ .max_size_bytes = 1024 * 1024,
			.warm = (char *const *)&warm,
			.warm_count = 1 });
	cr_assert_eq(cache_stage_look(other, &read, "/net/other/a", CACHE_RESOLVE), 0);
	cr_assert_eq(cache_stage_ask(other, &poll, "/net/other/a", CACHE_RESOLVE, read.etag, false),
		CACHE_WAITING);
	cache_observe(other->cache, "/net/other", &observer);
	cache_stage_turn(other);
	cr_assert_eq(observer.state, CACHE_OBSERVER_LIVE);
	memory_set_answering(other->registry, false);
	cr_assert_eq(
		cache_stage_ask(other, &read, "/net/other/b", CACHE_LIST, "", true), CACHE_WAITING);
	cr_assert_eq(cache_stage_ask(other, &search, "/net/other", CACHE_FIND, "", false),
		CACHE_WAITING);
	cr_assert_eq(cache_stage_ask(&pair->first, &elsewhere, "/a", CACHE_RESOLVE, "", false),
		CACHE_WAITING);

	struct err err = ERR_INIT;
	err_set(&err, BERTH_PATH_NOT_FOUND, "no further registry has this name any more");
	cache_refuse_all(other->cache, &err);
	cr_assert_eq(refused, 1);
	cr_assert_eq(read.calls, 1);
	cr_assert_eq(read.code, BERTH_PATH_NOT_FOUND);
	cr_assert_eq(poll.calls, 1);
	cr_assert_eq(poll.code, BERTH_PATH_NOT_FOUND);
	cr_assert_eq(search.calls, 1);
	cr_assert_eq(search.code, BERTH_PATH_NOT_FOUND);
	cr_assert_eq(elsewhere.calls, 0, "others go on");
	cr_assert(list_empty(&other->cache->follow.observers));
	cr_assert_eq(other->cache->searches.walks, 0);
	cache_unobserve(&observer);
	cache_cancel(&elsewhere.wait);
}
