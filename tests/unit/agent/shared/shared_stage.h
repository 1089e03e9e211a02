/* A shared map over a cache in which everything is watched, and a reader of it. */
#ifndef TESTS_UNIT_AGENT_SHARED_SHARED_STAGE_H
#define TESTS_UNIT_AGENT_SHARED_SHARED_STAGE_H

#include <criterion/criterion.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/shared/shared.h"
#include "lib/base/clock.h"
#include "lib/shared/read.h"
#include "tests/support/cache_stage.h"
#include "tests/support/memory_backend.h"
#include "tests/support/shifted_clock.h"
#include "tests/support/staged.h"

enum {
	CONFIRM_MS = 10000,
	CACHE_BYTES = 8 * 1024 * 1024,
	LEAST_BYTES = 64 * 1024,
	MAX_BYTES = 1024 * 1024,
	SAME_SIZE_MS = 10000
};

struct stage {
	struct cache_stage cache;
	struct shared *shared;
	struct shared_map reader;
	struct shared_answer answer;
	char value[SHARED_VALUE_BYTES + 1];
};

static inline void open_map(struct stage *stage)
{
	struct err err = ERR_INIT;
	int fd;
	size_t size;
	shared_map_close(&stage->reader);
	cr_assert_eq(shared_hand_out(stage->shared, &fd, &size, &err), 0, "%s", err.msg);
	cr_assert(shared_map_open(&stage->reader, fd));
	cr_assert_eq(stage->reader.size, size);
}

static inline void set_options(
	struct stage *stage, size_t max_bytes, char *const *warm, size_t count)
{
	shared_set_options(stage->shared,
		&(struct shared_options){ .enabled = true,
			.max_bytes = max_bytes,
			.warm = warm,
			.warm_count = count });
}

static char *const everything[] = { "/**" };

/* All paths are watched. */
static inline struct stage *begin(void)
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

static inline void end(struct stage *stage)
{
	shared_map_close(&stage->reader);
	shared_destroy(stage->shared);
	cache_stage_close(&stage->cache);
	free(stage);
}

static inline struct shared_stats stats_of(const struct stage *stage)
{
	struct shared_stats stats;
	shared_get_stats(stage->shared, &stats);
	return stats;
}

static inline size_t cache_bytes(const struct stage *stage)
{
	struct cache_stats stats;
	cache_get_stats(stage->cache.cache, &stats);
	return stats.bytes;
}

static inline enum shared_outcome look(struct stage *stage, const char *key)
{
	return shared_map_read(&stage->reader, key, strlen(key), stage->value, sizeof(stage->value),
		&stage->answer);
}

static inline void put_of(const struct stage *stage, struct cache *cache, const char *key,
	enum shared_source source, const char *path)
{
	const struct shared_item item = { .cache = cache,
		.key = key,
		.key_len = strlen(key),
		.source = source,
		.path = path,
		.etag = "",
		.value = "{}",
		.value_len = 2 };
	shared_put(stage->shared, &item);
}

/* Static. */
static inline const char *number_key(size_t number)
{
	static char key[64];
	snprintf(key, sizeof(key), "/v1/resolve/n%zu", number);
	return key;
}

static inline void put(const struct stage *stage, size_t number)
{
	put_of(stage, stage->cache.cache, number_key(number), SHARED_OF_PATH, "/a");
}

/* Of the lease. */
static inline int64_t lease_left_ms(const struct stage *stage)
{
	uint64_t until_ns = atomic_load(&stage->reader.words[SHARED_H_LIVE_UNTIL]);
	return (int64_t)(until_ns / 1000000) - clock_monotonic_ms();
}

static inline void turn_often(struct stage *stage)
{
	for (int i = 0; i < 100; i++) {
		cache_stage_turn(&stage->cache);
	}
}

#endif
