/* A HIT claims that the server was heard lately, or else the cache asks for a sign of life. */

#include <criterion/criterion.h>

#include <string.h>

#include "agent/cache/parts.h"
#include "lib/base/clock.h"
#include "tests/support/cache_stage.h"
#include "tests/support/memory_backend.h"
#include "tests/support/shifted_clock.h"

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

Test(cache_heard, a_cache_that_nobody_asks_sends_nothing)
{
	struct cache_stage stage;
	open_stage(&stage, 3 * CONFIRM_MS, 0);
	cache_stage_turn(&stage);
	cr_assert_eq(tasks, 0);
	cache_stage_close(&stage);
}

Test(cache_heard, a_server_heard_lately_needs_no_read)
{
	struct cache_stage stage;
	open_stage(&stage, CONFIRM_MS * 9 / 20, 0);
	cr_assert_not_null(cache_stage_find(&stage, "/a"));
	cache_stage_turn(&stage);
	cr_assert_eq(tasks, 0);
	cache_stage_close(&stage);
}

Test(cache_heard, after_half_of_the_bound_lookups_hit_and_one_read_confirms_them_all)
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

Test(cache_heard, after_the_bound_a_lookup_waits_for_the_server)
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

/* The server falls silent: a look-up of /a waits until its patience is over. */
static void ask_in_vain(struct cache_stage *stage, struct cache_outcome *outcome)
{
	memory_set_answering(stage->registry, false);
	cr_assert_eq(
		cache_stage_ask(stage, outcome, "/a", CACHE_RESOLVE, "", false), CACHE_WAITING);
	while (outcome->calls == 0) {
		ev_run(stage->loop, EVRUN_ONCE);
	}
}

Test(cache_heard, a_silent_server_makes_answers_stale_with_the_age_since_it_was_heard)
{
	struct cache_stage stage;
	struct cache_outcome outcome;
	open_with(&stage, SHORT_MS, CONFIRM_MS, 0);
	ask_in_vain(&stage, &outcome);
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

Test(cache_heard, a_client_can_ask_for_a_tighter_bound)
{
	struct cache_stage stage;
	open_stage(&stage, 2000, 0);
	struct cache_query query = {
		.path = "/a", .kind = CACHE_RESOLVE, .now_ms = clock_monotonic_ms()
	};
	query.max_age_ms = 3000;
	cr_assert_not_null(cache_find(stage.cache, &query));
	query.max_age_ms = 1000;
	cr_assert_null(cache_find(stage.cache, &query));
	query.max_age_ms = 0;
	cr_assert_null(cache_find(stage.cache, &query));
	hear(&stage);
	cr_assert_not_null(cache_find(stage.cache, &query));
	cache_stage_close(&stage);
}

Test(cache_heard, max_stale_holds_for_a_silent_server_too)
{
	struct cache_stage stage;
	struct cache_outcome outcome;
	open_with(&stage, SHORT_MS, CONFIRM_MS + 5000, CONFIRM_MS + 2000);
	ask_in_vain(&stage, &outcome);
	cr_assert_eq(outcome.code, BERTH_REGISTRY_UNAVAILABLE);
	cr_assert_eq(cache_stage_ask(&stage, &outcome, "/a", CACHE_RESOLVE, "", false),
		CACHE_UNAVAILABLE);
	cr_assert_not_null(strstr(outcome.why, "max_stale"), "%s", outcome.why);
	cache_stage_close(&stage);
}

Test(cache_heard, the_age_of_what_goes_away_counts_from_when_the_server_was_heard)
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

static void observe(struct cache_stage *stage, struct cache_observer *observer)
{
	cache_observe(stage->cache, "/a", observer);
	cache_stage_turn(stage);
}

Test(cache_heard, observers_hear_of_a_silence_and_of_its_end)
{
	struct cache_stage stage;
	struct cache_outcome outcome;
	char log[16] = "";
	open_with(&stage, SHORT_MS, CONFIRM_MS, 0);
	struct cache_observer observer = { .on_event = on_event, .context = log };
	observe(&stage, &observer);
	ask_in_vain(&stage, &outcome);
	ev_run(stage.loop, EVRUN_NOWAIT);
	cr_assert_str_eq(log, "S");
	cr_assert_not(cache_read_picture(&observer, clock_monotonic_ms(), NULL, NULL).confirmed);
	hear(&stage);
	memory_set_answering(stage.registry, true);
	cache_stage_turn(&stage);
	cr_assert_str_eq(log, "SF");
	cr_assert_eq(stage.cache->follow.stale, 0, "nobody waits for a tick");
	cr_assert(cache_read_picture(&observer, clock_monotonic_ms(), NULL, NULL).confirmed);
	cache_unobserve(&observer);
	cache_stage_close(&stage);
}

Test(cache_heard, a_silence_ends_with_a_new_connection)
{
	struct cache_stage stage;
	struct cache_outcome outcome;
	char log[16] = "";
	open_with(&stage, SHORT_MS, CONFIRM_MS, 0);
	struct cache_observer observer = { .on_event = on_event, .context = log };
	observe(&stage, &observer);
	ask_in_vain(&stage, &outcome);
	memory_set_answering(stage.registry, true);
	memory_set_state(stage.registry, REGISTRY_AWAY);
	cache_stage_turn(&stage);
	memory_set_state(stage.registry, REGISTRY_CONNECTED);
	hear(&stage);
	cache_stage_turn(&stage);
	cr_assert_str_eq(log, "SF");
	memory_set_heard_ms(stage.registry, clock_monotonic_ms() - CONFIRM_MS);
	clock_shift_ms += CONFIRM_MS; /* what is known to be confirmed is so no more */
	cr_assert_eq(cache_stage_ask(&stage, &outcome, "/a", CACHE_RESOLVE, "", false),
		CACHE_WAITING, "a look-up has patience with the new server");
	hear(&stage);
	cache_stage_turn(&stage);
	cr_assert_eq(outcome.calls, 1);
	cache_unobserve(&observer);
	cache_stage_close(&stage);
}

/* The registry holds the time back while a change that it has announced is not read yet. */
Test(cache_heard, a_silence_does_not_end_before_an_announced_change_is_read)
{
	struct cache_stage stage;
	struct cache_outcome outcome;
	char log[16] = "";
	open_with(&stage, SHORT_MS, CONFIRM_MS, 0);
	struct cache_observer observer = { .on_event = on_event, .context = log };
	observe(&stage, &observer);
	ask_in_vain(&stage, &outcome);
	ev_run(stage.loop, EVRUN_NOWAIT);
	memory_set_answering(stage.registry, true);
	cache_stage_turn(&stage);
	cr_assert_str_eq(log, "S");
	hear(&stage);
	clock_shift_ms += 1500; /* the cache looks again every second */
	cache_stage_turn(&stage);
	cr_assert_str_eq(log, "SF");
	cache_unobserve(&observer);
	cache_stage_close(&stage);
}

static void silence_after_list(void *context, const struct registry_task *task, struct err *err)
{
	(void)err;
	if (task->operation == REGISTRY_OP_CHILDREN) {
		memory_set_answering(context, false);
	}
}

Test(cache_heard, a_picture_is_not_confirmed_before_all_that_it_names_is_read)
{
	struct cache_stage stage;
	char log[16] = "";
	open_stage(&stage, 0, 0);
	struct cache_observer observer = {
		.scope = CACHE_CHILDREN_TOO, .on_event = on_event, .context = log
	};
	hear(&stage);
	observe(&stage, &observer);
	cr_assert(cache_read_picture(&observer, clock_monotonic_ms(), NULL, NULL).confirmed);
	memory_put(stage.registry, "/a/new", cache_stage_record("new"));
	memory_on_task(stage.registry, silence_after_list, stage.registry);
	cache_stage_turn(&stage);
	cr_assert_str_eq(log, "");
	cr_assert_not(cache_read_picture(&observer, clock_monotonic_ms(), NULL, NULL).confirmed);
	memory_on_task(stage.registry, NULL, NULL);
	memory_set_answering(stage.registry, true);
	cache_stage_turn(&stage);
	cr_assert_str_eq(log, "U");
	cr_assert(cache_read_picture(&observer, clock_monotonic_ms(), NULL, NULL).confirmed);
	cache_unobserve(&observer);
	cache_stage_close(&stage);
}

/* ---- the confirmation of everything, without a look-up ---- */

enum { NOW_MS = 900000 };

/* The server was heard `ago_ms` before NOW_MS. */
static void open_now(struct cache_stage *stage, int64_t ago_ms)
{
	clock_shift_ms = NOW_MS;
	clock_stands = true;
	cache_stage_open(
		stage, &(struct cache_options){ .resync_ms = 600000, .confirm_ms = CONFIRM_MS });
	memory_set_heard_ms(stage->registry, NOW_MS - ago_ms);
}

static enum cache_verdict confirm(struct cache_stage *stage)
{
	return cache_confirm(stage->cache, NOW_MS, NULL);
}

Test(cache_heard, everything_is_confirmed_until_the_bound)
{
	struct cache_stage stage;
	struct cache_wait wait = { 0 };
	open_now(&stage, CONFIRM_MS);
	cr_assert_eq(confirm(&stage), CACHE_READY);
	cr_assert_eq(cache_confirm(stage.cache, NOW_MS, &wait), CACHE_READY);
	memory_set_heard_ms(stage.registry, NOW_MS - CONFIRM_MS - 1);
	cr_assert_eq(confirm(&stage), CACHE_UNAVAILABLE);
	memory_set_heard_ms(stage.registry, NOW_MS + 1);
	cr_assert_eq(confirm(&stage), CACHE_READY);
	cr_assert_eq(cache_confirm(stage.cache, NOW_MS + 1 + CONFIRM_MS, NULL), CACHE_READY);
	cache_cancel(&wait);
	cache_stage_close(&stage);
}

Test(cache_heard, the_bound_is_a_third_of_the_session_unless_it_is_given)
{
	struct cache_stage stage;
	open_now(&stage, 4000);
	memory_set_session_timeout_ms(stage.registry, 9000);
	cr_assert_eq(confirm(&stage), CACHE_READY);
	cache_set_options(stage.cache, &(struct cache_options){ .max_size_bytes = 1024 * 1024 });
	cr_assert_eq(confirm(&stage), CACHE_UNAVAILABLE);
	memory_set_session_timeout_ms(stage.registry, 12000);
	cr_assert_eq(confirm(&stage), CACHE_READY);
	memory_set_session_timeout_ms(stage.registry, 0);
	cr_assert_eq(confirm(&stage), CACHE_READY, "without a session it is some seconds");
	memory_set_heard_ms(stage.registry, NOW_MS - 60000);
	cr_assert_eq(confirm(&stage), CACHE_UNAVAILABLE);
	cache_stage_close(&stage);
}

struct confirmation {
	struct cache_wait wait;
	int calls;
	int code;
};

static void on_confirmed(void *context, struct cache_answer *answer, const struct err *err)
{
	struct confirmation *confirmation = context;
	cr_assert_null(answer);
	confirmation->calls++;
	confirmation->code = err->code;
}

static void wait_to_confirm(struct cache_stage *stage, struct confirmation *confirmation)
{
	*confirmation = (struct confirmation){ .wait = { .on_answer = on_confirmed,
						       .context = confirmation } };
	cr_assert_eq(cache_confirm(stage->cache, NOW_MS, &confirmation->wait), CACHE_WAITING);
	cr_assert(cache_is_confirming(&confirmation->wait));
}

Test(cache_heard, one_read_confirms_everything_for_all_who_wait)
{
	struct cache_stage stage;
	struct confirmation first;
	struct confirmation second;
	struct confirmation left;
	open_now(&stage, CONFIRM_MS + 1);
	memory_on_task(stage.registry, count_task, NULL);
	tasks = 0;
	wait_to_confirm(&stage, &first);
	wait_to_confirm(&stage, &second);
	wait_to_confirm(&stage, &left);
	cache_cancel(&left.wait);
	cache_stage_turn(&stage);
	cr_assert_eq(tasks, 1);
	cr_assert(first.calls == 1 && first.code == 0);
	cr_assert(second.calls == 1 && second.code == 0);
	cr_assert_eq(left.calls, 0);
	wait_to_confirm(&stage, &first);
	cache_stage_turn(&stage);
	cr_assert_eq(first.calls, 1, "the patience of the first read is no longer counted");
	cache_stage_close(&stage);
}

Test(cache_heard, patience_with_a_silent_server_ends_after_a_moment)
{
	struct cache_stage stage;
	struct confirmation waiting;
	open_now(&stage, CONFIRM_MS + 1);
	memory_set_answering(stage.registry, false);
	uint64_t generation = cache_generation(stage.cache);
	wait_to_confirm(&stage, &waiting);
	cache_stage_turn(&stage);
	cr_assert_eq(waiting.calls, 0);
	clock_shift_ms += 500;
	cache_stage_turn(&stage);
	cr_assert_eq(waiting.calls, 0);
	cr_assert_eq(cache_generation(stage.cache), generation);
	clock_shift_ms += 1000;
	cache_stage_turn(&stage);
	cr_assert_eq(waiting.calls, 1);
	cr_assert_eq(waiting.code, BERTH_REGISTRY_UNAVAILABLE);
	cr_assert_neq(cache_generation(stage.cache), generation);
	cr_assert_eq(cache_confirm(stage.cache, NOW_MS, &waiting.wait), CACHE_UNAVAILABLE,
		"the next one does not wait");
	memory_set_answering(stage.registry, true);
	cache_stage_turn(&stage);
	wait_to_confirm(&stage, &waiting);
	cache_cancel(&waiting.wait);
	cache_stage_close(&stage);
}

Test(cache_heard, patience_is_shorter_where_the_bound_is)
{
	struct cache_stage stage;
	struct confirmation waiting;
	open_now(&stage, CONFIRM_MS + 1);
	cache_set_options(stage.cache,
		&(struct cache_options){ .max_size_bytes = 1024 * 1024, .confirm_ms = 200 });
	memory_set_answering(stage.registry, false);
	wait_to_confirm(&stage, &waiting);
	clock_shift_ms += 200;
	cache_stage_turn(&stage);
	cr_assert_eq(waiting.calls, 1);
	cache_stage_close(&stage);
}

static void leave_unanswered(void *context, const struct registry_task *task, struct err *err)
{
	(void)context;
	(void)task;
	err_set(err, BERTH_TIMEOUT, "no answer");
}

Test(cache_heard, a_read_that_fails_is_silence_too)
{
	struct cache_stage stage;
	struct confirmation waiting;
	open_now(&stage, CONFIRM_MS + 1);
	memory_on_task(stage.registry, leave_unanswered, NULL);
	wait_to_confirm(&stage, &waiting);
	cache_stage_turn(&stage);
	cr_assert_eq(waiting.calls, 1);
	cr_assert_eq(waiting.code, BERTH_REGISTRY_UNAVAILABLE);
	cr_assert_eq(cache_confirm(stage.cache, NOW_MS, &waiting.wait), CACHE_UNAVAILABLE,
		"the next one does not wait");
	memory_on_task(stage.registry, NULL, NULL);
	cache_stage_turn(&stage);
	wait_to_confirm(&stage, &waiting);
	cache_cancel(&waiting.wait);
	cache_stage_close(&stage);
}

/* Nobody looks anything up meanwhile. */
Test(cache_heard, a_silence_ends_when_the_server_answers_again)
{
	struct cache_stage stage;
	struct confirmation waiting;
	char log[16] = "";
	open_now(&stage, CONFIRM_MS + 1);
	struct cache_observer observer = { .on_event = on_event, .context = log };
	observe(&stage, &observer);
	memory_on_task(stage.registry, leave_unanswered, NULL);
	wait_to_confirm(&stage, &waiting);
	cache_stage_turn(&stage);
	cr_assert_str_eq(log, "S");
	clock_shift_ms += 1100;
	cache_stage_turn(&stage);
	cr_assert_str_eq(log, "S", "it is asked in vain");
	memory_on_task(stage.registry, NULL, NULL);
	cache_stage_turn(&stage);
	cr_assert_str_eq(log, "S", "it is not asked yet");
	clock_shift_ms += 1100;
	memory_set_heard_ms(stage.registry, clock_monotonic_ms());
	cache_stage_turn(&stage);
	cr_assert_str_eq(log, "SF");
	cache_unobserve(&observer);
	cache_stage_close(&stage);
}

/* A moment later it would be taken for silent. */
Test(cache_heard, a_server_that_answered_in_time_is_not_silent)
{
	struct cache_stage stage;
	struct confirmation waiting;
	char log[16] = "";
	open_now(&stage, CONFIRM_MS + 1);
	struct cache_observer observer = { .on_event = on_event, .context = log };
	observe(&stage, &observer);
	wait_to_confirm(&stage, &waiting);
	cache_stage_turn(&stage);
	cr_assert_eq(waiting.code, 0);
	clock_shift_ms += 2 * 1000;
	cache_stage_turn(&stage);
	cr_assert_str_eq(log, "");
	cache_unobserve(&observer);
	cache_stage_close(&stage);
}

Test(cache_heard, without_a_registry_nothing_is_confirmed_and_nobody_waits)
{
	struct cache_stage stage;
	struct confirmation waiting;
	open_now(&stage, CONFIRM_MS + 1);
	memory_set_answering(stage.registry, false);
	wait_to_confirm(&stage, &waiting);
	memory_set_state(stage.registry, REGISTRY_AWAY);
	cache_stage_turn(&stage);
	cr_assert_eq(waiting.calls, 1);
	cr_assert_eq(waiting.code, BERTH_REGISTRY_UNAVAILABLE);
	memory_set_heard_ms(stage.registry, NOW_MS);
	cr_assert_eq(confirm(&stage), CACHE_UNAVAILABLE);
	cr_assert_eq(cache_confirm(stage.cache, NOW_MS, &waiting.wait), CACHE_UNAVAILABLE);
	cache_stage_close(&stage);
}

/* A finding without a registry does not hold with one. */
Test(cache_heard, an_outage_has_another_generation_than_the_time_before_and_after)
{
	struct cache_stage stage;
	open_now(&stage, 0);
	uint64_t before = cache_generation(stage.cache);
	memory_set_state(stage.registry, REGISTRY_AWAY);
	cache_stage_turn(&stage);
	uint64_t meanwhile = cache_generation(stage.cache);
	memory_set_state(stage.registry, REGISTRY_CONNECTED);
	cache_stage_turn(&stage);
	cr_assert_neq(meanwhile, before);
	cr_assert_neq(cache_generation(stage.cache), meanwhile);
	cache_stage_close(&stage);
}

Test(cache_heard, a_cache_may_end_while_it_waits_for_the_server)
{
	struct cache_stage stage;
	struct confirmation waiting;
	open_now(&stage, CONFIRM_MS + 1);
	memory_set_answering(stage.registry, false);
	wait_to_confirm(&stage, &waiting);
	cache_cancel(&waiting.wait);
	cache_destroy(stage.cache);
	stage.cache = NULL;
	clock_shift_ms += 2 * 1000;
	memory_set_answering(stage.registry, true);
	cache_stage_turn(&stage);
	cr_assert_eq(waiting.calls, 0);
	cache_stage_close(&stage);
}

Test(cache_heard, a_cache_may_end_while_the_server_is_silent)
{
	struct cache_stage stage;
	struct confirmation waiting;
	open_now(&stage, CONFIRM_MS + 1);
	memory_set_answering(stage.registry, false);
	wait_to_confirm(&stage, &waiting);
	clock_shift_ms += 60 * 1000;
	cache_stage_turn(&stage);
	cr_assert_eq(waiting.calls, 1);
	cr_assert_eq(stage.cache->heard.confirmation, CACHE_SILENT);
	cache_stage_close(&stage); /* and nothing goes on */
}

/* ---- the numbers for streams, the shared map and containers ---- */

Test(cache_heard, the_age_of_what_was_heard_and_the_end_of_hits_are_for_others_to_use)
{
	struct cache_stage stage;
	open_stage(&stage, 4000, 0);
	int64_t now_ms = clock_monotonic_ms();
	int64_t heard_ms = registry_heard_ms(stage.registry, now_ms);
	cr_assert_eq(cache_confirm_ms(stage.cache), CONFIRM_MS);
	cr_assert_eq(cache_heard_age_ms(stage.cache, now_ms), now_ms - heard_ms);
	cr_assert_eq(cache_hits_until_ms(stage.cache, now_ms), heard_ms + CONFIRM_MS);
	cr_assert(cache_is_connected(stage.cache));
	memory_set_heard_ms(stage.registry, INT64_MIN);
	cr_assert_eq(cache_heard_age_ms(stage.cache, now_ms), INT64_MAX);
	memory_set_state(stage.registry, REGISTRY_AWAY);
	cache_stage_turn(&stage);
	cr_assert_not(cache_is_connected(stage.cache));
	cr_assert_eq(cache_hits_until_ms(stage.cache, now_ms), 0);
	cache_stage_close(&stage);
}
