/* The limit of the cache, against what the process allocates. */

#include <criterion/criterion.h>

#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/registry/internal.h"
#include "tests/support/cache_stage.h"
#include "tests/support/memory_backend.h"
#include "tests/support/watch_count.h"

#ifdef __SANITIZE_ADDRESS__
size_t __sanitizer_get_current_allocated_bytes(void);
#endif

static size_t allocated_bytes(void)
{
#ifdef __SANITIZE_ADDRESS__
	return __sanitizer_get_current_allocated_bytes();
#else
	return mallinfo2().uordblks;
#endif
}

static const char *path_of(int number)
{
	static char path[64];
	snprintf(path, sizeof(path), "/users/joe/many/components/c%d", number);
	return path;
}

static void put(struct cache_stage *stage, int number, size_t record_bytes)
{
	char *record = malloc(record_bytes + 1);
	memset(record, ' ', record_bytes);
	memcpy(record, "{\"type\":\"JSONServiceRecord\"}", 28);
	record[record_bytes] = '\0';
	memory_put(stage->registry, path_of(number), record);
	free(record);
}

static void open_stage(struct cache_stage *stage, size_t limit, int records, size_t record_bytes)
{
	cache_stage_open(
		stage, &(struct cache_options){ .resync_ms = 600000, .max_size_bytes = limit });
	memory_put(stage->registry, "/users", "");
	memory_put(stage->registry, "/users/joe", "");
	memory_put(stage->registry, "/users/joe/many", "");
	memory_put(stage->registry, "/users/joe/many/components", "");
	for (int i = 0; i < records; i++) {
		put(stage, i, record_bytes);
	}
}

/* Looks up more records than fit, so that the cache is full at the end. */
static void grows_to_its_limit(size_t limit, int records, size_t record_bytes)
{
	struct cache_stage stage;
	struct cache_outcome outcome;
	struct cache_stats stats;
	open_stage(&stage, limit, records, record_bytes);
	size_t before = allocated_bytes();
	for (int i = 0; i < records; i++) {
		cr_assert_eq(cache_stage_look(&stage, &outcome, path_of(i), CACHE_RESOLVE), 0);
	}
	size_t grown = allocated_bytes() - before;
	cache_get_stats(stage.cache, &stats);
	cr_assert_gt(stats.evictions, 0);
	cr_assert_leq(stats.bytes, limit);
	cr_assert_leq(grown, limit + limit / 10, "%zu for %zu", grown, stats.bytes);
	cr_assert_geq(grown, limit / 3, "%zu for %zu", grown, stats.bytes);
	cache_stage_close(&stage);
}

Test(cache_memory, of_32_mib_bounds_what_records_take)
{
	grows_to_its_limit((size_t)32 << 20, 3600, 10000);
}

Test(cache_memory, of_64_mib_bounds_what_large_records_take)
{
	grows_to_its_limit((size_t)64 << 20, 1200, 60000);
}

/* The default of max_size has room for them. */
Test(cache_memory, of_ten_thousand_records_that_are_kept_warm_is_what_the_cache_counts)
{
	enum { RECORDS = 10000, TREE_NODE_BYTES = 48 };
	struct cache_stage stage;
	struct cache_stats stats;
	open_stage(&stage, (size_t)16 << 20, RECORDS, 200);
	struct cache_observer observer = { .scope = CACHE_TREE };
	size_t before = allocated_bytes();
	cache_observe(stage.cache, "/users", &observer);
	while (observer.state != CACHE_OBSERVER_LIVE) {
		cache_stage_turn(&stage);
	}
	size_t grown = allocated_bytes() - before;
	cache_get_stats(stage.cache, &stats);
	cr_assert_eq(stats.paths, RECORDS + 4);
	size_t pool = REGISTRY_MAX_IN_FLIGHT * sizeof(struct registry_call);
	/* The registry of the tests finds its watches in a tree of tsearch(). */
	size_t tree = watch_count(stage.registry) * TREE_NODE_BYTES;
	cr_assert_leq(grown, stats.bytes + stats.bytes / 10 + pool + tree, "%zu for %zu", grown,
		stats.bytes);
	cr_assert_leq(grown / RECORDS, 2000);
	cache_unobserve(&observer);
	cache_stage_close(&stage);
}
