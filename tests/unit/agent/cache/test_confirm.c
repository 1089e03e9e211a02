/* A HIT claims that the server was heard lately, or else the cache asks for a sign of life. */

#include <criterion/criterion.h>

#include <string.h>

#include "lib/base/clock.h"
#include "tests/support/cache_stage.h"
#include "tests/support/memory_backend.h"

enum {
	CONFIRM_MS = 10000,
	SHORT_MS = 100 /* for a look-up that waits half of it in vain */
};

static size_t tasks;

static void count_task(void *context, const struct registry_task *task, struct err *err)
{
	(void)context;
	(void)task;
	(void)err;
	tasks++;
}

/* /a is known, and the server was heard `ago_ms` ago. */
static void open_with(
	struct cache_stage *stage, int64_t confirm_ms, int64_t ago_ms, int64_t max_stale_ms)
{
	struct cache_outcome outcome;
	cache_stage_open(stage,
		&(struct cache_options){ .resync_ms = 600000,
			.confirm_ms = confirm_ms,
			.max_stale_ms = max_stale_ms });
	memory_put(stage->registry, "/a", cache_stage_record("one"));
	cr_assert_eq(cache_stage_look(stage, &outcome, "/a", CACHE_RESOLVE), 0);
	memory_set_heard_ms(stage->registry, clock_monotonic_ms() - ago_ms);
	cache_set_options(stage->cache,
		&(struct cache_options){ .resync_ms = 600000,
			.max_size_bytes = 1024 * 1024,
			.confirm_ms = confirm_ms,
			.max_stale_ms = max_stale_ms });
	memory_on_task(stage->registry, count_task, NULL);
	tasks = 0;
}

static void open_stage(struct cache_stage *stage, int64_t ago_ms, int64_t max_stale_ms)
{
	open_with(stage, CONFIRM_MS, ago_ms, max_stale_ms);
}

/* From now on the server is heard whenever it answers. */
static void hear(struct cache_stage *stage)
{
	memory_set_heard_ms(stage->registry, INT64_MAX);
}

Test(cache_confirm, a_cache_that_nobody_asks_sends_nothing)
{
	struct cache_stage stage;
	open_stage(&stage, 3 * CONFIRM_MS, 0);
	cache_stage_turn(&stage);
	cr_assert_eq(tasks, 0);
	cache_stage_close(&stage);
}

Test(cache_confirm, a_server_heard_lately_needs_no_read)
{
	struct cache_stage stage;
	open_stage(&stage, CONFIRM_MS / 4, 0);
	cr_assert_not_null(cache_stage_find(&stage, "/a"));
	cache_stage_turn(&stage);
	cr_assert_eq(tasks, 0);
	cache_stage_close(&stage);
}

Test(cache_confirm, after_half_of_the_bound_lookups_hit_and_one_read_confirms_them_all)
{
	struct cache_stage stage;
	open_stage(&stage, CONFIRM_MS * 3 / 4, 0);
	for (int i = 0; i < 10; i++) {
		cr_assert_not_null(cache_stage_find(&stage, "/a"));
	}
	cache_stage_turn(&stage);
	cr_assert_eq(tasks, 1);
	cache_stage_close(&stage);
}

Test(cache_confirm, after_the_bound_a_lookup_waits_for_the_server)
{
	struct cache_stage stage;
	struct cache_outcome outcome;
	open_stage(&stage, CONFIRM_MS + 1000, 0);
	cr_assert_null(cache_stage_find(&stage, "/a"));
	cr_assert_eq(
		cache_stage_ask(&stage, &outcome, "/a", CACHE_RESOLVE, "", false), CACHE_WAITING);
	cr_assert(cache_is_confirming(&outcome.wait));
	cr_assert_eq(outcome.calls, 0);
	hear(&stage);
	cache_stage_turn(&stage);
	cr_assert_eq(outcome.calls, 1);
	cr_assert(outcome.confirmed);
	cr_assert_eq(tasks, 1, "and nothing else is read");
	cache_stage_close(&stage);
}

Test(cache_confirm, a_silent_server_makes_answers_stale_with_the_age_since_it_was_heard)
{
	struct cache_stage stage;
	struct cache_outcome outcome;
	open_with(&stage, SHORT_MS, CONFIRM_MS, 0);
	memory_set_answering(stage.registry, false);
	cr_assert_eq(
		cache_stage_ask(&stage, &outcome, "/a", CACHE_RESOLVE, "", false), CACHE_WAITING);
	while (outcome.calls == 0) {
		ev_run(stage.loop, EVRUN_ONCE); /* until patience is over */
	}
	cr_assert(outcome.live, "its watch is");
	cr_assert_not(outcome.confirmed);
	cr_assert_geq(outcome.age_ms, CONFIRM_MS);
	cr_assert_eq(cache_stage_ask(&stage, &outcome, "/a", CACHE_RESOLVE, "", false), CACHE_READY,
		"the next lookup does not wait again");
	cr_assert_geq(outcome.age_ms, CONFIRM_MS);
	cr_assert_eq(tasks, 0);

	hear(&stage);
	memory_set_answering(stage.registry, true);
	cache_stage_turn(&stage);
	cr_assert_not_null(cache_stage_find(&stage, "/a"));
	cache_stage_close(&stage);
}

Test(cache_confirm, a_client_can_ask_for_a_tighter_bound)
{
	struct cache_stage stage;
	struct cache_outcome outcome = { .stage = &stage };
	open_stage(&stage, 2000, 0);
	struct cache_query query = {
		.path = "/a", .kind = CACHE_RESOLVE, .now_ms = clock_monotonic_ms()
	};
	query.max_age_ms = 3000;
	cr_assert_not_null(cache_find(stage.cache, &query));
	query.max_age_ms = 1000;
	cr_assert_null(cache_find(stage.cache, &query));
	hear(&stage);
	cr_assert_not_null(cache_find(stage.cache, &query));
	(void)outcome;
	cache_stage_close(&stage);
}

Test(cache_confirm, max_stale_holds_for_a_silent_server_too)
{
	struct cache_stage stage;
	struct cache_outcome outcome;
	open_with(&stage, SHORT_MS, CONFIRM_MS + 5000, CONFIRM_MS + 2000);
	memory_set_answering(stage.registry, false);
	cr_assert_eq(
		cache_stage_ask(&stage, &outcome, "/a", CACHE_RESOLVE, "", false), CACHE_WAITING);
	while (outcome.calls == 0) {
		ev_run(stage.loop, EVRUN_ONCE);
	}
	cr_assert_eq(outcome.code, BERTH_REGISTRY_UNAVAILABLE);
	cr_assert_eq(cache_stage_ask(&stage, &outcome, "/a", CACHE_RESOLVE, "", false),
		CACHE_UNAVAILABLE);
	cache_stage_close(&stage);
}

Test(cache_confirm, the_age_of_what_goes_away_counts_from_when_the_server_was_heard)
{
	struct cache_stage stage;
	struct cache_outcome outcome;
	open_stage(&stage, 4000, 0);
	memory_set_state(stage.registry, REGISTRY_AWAY);
	cache_stage_turn(&stage);
	cr_assert_eq(
		cache_stage_ask(&stage, &outcome, "/a", CACHE_RESOLVE, "", false), CACHE_READY);
	cr_assert_not(outcome.live);
	cr_assert_geq(outcome.age_ms, 4000);
	cache_stage_close(&stage);
}

static void on_event(void *context, enum cache_event event, const char *path, const char *record)
{
	(void)path;
	(void)record;
	char *log = context;
	size_t len = strlen(log);
	log[len] = "UDSF"[event];
	log[len + 1] = '\0';
}

Test(cache_confirm, observers_hear_of_a_silence_and_of_its_end)
{
	struct cache_stage stage;
	struct cache_outcome outcome;
	char log[16] = "";
	open_with(&stage, SHORT_MS, CONFIRM_MS, 0);
	struct cache_observer observer = { .on_event = on_event, .context = log };
	cache_observe(stage.cache, "/a", &observer);
	cache_stage_turn(&stage);
	memory_set_answering(stage.registry, false);
	cr_assert_eq(
		cache_stage_ask(&stage, &outcome, "/a", CACHE_RESOLVE, "", false), CACHE_WAITING);
	while (outcome.calls == 0) {
		ev_run(stage.loop, EVRUN_ONCE);
	}
	ev_run(stage.loop, EVRUN_NOWAIT);
	cr_assert_str_eq(log, "S");
	cr_assert_not(cache_read_picture(&observer, clock_monotonic_ms(), NULL, NULL).confirmed);
	hear(&stage);
	memory_set_answering(stage.registry, true);
	cache_stage_turn(&stage);
	cr_assert_str_eq(log, "SF");
	cr_assert(cache_read_picture(&observer, clock_monotonic_ms(), NULL, NULL).confirmed);
	cache_unobserve(&observer);
	cache_stage_close(&stage);
}

Test(cache_confirm, a_silence_ends_with_a_new_connection)
{
	struct cache_stage stage;
	struct cache_outcome outcome;
	char log[16] = "";
	open_with(&stage, SHORT_MS, CONFIRM_MS, 0);
	struct cache_observer observer = { .on_event = on_event, .context = log };
	cache_observe(stage.cache, "/a", &observer);
	cache_stage_turn(&stage);
	memory_set_answering(stage.registry, false);
	cr_assert_eq(
		cache_stage_ask(&stage, &outcome, "/a", CACHE_RESOLVE, "", false), CACHE_WAITING);
	while (outcome.calls == 0) {
		ev_run(stage.loop, EVRUN_ONCE);
	}
	memory_set_answering(stage.registry, true);
	memory_set_state(stage.registry, REGISTRY_AWAY);
	cache_stage_turn(&stage);
	memory_set_state(stage.registry, REGISTRY_CONNECTED);
	cache_stage_turn(&stage);
	cr_assert_str_eq(log, "SF");
	cr_assert_eq(cache_stage_ask(&stage, &outcome, "/a", CACHE_RESOLVE, "", false),
		CACHE_WAITING, "a look-up has patience with the new server");
	hear(&stage);
	cache_stage_turn(&stage);
	cr_assert_eq(outcome.calls, 1);
	cache_unobserve(&observer);
	cache_stage_close(&stage);
}
