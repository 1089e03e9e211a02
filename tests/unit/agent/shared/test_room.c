/* How much room the map and its warm answers take, and what becomes of a map that is full. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

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

ROOM_TEST(a_map_that_the_kernel_refuses_is_not_handed_out)
{
	struct err err = ERR_INIT;
	struct rlimit limit, none;
	int fd = -1;
	size_t size;
	cr_assert_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
	none = limit;
	none.rlim_cur = 0;
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
	int code = shared_hand_out(stage->shared, &fd, &size, &err);
	setrlimit(RLIMIT_NOFILE, &limit);
	cr_expect_eq(code, BERTH_FAILED, "%d", code);
	cr_expect_eq(fd, -1);
	cr_expect_not(shared_is_out(stage->shared));
	open_map(stage);
}

ROOM_TEST(a_map_begins_no_larger_than_it_may_be)
{
	set_options(stage, LEAST_BYTES, NULL, 0);
	open_map(stage);
	cr_expect_eq(stage->reader.size, LEAST_BYTES);
	set_options(stage, LEAST_BYTES - 1, NULL, 0);
	cr_expect_not(shared_is_out(stage->shared));
	cr_expect_not(shared_is_enabled(stage->shared));
	set_options(stage, MAX_BYTES, NULL, 0);
	open_map(stage);
	cr_expect_eq(stage->reader.size, 256 * 1024);
}

ROOM_TEST(a_map_leaves_no_bytes_in_the_cache)
{
	size_t before = cache_bytes(stage);
	set_options(stage, MAX_BYTES, everything, 1);
	open_map(stage);
	size_t slots = stage->reader.slots;
	cr_expect_geq(stats_of(stage).bytes, stage->reader.size + slots * (23 + sizeof(void *)));
	cr_expect_lt(stats_of(stage).bytes, stage->reader.size + slots * 64);
	cr_expect_geq(cache_bytes(stage), before + stats_of(stage).bytes);
	shared_retire(stage->shared);
	cr_expect_eq(cache_bytes(stage), before);
	cr_expect_eq(stats_of(stage).bytes, 0);
	cr_expect_not(shared_is_out(stage->shared));
}

ROOM_TEST(the_root_is_warm_with_everything_below_it)
{
	set_options(stage, MAX_BYTES, everything, 1);
	open_map(stage);
	turn_often(stage);
	cr_assert_eq(look(stage, "/v1/list/"), SHARED_FOUND);
	cr_expect(strstr(stage->value, "/a"), "%s", stage->value);
	memory_put(stage->cache.registry, "/b", cache_stage_record("b"));
	turn_often(stage);
	cr_assert_eq(look(stage, "/v1/list/"), SHARED_FOUND);
	cr_expect(strstr(stage->value, "/b"), "%s", stage->value);
	cr_expect_eq(look(stage, "/v1/resolve/b"), SHARED_FOUND);
}

/* Their queue grows. A few of them may find no slot near their own. */
ROOM_TEST(many_paths_at_once_are_all_warm)
{
	enum { PATHS = 200 };
	char path[64];
	set_options(stage, MAX_BYTES, everything, 1);
	open_map(stage);
	turn_often(stage);
	for (int i = 0; i < PATHS; i++) {
		snprintf(path, sizeof(path), "/a/n%d", i);
		memory_put(stage->cache.registry, path, cache_stage_record("n"));
	}
	for (int i = 0; i < 5; i++) {
		turn_often(stage);
	}
	open_map(stage);
	int found = 0;
	for (int i = 0; i < PATHS; i++) {
		snprintf(path, sizeof(path), "/v1/resolve/a/n%d", i);
		found += look(stage, path) == SHARED_FOUND;
	}
	cr_expect_gt(found, PATHS * 9 / 10, "%d", found);
}

/* ---- a map that cannot be replaced ---- */

ROOM_TEST(answers_are_not_shared_any_more_when_there_is_no_memory_for_more_of_them)
{
	set_options(stage, MAX_BYTES, NULL, 0);
	open_map(stage);
	failing_arm("mmap", 1, ENOMEM);
	for (size_t number = 0; number < 1000; number++) {
		put(stage, number);
	}
	cr_expect(failing_disarm());
	cr_expect_not(shared_is_out(stage->shared));
	cr_expect_eq(look(stage, "/v1/resolve/n0"), SHARED_GONE);
	cr_expect_eq(stats_of(stage).maps, 1);
}

ROOM_TEST(a_map_that_has_grown_is_large_from_its_beginning)
{
	set_options(stage, MAX_BYTES, NULL, 0);
	open_map(stage);
	cr_expect_eq(stage->reader.size, MAP_BYTES);
	for (size_t number = 0; number < 500; number++) {
		put(stage, number);
	}
	shared_retire(stage->shared);
	open_map(stage);
	cr_expect_eq(stage->reader.size, 2 * MAP_BYTES);
	set_options(stage, 2 * MAP_BYTES - 1, NULL, 0);
	cr_expect_not(shared_is_out(stage->shared), "it may not be as large any more");
	open_map(stage);
	cr_expect_eq(stage->reader.size, MAP_BYTES);
}

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

/* So many that a map of the first size is full. */
static void put_children(struct stage *stage, int count)
{
	char path[64];
	for (int i = 0; i < count; i++) {
		snprintf(path, sizeof(path), "/a/n%d", i);
		memory_put(stage->cache.registry, path, cache_stage_record("n"));
	}
	for (int i = 0; i < 5; i++) {
		turn_often(stage);
	}
}

ROOM_TEST(the_map_does_not_grow_for_warm_answers_without_room_in_the_cache)
{
	set_options(stage, MAX_BYTES, everything, 1);
	open_map(stage);
	turn_often(stage);
	for (size_t number = 0; number < 250; number++) {
		put_of(stage, stage->cache.cache, number_key(number), SHARED_OF_PATH, "/other");
	}
	size_t filled = fill_cache(stage, -MAP_BYTES);
	put_children(stage, 100);
	cr_expect_eq(stats_of(stage).maps, 1);
	cr_expect_gt(stats_of(stage).entries, 260);
	cache_reserve(stage->cache.cache, filled, 0);
}

ROOM_TEST(no_map_begins_anew_for_warm_answers)
{
	set_options(stage, MAP_BYTES, everything, 1);
	open_map(stage);
	put_of(stage, stage->cache.cache, number_key(1), SHARED_OF_PATH, "/other");
	clock_shift_ms += 2 * SAME_SIZE_MS;
	put_children(stage, 200);
	cr_expect_eq(stats_of(stage).maps, 1);
	open_map(stage);
	cr_expect_eq(look(stage, "/v1/resolve/n1"), SHARED_FOUND, "it was asked for");
}

ROOM_TEST(a_map_that_begins_anew_gets_its_warm_answers_again)
{
	size_t number = 0;
	set_options(stage, LEAST_BYTES, warm_a, 1);
	open_map(stage);
	turn_often(stage);
	cr_assert_eq(look(stage, "/v1/resolve/a"), SHARED_FOUND);
	while (number < 1000) {
		put(stage, number++);
	}
	clock_shift_ms += SAME_SIZE_MS;
	put(stage, number);
	cr_expect_eq(stats_of(stage).maps, 2);
	turn_often(stage);
	open_map(stage);
	cr_expect_eq(look(stage, "/v1/resolve/a"), SHARED_FOUND);
}

ROOM_TEST(a_map_full_of_warm_answers_keeps_no_bytes_for_more)
{
	size_t number = 0;
	set_options(stage, LEAST_BYTES, everything, 1);
	open_map(stage);
	turn_often(stage);
	while (number < 1000) {
		put(stage, number++);
	}
	put_children(stage, 100);
	size_t before = cache_bytes(stage);
	shared_retire(stage->shared);
	size_t without = cache_bytes(stage);
	open_map(stage);
	cr_expect_leq(before - without, cache_bytes(stage) - without + 2048);
}

/* ---- how a map is made ---- */

Test(shared_room, a_map_without_randomness_has_a_key_of_its_own)
{
	struct map *map = NULL;
	struct shared_map reader;
	struct err err = ERR_INIT;
	failing_arm("random", 1, EAGAIN);
	cr_assert_eq(map_create(&map, MAP_BYTES, &err), 0, "%s", err.msg);
	cr_expect(failing_disarm());
	map_begin(map, 1);
	cr_assert(shared_map_open(&reader, map_fd(map)));
	cr_expect_neq(atomic_load(&reader.words[SHARED_H_KEY_0]), 0);
	shared_map_close(&reader);
	map_destroy(map);
}

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

Test(shared_room, a_map_without_memory_for_it_is_an_error)
{
	struct map *map = NULL;
	struct err err = ERR_INIT;
	struct rlimit limit, little;
	int before = descriptors_count();
	cr_assert_eq(getrlimit(RLIMIT_FSIZE, &limit), 0);
	little = limit;
	little.rlim_cur = 4096;
	signal(SIGXFSZ, SIG_IGN);
	cr_assert_eq(setrlimit(RLIMIT_FSIZE, &little), 0);
	cr_expect_eq(map_create(&map, MAP_BYTES, &err), BERTH_FAILED);
	setrlimit(RLIMIT_FSIZE, &limit);
	cr_expect_null(map);
	cr_expect(strstr(err.msg, "cannot get 262144 bytes of memory"), "%s", err.msg);
	cr_expect_eq(descriptors_count(), before, "a descriptor is left open");
	err_clear(&err);
	failing_arm("mmap", 1, ENOMEM);
	cr_expect_eq(map_create(&map, MAP_BYTES, &err), BERTH_FAILED);
	cr_expect(failing_disarm());
	cr_expect(strstr(err.msg, "cannot map a memory file"), "%s", err.msg);
	cr_expect_eq(descriptors_count(), before, "a descriptor is left open");
}
