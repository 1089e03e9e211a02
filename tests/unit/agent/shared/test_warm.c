/* Which answers are made before anybody asks, and how much is done at a time. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/array.h"
#include "lib/base/limits.h"
#include "tests/unit/agent/shared/shared_stage.h"

#define WARM_TEST(name) STAGED_TEST(shared_warm, name, struct stage *, stage, begin(), end)

/* As the agent does: they are warm in the cache, too. */
static void set_warm(struct stage *stage, char *const *warm, size_t count)
{
	cache_set_options(stage->cache.cache,
		&(struct cache_options){ .confirm_ms = CONFIRM_MS,
			.max_size_bytes = CACHE_BYTES,
			.warm = warm,
			.warm_count = count });
	set_options(stage, MAX_BYTES, warm, count);
}

static void open_warm(struct stage *stage, char *const *warm, size_t count)
{
	set_warm(stage, warm, count);
	open_map(stage);
	turn_often(stage);
}

static void make_children(struct stage *stage, const char *parent, int count)
{
	char path[64];
	memory_put(stage->cache.registry, parent, "");
	for (int i = 0; i < count; i++) {
		snprintf(path, sizeof(path), "%s/%d", parent, i);
		memory_put(stage->cache.registry, path, "");
	}
	turn_often(stage);
}

/* Their records would hardly fit, and their cost is the cache's. */
WARM_TEST(a_directory_of_more_than_256_children_has_its_list_and_no_records)
{
	make_children(stage, "/some", 256);
	make_children(stage, "/many", 257);
	set_options(stage, MAX_BYTES, everything, 1);
	for (int i = 0; i < 3; i++) {
		open_map(stage);
		turn_often(stage);
	}
	cr_expect_eq(look(stage, "/v1/list/some"), SHARED_FOUND);
	cr_expect_eq(look(stage, "/v1/records/some"), SHARED_FOUND);
	cr_expect_eq(look(stage, "/v1/endpoints/some"), SHARED_FOUND);
	cr_expect_eq(look(stage, "/v1/list/many"), SHARED_FOUND);
	cr_expect_eq(look(stage, "/v1/resolve/many"), SHARED_FOUND);
	cr_expect_eq(look(stage, "/v1/records/many"), SHARED_UNKNOWN);
	cr_expect_eq(look(stage, "/v1/endpoints/many"), SHARED_UNKNOWN);
}

WARM_TEST(a_path_that_has_gone_has_no_answer)
{
	open_warm(stage, everything, 1);
	memory_put(stage->cache.registry, "/a/b", cache_stage_record("b"));
	turn_often(stage);
	cr_assert_eq(look(stage, "/v1/resolve/a/b"), SHARED_FOUND);
	memory_remove(stage->cache.registry, "/a/b");
	turn_often(stage);
	cr_expect_eq(look(stage, "/v1/resolve/a/b"), SHARED_UNKNOWN);
	cr_expect_eq(look(stage, "/v1/endpoints/a/b"), SHARED_UNKNOWN);
	cr_expect_eq(look(stage, "/v1/resolve/a"), SHARED_FOUND);
}

WARM_TEST(a_named_path_has_its_record_alone_and_may_be_absent)
{
	static char *const named[] = { "/a", "/absent" };
	memory_put(stage->cache.registry, "/a/b", cache_stage_record("b"));
	turn_often(stage);
	open_warm(stage, named, 2);
	cr_expect_eq(look(stage, "/v1/resolve/a"), SHARED_FOUND);
	cr_expect_eq(look(stage, "/v1/resolve/absent"), SHARED_FOUND);
	cr_expect_eq(stage->answer.error, BERTH_PATH_NOT_FOUND);
	cr_expect_eq(look(stage, "/v1/list/a"), SHARED_UNKNOWN);
	cr_expect_eq(look(stage, "/v1/records/a"), SHARED_UNKNOWN);
	cr_expect_eq(look(stage, "/v1/endpoints/a"), SHARED_UNKNOWN);
	cr_expect_eq(look(stage, "/v1/resolve/a/b"), SHARED_UNKNOWN);
	cr_expect_eq(look(stage, "/v1/list/"), SHARED_UNKNOWN);
	cr_expect_eq(stats_of(stage).entries, 2);
}

WARM_TEST(a_tree_has_its_root_and_what_is_below_it)
{
	static char *const tree[] = { "/absent", "/a/**", "/a", "/nothing/**" };
	memory_put(stage->cache.registry, "/a/b", cache_stage_record("b"));
	memory_put(stage->cache.registry, "/a/b/c", cache_stage_record("c"));
	memory_put(stage->cache.registry, "/ab", cache_stage_record("ab"));
	turn_often(stage);
	open_warm(stage, tree, 4);
	static const char *const keys[] = { "/v1/resolve/a", "/v1/list/a", "/v1/records/a",
		"/v1/endpoints/a", "/v1/list/a/b", "/v1/records/a/b", "/v1/resolve/a/b/c" };
	for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
		cr_expect_eq(look(stage, keys[i]), SHARED_FOUND, "%s", keys[i]);
	}
	cr_expect_eq(look(stage, "/v1/resolve/ab"), SHARED_UNKNOWN);
	cr_expect_eq(look(stage, "/v1/list/"), SHARED_UNKNOWN);
	cr_expect_eq(look(stage, "/v1/resolve/nothing"), SHARED_UNKNOWN);
	memory_put(stage->cache.registry, "/ab", cache_stage_record("new"));
	turn_often(stage);
	cr_expect_eq(look(stage, "/v1/resolve/ab"), SHARED_UNKNOWN);
}

WARM_TEST(other_names_take_the_place_of_the_first_ones_and_the_same_ones_do_not)
{
	static char *const first[] = { "/a", "/first" };
	static char *const same[] = { "/a", "/first" };
	static char *const other[] = { "/a", "/other" };
	open_warm(stage, first, 2);
	cr_assert_eq(stats_of(stage).entries, 2);
	size_t bytes = cache_bytes(stage);
	set_options(stage, MAX_BYTES, same, 2);
	cr_expect_eq(cache_bytes(stage), bytes, "nothing is to be done");
	set_warm(stage, other, 2);
	cr_expect_gt(cache_bytes(stage), bytes, "its names are queued");
	turn_often(stage);
	cr_expect_eq(look(stage, "/v1/resolve/other"), SHARED_FOUND);
	set_options(stage, MAX_BYTES, NULL, 0);
	memory_put(stage->cache.registry, "/a", cache_stage_record("new"));
	turn_often(stage);
	cr_expect_eq(look(stage, "/v1/resolve/a"), SHARED_UNKNOWN);
}

/* ---- at a time ---- */

WARM_TEST(no_more_than_32_answers_are_made_in_a_turn)
{
	make_children(stage, "/some", 100);
	set_options(stage, MAX_BYTES, everything, 1);
	open_map(stage);
	size_t most = 0;
	for (size_t before = 0, turns = 0; turns < 100; turns++) {
		registry_dispatch(stage->cache.registry, stage->cache.now_ms);
		ev_run(stage->cache.loop, EVRUN_NOWAIT);
		size_t made = stats_of(stage).entries - before;
		most = made > most && made < 1000 ? made : most;
		before = stats_of(stage).entries;
	}
	for (int i = 0; i < 100; i++) {
		char key[64];
		snprintf(key, sizeof(key), "/v1/resolve/some/%d", i);
		cr_expect_eq(look(stage, key), SHARED_FOUND, "%s", key);
	}
	cr_expect_leq(most, 32, "%zu", most);
	cr_expect_gt(most, 16, "%zu", most);
}

WARM_TEST(nothing_is_made_while_nobody_asks)
{
	open_warm(stage, everything, 1);
	cr_assert_eq(look(stage, "/v1/resolve/a"), SHARED_FOUND);
	for (int i = 0; i < 40; i++) {
		clock_shift_ms += CONFIRM_MS / 5;
		cache_stage_turn(&stage->cache);
	}
	memory_put(stage->cache.registry, "/a", cache_stage_record("new"));
	turn_often(stage);
	size_t before = stats_of(stage).entries;
	put_of(stage, stage->cache.cache, "/own", SHARED_OF_PATH, "/own");
	cr_expect_eq(stats_of(stage).entries, before + 1);
	cr_expect_eq(look(stage, "/v1/resolve/a"), SHARED_UNKNOWN);
	turn_often(stage);
	cr_expect_eq(look(stage, "/v1/resolve/a"), SHARED_FOUND);
}

/* The answer itself is known, and nothing of it changes. */
WARM_TEST(a_warm_path_is_put_when_the_server_has_confirmed_it)
{
	static char *const named[] = { "/a" };
	memory_set_heard_ms(stage->cache.registry, clock_monotonic_ms() - 2 * CONFIRM_MS);
	memory_set_answering(stage->cache.registry, false);
	set_options(stage, MAX_BYTES, named, 1);
	open_map(stage);
	turn_often(stage);
	cr_expect_eq(stats_of(stage).entries, 0);
	memory_set_heard_ms(stage->cache.registry, INT64_MAX);
	memory_set_answering(stage->cache.registry, true);
	turn_often(stage);
	cr_expect_eq(look(stage, "/v1/resolve/a"), SHARED_FOUND);
}

WARM_TEST(nothing_is_put_that_the_server_does_not_confirm)
{
	memory_put(stage->cache.registry, "/a/b", cache_stage_record("b"));
	turn_often(stage);
	memory_set_heard_ms(stage->cache.registry, clock_monotonic_ms() - 2 * CONFIRM_MS);
	memory_set_answering(stage->cache.registry, false);
	set_options(stage, MAX_BYTES, everything, 1);
	open_map(stage);
	for (int i = 0; i < 5; i++) {
		clock_shift_ms += CONFIRM_MS / 5; /* no look-up waits as long */
		turn_often(stage);
	}
	cr_expect_eq(stats_of(stage).entries, 0);
}

/* ---- the bytes of the queue ---- */

enum { NAMES = 200, NAME_BYTES = 100 };

WARM_TEST(a_full_map_has_no_queue)
{
	static char texts[NAMES][NAME_BYTES];
	static char *names[NAMES];
	for (size_t i = 0; i < NAMES; i++) {
		snprintf(texts[i], sizeof(texts[i]), "/name%03zu", i);
		names[i] = texts[i];
		memory_put(stage->cache.registry, names[i], cache_stage_record("n"));
	}
	turn_often(stage);
	set_options(stage, LEAST_BYTES, NULL, 0);
	open_map(stage);
	for (size_t number = 0; number < 1000; number++) {
		put_of(stage, stage->cache.cache, number_key(number), SHARED_OF_PATH, "/other");
	}
	size_t before = cache_bytes(stage);
	set_options(stage, LEAST_BYTES, names, NAMES);
	size_t queued = cache_bytes(stage) - before;
	clock_shift_ms += CONFIRM_MS / 5 + 1; /* to the next look at the lease */
	turn_often(stage);
	size_t left = cache_bytes(stage) - before;
	cr_expect_gt(queued, left + NAMES * strlen("/name000"), "%zu of %zu", left, queued);
}
