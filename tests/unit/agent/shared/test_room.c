/* How much room the map and its warm answers take, and what becomes of a map that is full. */
#include "agent/shared/map.h"
#include "agent/shared/shared.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "lib/base/clock.h"
#include "lib/shared/read.h"
#include "tests/support/cache_stage.h"
#include "tests/support/descriptors.h"
#include "tests/support/failing.h"
#include "tests/support/memory_backend.h"
#include "tests/support/shifted_clock.h"
#include "tests/support/staged.h"

enum {
	CONFIRM_MS = 10000,
	CACHE_BYTES = 8 * 1024 * 1024,
	LEAST_BYTES = 64 * 1024,
	MAX_BYTES = 1024 * 1024,
	SAME_SIZE_MS = 10000,
	MAP_BYTES = 256 * 1024
};

struct stage {
	struct cache_stage cache;
	struct shared *shared;
	struct shared_map reader;
	struct shared_answer answer;
	char value[SHARED_VALUE_BYTES + 1];
};

static void open_map(struct stage *stage)
{
	struct err err = ERR_INIT;
	int fd;
	size_t size;
	shared_map_close(&stage->reader);
	cr_assert_eq(shared_hand_out(stage->shared, &fd, &size, &err), 0, "%s", err.msg);
	cr_assert(shared_map_open(&stage->reader, fd));
	cr_assert_eq(stage->reader.size, size);
}

static void set_options(struct stage *stage, size_t max_bytes, char *const *warm, size_t count)
{
	shared_set_options(stage->shared,
		&(struct shared_options){ .enabled = true,
			.max_bytes = max_bytes,
			.warm = warm,
			.warm_count = count });
}

static char *const everything[] = { "/**" };

/* All paths are watched. */
static struct stage *begin(void)
{
	struct stage *stage = calloc(1, sizeof(*stage));
	cr_assert(stage);
	cache_stage_open(&stage->cache,
		&(struct cache_options){ .confirm_ms = CONFIRM_MS,
			.max_size_bytes = CACHE_BYTES,
			.warm = everything,
			.warm_count = 1 });
	memory_put(stage->cache.registry, "/a", cache_stage_record("a"));
	cache_stage_turn(&stage->cache);
	stage->shared = shared_create(stage->cache.loop, stage->cache.cache);
	return stage;
}

static void end(struct stage *stage)
{
	shared_map_close(&stage->reader);
	shared_destroy(stage->shared);
	cache_stage_close(&stage->cache);
	free(stage);
}

#define ROOM_TEST(name) STAGED_TEST(shared_room, name, struct stage *, stage, begin(), end)

static struct shared_stats stats_of(const struct stage *stage)
{
	struct shared_stats stats;
	shared_get_stats(stage->shared, &stats);
	return stats;
}

static size_t cache_bytes(const struct stage *stage)
{
	struct cache_stats stats;
	cache_get_stats(stage->cache.cache, &stats);
	return stats.bytes;
}

static enum shared_outcome look(struct stage *stage, const char *key)
{
	return shared_map_read(&stage->reader, key, strlen(key), stage->value, sizeof(stage->value),
		&stage->answer);
}

static void put(const struct stage *stage, size_t number)
{
	char key[64];
	const struct shared_item item = { .cache = stage->cache.cache,
		.key = key,
		.key_len = (size_t)snprintf(key, sizeof(key), "/v1/resolve/n%zu", number),
		.source = SHARED_OF_PATH,
		.path = "/a",
		.etag = "",
		.value = "{}",
		.value_len = 2 };
	shared_put(stage->shared, &item);
}

static void turn_often(struct stage *stage)
{
	for (int i = 0; i < 100; i++) {
		cache_stage_turn(&stage->cache);
	}
}

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

/* Its answer comes when there is no map any more. */
ROOM_TEST(a_warm_path_that_is_being_read_is_forgotten_with_the_map)
{
	static char *const named[] = { "/named" };
	set_options(stage, MAX_BYTES, named, 1);
	cache_set_options(stage->cache.cache,
		&(struct cache_options){ .confirm_ms = CONFIRM_MS, .max_size_bytes = CACHE_BYTES });
	memory_set_answering(stage->cache.registry, false);
	open_map(stage);
	turn_often(stage);
	shared_retire(stage->shared);
	memory_set_answering(stage->cache.registry, true);
	turn_often(stage);
	cr_expect_not(shared_is_out(stage->shared));
	cr_expect_eq(stats_of(stage).entries, 0);
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
	cr_expect_geq(stats_of(stage).bytes, stage->reader.size + slots * 24);
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

/* ---- a map that cannot be made ---- */

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
