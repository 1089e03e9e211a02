/* The content of the map, for how long it holds, and when there is another map. */
#include "agent/shared/shared.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/array.h"
#include "lib/base/clock.h"
#include "lib/shared/read.h"
#include "tests/support/cache_stage.h"
#include "tests/support/memory_backend.h"
#include "tests/support/shifted_clock.h"
#include "tests/support/staged.h"

enum { CONFIRM_MS = 10000, CACHE_BYTES = 4 * 1024 * 1024, MAX_BYTES = 1024 * 1024 };

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

static void set_options(const struct stage *stage, bool enabled, size_t max_bytes)
{
	shared_set_options(stage->shared,
		&(struct shared_options){ .enabled = enabled, .max_bytes = max_bytes });
}

static struct stage *begin(void)
{
	struct stage *stage = calloc(1, sizeof(*stage));
	cr_assert(stage);
	cache_stage_open(&stage->cache,
		&(struct cache_options){
			.confirm_ms = CONFIRM_MS, .resync_ms = 0, .max_size_bytes = CACHE_BYTES });
	stage->shared = shared_create(stage->cache.loop, stage->cache.cache);
	set_options(stage, true, MAX_BYTES);
	open_map(stage);
	return stage;
}

static void end(struct stage *stage)
{
	shared_map_close(&stage->reader);
	shared_destroy(stage->shared);
	cache_stage_close(&stage->cache);
	free(stage);
}

#define SHARED_TEST(name) STAGED_TEST(shared, name, struct stage *, stage, begin(), end)

static void put_of(const struct stage *stage, struct cache *cache, const char *key,
	enum shared_source source, const char *path, const char *value)
{
	const struct shared_item item = { .cache = cache,
		.key = key,
		.key_len = strlen(key),
		.source = source,
		.path = path,
		.etag = "",
		.value = value,
		.value_len = strlen(value) };
	shared_put(stage->shared, &item);
}

static void put(const struct stage *stage, const char *key, enum shared_source source,
	const char *path, const char *value)
{
	put_of(stage, stage->cache.cache, key, source, path, value);
}

/* The path is in the cache, its record in the map. */
static void know(struct stage *stage, const char *path)
{
	struct cache_outcome outcome;
	char key[256];
	memory_put(stage->cache.registry, path, cache_stage_record("one"));
	cr_assert_eq(cache_stage_look(&stage->cache, &outcome, path, CACHE_RESOLVE), 0);
	snprintf(key, sizeof(key), "/v1/resolve%s", path);
	put(stage, key, SHARED_OF_PATH, path, outcome.text);
}

static enum shared_outcome look(struct stage *stage, const char *key)
{
	return shared_map_read(&stage->reader, key, strlen(key), stage->value, sizeof(stage->value),
		&stage->answer);
}

SHARED_TEST(an_answer_is_there_until_its_path_changes)
{
	know(stage, "/a");
	know(stage, "/b");
	cr_assert_eq(look(stage, "/v1/resolve/a"), SHARED_FOUND);
	cr_assert_str_eq(stage->value, cache_stage_record("one"));
	memory_put(stage->cache.registry, "/a", cache_stage_record("two"));
	cache_stage_turn(&stage->cache);
	cr_expect_eq(look(stage, "/v1/resolve/a"), SHARED_UNKNOWN);
	cr_expect_eq(look(stage, "/v1/resolve/b"), SHARED_FOUND);
	know(stage, "/a");
	cr_expect_eq(look(stage, "/v1/resolve/a"), SHARED_FOUND);
}

SHARED_TEST(errors_about_the_path_are_answers_and_others_are_not)
{
	static const struct {
		int code;
		enum shared_outcome outcome;
	} rows[] = { { BERTH_PATH_NOT_FOUND, SHARED_FOUND }, { BERTH_NO_RECORD, SHARED_FOUND },
		{ BERTH_INVALID_RECORD, SHARED_FOUND }, { BERTH_TIMEOUT, SHARED_UNKNOWN } };
	know(stage, "/a");
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct err err = ERR_INIT;
		char key[16];
		err_set(&err, rows[i].code, "why");
		snprintf(key, sizeof(key), "/key%zu", i);
		const struct shared_item item = { .cache = stage->cache.cache,
			.key = key,
			.key_len = strlen(key),
			.source = SHARED_OF_PATH,
			.path = "/a",
			.etag = "",
			.err = &err };
		shared_put(stage->shared, &item);
		cr_expect_eq(look(stage, key), rows[i].outcome, "%zu", i);
		if (rows[i].outcome == SHARED_FOUND) {
			cr_expect_eq(stage->answer.error, rows[i].code);
			cr_expect_str_eq(stage->value, "why");
		}
	}
}

struct listener {
	struct stage *stage;
	enum shared_outcome seen;
	int events;
};

static void on_event(void *context, enum cache_event event, const char *path, const char *record)
{
	(void)event;
	(void)path;
	(void)record;
	struct listener *listener = context;
	listener->events++;
	listener->seen = look(listener->stage, "/v1/resolve/a");
}

SHARED_TEST(an_observer_that_hears_of_a_change_finds_no_older_answer)
{
	struct listener listener = { .stage = stage, .seen = SHARED_FOUND };
	struct cache_observer observer = {
		.scope = CACHE_SELF, .on_event = on_event, .context = &listener
	};
	know(stage, "/a");
	cache_observe(stage->cache.cache, "/a", &observer);
	cache_stage_turn(&stage->cache);
	cr_assert_eq(look(stage, "/v1/resolve/a"), SHARED_FOUND);
	cr_assert_eq(listener.events, 0);
	memory_put(stage->cache.registry, "/a", cache_stage_record("two"));
	cache_stage_turn(&stage->cache);
	cr_expect_eq(listener.events, 1);
	cr_expect_eq(listener.seen, SHARED_UNKNOWN);
	cache_unobserve(&observer);
}

static void on_poll(void *context, struct cache_answer *answer, const struct err *err)
{
	(void)answer;
	(void)err;
	on_event(context, CACHE_UPDATED, "", "");
}

SHARED_TEST(a_poll_that_has_waited_for_a_change_finds_no_older_answer)
{
	struct listener listener = { .stage = stage, .seen = SHARED_FOUND };
	struct cache_wait wait = { .on_answer = on_poll, .context = &listener };
	struct cache_query query = { .path = "/a",
		.kind = CACHE_RESOLVE,
		.max_age_ms = -1,
		.now_ms = clock_monotonic_ms() };
	struct err err = ERR_INIT;
	struct cache_answer *answer;
	know(stage, "/a");
	strcpy(wait.unlike, cache_stage_find(&stage->cache, "/a")->etag);
	cr_assert_eq(cache_ask(stage->cache.cache, &query, &wait, &answer, &err), CACHE_WAITING);
	memory_put(stage->cache.registry, "/a", cache_stage_record("two"));
	cache_stage_turn(&stage->cache);
	cr_expect_eq(listener.events, 1);
	cr_expect_eq(listener.seen, SHARED_UNKNOWN);
}

SHARED_TEST(an_answer_of_children_goes_with_a_child_and_one_of_the_path_stays)
{
	struct cache_outcome outcome;
	memory_put(stage->cache.registry, "/a", cache_stage_record("one"));
	memory_put(stage->cache.registry, "/a/b", cache_stage_record("one"));
	cr_assert_eq(cache_stage_look(&stage->cache, &outcome, "/a", CACHE_RECORDS), 0);
	put(stage, "/v1/records/a", SHARED_OF_CHILDREN, "/a", outcome.text);
	put(stage, "/v1/resolve/a", SHARED_OF_PATH, "/a", "{}");
	put(stage, "/v1/names/b.a.berth", SHARED_OF_ANYTHING, NULL, "{}");
	memory_put(stage->cache.registry, "/a/b", cache_stage_record("two"));
	cache_stage_turn(&stage->cache);
	cr_expect_eq(look(stage, "/v1/records/a"), SHARED_UNKNOWN);
	cr_expect_eq(look(stage, "/v1/names/b.a.berth"), SHARED_UNKNOWN);
	cr_expect_eq(look(stage, "/v1/resolve/a"), SHARED_FOUND);
}

/* ---- the lease ---- */

static int64_t lease_left_ms(const struct stage *stage)
{
	uint64_t until_ns = atomic_load(&stage->reader.words[SHARED_H_LIVE_UNTIL]);
	return (int64_t)(until_ns / 1000000) - clock_monotonic_ms();
}

static void refuse(void *context, const struct registry_task *task, struct err *err)
{
	(void)context;
	(void)task;
	err_set(err, BERTH_REGISTRY_UNAVAILABLE, "no answer");
}

SHARED_TEST(an_outage_ends_the_lease_and_its_end_the_map)
{
	know(stage, "/a");
	cr_assert_eq(look(stage, "/v1/resolve/a"), SHARED_FOUND);
	shared_on_registry_state(stage->shared, REGISTRY_AWAY);
	cr_expect_eq(look(stage, "/v1/resolve/a"), SHARED_EXPIRED);
	shared_on_registry_state(stage->shared, REGISTRY_CONNECTING);
	cr_expect_eq(look(stage, "/v1/resolve/a"), SHARED_EXPIRED);
	shared_on_registry_state(stage->shared, REGISTRY_CONNECTED);
	cr_expect_eq(look(stage, "/v1/resolve/a"), SHARED_GONE);
	cr_expect_not(shared_is_out(stage->shared));
	open_map(stage);
	know(stage, "/a");
	cr_expect_eq(look(stage, "/v1/resolve/a"), SHARED_FOUND);
}

/* ---- size ---- */

static size_t entries(const struct stage *stage)
{
	struct shared_stats stats;
	shared_get_stats(stage->shared, &stats);
	return stats.entries;
}

static void put_many(const struct stage *stage, size_t from, size_t count)
{
	char key[64];
	char path[64];
	for (size_t i = from; i < from + count; i++) {
		snprintf(path, sizeof(path), "/n%zu", i);
		snprintf(key, sizeof(key), "/v1/resolve%s", path);
		put(stage, key, SHARED_OF_PATH, path, cache_stage_record(path + 1));
	}
}

SHARED_TEST(a_full_map_is_replaced_by_one_of_twice_the_size_with_all_that_held)
{
	size_t before = stage->reader.size;
	put_many(stage, 0, 600);
	cr_expect_eq(look(stage, "/v1/resolve/n0"), SHARED_GONE);
	open_map(stage);
	cr_expect_geq(stage->reader.size, 2 * before);
	cr_expect_eq(entries(stage), 600);
	cr_expect_eq(look(stage, "/v1/resolve/n0"), SHARED_FOUND);
	cr_expect_str_eq(stage->value, cache_stage_record("n0"));
	cr_expect_eq(look(stage, "/v1/resolve/n599"), SHARED_FOUND);
}

SHARED_TEST(an_option_ends_the_map)
{
	know(stage, "/a");
	set_options(stage, true, stage->reader.size);
	cr_expect_eq(look(stage, "/v1/resolve/a"), SHARED_FOUND);
	set_options(stage, false, MAX_BYTES);
	cr_expect_eq(look(stage, "/v1/resolve/a"), SHARED_GONE);
	cr_expect_not(shared_is_enabled(stage->shared));
	set_options(stage, true, 1000);
	cr_expect_not(shared_is_enabled(stage->shared));
	know(stage, "/a"); /* without a map it goes nowhere */
	cr_expect_eq(entries(stage), 0);
}

/* ---- further registries ---- */

enum { SHORT_MS = 4000 };

#define FAR_KEY "/v1/resolve/far"

static void open_far(struct cache_stage *far, int64_t confirm_ms)
{
	cache_stage_open(far,
		&(struct cache_options){ .confirm_ms = confirm_ms, .max_size_bytes = CACHE_BYTES });
}

static void close_far(const struct stage *stage, struct cache_stage *far)
{
	shared_forget(stage->shared, far->cache);
	cache_stage_close(far);
}

/* The answer of FAR_KEY. */
static void know_far(const struct stage *stage, struct cache_stage *far)
{
	struct cache_outcome outcome;
	memory_put(far->registry, "/far", cache_stage_record("one"));
	cr_assert_eq(cache_stage_look(far, &outcome, "/far", CACHE_RESOLVE), 0);
	put_of(stage, far->cache, FAR_KEY, SHARED_OF_PATH, "/far", outcome.text);
}

SHARED_TEST(an_answer_of_a_further_registry_is_there_until_its_path_changes)
{
	struct cache_stage far;
	open_far(&far, CONFIRM_MS);
	know(stage, "/a");
	put(stage, "/v1/names/x", SHARED_OF_ANYTHING, NULL, "{}");
	know_far(stage, &far);
	cr_expect_eq(look(stage, FAR_KEY), SHARED_FOUND);
	memory_put(far.registry, "/far", cache_stage_record("two"));
	cache_stage_turn(&far);
	cr_expect_eq(look(stage, FAR_KEY), SHARED_UNKNOWN);
	cr_expect_eq(look(stage, "/v1/resolve/a"), SHARED_FOUND);
	cr_expect_eq(look(stage, "/v1/names/x"), SHARED_FOUND, "it is of the agent's own registry");
	close_far(stage, &far);
}

SHARED_TEST(the_lease_is_no_longer_than_any_of_its_registries_was_heard_for)
{
	struct cache_stage far;
	open_far(&far, SHORT_MS);
	cr_assert_gt(lease_left_ms(stage), SHORT_MS);
	know_far(stage, &far);
	cr_expect_eq(look(stage, FAR_KEY), SHARED_FOUND);
	cr_expect_leq(lease_left_ms(stage), SHORT_MS);
	set_options(stage, true, MAX_BYTES); /* which extends the lease */
	cr_expect_leq(lease_left_ms(stage), SHORT_MS);
	shared_forget(stage->shared, far.cache);
	cr_expect_eq(look(stage, FAR_KEY), SHARED_UNKNOWN);
	set_options(stage, true, MAX_BYTES);
	cr_expect_gt(lease_left_ms(stage), SHORT_MS);
	cache_stage_close(&far);
}

SHARED_TEST(a_further_registry_that_was_not_heard_lately_stays_outside)
{
	struct cache_stage far;
	open_far(&far, SHORT_MS);
	know(stage, "/a");
	memory_set_heard_ms(far.registry, clock_monotonic_ms() - SHORT_MS + SHORT_MS / 10);
	know_far(stage, &far);
	cr_expect_eq(look(stage, FAR_KEY), SHARED_UNKNOWN);
	cr_expect_gt(lease_left_ms(stage), SHORT_MS);
	close_far(stage, &far);
}

SHARED_TEST(a_further_registry_that_falls_silent_loses_its_answers_alone)
{
	struct cache_stage far;
	open_far(&far, 1000);
	know(stage, "/a");
	know_far(stage, &far);
	memory_on_task(far.registry, refuse, NULL);
	memory_set_heard_ms(far.registry, clock_monotonic_ms());
	while (look(stage, FAR_KEY) != SHARED_UNKNOWN) {
		usleep(1000);
		cache_stage_turn(&stage->cache);
		cache_stage_turn(&far);
	}
	cr_expect_eq(look(stage, "/v1/resolve/a"), SHARED_FOUND);
	cr_expect_gt(lease_left_ms(stage), 1000);
	memory_on_task(far.registry, NULL, NULL);
	close_far(stage, &far);
}

/* ---- what is warm ---- */

#define TREE "/services"
#define NAMED "/users/joe"
#define CHILD(n) TREE "/db/c" #n

static char *const warm[] = { TREE "/**", NAMED };

/* Those paths are watched, and a map is out. */
static struct stage *begin_warm(size_t max_bytes)
{
	struct stage *stage = calloc(1, sizeof(*stage));
	const struct cache_options options = { .confirm_ms = CONFIRM_MS,
		.max_size_bytes = CACHE_BYTES,
		.warm = warm,
		.warm_count = 2 };
	const struct shared_options shared = {
		.enabled = true, .max_bytes = max_bytes, .warm = warm, .warm_count = 2
	};
	cr_assert(stage);
	cache_stage_open(&stage->cache, &options);
	memory_put(stage->cache.registry, TREE, "");
	memory_put(stage->cache.registry, TREE "/db", cache_stage_record("db"));
	memory_put(stage->cache.registry, CHILD(1), cache_stage_record("one"));
	cache_stage_turn(&stage->cache);
	stage->shared = shared_create(stage->cache.loop, stage->cache.cache);
	shared_set_options(stage->shared, &shared);
	open_map(stage);
	return stage;
}

static struct stage *begin_warm_with_room(void)
{
	return begin_warm(MAX_BYTES);
}

#define WARM_TEST(name)                                                                            \
	STAGED_TEST(shared, name, struct stage *, stage, begin_warm_with_room(), end)

static enum shared_outcome look_later(struct stage *stage, const char *key)
{
	for (int turns = 0; turns < 50 && look(stage, key) != SHARED_FOUND; turns++) {
		cache_stage_turn(&stage->cache);
	}
	return look(stage, key);
}

WARM_TEST(warm_answers_are_there_before_anybody_asks)
{
	static const char *const keys[] = { "/v1/resolve" TREE "/db", "/v1/endpoints" TREE "/db",
		"/v1/records" TREE "/db", "/v1/list" TREE "/db", "/v1/list" TREE,
		"/v1/resolve" CHILD(1), "/v1/endpoints" CHILD(1) };
	for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
		cr_expect_eq(look_later(stage, keys[i]), SHARED_FOUND, "%s", keys[i]);
	}
	cr_assert_eq(look_later(stage, "/v1/resolve" CHILD(1)), SHARED_FOUND);
	cr_expect_str_eq(stage->value, cache_stage_record("one"));
	cr_assert_eq(look_later(stage, "/v1/list" TREE "/db"), SHARED_FOUND);
	cr_expect(strstr(stage->value, CHILD(1)), "%s", stage->value);
	cr_assert_eq(look_later(stage, "/v1/records" TREE "/db"), SHARED_FOUND);
	cr_expect(strstr(stage->value, "one"), "%s", stage->value);
	/* Its absence is an answer; below it nothing is watched. */
	cr_assert_eq(look_later(stage, "/v1/resolve" NAMED), SHARED_FOUND);
	cr_expect_eq(stage->answer.error, BERTH_PATH_NOT_FOUND);
	cr_expect_eq(look(stage, "/v1/endpoints" NAMED), SHARED_UNKNOWN);
	cr_expect_eq(look(stage, "/v1/resolve/users"), SHARED_UNKNOWN);
}

WARM_TEST(warm_answers_come_back_after_each_change)
{
	cr_assert_eq(look_later(stage, "/v1/records" TREE "/db"), SHARED_FOUND);
	memory_put(stage->cache.registry, CHILD(1), cache_stage_record("two"));
	cr_assert_eq(look_later(stage, "/v1/records" TREE "/db"), SHARED_FOUND);
	for (int turns = 0; turns < 50 && !strstr(stage->value, "two"); turns++) {
		cache_stage_turn(&stage->cache);
		(void)look(stage, "/v1/records" TREE "/db");
	}
	cr_expect(strstr(stage->value, "two"), "%s", stage->value);
	cr_assert_eq(look_later(stage, "/v1/resolve" CHILD(1)), SHARED_FOUND);
	cr_expect_str_eq(stage->value, cache_stage_record("two"));
	memory_put(stage->cache.registry, CHILD(2), cache_stage_record("new"));
	memory_put(stage->cache.registry, NAMED, cache_stage_record("joe"));
	cr_expect_eq(look_later(stage, "/v1/resolve" CHILD(2)), SHARED_FOUND);
	for (int turns = 0; turns < 50 && stage->answer.error; turns++) {
		cache_stage_turn(&stage->cache);
		(void)look(stage, "/v1/resolve" NAMED);
	}
	cr_expect_eq(look_later(stage, "/v1/resolve" NAMED), SHARED_FOUND);
	cr_expect_str_eq(stage->value, cache_stage_record("joe"));
}

WARM_TEST(other_warm_paths_take_the_place_of_the_first_ones)
{
	char *const other[] = { "/users/**" };
	const struct shared_options options = {
		.enabled = true, .max_bytes = MAX_BYTES, .warm = other, .warm_count = 1
	};
	cr_assert_eq(look_later(stage, "/v1/resolve" CHILD(1)), SHARED_FOUND);
	shared_set_options(stage->shared, &options);
	memory_put(stage->cache.registry, CHILD(1), cache_stage_record("two"));
	for (int turns = 0; turns < 50; turns++) {
		cache_stage_turn(&stage->cache);
	}
	cr_expect_eq(look(stage, "/v1/resolve" CHILD(1)), SHARED_UNKNOWN);
}
