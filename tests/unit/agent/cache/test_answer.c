/* Lookups that wait, that are cancelled, and the answers that are kept for the next ones. */

#include <criterion/criterion.h>

#include <stdio.h>
#include <string.h>

#include "lib/base/clock.h"
#include "tests/support/cache_stage.h"
#include "tests/support/memory_backend.h"
#include "tests/support/staged.h"

static struct cache_stage *open_stage(struct cache_stage *stage)
{
	cache_stage_open(stage, &(struct cache_options){ .resync_ms = 600000 });
	memory_put(stage->registry, "/s", "");
	memory_put(stage->registry, "/s/a", cache_stage_record("one"));
	return stage;
}

#define STAGED(name)                                                                               \
	STAGED_TEST(cache_answer, name, struct cache_stage *, stage,                               \
		open_stage(&(struct cache_stage){ 0 }), cache_stage_close)

STAGED(a_cancelled_lookup_is_not_answered)
{
	struct cache_wait never = { 0 };
	struct cache_outcome first;
	struct cache_outcome second;
	cache_cancel(&never);
	cr_assert_not(cache_is_confirming(&never));
	cr_assert_eq(cache_stage_ask(stage, &first, "/s", CACHE_RECORDS, "", false), CACHE_WAITING);
	cr_assert_eq(
		cache_stage_ask(stage, &second, "/s", CACHE_RECORDS, "", false), CACHE_WAITING);
	cr_assert_not(cache_is_confirming(&first.wait), "it waits for data");
	cache_cancel(&first.wait);
	cache_stage_turn(stage);
	cr_assert_eq(first.calls, 0);
	cr_assert_eq(second.calls, 1);
	cache_cancel(&first.wait);
	cache_cancel(&second.wait);
}

static void silence(void *context, const struct registry_task *task, struct err *err)
{
	struct cache_stage *stage = context;
	(void)err;
	if (task->operation == REGISTRY_OP_CHILDREN) {
		memory_set_answering(stage->registry, false);
	}
}

STAGED(children_that_are_known_count_while_they_are_read_again)
{
	struct cache_outcome outcome;
	const struct cache_query query = { .path = "/s",
		.kind = CACHE_RECORDS,
		.max_age_ms = -1,
		.now_ms = clock_monotonic_ms() };
	memory_put(stage->registry, "/s/b", cache_stage_record("two"));
	memory_put(stage->registry, "/s/c", cache_stage_record("three"));
	cr_assert_eq(cache_stage_look(stage, &outcome, "/s", CACHE_RECORDS), 0);
	memory_on_task(stage->registry, silence, stage);
	cr_assert_eq(
		cache_stage_ask(stage, &outcome, "/s", CACHE_RECORDS, "", true), CACHE_WAITING);
	cache_stage_turn(stage);
	cr_assert_eq(outcome.calls, 0);
	const struct cache_answer *known = cache_known(stage->cache, &query, clock_monotonic_ms());
	cr_assert_not_null(known);
	cr_assert(strstr(known->body, "/s/a") && strstr(known->body, "/s/c"), "%s", known->body);
	cache_cancel(&outcome.wait);
}

STAGED(a_cancelled_search_is_not_walked)
{
	struct cache_outcome outcome;
	cr_assert_eq(cache_stage_ask(stage, &outcome, "/s", CACHE_FIND, "", false), CACHE_WAITING);
	cache_cancel(&outcome.wait);
	cr_assert_eq(memory_tasks(stage->registry), 0);
	cache_stage_turn(stage);
	cr_assert_eq(outcome.calls, 0);
	cr_assert_eq(cache_stage_look(stage, &outcome, "/s", CACHE_FIND), 0);
	cr_assert_eq(strncmp(outcome.text, "{\"/s/a\":{", 9), 0, "%s", outcome.text);
}

STAGED(a_long_poll_outlasts_an_outage)
{
	struct cache_outcome outcome;
	char etag[CACHE_ETAG_BYTES];
	cr_assert_eq(cache_stage_look(stage, &outcome, "/s", CACHE_RECORDS), 0);
	strcpy(etag, outcome.etag);
	cr_assert_eq(
		cache_stage_ask(stage, &outcome, "/s", CACHE_RECORDS, etag, false), CACHE_WAITING);
	memory_set_state(stage->registry, REGISTRY_AWAY);
	cache_stage_turn(stage);
	memory_set_state(stage->registry, REGISTRY_CONNECTED);
	cache_stage_turn(stage);
	cr_assert_eq(outcome.calls, 0);
	memory_put(stage->registry, "/s/a", cache_stage_record("two"));
	cache_stage_turn(stage);
	cr_assert_eq(outcome.calls, 1);
	cr_assert_not_null(strstr(outcome.text, "http://two"));
}

STAGED(a_lookup_that_the_registry_leaves_waiting_ends_when_it_goes_away)
{
	struct cache_outcome first;
	struct cache_outcome poll;
	cr_assert_eq(cache_stage_ask(stage, &first, "/s", CACHE_RECORDS, "", false), CACHE_WAITING);
	cr_assert_eq(cache_stage_ask(stage, &poll, "/s", CACHE_RECORDS, "x", false), CACHE_WAITING);
	memory_set_state(stage->registry, REGISTRY_AWAY);
	cache_stage_turn(stage);
	cr_assert_eq(first.calls, 1);
	cr_assert_eq(first.code, BERTH_REGISTRY_UNAVAILABLE);
	cr_assert_eq(poll.calls, 0, "a long poll waits for the registry");
	memory_set_state(stage->registry, REGISTRY_CONNECTED);
	cache_stage_turn(stage);
	cr_assert_eq(poll.calls, 1);
	cr_assert_eq(poll.code, 0);
}

/* The first connection fails after all. */
STAGED(a_lookup_that_waits_for_the_connection_ends_when_there_is_none)
{
	struct cache_outcome outcome;
	cache_on_registry_state(stage->cache, REGISTRY_CONNECTING);
	cr_assert_eq(
		cache_stage_ask(stage, &outcome, "/s", CACHE_RESOLVE, "", false), CACHE_WAITING);
	ev_run(stage->loop, EVRUN_NOWAIT);
	cr_assert_eq(outcome.calls, 0);
	cache_on_registry_state(stage->cache, REGISTRY_AWAY);
	ev_run(stage->loop, EVRUN_NOWAIT);
	cr_assert_eq(outcome.calls, 1);
	cr_assert_eq(outcome.code, BERTH_REGISTRY_UNAVAILABLE);
}

STAGED(during_a_refresh_there_is_no_hit)
{
	struct cache_outcome outcome;
	cr_assert_eq(cache_stage_look(stage, &outcome, "/s/a", CACHE_RESOLVE), 0);
	cr_assert_not_null(cache_stage_find(stage, "/s/a"));
	cr_assert_eq(
		cache_stage_ask(stage, &outcome, "/s/a", CACHE_RESOLVE, "", true), CACHE_WAITING);
	cr_assert_null(cache_stage_find(stage, "/s/a"));
	cache_stage_turn(stage);
	cr_assert_eq(outcome.calls, 1);
	cr_assert_not_null(cache_stage_find(stage, "/s/a"));
}

STAGED(away_a_refresh_gives_what_is_known)
{
	struct cache_outcome outcome;
	cr_assert_eq(cache_stage_look(stage, &outcome, "/s", CACHE_RECORDS), 0);
	memory_set_state(stage->registry, REGISTRY_AWAY);
	cache_stage_turn(stage);
	cr_assert_eq(cache_stage_ask(stage, &outcome, "/s", CACHE_RECORDS, "", true), CACHE_READY);
	cr_assert_not(outcome.live);
}

/* Asks again from its own answer. */
struct asker {
	struct cache_outcome outcome; /* first */
	struct cache_wait wait;
	int calls;
};

static void ask_again(void *context, struct cache_answer *answer, const struct err *err)
{
	(void)err;
	struct asker *asker = context;
	struct cache_answer *again = NULL;
	struct err err_again = ERR_INIT;
	struct cache_query query = { .path = "/s/a",
		.kind = CACHE_RESOLVE,
		.max_age_ms = -1,
		.now_ms = clock_monotonic_ms() };
	cr_assert_not_null(answer);
	asker->calls++;
	cr_assert_eq(
		cache_ask(asker->outcome.stage->cache, &query, &asker->wait, &again, &err_again),
		CACHE_READY);
	cr_assert_eq(again, answer);
}

STAGED(an_answer_may_be_asked_for_while_it_is_given)
{
	struct asker asker = { .outcome.stage = stage };
	struct cache_answer *answer = NULL;
	struct err err = ERR_INIT;
	struct cache_query query = { .path = "/s/a",
		.kind = CACHE_RESOLVE,
		.max_age_ms = -1,
		.now_ms = clock_monotonic_ms() };
	asker.wait = (struct cache_wait){ .on_answer = ask_again, .context = &asker };
	cr_assert_eq(cache_ask(stage->cache, &query, &asker.wait, &answer, &err), CACHE_WAITING);
	cache_stage_turn(stage);
	cr_assert_eq(asker.calls, 1);
}

/* ---- what is kept ---- */

static struct cache_answer *known(
	struct cache_stage *stage, const char *path, const struct cache_filter *filter)
{
	struct cache_query query = {
		.path = path, .kind = CACHE_ENDPOINTS, .filter = filter, .max_age_ms = -1
	};
	return cache_known(stage->cache, &query, clock_monotonic_ms());
}

STAGED(of_a_path_the_last_answers_of_so_many_filters_are_kept)
{
	enum { KEPT = 32, FILTERS = 50 };
	struct cache_outcome outcome;
	size_t count = 0;
	for (int i = 0; i < 2 * FILTERS; i++) {
		char api[16];
		const struct cache_filter filter = { .api = api };
		snprintf(api, sizeof(api), "%d", i % FILTERS);
		if (i < FILTERS) {
			cache_stage_look_filtered(stage, &outcome, "/s", CACHE_ENDPOINTS, &filter);
			cr_assert_str_eq(outcome.text, "[]\n");
		} else {
			count += known(stage, "/s", &filter) != NULL;
		}
	}
	cr_assert_eq(count, KEPT);
	cr_assert_not_null(known(stage, "/s", &(struct cache_filter){ .api = "49" }));
	cr_assert_null(known(stage, "/s", &(struct cache_filter){ .api = "0" }));
}

STAGED(a_known_answer_is_given_without_a_read_and_with_its_age)
{
	struct cache_outcome outcome;
	const struct cache_filter any = { .text = false };
	cr_assert_null(known(stage, "/s", &any));
	cr_assert_null(known(stage, "/none", &any));
	cr_assert_eq(memory_tasks(stage->registry), 0);
	cr_assert_eq(cache_stage_look(stage, &outcome, "/s", CACHE_ENDPOINTS), 0);
	const struct cache_answer *answer = known(stage, "/s", &any);
	cr_assert_not_null(answer);
	cr_assert_str_eq(answer->body, outcome.text);
	memory_put(stage->registry, "/s/a", cache_stage_record("two"));
	cache_stage_turn(stage);
	answer = known(stage, "/s", &any);
	cr_assert_not_null(answer, "it is made of what is known");
	cr_assert_not_null(strstr(answer->body, "http://two"));
	memory_set_heard_ms(stage->registry, clock_monotonic_ms() - 7000);
	memory_set_state(stage->registry, REGISTRY_AWAY);
	cache_stage_turn(stage);
	answer = known(stage, "/s", &any);
	cr_assert_not_null(answer);
	int64_t age_ms = cache_answer_age_ms(stage->cache, answer, clock_monotonic_ms());
	cr_assert(age_ms >= 7000 && age_ms < 100000, "%lld", (long long)age_ms);
	cr_assert_not(cache_answer_confirmed(stage->cache, answer, -1, clock_monotonic_ms()));
	cr_assert_eq(cache_answer_age_ms(stage->cache, answer, 1), 0, "a clock that went back");
}

/* The client has no more patience with a read that it wanted. */
STAGED(a_list_is_known_while_it_is_read_again)
{
	struct cache_outcome outcome;
	struct cache_query query = { .path = "/s", .kind = CACHE_LIST, .max_age_ms = -1 };
	cr_assert_eq(cache_stage_look(stage, &outcome, "/s", CACHE_LIST), 0);
	memory_set_answering(stage->registry, false);
	cr_assert_eq(cache_stage_ask(stage, &outcome, "/s", CACHE_LIST, "", true), CACHE_WAITING);
	cache_cancel(&outcome.wait);
	const struct cache_answer *answer = cache_known(stage->cache, &query, clock_monotonic_ms());
	cr_assert_not_null(answer);
	cr_assert_str_eq(answer->body, "[\"/s/a\"]\n");
	memory_set_answering(stage->registry, true);
}

STAGED(a_search_is_known_by_its_last_walk_alone)
{
	struct cache_outcome outcome;
	struct cache_query query = { .path = "/s", .kind = CACHE_FIND, .max_age_ms = -1 };
	cr_assert_eq(cache_stage_ask(stage, &outcome, "/s", CACHE_FIND, "", false), CACHE_WAITING);
	cache_cancel(&outcome.wait);
	cr_assert_null(cache_known(stage->cache, &query, clock_monotonic_ms()));
	cr_assert_eq(memory_tasks(stage->registry), 0, "and nothing is read");
	cr_assert_eq(cache_stage_look(stage, &outcome, "/s", CACHE_FIND), 0);
	cr_assert_not_null(cache_known(stage->cache, &query, clock_monotonic_ms()));
}

STAGED(a_body_that_is_held_outlives_its_answer)
{
	struct cache_outcome outcome;
	cr_assert_eq(cache_stage_look(stage, &outcome, "/s/a", CACHE_RESOLVE), 0);
	const struct cache_answer *answer = cache_stage_find(stage, "/s/a");
	const char *body = answer->body;
	void *held = cache_body_hold(answer);
	memory_put(stage->registry, "/s/a", cache_stage_record("two"));
	cache_stage_turn(stage);
	cr_assert_eq(cache_stage_look(stage, &outcome, "/s/a", CACHE_RESOLVE), 0);
	cr_assert_str_eq(body, cache_stage_record("one"));
	cache_body_release(held);
}

static int released;

static void release(void *rendering)
{
	released += *(const int *)rendering;
}

Test(cache_answer, a_rendering_is_released_once_when_its_answer_changes)
{
	static int one = 1;
	struct cache_stage stage;
	struct cache_outcome outcome;
	cache_stage_open(&stage,
		&(struct cache_options){ .resync_ms = 600000, .release_rendering = release });
	memory_put(stage.registry, "/a", cache_stage_record("one"));
	cr_assert_eq(cache_stage_look(&stage, &outcome, "/a", CACHE_RESOLVE), 0);
	cache_stage_find(&stage, "/a")->rendering = &one;
	cr_assert_eq(
		cache_stage_ask(&stage, &outcome, "/a", CACHE_RESOLVE, "", false), CACHE_READY);
	cr_assert_not_null(cache_stage_find(&stage, "/a")->rendering);
	cr_assert_eq(released, 0);
	memory_put(stage.registry, "/a", cache_stage_record("two"));
	cache_stage_turn(&stage);
	cr_assert_eq(released, 1);
	cr_assert_eq(cache_stage_look(&stage, &outcome, "/a", CACHE_RESOLVE), 0);
	cr_assert_null(cache_stage_find(&stage, "/a")->rendering);
	cache_stage_close(&stage);
	cr_assert_eq(released, 1);
}

STAGED(an_etag_depends_on_the_content_alone)
{
	struct cache_outcome one;
	struct cache_outcome two;
	cr_assert_eq(cache_stage_look(stage, &one, "/s/a", CACHE_RESOLVE), 0);
	memory_put(stage->registry, "/s/a", cache_stage_record("two"));
	cache_stage_turn(stage);
	cr_assert_eq(cache_stage_look(stage, &two, "/s/a", CACHE_RESOLVE), 0);
	cr_assert_str_neq(one.etag, two.etag);
	memory_put(stage->registry, "/s/a", cache_stage_record("one"));
	cache_stage_turn(stage);
	cr_assert_eq(cache_stage_look(stage, &two, "/s/a", CACHE_RESOLVE), 0);
	cr_assert_str_eq(one.etag, two.etag);
	cr_assert_eq(one.etag[0], '"');
	cr_assert_eq(one.etag[strlen(one.etag) - 1], '"');
	memory_put(stage->registry, "/s/a", "");
	cache_stage_turn(stage);
	cache_stage_look(stage, &one, "/s/a", CACHE_RESOLVE);
	memory_remove(stage->registry, "/s/a");
	cache_stage_turn(stage);
	cache_stage_look(stage, &two, "/s/a", CACHE_RESOLVE);
	cr_assert_str_neq(one.etag, two.etag, "another error is another answer");
}
