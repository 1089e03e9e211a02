/* How much room the map and its warm answers take, and what becomes of a map that is full. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "agent/shared/map.h"
#include "tests/support/descriptors.h"
#include "tests/support/failing.h"
#include "tests/unit/agent/shared/shared_stage.h"

enum { MAP_BYTES = 256 * 1024 };

#define ROOM_TEST(name) STAGED_TEST(shared_room, name, struct stage *, stage, begin(), end)

ROOM_TEST(a_full_map_that_may_not_grow_begins_anew_after_a_while)
{
	size_t number = 0;
	set_options(stage, LEAST_BYTES, NULL, 0);
	open_map(stage);
	cr_expect(shared_is_out(stage->shared));
	while (number < 1000) {
		put(stage, number++);
	}
	size_t most = stats_of(stage).entries;
	cr_expect_gt(most, 30);
	clock_shift_ms += SAME_SIZE_MS / 2;
	put(stage, number);
	cr_expect_eq(stats_of(stage).maps, 1, "not yet");
	cr_expect_eq(stats_of(stage).entries, most);
	clock_shift_ms += SAME_SIZE_MS / 2;
	put(stage, number);
	cr_expect_eq(stats_of(stage).maps, 2);
	cr_expect_eq(stats_of(stage).entries, 1, "what is asked for from now on");
	open_map(stage);
	cr_expect_eq(stage->reader.size, LEAST_BYTES);
	cr_expect_eq(look(stage, "/v1/resolve/n0"), SHARED_UNKNOWN);
}

/* ---- a map that cannot be replaced ---- */

/* An answer that was taken back does not come along. */
ROOM_TEST(a_larger_map_takes_back_what_the_smaller_one_would_have)
{
	struct cache *cache = stage->cache.cache;
	set_options(stage, MAX_BYTES, NULL, 0);
	open_map(stage);
	memory_put(stage->cache.registry, "/b", cache_stage_record("b"));
	memory_put(stage->cache.registry, "/a/b", cache_stage_record("b"));
	cache_stage_turn(&stage->cache);
	put_of(stage, cache, "/gone", SHARED_OF_PATH, "/b");
	put_of(stage, cache, "/of a", SHARED_OF_PATH, "/a");
	put_of(stage, cache, "/of children", SHARED_OF_CHILDREN, "/a");
	memory_put(stage->cache.registry, "/b", cache_stage_record("c"));
	cache_stage_turn(&stage->cache);
	put_of(stage, cache, "/of anything", SHARED_OF_ANYTHING, NULL);
	for (size_t number = 0; stats_of(stage).maps == 1; number++) {
		put_of(stage, cache, number_key(number), SHARED_OF_PATH, "/other");
	}
	size_t before = stats_of(stage).entries;
	open_map(stage);
	cr_expect_eq(look(stage, "/gone"), SHARED_UNKNOWN);
	cr_expect_eq(look(stage, "/of a"), SHARED_FOUND);
	cr_expect_eq(look(stage, "/of children"), SHARED_FOUND);
	cr_expect_eq(look(stage, "/of anything"), SHARED_FOUND);
	memory_put(stage->cache.registry, "/a/b", cache_stage_record("c"));
	cache_stage_turn(&stage->cache);
	cr_expect_eq(look(stage, "/of a"), SHARED_FOUND);
	cr_expect_eq(look(stage, "/of children"), SHARED_UNKNOWN);
	cr_expect_eq(look(stage, "/of anything"), SHARED_UNKNOWN);
	cr_expect_eq(stats_of(stage).entries, before - 2);
}

/* ---- warm answers have less room than others ---- */

static char *const warm_a[] = { "/a" };

/* Until the cache holds so many bytes more than its part for warm answers. Returns their number. */
static size_t fill_cache(struct stage *stage, int more)
{
	size_t wanted = (size_t)(MAX_BYTES + MAX_BYTES / 2 + more);
	size_t bytes = wanted - cache_bytes(stage);
	cr_assert_lt(cache_bytes(stage), wanted);
	cache_reserve(stage->cache.cache, 0, bytes);
	return bytes;
}

static enum shared_outcome look_at_warm_path_with(struct stage *stage, int more)
{
	set_options(stage, MAX_BYTES, warm_a, 1);
	open_map(stage);
	size_t filled = fill_cache(stage, more);
	turn_often(stage);
	put(stage, 1);
	cr_expect_eq(look(stage, "/v1/resolve/n1"), SHARED_FOUND, "somebody has asked for it");
	cache_reserve(stage->cache.cache, filled, 0);
	return look(stage, "/v1/resolve/a");
}

ROOM_TEST(warm_answers_come_while_the_cache_has_half_of_the_maps_bound_besides_it)
{
	cr_expect_eq(look_at_warm_path_with(stage, -8 * 1024), SHARED_FOUND);
}

ROOM_TEST(warm_answers_do_not_come_when_the_cache_has_more)
{
	cr_expect_eq(look_at_warm_path_with(stage, 8 * 1024), SHARED_UNKNOWN);
}

/* ---- how a map is made ---- */

static void make_and_end_map(void)
{
	struct map *map = NULL;
	struct err err = ERR_INIT;
	failing_pause();
	int before = descriptors_count();
	failing_resume();
	errno = EINVAL; /* of something else */
	cr_assert_eq(map_create(&map, MAP_BYTES, &err), 0, "%s", err.msg);
	cr_expect_eq(descriptors_count(), before + 1);
	cr_expect_gt(map_fd(map), 2);
	cr_expect(fcntl(map_fd(map), F_GETFD) & FD_CLOEXEC);
	map_destroy(map);
	cr_expect_eq(descriptors_count(), before);
}

Test(shared_room, a_map_is_one_descriptor_that_no_program_inherits)
{
	make_and_end_map();
	failing_arm("open", 1, EINVAL); /* an older kernel does not know MFD_NOEXEC_SEAL */
	make_and_end_map();
	cr_expect(failing_disarm());
}
