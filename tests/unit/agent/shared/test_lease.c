/* How long the map holds, by the clock of the test: looks at the lease, and who ends it. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/array.h"
#include "tests/unit/agent/shared/shared_stage.h"

/* A timer may end in the millisecond that follows. */
enum { LOOK_MS = CONFIRM_MS / 5, STEP_MS = LOOK_MS + 1, IDLE_MS = 60 * 1000 };

static struct stage *begin_out(void)
{
	clock_stands = true;
	clock_shift_ms = 1000 * 1000;
	struct stage *stage = begin();
	set_options(stage, MAX_BYTES, NULL, 0);
	open_map(stage);
	return stage;
}

#define LEASE_TEST(name) STAGED_TEST(shared_lease, name, struct stage *, stage, begin_out(), end)

static void let_pass(struct stage *stage, int64_t ms)
{
	clock_shift_ms += ms;
	cache_stage_turn(&stage->cache);
}

/* ---- the agent's own registry ---- */

LEASE_TEST(a_minute_after_the_last_request_the_lease_runs_out)
{
	let_pass(stage, STEP_MS);
	put(stage, 1);
	for (int64_t ms = 0; ms < IDLE_MS; ms += STEP_MS) {
		cr_expect_eq(lease_left_ms(stage), CONFIRM_MS, "%d ms", (int)ms);
		let_pass(stage, STEP_MS);
	}
	let_pass(stage, STEP_MS);
	cr_expect_eq(lease_left_ms(stage), CONFIRM_MS - STEP_MS);
	let_pass(stage, CONFIRM_MS);
	cr_expect_leq(lease_left_ms(stage), 0);
	cr_expect_eq(look(stage, "/v1/resolve/n1"), SHARED_EXPIRED);
	put(stage, 2);
	cr_expect_eq(lease_left_ms(stage), CONFIRM_MS, "there is a reader again");
	cr_expect_eq(look(stage, "/v1/resolve/n1"), SHARED_FOUND);
	let_pass(stage, STEP_MS);
	cr_expect_eq(lease_left_ms(stage), CONFIRM_MS);
}

static int questions;

static void count_question(void *context, const struct registry_task *task, struct err *err)
{
	(void)context;
	(void)task;
	(void)err;
	questions++;
}

/* The server was heard too long ago, and answers nothing. */
static void fall_silent(struct stage *stage)
{
	memory_set_heard_ms(stage->cache.registry, clock_monotonic_ms() - 2 * CONFIRM_MS);
	memory_set_answering(stage->cache.registry, false);
	shared_retire(stage->shared);
	open_map(stage);
	cr_assert_leq(lease_left_ms(stage), 0);
}

static void answer(struct stage *stage)
{
	memory_set_heard_ms(stage->cache.registry, INT64_MAX);
	memory_set_answering(stage->cache.registry, true);
	cache_stage_turn(&stage->cache);
}

LEASE_TEST(a_server_is_asked_once_for_a_sign_of_life)
{
	fall_silent(stage);
	memory_on_task(stage->cache.registry, count_question, NULL);
	for (size_t number = 0; number < 5; number++) {
		put(stage, number);
	}
	answer(stage);
	cr_expect_eq(questions, 1);
	cr_expect_eq(lease_left_ms(stage), CONFIRM_MS);
	fall_silent(stage);
	answer(stage);
	cr_expect_eq(questions, 2, "and again the next time");
	cr_expect_eq(lease_left_ms(stage), CONFIRM_MS);
	memory_set_heard_ms(stage->cache.registry, clock_monotonic_ms() - 2 * CONFIRM_MS);
	memory_set_answering(stage->cache.registry, false);
	let_pass(stage, STEP_MS);
	cr_expect_leq(lease_left_ms(stage), 0);
	answer(stage);
	cr_expect_eq(questions, 3, "by the next look");
	cr_expect_eq(lease_left_ms(stage), CONFIRM_MS);
	memory_on_task(stage->cache.registry, NULL, NULL);
}

LEASE_TEST(a_map_that_is_made_during_an_outage_has_no_lease)
{
	shared_on_registry_state(stage->shared, REGISTRY_CONNECTED);
	cr_expect(shared_is_out(stage->shared), "that is no news");
	shared_on_registry_state(stage->shared, REGISTRY_LOST);
	cr_expect(shared_is_out(stage->shared));
	cr_expect_leq(lease_left_ms(stage), 0);
	shared_retire(stage->shared);
	open_map(stage);
	cr_expect_leq(lease_left_ms(stage), 0);
	shared_on_registry_state(stage->shared, REGISTRY_CONNECTED);
	cr_expect_not(shared_is_out(stage->shared));
	open_map(stage);
	cr_expect_eq(lease_left_ms(stage), CONFIRM_MS);
}

/* ---- further registries ---- */

enum { FAR_MS = 4000, FAR_LOOK_MS = FAR_MS / 5, FAR_STEP_MS = FAR_LOOK_MS + 1 };

static void open_far(struct cache_stage *far, int64_t confirm_ms)
{
	cache_stage_open(far,
		&(struct cache_options){ .confirm_ms = confirm_ms, .max_size_bytes = CACHE_BYTES });
}

static void close_far(struct stage *stage, struct cache_stage *far)
{
	shared_forget(stage->shared, far->cache);
	cache_stage_close(far);
}

static enum shared_outcome put_far_heard(
	struct stage *stage, struct cache_stage *far, const char *key, int64_t ago_ms)
{
	memory_set_heard_ms(far->registry, clock_monotonic_ms() - ago_ms);
	put_of(stage, far->cache, key, SHARED_OF_PATH, "/far");
	return look(stage, key);
}

LEASE_TEST(a_further_registry_that_is_silent_goes_at_the_last_look_before_the_end)
{
	struct cache_stage far, other;
	open_far(&far, FAR_MS);
	open_far(&other, CONFIRM_MS);
	cr_assert_eq(put_far_heard(stage, &other, "/other", 0), SHARED_FOUND);
	memory_set_heard_ms(other.registry, INT64_MAX);
	let_pass(stage, LOOK_MS / 2);
	memory_set_answering(far.registry, false);
	cr_assert_eq(put_far_heard(stage, &far, "/far", 0), SHARED_FOUND);
	put_of(stage, stage->cache.cache, "/own", SHARED_OF_PATH, "/own");
	for (int looks = 1; looks < 4; looks++) {
		let_pass(stage, FAR_STEP_MS);
		cr_expect_eq(look(stage, "/far"), SHARED_FOUND, "%d", looks);
		cr_expect_eq(lease_left_ms(stage), FAR_MS - looks * FAR_STEP_MS, "%d", looks);
	}
	let_pass(stage, FAR_STEP_MS);
	cr_expect_eq(look(stage, "/far"), SHARED_UNKNOWN);
	cr_expect_eq(look(stage, "/other"), SHARED_FOUND);
	cr_expect_eq(look(stage, "/own"), SHARED_FOUND);
	cr_expect_eq(lease_left_ms(stage), CONFIRM_MS);
	close_far(stage, &other);
	cr_expect_eq(look(stage, "/other"), SHARED_UNKNOWN);
	cr_expect_eq(look(stage, "/own"), SHARED_FOUND);
	cr_expect_eq(stats_of(stage).entries, 1);
	close_far(stage, &far);
}

/* Nothing of it is in the map any more. */
LEASE_TEST(a_further_registry_without_answers_shortens_nothing)
{
	struct cache_stage far;
	struct cache_outcome outcome;
	open_far(&far, FAR_MS);
	memory_put(far.registry, "/far", cache_stage_record("one"));
	cr_assert_eq(cache_stage_look(&far, &outcome, "/far", CACHE_RESOLVE), 0);
	cr_assert_eq(put_far_heard(stage, &far, "/far", 0), SHARED_FOUND);
	memory_set_heard_ms(far.registry, INT64_MAX);
	memory_put(far.registry, "/far", cache_stage_record("two"));
	cache_stage_turn(&far);
	cr_assert_eq(look(stage, "/far"), SHARED_UNKNOWN);
	cr_expect_eq(stats_of(stage).entries, 0);
	let_pass(stage, FAR_STEP_MS);
	cr_expect_eq(lease_left_ms(stage), CONFIRM_MS);
	put_of(stage, far.cache, "/far", SHARED_OF_PATH, "/far");
	cr_expect_eq(look(stage, "/far"), SHARED_FOUND);
	memory_put(far.registry, "/far", cache_stage_record("three"));
	cache_stage_turn(&far);
	cr_expect_eq(look(stage, "/far"), SHARED_UNKNOWN, "it is heard again");
	close_far(stage, &far);
}

LEASE_TEST(all_answers_of_a_further_registry_go_with_it)
{
	enum { ANSWERS = 330 };
	for (int round = 0; round < 4; round++) {
		struct cache_stage far;
		open_far(&far, CONFIRM_MS);
		for (size_t i = 0; i < ANSWERS; i++) {
			put_of(stage, far.cache, number_key(i), SHARED_OF_PATH, "/far");
		}
		cr_assert_eq(stats_of(stage).entries, ANSWERS);
		close_far(stage, &far);
		cr_expect_eq(stats_of(stage).entries, 0);
		shared_retire(stage->shared);
		open_map(stage);
	}
}

/* ---- what a change takes back ---- */

LEASE_TEST(a_change_takes_back_the_answers_of_its_path_and_no_others)
{
	enum { PATHS = 300 };
	char path[32];
	for (int i = 0; i < PATHS; i++) {
		snprintf(path, sizeof(path), "/p%d", i);
		memory_put(stage->cache.registry, path, cache_stage_record("p"));
	}
	for (int i = 0; i < 20; i++) {
		cache_stage_turn(&stage->cache);
	}
	for (size_t i = 0; i < PATHS; i++) {
		snprintf(path, sizeof(path), "/p%zu", i);
		put_of(stage, stage->cache.cache, number_key(i), SHARED_OF_PATH, path);
	}
	open_map(stage); /* by luck of the hash it has become a larger one */
	size_t left = stats_of(stage).entries;
	cr_assert_eq(left, PATHS);
	for (size_t i = 0; i < PATHS; i += 7) {
		snprintf(path, sizeof(path), "/p%zu", i);
		memory_put(stage->cache.registry, path, cache_stage_record("q"));
		cache_stage_turn(&stage->cache);
		cr_expect_eq(stats_of(stage).entries, --left, "%s", path);
		cr_expect_eq(look(stage, number_key(i)), SHARED_UNKNOWN, "%s", path);
	}
	for (size_t i = 0; i < PATHS; i++) {
		cr_expect_eq(look(stage, number_key(i)), i % 7 ? SHARED_FOUND : SHARED_UNKNOWN);
	}
}

Test(shared_lease, an_answer_of_the_cache_says_of_what_it_is)
{
	static const struct {
		enum cache_answer_kind kind;
		enum shared_source source;
	} rows[] = { { CACHE_RESOLVE, SHARED_OF_PATH }, { CACHE_LIST, SHARED_OF_PATH },
		{ CACHE_STAT, SHARED_OF_PATH }, { CACHE_RECORDS, SHARED_OF_CHILDREN },
		{ CACHE_ENDPOINTS, SHARED_OF_CHILDREN }, { CACHE_TARGETS, SHARED_OF_CHILDREN } };
	struct err err = ERR_INIT;
	const struct cache_answer answer = {
		.body = "{}", .len = 2, .etag = "\"tag\"", .err = &err
	};
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		const struct cache_query query = { .path = "/a", .kind = rows[i].kind };
		const struct shared_item item = shared_item_of(NULL, "/key", &query, &answer);
		cr_expect_eq(item.source, rows[i].source, "%zu", i);
		cr_expect_str_eq(item.path, "/a");
		cr_expect_eq(item.key_len, 4);
		cr_expect_str_eq(item.etag, "\"tag\"");
		cr_expect_eq(item.err, &err);
		cr_expect(item.value == answer.body && item.value_len == 2);
		cr_expect_eq(shared_item_of(NULL, NULL, &query, &answer).key_len, 0);
	}
}
