/* A list of children that came without a path ends what was known of that path before. */

#include <criterion/criterion.h>

#include <string.h>

#include "agent/cache/parts.h"
#include "lib/base/path.h"
#include "tests/support/cache_stage.h"
#include "tests/support/memory_backend.h"
#include "tests/support/staged.h"

static struct cache_stage *open_stage(struct cache_stage *stage)
{
	cache_stage_open(stage, &(struct cache_options){ .resync_ms = 600000 });
	memory_put(stage->registry, "/s", "");
	memory_put(stage->registry, "/s/a", cache_stage_record("old"));
	memory_put(stage->registry, "/s/b", cache_stage_record("other"));
	return stage;
}

#define STAGED(name)                                                                               \
	STAGED_TEST(cache_listing, name, struct cache_stage *, stage,                              \
		open_stage(&(struct cache_stage){ 0 }), cache_stage_close)

/* Nothing is heard of the path, nor of what is below it. */
static void keep_back(void *context, const struct registry_task *task, struct err *err)
{
	if (path_is_under(task->path, context)) {
		err_set(err, BERTH_TIMEOUT, "no answer");
	}
}

static void reconnect(struct cache_stage *stage)
{
	memory_set_state(stage->registry, REGISTRY_AWAY);
	cache_stage_turn(stage);
	memory_set_state(stage->registry, REGISTRY_CONNECTED);
	cache_stage_turn(stage);
}

static void reconnect_and_list(struct cache_stage *stage, struct cache_outcome *outcome)
{
	reconnect(stage);
	cache_stage_ask(stage, outcome, "/s", CACHE_LIST, "", true);
	cache_stage_turn(stage);
}

/* No answer may wait, and none may show the word. */
static void check_without(
	struct cache_stage *stage, const char *path, enum cache_answer_kind kind, const char *word)
{
	struct cache_outcome outcome;
	enum cache_verdict verdict = cache_stage_ask(stage, &outcome, path, kind, "", false);
	cr_assert_eq(verdict, CACHE_READY, "%s: %d", path, verdict);
	cr_assert_null(strstr(outcome.text, word), "%s: %s", path, outcome.text);
}

static void check_gone(struct cache_stage *stage, const char *path)
{
	struct cache_outcome outcome;
	cr_assert_eq(cache_stage_ask(stage, &outcome, path, CACHE_RESOLVE, "", false), CACHE_READY);
	cr_assert_eq(outcome.code, BERTH_PATH_NOT_FOUND, "%s", outcome.text);
}

/* The path is deleted while the registry is away, and is not read again. */
static void delete_unread(struct cache_stage *stage, char *path)
{
	memory_on_task(stage->registry, keep_back, path);
	memory_set_state(stage->registry, REGISTRY_AWAY);
	cache_stage_turn(stage);
	memory_remove(stage->registry, path);
	memory_set_state(stage->registry, REGISTRY_CONNECTED);
	cache_stage_turn(stage);
}

STAGED(a_record_of_before_its_deletion_does_not_come_back_when_its_path_is_listed_again)
{
	struct cache_outcome outcome;
	cr_assert_eq(cache_stage_look(stage, &outcome, "/s", CACHE_RECORDS), 0);
	cr_assert_not_null(strstr(outcome.text, "old"));
	delete_unread(stage, "/s/a");
	check_without(stage, "/s", CACHE_RECORDS, "old");
	memory_put(stage->registry, "/s/a", cache_stage_record("new"));
	cache_stage_turn(stage);
	cr_assert_eq(cache_stage_look(stage, &outcome, "/s", CACHE_LIST), 0);
	cr_assert_str_eq(outcome.text, "[\"/s/a\",\"/s/b\"]\n");
	cr_assert_eq(cache_stage_look(stage, &outcome, "/s", CACHE_RESOLVE), BERTH_NO_RECORD);
	memory_set_state(stage->registry, REGISTRY_AWAY);
	cache_stage_turn(stage);
	check_without(stage, "/s", CACHE_RECORDS, "old");
	check_without(stage, "/s", CACHE_ENDPOINTS, "old");
	check_gone(stage, "/s/a");

	memory_on_task(stage->registry, NULL, NULL);
	reconnect(stage);
	cache_stage_ask(stage, &outcome, "/s", CACHE_RECORDS, "", true);
	cache_stage_turn(stage);
	cr_assert(outcome.live);
	cr_assert_not_null(strstr(outcome.text, "new"), "%s", outcome.text);
	cr_assert_not_null(strstr(outcome.text, "other"));
}

STAGED(a_list_without_a_path_is_the_end_of_the_path_itself)
{
	struct cache_outcome outcome;
	cr_assert_eq(cache_stage_look(stage, &outcome, "/s", CACHE_LIST), 0);
	cr_assert_eq(cache_stage_look(stage, &outcome, "/s/a", CACHE_RESOLVE), 0);
	delete_unread(stage, "/s/a");
	cr_assert_eq(cache_stage_look(stage, &outcome, "/s", CACHE_LIST), 0);
	cr_assert_str_eq(outcome.text, "[\"/s/b\"]\n");
	check_gone(stage, "/s/a");
	cr_assert_eq(cache_stage_look(stage, &outcome, "/s/b", CACHE_RESOLVE), 0);
}

/* Step by step: at no moment does a look-up of the path show what the list lacks. */
STAGED(the_list_and_the_path_end_at_once)
{
	struct cache_outcome outcome;
	struct cache_outcome list;
	cr_assert_eq(cache_stage_look(stage, &outcome, "/s", CACHE_LIST), 0);
	cr_assert_eq(cache_stage_look(stage, &outcome, "/s/a", CACHE_RESOLVE), 0);
	memory_remove(stage->registry, "/s/a");
	do {
		registry_dispatch(stage->registry, stage->now_ms);
		cache_stage_ask(stage, &list, "/s", CACHE_LIST, "", false);
		cache_stage_ask(stage, &outcome, "/s/a", CACHE_RESOLVE, "", false);
	} while (strstr(list.text, "/s/a"));
	cr_assert_eq(outcome.code, BERTH_PATH_NOT_FOUND, "%s", outcome.text);
}

/* The list was read for the first time after the deletion. */
STAGED(a_record_that_was_read_before_the_first_list_is_older_than_it)
{
	struct cache_outcome outcome;
	cr_assert_eq(cache_stage_look(stage, &outcome, "/s/a", CACHE_RESOLVE), 0);
	delete_unread(stage, "/s/a");
	cr_assert_eq(cache_stage_look(stage, &outcome, "/s", CACHE_RECORDS), 0);
	cr_assert_null(strstr(outcome.text, "old"));
	memory_put(stage->registry, "/s/a", cache_stage_record("new"));
	cache_stage_turn(stage);
	check_without(stage, "/s", CACHE_RECORDS, "old");
}

static void keep_lists_back(void *context, const struct registry_task *task, struct err *err)
{
	(void)context;
	if (task->operation == REGISTRY_OP_CHILDREN) {
		err_set(err, BERTH_TIMEOUT, "no answer");
	}
}

/* No list comes while the record of the new path could be read: the records would lack it again. */
static void put_unlisted(struct cache_stage *stage)
{
	struct cache_outcome outcome;
	memory_remove(stage->registry, "/s/a");
	cr_assert_eq(cache_stage_look(stage, &outcome, "/s", CACHE_RECORDS), 0);
	memory_on_task(stage->registry, keep_lists_back, NULL);
	memory_put(stage->registry, "/s/a", cache_stage_record("new"));
	cache_stage_turn(stage);
}

STAGED(a_path_is_seen_no_sooner_than_its_directory_names_it)
{
	struct cache_outcome outcome;
	struct cache_outcome early;
	put_unlisted(stage);
	enum cache_verdict verdict = cache_stage_ask(
		stage, &early, "/s/a", CACHE_RESOLVE, "", false);
	cache_stage_turn(stage);
	cr_assert_eq(verdict, CACHE_WAITING);
	cr_assert_eq(early.calls, 0);
	memory_on_task(stage->registry, NULL, NULL);
	cr_assert_eq(cache_stage_look(stage, &outcome, "/s", CACHE_RECORDS), 0);
	cr_assert_null(strstr(outcome.text, "new"), "no list has been read since");
	stage->now_ms += 60000; /* the registry's core tries the list again by itself */
	cache_stage_turn(stage);
	cr_assert_eq(cache_stage_look(stage, &outcome, "/s", CACHE_RECORDS), 0);
	cr_assert_not_null(strstr(outcome.text, "new"), "%s", outcome.text);
	cr_assert_eq(early.calls, 1);
	cr_assert_str_eq(early.text, cache_stage_record("new"));
}

STAGED(a_path_that_was_absent_stays_absent_until_its_directory_names_it)
{
	struct cache_outcome outcome;
	memory_remove(stage->registry, "/s/a");
	cr_assert_eq(
		cache_stage_look(stage, &outcome, "/s/a", CACHE_RESOLVE), BERTH_PATH_NOT_FOUND);
	put_unlisted(stage);
	reconnect(stage);
	check_gone(stage, "/s/a");
	memory_on_task(stage->registry, NULL, NULL);
	reconnect(stage);
	cache_stage_look(stage, &outcome, "/s/a", CACHE_RESOLVE); /* which has it confirmed soon */
	cache_stage_turn(stage);
	cr_assert_eq(cache_stage_look(stage, &outcome, "/s/a", CACHE_RESOLVE), 0);
	cr_assert_str_eq(outcome.text, cache_stage_record("new"));
	cr_assert_eq(cache_stage_look(stage, &outcome, "/s", CACHE_RECORDS), 0);
	cr_assert_not_null(strstr(outcome.text, "new"), "%s", outcome.text);
}

/* The list was read before the path came, and again, with the same content, after it had gone. */
STAGED(a_list_that_lacks_a_path_again_ends_what_came_between)
{
	struct cache_outcome outcome;
	cr_assert_eq(cache_stage_look(stage, &outcome, "/s/a", CACHE_RESOLVE), 0);
	delete_unread(stage, "/s/a");
	cr_assert_eq(cache_stage_look(stage, &outcome, "/s", CACHE_LIST), 0);
	cr_assert_str_eq(outcome.text, "[\"/s/b\"]\n");
	check_gone(stage, "/s/a");
	memory_set_state(stage->registry, REGISTRY_AWAY);
	cache_stage_turn(stage);
	check_gone(stage, "/s/a");
}

/* A list that comes before the notification of a deletion. */
struct overtaker {
	struct cache_stage *stage;
	bool done;
};

static void overtake(void *context, const struct registry_task *task, struct err *err)
{
	struct overtaker *overtaker = context;
	(void)err;
	if (task->operation == REGISTRY_OP_CHILDREN && !overtaker->done) {
		overtaker->done = true;
		memory_remove(overtaker->stage->registry, "/s/a");
	}
}

STAGED(a_list_that_overtakes_the_news_of_a_deletion_ends_the_path)
{
	struct cache_outcome outcome;
	struct overtaker overtaker = { stage, false };
	cr_assert_eq(cache_stage_look(stage, &outcome, "/s", CACHE_LIST), 0);
	cr_assert_eq(cache_stage_look(stage, &outcome, "/s/a", CACHE_RESOLVE), 0);
	memory_put(stage->registry, "/s/c", "");
	memory_on_task(stage->registry, overtake, &overtaker);
	do {
		registry_dispatch(stage->registry, stage->now_ms);
	} while (!overtaker.done);
	check_gone(stage, "/s/a");
	cache_stage_turn(stage);
	check_gone(stage, "/s/a");
}

/* A list that cannot be read says nothing of its children. */
static void forbid(void *context, const struct registry_task *task, struct err *err)
{
	(void)context;
	err_set(err,
		task->operation == REGISTRY_OP_CHILDREN ? BERTH_NO_PATH_PERMISSIONS : BERTH_TIMEOUT,
		"not now");
}

STAGED(a_list_that_may_not_be_read_says_nothing)
{
	struct cache_outcome outcome;
	cr_assert_eq(cache_stage_look(stage, &outcome, "/s", CACHE_LIST), 0);
	cr_assert_eq(cache_stage_look(stage, &outcome, "/s/a", CACHE_RESOLVE), 0);
	memory_on_task(stage->registry, forbid, NULL);
	reconnect(stage);
	cr_assert_eq(
		cache_stage_look(stage, &outcome, "/s", CACHE_LIST), BERTH_NO_PATH_PERMISSIONS);
	cr_assert_eq(cache_stage_look(stage, &outcome, "/s/a", CACHE_RESOLVE), 0);
	cr_assert_str_eq(outcome.text, cache_stage_record("old"));
	/* Nor does the next one: nobody knows that the path was missing meanwhile. */
	memory_on_task(stage->registry, keep_back, "/s/a");
	reconnect_and_list(stage, &outcome);
	cr_assert_str_eq(outcome.text, "[\"/s/a\",\"/s/b\"]\n");
	cr_assert_eq(cache_stage_look(stage, &outcome, "/s/a", CACHE_RESOLVE), 0);
	cr_assert_str_eq(outcome.text, cache_stage_record("old"));
}

STAGED(a_record_stays_while_every_list_names_it)
{
	struct cache_outcome outcome;
	cr_assert_eq(cache_stage_look(stage, &outcome, "/s/a", CACHE_RESOLVE), 0);
	cr_assert_eq(cache_stage_look(stage, &outcome, "/s", CACHE_LIST), 0);
	memory_on_task(stage->registry, keep_back, "/s/a");
	memory_put(stage->registry, "/s/c", "");
	reconnect_and_list(stage, &outcome);
	cr_assert_str_eq(outcome.text, "[\"/s/a\",\"/s/b\",\"/s/c\"]\n");
	cr_assert_eq(cache_stage_look(stage, &outcome, "/s/a", CACHE_RESOLVE), 0);
	cr_assert_str_eq(outcome.text, cache_stage_record("old"));
}

static void keep_all_back(void *context, const struct registry_task *task, struct err *err)
{
	(void)context;
	(void)task;
	err_set(err, BERTH_TIMEOUT, "no answer");
}

static void keep_path_back(void *context, const struct registry_task *task, struct err *err)
{
	if (strcmp(task->path, context) == 0) {
		err_set(err, BERTH_TIMEOUT, "no answer");
	}
}

/* It was found absent while the list could not be read, and not read again since. */
STAGED(a_doubted_absence_is_believed_with_the_list_that_lacks_the_path)
{
	struct cache_outcome outcome;
	cr_assert_eq(cache_stage_look(stage, &outcome, "/s", CACHE_LIST), 0);
	cr_assert_eq(cache_stage_look(stage, &outcome, "/s/a", CACHE_RESOLVE), 0);
	memory_set_state(stage->registry, REGISTRY_AWAY);
	cache_stage_turn(stage);
	memory_remove(stage->registry, "/s/a");
	memory_on_task(stage->registry, keep_lists_back, NULL);
	memory_set_state(stage->registry, REGISTRY_CONNECTED);
	stage->now_ms += 60000;
	cache_stage_turn(stage);
	cr_assert_eq(cache_stage_look(stage, &outcome, "/s/a", CACHE_RESOLVE), 0);
	cr_assert_str_eq(outcome.text, cache_stage_record("old"));
	memory_on_task(stage->registry, keep_all_back, NULL);
	ev_invoke(stage->loop, &stage->cache->store.doubt.timer, EV_TIMER); /* its time comes */
	cache_stage_turn(stage);
	memory_on_task(stage->registry, keep_path_back, (void *)(uintptr_t) "/s/a");
	stage->now_ms += 60000;
	cache_stage_turn(stage);
	cr_assert_eq(cache_stage_look(stage, &outcome, "/s", CACHE_LIST), 0);
	cr_assert_str_eq(outcome.text, "[\"/s/b\"]\n");
	check_gone(stage, "/s/a");
}

/* A client that asks for the path as soon as it has the list. */
struct hasty {
	struct cache_stage *stage;
	size_t max_bytes;
	struct cache_outcome record;
	enum cache_verdict verdict;
};

static void on_list(void *context, struct cache_answer *answer, const struct err *err)
{
	struct hasty *hasty = context;
	cr_assert_eq(err->code, 0);
	cr_assert_str_eq(answer->body, "[\"/s/b\"]\n");
	hasty->stage->cache->table.max_bytes = hasty->max_bytes;
	hasty->verdict = cache_stage_ask(
		hasty->stage, &hasty->record, "/s/a", CACHE_RESOLVE, "", false);
}

/* Its answers go at once, but behind all that came with the list. */
STAGED(of_a_full_cache_nobody_has_a_list_before_the_end_of_the_paths_that_it_lacks)
{
	struct cache_outcome outcome;
	struct hasty hasty = { .stage = stage, .max_bytes = stage->cache->table.max_bytes };
	struct cache_wait wait = { .on_answer = on_list, .context = &hasty };
	struct cache_query query = { .path = "/s", .kind = CACHE_LIST, .max_age_ms = -1 };
	struct cache_answer *answer;
	struct err err = ERR_INIT;
	cr_assert_eq(cache_stage_look(stage, &outcome, "/s/a", CACHE_RESOLVE), 0);
	cr_assert_eq(cache_stage_look(stage, &outcome, "/s", CACHE_LIST), 0);
	strcpy(wait.unlike, outcome.etag);
	cr_assert_eq(cache_ask(stage->cache, &query, &wait, &answer, &err), CACHE_WAITING);
	memory_remove(stage->registry, "/s/a");
	stage->cache->table.max_bytes = 1;
	cache_stage_turn(stage);
	cr_assert_eq(stage->cache->table.max_bytes, hasty.max_bytes, "no list");
	cr_assert_eq(hasty.record.code, BERTH_PATH_NOT_FOUND, "%s", hasty.record.text);
}

/* A path that is gone has nothing below it. */
STAGED(a_list_without_a_directory_ends_what_is_in_it)
{
	struct cache_outcome outcome;
	memory_put(stage->registry, "/s/d", "");
	memory_put(stage->registry, "/s/d/x", cache_stage_record("deep"));
	cr_assert_eq(cache_stage_look(stage, &outcome, "/s", CACHE_LIST), 0);
	cr_assert_eq(cache_stage_look(stage, &outcome, "/s/d", CACHE_RECORDS), 0);
	cr_assert_eq(cache_stage_look(stage, &outcome, "/s/d/x", CACHE_RESOLVE), 0);
	delete_unread(stage, "/s/d");
	cache_stage_look(stage, &outcome, "/s", CACHE_LIST);
	cr_assert_null(strstr(outcome.text, "/s/d"), "%s", outcome.text);
	check_gone(stage, "/s/d/x");
	check_without(stage, "/s/d", CACHE_RECORDS, "deep");
}

STAGED(children_of_before_a_deletion_do_not_come_back_when_their_directory_is_listed_again)
{
	struct cache_outcome outcome;
	memory_put(stage->registry, "/s/d", "");
	memory_put(stage->registry, "/s/d/x", cache_stage_record("deep"));
	cr_assert_eq(cache_stage_look(stage, &outcome, "/s/d", CACHE_LIST), 0);
	delete_unread(stage, "/s/d");
	cr_assert_eq(cache_stage_look(stage, &outcome, "/s", CACHE_LIST), 0);
	cr_assert_null(strstr(outcome.text, "/s/d"), "%s", outcome.text);
	memory_put(stage->registry, "/s/d", "");
	cache_stage_turn(stage);
	cr_assert_eq(cache_stage_look(stage, &outcome, "/s", CACHE_LIST), 0);
	cr_assert_not_null(strstr(outcome.text, "/s/d"), "%s", outcome.text);
	check_without(stage, "/s/d", CACHE_LIST, "/s/d/x");
}

/* ---- observers ---- */

static size_t paths_of(const struct cache_stage *stage)
{
	struct cache_stats stats;
	cache_get_stats(stage->cache, &stats);
	return stats.paths;
}

/* The news that an observer of a tree has of /s/a. */
struct news {
	struct cache_stage *stage;
	bool ready;
	bool removed; /* /s/a, before it was read */
	int updates;
	int deletions;
};

static void on_ready(void *context)
{
	((struct news *)context)->ready = true;
}

static void on_event(void *context, enum cache_event event, const char *path, const char *record)
{
	struct news *news = context;
	(void)record;
	if (path && strcmp(path, "/s/a") == 0) {
		news->updates += event == CACHE_UPDATED;
		news->deletions += event == CACHE_DELETED;
	}
}

static struct cache_observer observer_for(struct news *news)
{
	return (struct cache_observer){
		.scope = CACHE_TREE, .on_ready = on_ready, .on_event = on_event, .context = news
	};
}

/* The list names /s/a, which goes before it is read; no list comes any more. */
static void remove_listed(void *context, const struct registry_task *task, struct err *err)
{
	struct news *news = context;
	if (news->removed) {
		keep_lists_back(NULL, task, err);
	} else if (strcmp(task->path, "/s/a") == 0) {
		news->removed = true;
		memory_remove(news->stage->registry, "/s/a");
	}
}

STAGED(an_absent_path_of_a_tree_is_followed_as_long_as_the_list_names_it)
{
	struct news news = { .stage = stage };
	struct cache_observer observer = observer_for(&news);
	memory_remove(stage->registry, "/s/b");
	memory_on_task(stage->registry, remove_listed, &news);
	cache_observe(stage->cache, "/s", &observer);
	cache_stage_turn(stage);
	cr_assert(news.removed);
	cr_assert(news.ready);
	cr_assert_eq(news.updates, 0);
	memory_put(stage->registry, "/s/a", cache_stage_record("new"));
	cache_stage_turn(stage);
	cr_assert_eq(news.updates, 1);
	memory_remove(stage->registry, "/s/a");
	cache_stage_turn(stage);
	cr_assert_eq(news.deletions, 1);
	cr_assert_eq(paths_of(stage), 2, "/s and /s/a");
	memory_put(stage->registry, "/s/b", "");
	memory_on_task(stage->registry, NULL, NULL);
	reconnect(stage);
	cr_assert_eq(paths_of(stage), 2, "/s and /s/b");
	cache_unobserve(&observer);
}

STAGED(a_directory_whose_record_nobody_has_read_may_end)
{
	struct cache_outcome outcome;
	struct cache_observer observer = { .scope = CACHE_TREE };
	cache_observe(stage->cache, "/t", &observer);
	cr_assert_eq(cache_stage_look(stage, &outcome, "/s", CACHE_LIST), 0);
	cr_assert_eq(cache_stage_look(stage, &outcome, "/s/a", CACHE_LIST), 0);
	delete_unread(stage, "/s/a");
	cr_assert_eq(cache_stage_look(stage, &outcome, "/s", CACHE_LIST), 0);
	cr_assert_str_eq(outcome.text, "[\"/s/b\"]\n");
	cache_unobserve(&observer);
}

/* Its end came with the list that lacked it, for pictures and for events. */
STAGED(an_update_tells_of_a_path_that_is_listed_again_with_the_same_record)
{
	struct news news = { .stage = stage };
	struct cache_observer observer = observer_for(&news);
	struct overtaker overtaker = { stage, false };
	struct cache_outcome outcome;
	struct buffer picture;
	cache_observe(stage->cache, "/s", &observer);
	cache_stage_turn(stage);
	memory_put(stage->registry, "/s/c", "");
	memory_on_task(stage->registry, overtake, &overtaker);
	do {
		registry_dispatch(stage->registry, stage->now_ms);
	} while (!overtaker.done);
	memory_put(stage->registry, "/s/a", cache_stage_record("old"));
	memory_on_task(stage->registry, keep_lists_back, NULL);
	reconnect(stage);
	cr_assert_eq(news.updates, 0);
	cr_assert_eq(news.deletions, 1);
	buffer_init(&picture, 4096);
	cache_write_snapshot(&observer, &picture);
	cr_assert_null(strstr(buffer_text(&picture), "/s/a"), "%s", buffer_text(&picture));
	buffer_finish(&picture);

	memory_on_task(stage->registry, NULL, NULL);
	reconnect_and_list(stage, &outcome);
	cr_assert_eq(news.updates, 1);
	cr_assert_eq(news.deletions, 1);
	cache_unobserve(&observer);
}
