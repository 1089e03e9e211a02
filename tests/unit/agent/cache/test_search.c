/* Searches of a tree: their walks, and long polls that follow them. */

#include <criterion/criterion.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/cache/parts.h"
#include "lib/base/clock.h"
#include "tests/support/cache_stage.h"
#include "tests/support/memory_backend.h"
#include "tests/support/shifted_clock.h"
#include "tests/support/staged.h"

enum { ORDER_BYTES = 256 };

static size_t walks;

/* A walk reads the list without a watch. */
static void count_walks(void *context, const struct registry_task *task, struct err *err)
{
	(void)context;
	(void)err;
	walks += task->operation == REGISTRY_OP_CHILDREN && !task->watch &&
		strcmp(task->path, "/s") == 0;
}

static struct cache_stage *open_stage(struct cache_stage *stage)
{
	cache_stage_open(stage, &(struct cache_options){ .resync_ms = 600000 });
	memory_put(stage->registry, "/s", "");
	memory_put(stage->registry, "/s/a", cache_stage_record("one"));
	memory_put(stage->registry, "/s/a/x", cache_stage_record("two"));
	memory_put(stage->registry, "/s/b", "host:1");
	memory_on_task(stage->registry, count_walks, NULL);
	return stage;
}

#define STAGED(name)                                                                               \
	STAGED_TEST(cache_search, name, struct cache_stage *, stage,                               \
		open_stage(&(struct cache_stage){ 0 }), cache_stage_close)

/* Two seconds pass, with the cache's work of a second. */
static void pass_time(struct cache_stage *stage)
{
	clock_shift_ms += 2 * 1000;
	ev_run(stage->loop, EVRUN_NOWAIT);
	ev_invoke(stage->loop, &stage->cache->tick.timer, EV_TIMER);
	cache_stage_turn(stage);
}

/* A search that waits for another result than the present one. */
static void poll_search(struct cache_stage *stage, struct cache_outcome *poll)
{
	struct cache_outcome outcome;
	cr_assert_eq(cache_stage_look(stage, &outcome, "/s", CACHE_FIND), 0);
	cr_assert_eq(
		cache_stage_ask(stage, poll, "/s", CACHE_FIND, outcome.etag, false), CACHE_WAITING);
	cache_stage_turn(stage);
	pass_time(stage);
	cr_assert_eq(poll->calls, 0);
}

STAGED(finds_every_record_below_a_path)
{
	struct cache_outcome outcome;
	char expected[1024];
	int len = snprintf(expected, sizeof(expected), "{\"/s/a\":%s,", cache_stage_record("one"));
	snprintf(expected + len, sizeof(expected) - (size_t)len, "\"/s/a/x\":%s}\n",
		cache_stage_record("two"));
	cr_assert_eq(cache_stage_look(stage, &outcome, "/s", CACHE_FIND), 0);
	cr_assert_str_eq(outcome.text, expected);
	const struct cache_filter other = { .protocol = "other" };
	cr_assert_eq(cache_stage_look_filtered(stage, &outcome, "/s", CACHE_FIND, &other), 0);
	cr_assert_str_eq(outcome.text, "{}\n");
}

STAGED(equal_searches_at_once_share_a_walk)
{
	struct cache_outcome first;
	struct cache_outcome second;
	walks = 0;
	cr_assert_eq(cache_stage_ask(stage, &first, "/s", CACHE_FIND, "", false), CACHE_WAITING);
	ev_run(stage->loop, EVRUN_NOWAIT);
	cr_assert_eq(cache_stage_ask(stage, &second, "/s", CACHE_FIND, "", false), CACHE_WAITING);
	cache_stage_turn(stage);
	cr_assert_eq(first.calls, 1);
	cr_assert_eq(second.calls, 1);
	cr_assert_eq(walks, 1);
	cr_assert_eq(cache_stage_look(stage, &first, "/s", CACHE_FIND), 0);
	cr_assert_eq(walks, 2, "nothing has followed the tree since");
}

STAGED(away_the_last_result_is_given_and_an_unknown_one_is_unavailable)
{
	struct cache_outcome before;
	struct cache_outcome outcome;
	cr_assert_eq(cache_stage_look(stage, &before, "/s", CACHE_FIND), 0);
	cr_assert_eq(cache_stage_ask(stage, &outcome, "/s", CACHE_FIND, "", false), CACHE_WAITING);
	memory_set_state(stage->registry, REGISTRY_AWAY);
	cache_stage_turn(stage);
	cr_assert_eq(outcome.calls, 1);
	for (int i = 0; i < 2; i++) {
		cr_assert_eq(outcome.code, 0);
		cr_assert_not(outcome.live);
		cr_assert_str_eq(outcome.text, before.text);
		cr_assert_eq(
			cache_stage_ask(stage, &outcome, "/s", CACHE_FIND, "", i), CACHE_READY);
	}
	cr_assert_str_eq(outcome.text, before.text, "nor does a refresh lose it");
	cr_assert_eq(
		cache_stage_ask(stage, &outcome, "/s/a", CACHE_FIND, "", false), CACHE_UNAVAILABLE);
	cr_assert_eq(outcome.code, BERTH_REGISTRY_UNAVAILABLE);
	cr_assert_str_eq(outcome.why, "the registry is away");
}

STAGED(a_first_search_that_the_registry_leaves_is_unavailable)
{
	struct cache_outcome outcome;
	cr_assert_eq(cache_stage_ask(stage, &outcome, "/s", CACHE_FIND, "", false), CACHE_WAITING);
	memory_set_state(stage->registry, REGISTRY_AWAY);
	cache_stage_turn(stage);
	cr_assert_eq(outcome.calls, 1);
	cr_assert_eq(outcome.code, BERTH_REGISTRY_UNAVAILABLE);
}

/* The second poll has another result than the present one, which is true if the server is there. */
STAGED(a_poll_that_waited_for_the_server_alone_follows_the_tree_no_longer)
{
	struct cache_outcome first;
	struct cache_outcome second;
	poll_search(stage, &first);
	memory_set_heard_ms(stage->registry, clock_monotonic_ms() - 3600 * 1000);
	cr_assert_eq(
		cache_stage_ask(stage, &second, "/s", CACHE_FIND, "other", false), CACHE_WAITING);
	cr_assert(cache_is_confirming(&second.wait));
	cache_cancel(&first.wait);
	cr_assert_not(list_empty(&stage->cache->searches.observed));
	memory_set_heard_ms(stage->registry, INT64_MAX);
	cache_stage_turn(stage);
	cr_assert_eq(second.calls, 1);
	cr_assert(list_empty(&stage->cache->searches.observed));
}

STAGED(a_poll_wakes_with_the_next_different_result)
{
	struct cache_outcome poll;
	for (int i = 0; i < 3; i++) {
		char name[16];
		poll_search(stage, &poll);
		memory_put(stage->registry, "/s/b", i % 2 ? "host:1" : "host:2");
		cache_stage_turn(stage);
		pass_time(stage);
		cr_assert_eq(poll.calls, 0, "no record is another");
		snprintf(name, sizeof(name), "new-%d", i);
		memory_put(stage->registry, "/s/a/x", cache_stage_record(name));
		cache_stage_turn(stage);
		pass_time(stage);
		cr_assert_eq(poll.calls, 1);
		cr_assert_not_null(strstr(poll.text, name));
	}
	walks = 0;
	memory_put(stage->registry, "/s/a/x", cache_stage_record("later"));
	pass_time(stage);
	pass_time(stage);
	cr_assert_eq(walks, 0, "no client waits any more");
}

STAGED(during_a_poll_a_tree_that_does_not_change_is_not_walked)
{
	struct cache_outcome poll;
	struct cache_outcome outcome;
	poll_search(stage, &poll);
	walks = 0;
	for (int i = 0; i < 3; i++) {
		pass_time(stage);
	}
	cr_assert_eq(walks, 0);
	cr_assert_eq(cache_stage_ask(stage, &outcome, "/s", CACHE_FIND, "", false), CACHE_READY);
	cr_assert(outcome.live);
	cr_assert_eq(walks, 0);
	cache_cancel(&poll.wait);
	cr_assert_eq(cache_stage_ask(stage, &outcome, "/s", CACHE_FIND, "", false), CACHE_WAITING,
		"nobody follows the tree any more");
	cache_stage_turn(stage);
}

STAGED(a_burst_of_changes_is_one_walk_now_and_one_later)
{
	struct cache_outcome poll;
	poll_search(stage, &poll);
	pass_time(stage);
	walks = 0;
	for (int i = 0; i < 5; i++) {
		memory_put(stage->registry, "/s/b", i % 2 ? "host:1" : "host:2");
		cache_stage_turn(stage);
	}
	cr_assert_eq(walks, 1);
	pass_time(stage);
	cr_assert_eq(walks, 2);
	pass_time(stage);
	cr_assert_eq(walks, 2);
	cache_cancel(&poll.wait);
}

/* The change after the one that began the walk. */
static void change_once(void *context, const struct registry_task *task, struct err *err)
{
	struct cache_stage *stage = context;
	count_walks(NULL, task, err);
	if (walks == 1 && strcmp(task->path, "/s/a") == 0) {
		memory_put(stage->registry, "/s/b", "host:3");
	}
}

STAGED(a_result_that_changed_while_it_was_found_is_not_live)
{
	struct cache_outcome poll;
	struct cache_outcome outcome;
	poll_search(stage, &poll);
	pass_time(stage);
	walks = 0;
	memory_on_task(stage->registry, change_once, stage);
	memory_put(stage->registry, "/s/b", "host:2");
	cache_stage_turn(stage);
	memory_on_task(stage->registry, count_walks, NULL);
	cr_assert_eq(walks, 1);
	cr_assert_eq(cache_stage_ask(stage, &outcome, "/s", CACHE_FIND, "", false), CACHE_WAITING);
	cache_stage_turn(stage);
	cr_assert_eq(walks, 2);
	cr_assert_eq(poll.calls, 0);
	cache_cancel(&poll.wait);
}

STAGED(a_result_is_not_live_between_a_change_and_its_walk)
{
	struct cache_outcome poll;
	struct cache_outcome outcome;
	poll_search(stage, &poll);
	pass_time(stage);
	walks = 0;
	for (int i = 0; i < 2; i++) {
		memory_put(stage->registry, "/s/b", i % 2 ? "host:1" : "host:2");
		cache_stage_turn(stage);
	}
	cr_assert_eq(walks, 1);
	cr_assert_eq(cache_stage_ask(stage, &outcome, "/s", CACHE_FIND, "", false), CACHE_WAITING);
	cache_stage_turn(stage);
	cr_assert_eq(outcome.calls, 1);
	cache_cancel(&poll.wait);
}

Test(cache_search, a_tree_that_is_larger_than_the_cache_cannot_be_polled)
{
	struct cache_stage stage;
	struct cache_outcome outcome;
	struct cache_outcome poll;
	cache_stage_open(&stage,
		&(struct cache_options){ .resync_ms = 600000, .max_size_bytes = 64 * 1024 });
	memory_put(stage.registry, "/s", "");
	for (int i = 0; i < 300; i++) {
		char path[32];
		snprintf(path, sizeof(path), "/s/n%d", i);
		memory_put(stage.registry, path, cache_stage_record(path));
	}
	cr_assert_eq(cache_stage_look(&stage, &outcome, "/s", CACHE_FIND), 0);
	for (int polls = 0; polls < 2; polls++) {
		cr_assert_eq(cache_stage_ask(&stage, &poll, "/s", CACHE_FIND, outcome.etag, false),
			CACHE_WAITING);
		for (int i = 0; i < 20 && poll.calls == 0; i++) {
			cache_stage_turn(&stage);
		}
		cr_assert_eq(poll.calls, 1);
		cr_assert_eq(poll.code, BERTH_LIMIT_EXCEEDED);
	}
	cr_assert_eq(cache_stage_look(&stage, &outcome, "/s", CACHE_FIND), 0, "once is possible");
	cache_stage_close(&stage);
}

/* ---- limits ---- */

STAGED(four_searches_walk_at_once_and_a_few_more_wait)
{
	enum { WALKS = 4, SEARCHES = 32 };
	struct cache_outcome outcomes[SEARCHES + 1];
	const struct cache_filter filter = { .protocol = "REST" };
	for (int i = 0; i < SEARCHES; i++) {
		char path[16];
		snprintf(path, sizeof(path), "/s/n%d", i);
		cr_assert_eq(cache_stage_ask(stage, &outcomes[i], path, CACHE_FIND, "", false),
			CACHE_WAITING);
	}
	cr_assert_eq(stage->cache->searches.walks, WALKS);
	struct cache_query query = {
		.path = "/s/n0", .kind = CACHE_FIND, .filter = &filter, .max_age_ms = -1
	};
	cr_assert_eq(
		cache_stage_ask_query(stage, &outcomes[SEARCHES], &query, ""), CACHE_UNAVAILABLE);
	cr_assert_eq(outcomes[SEARCHES].code, BERTH_LIMIT_EXCEEDED);
	cr_assert_str_eq(outcomes[SEARCHES].why, "too many searches are under way");
	query.filter = NULL;
	cr_assert_eq(cache_stage_ask_query(stage, &outcomes[SEARCHES], &query, ""), CACHE_WAITING,
		"it shares the walk of an equal one");
	for (int i = 0; i < 20; i++) {
		cache_stage_turn(stage);
	}
	for (int i = 0; i <= SEARCHES; i++) {
		cr_assert_eq(outcomes[i].calls, 1, "%d", i);
	}
	cr_assert_eq(stage->cache->searches.walks, 0);
}

/* " NAME" of each path below /s whose walk begins. */
static void note_walk(void *context, const struct registry_task *task, struct err *err)
{
	char *order = context;
	(void)err;
	if (!task->watch && strncmp(task->path, "/s/", 3) == 0) {
		size_t len = strlen(order);
		snprintf(order + len, ORDER_BYTES - len, " %s", task->path + strlen("/s/"));
	}
}

static void begin_search(
	struct cache_stage *stage, struct cache_outcome *outcome, const char *path, bool polls)
{
	cr_assert_eq(cache_stage_ask(stage, outcome, path, CACHE_FIND, polls ? "x" : "", false),
		CACHE_WAITING);
}

/* Four walk already. A look-up in the place of a poll moves its search before those of polls. */
STAGED(searches_of_look_ups_come_before_those_that_wait_for_changes)
{
	static const char *const before[] = { "/s/w", "/s/x", "/s/y", "/s/z" };
	char order[ORDER_BYTES] = "";
	struct cache_outcome walking[4];
	struct cache_outcome polls[3];
	struct cache_outcome look_ups[3];
	for (size_t i = 0; i < 4; i++) {
		begin_search(stage, &walking[i], before[i], false);
	}
	begin_search(stage, &polls[0], "/s/d", true);
	begin_search(stage, &polls[1], "/s/c", true);
	begin_search(stage, &look_ups[0], "/s/b", false);
	begin_search(stage, &look_ups[1], "/s/a", false);
	begin_search(stage, &look_ups[2], "/s/c", false);
	begin_search(stage, &polls[2], "/s/b", true);
	memory_on_task(stage->registry, note_walk, order);
	for (int i = 0; i < 20; i++) {
		cache_stage_turn(stage);
	}
	cr_assert_eq(strncmp(order, " w x y z b a c d", 16), 0, "%s", order);
	for (size_t i = 0; i < 3; i++) {
		cr_assert_eq(look_ups[i].calls, 1);
		cr_assert_eq(polls[i].calls, 1);
	}
	struct cache_stats stats;
	cache_get_stats(stage->cache, &stats);
	cr_assert_eq(stats.searches, 0);
	memory_on_task(stage->registry, NULL, NULL);
}

STAGED(a_large_result_is_not_kept_for_an_outage)
{
	enum { LONG = 100 * 1024, RECORDS = 12 };
	struct cache_outcome outcome;
	char *record = malloc(LONG + 1);
	memset(record, ' ', LONG);
	memcpy(record, "{\"type\":\"JSONServiceRecord\"}", 28);
	record[LONG] = '\0';
	for (int i = 0; i < RECORDS; i++) {
		char path[16];
		snprintf(path, sizeof(path), "/t%d", i);
		memory_put(stage->registry, path, record);
	}
	free(record);
	cr_assert_eq(cache_stage_look(stage, &outcome, "/t0", CACHE_FIND), 0);
	cr_assert_eq(cache_stage_look(stage, &outcome, "/", CACHE_FIND), 0);
	memory_set_state(stage->registry, REGISTRY_AWAY);
	cache_stage_turn(stage);
	cr_assert_eq(cache_stage_ask(stage, &outcome, "/t0", CACHE_FIND, "", false), CACHE_READY);
	cr_assert_eq(
		cache_stage_ask(stage, &outcome, "/", CACHE_FIND, "", false), CACHE_UNAVAILABLE);
}

static enum cache_verdict search_for(
	struct cache_stage *stage, struct cache_outcome *outcome, const char *api, bool joins)
{
	const struct cache_filter filter = { .api = api };
	const struct cache_query query = { .path = "/s",
		.kind = CACHE_FIND,
		.filter = &filter,
		.joins = joins,
		.max_age_ms = -1 };
	return cache_stage_ask_query(stage, outcome, &query, "");
}

STAGED(a_client_with_its_share_joins_a_search_and_begins_none)
{
	struct cache_outcome first;
	struct cache_outcome equal;
	struct cache_outcome other;
	cr_assert_eq(search_for(stage, &first, "http://a", false), CACHE_WAITING);
	cr_assert_eq(search_for(stage, &equal, "http://a", true), CACHE_WAITING);
	cr_assert_eq(search_for(stage, &other, "http://b", true), CACHE_UNAVAILABLE);
	cr_assert_eq(other.code, BERTH_LIMIT_EXCEEDED);
	cr_assert_not_null(strstr(other.why, "share"));
	cache_stage_turn(stage);
	cr_assert_eq(first.calls + equal.calls, 2);
	cr_assert_eq(equal.code, 0);
	struct cache_stats stats;
	cache_get_stats(stage->cache, &stats);
	cr_assert_eq(stats.searches, 0);
}

/* Each change of the tree begins a walk for each of them, whoever they are. */
STAGED(searches_that_wait_for_a_change_leave_room_for_others)
{
	enum { POLLS = 31 }; /* of a path: it keeps few answers more */
	static char etags[2 * POLLS][CACHE_ETAG_BYTES];
	static struct cache_outcome polls[2][POLLS];
	static const char *const paths[] = { "/s", "/s/a" };
	char api[32];
	for (int i = 0; i < 2 * POLLS; i++) {
		struct cache_outcome *poll = &polls[i / POLLS][i % POLLS];
		snprintf(api, sizeof(api), "http://%d", i);
		const struct cache_filter filter = { .api = api };
		const struct cache_query query = { .path = paths[i / POLLS],
			.kind = CACHE_FIND,
			.filter = &filter,
			.max_age_ms = -1 };
		cr_assert_eq(cache_stage_ask_query(stage, poll, &query, ""), CACHE_WAITING);
		cache_stage_turn(stage);
		strcpy(etags[i], poll->etag);
		cr_assert_eq(cache_stage_ask_query(stage, poll, &query, etags[i]), CACHE_WAITING);
		cache_stage_turn(stage);
	}
	memory_set_answering(stage->registry, false);
	for (int i = 0; i < 2 * POLLS; i++) { /* walks for clients that have an answer */
		struct cache_outcome *poll = &polls[i / POLLS][i % POLLS];
		cache_cancel(&poll->wait);
		snprintf(api, sizeof(api), "http://%d", i);
		const struct cache_filter filter = { .api = api };
		const struct cache_query query = { .path = paths[i / POLLS],
			.kind = CACHE_FIND,
			.filter = &filter,
			.max_age_ms = -1 };
		cr_assert_eq(cache_stage_ask_query(stage, poll, &query, etags[i]), CACHE_WAITING);
	}
	struct cache_outcome outcome;
	cr_assert_eq(
		cache_stage_ask(stage, &outcome, "/s/b", CACHE_FIND, "", false), CACHE_WAITING);
	memory_set_answering(stage->registry, true);
	for (int i = 0; i < 100 && !outcome.calls; i++) {
		cache_stage_turn(stage);
	}
	cr_assert_eq(outcome.calls, 1);
	cr_assert_eq(outcome.code, 0);
	for (int i = 0; i < 2 * POLLS; i++) {
		cache_cancel(&polls[i / POLLS][i % POLLS].wait);
	}
}
