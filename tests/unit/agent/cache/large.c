/* Directories that are larger than the cache, or than one turn of the loop can bear. */

#include <criterion/criterion.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/cache/parts.h"
#include "tests/support/cache_stage.h"
#include "tests/support/memory_backend.h"
#include "tests/support/staged.h"

static struct cache_stage *open_stage(struct cache_stage *stage, size_t max_size_bytes)
{
	cache_stage_open(stage,
		&(struct cache_options){ .resync_ms = 600000, .max_size_bytes = max_size_bytes });
	return stage;
}

/* A test of a cache of that many KiB. */
#define STAGED(name, max_size_kib)                                                                 \
	STAGED_TEST(cache_large, name, struct cache_stage *, stage,                                \
		open_stage(&(struct cache_stage){ 0 }, (size_t)(max_size_kib)*1024),               \
		cache_stage_close)

enum { ROOMY_KIB = 8 * 1024 };

static void put_children(struct cache_stage *stage, int count)
{
	memory_put(stage->registry, "/d", "");
	for (int i = 0; i < count; i++) {
		char path[32];
		snprintf(path, sizeof(path), "/d/n%05d", i);
		memory_put(stage->registry, path, cache_stage_record(path));
	}
}

STAGED(a_directory_that_cannot_fit_is_refused_before_its_children_are_read, 512)
{
	struct cache_outcome outcome;
	put_children(stage, 3000);
	cr_assert_eq(cache_stage_look(stage, &outcome, "/d", CACHE_LIST), 0, "the list fits");
	struct cache_stats before;
	cache_get_stats(stage->cache, &before);
	cr_assert_eq(cache_stage_look(stage, &outcome, "/d", CACHE_RECORDS), BERTH_LIMIT_EXCEEDED);
	cr_assert_eq(
		cache_stage_look(stage, &outcome, "/d", CACHE_ENDPOINTS), BERTH_LIMIT_EXCEEDED);
	struct cache_stats after;
	cache_get_stats(stage->cache, &after);
	cr_assert_leq(after.loads - before.loads, 1, "the record of the directory itself");
	cr_assert_leq(after.paths, before.paths + 1);
}

/* Nothing of them is read but their names. */
STAGED(foreign_names_make_no_directory_too_large, 96)
{
	enum { NAMES = 800 };
	struct cache_outcome outcome;
	put_children(stage, 1);
	for (int i = 0; i < NAMES; i++) {
		char path[100];
		snprintf(path, sizeof(path), "/d/%060d-FOREIGN", i);
		memory_put(stage->registry, path, "");
	}
	cr_assert_eq(cache_stage_look(stage, &outcome, "/d", CACHE_RECORDS), 0);
	cr_assert_not_null(strstr(outcome.text, "\"/d/n00000\":{"));
}

static uint64_t loads(const struct cache_stage *stage)
{
	struct cache_stats stats;
	cache_get_stats(stage->cache, &stats);
	return stats.loads;
}

STAGED(a_list_that_does_not_fit_is_not_read_for_each_request, 64)
{
	struct cache_outcome outcome;
	const struct cache_options options = { .resync_ms = 600000, .max_size_bytes = 64 * 1024 };
	put_children(stage, 20000);
	cr_assert_eq(cache_stage_look(stage, &outcome, "/d", CACHE_RECORDS), BERTH_LIMIT_EXCEEDED);
	uint64_t before = loads(stage);
	for (int i = 0; i < 3; i++) {
		cr_assert_eq(cache_stage_look(stage, &outcome, "/d", CACHE_RECORDS),
			BERTH_LIMIT_EXCEEDED);
	}
	cr_assert_eq(loads(stage), before);
	cr_assert_eq(cache_stage_look(stage, &outcome, "/d", CACHE_LIST), 0, "a list has no limit");
	cache_set_options(stage->cache, &options);
	before = loads(stage);
	cr_assert_eq(cache_stage_look(stage, &outcome, "/d", CACHE_RECORDS), BERTH_LIMIT_EXCEEDED);
	cr_assert_eq(loads(stage), before + 1, "it may fit now");
}

STAGED(records_that_turn_out_too_large_end_the_lookup_and_not_the_others, 256)
{
	struct cache_outcome outcome;
	char *record = malloc(20001);
	memset(record, ' ', 20000);
	memcpy(record, "{\"type\":\"JSONServiceRecord\"}", 28);
	record[20000] = '\0';
	memory_put(stage->registry, "/d", "");
	for (int i = 0; i < 100; i++) {
		char path[32];
		snprintf(path, sizeof(path), "/d/n%d", i);
		memory_put(stage->registry, path, record);
	}
	free(record);
	memory_put(stage->registry, "/a", cache_stage_record("one"));
	struct cache_observer observer = { .scope = CACHE_TREE };
	cache_observe(stage->cache, "/a", &observer);
	cr_assert_eq(
		cache_stage_ask(stage, &outcome, "/d", CACHE_RECORDS, "", false), CACHE_WAITING);
	for (int i = 0; i < 100 && outcome.calls == 0; i++) {
		cache_stage_turn(stage);
	}
	cr_assert_eq(outcome.calls, 1);
	cr_assert_eq(outcome.code, BERTH_LIMIT_EXCEEDED);
	struct cache_stats stats;
	cache_get_stats(stage->cache, &stats);
	cr_assert_leq(stats.bytes, 256 * 1024, "what it had read went at once");
	cr_assert_eq(stats.refusals, 1);
	cr_assert_not_null(observer.node);
	cache_unobserve(&observer);
	cr_assert_eq(cache_stage_look(stage, &outcome, "/a", CACHE_RESOLVE), 0);
	cache_get_stats(stage->cache, &stats);
	cr_assert_leq(stats.bytes, 256 * 1024 + 64 * 20100);
	cache_stage_turn(stage);
	cache_get_stats(stage->cache, &stats);
	cr_assert_leq(stats.bytes, 256 * 1024);
}

/* Looks at /d, whose body may take many turns. */
static void look_for_long(
	struct cache_stage *stage, struct cache_outcome *outcome, enum cache_answer_kind kind)
{
	bool waits = cache_stage_ask(stage, outcome, "/d", kind, "", false) == CACHE_WAITING;
	for (int i = 0; waits && i < 1000 && outcome->calls == 0; i++) {
		cache_stage_turn(stage);
	}
	cr_assert(!waits || outcome->calls == 1);
}

STAGED(a_large_body_is_written_over_several_turns_and_is_complete, ROOMY_KIB)
{
	enum { CHILDREN = 1000 };
	struct cache_outcome outcome;
	put_children(stage, CHILDREN);
	cr_assert_eq(cache_stage_look(stage, &outcome, "/d", CACHE_LIST), 0);
	look_for_long(stage, &outcome, CACHE_ENDPOINTS);
	struct cache_query query = { .path = "/d",
		.kind = CACHE_ENDPOINTS,
		.filter = &(struct cache_filter){ .text = false },
		.max_age_ms = -1 };
	const struct cache_answer *answer = cache_find(stage->cache, &query);
	cr_assert_not_null(answer);
	json_t *found = json_loadb(answer->body, answer->len, 0, NULL);
	cr_assert_eq(json_array_size(found), CHILDREN);
	json_decref(found);

	/*
	 * Everything is there: another body of it takes more than one turn, and a change meanwhile
	 * does not begin it anew.
	 */
	cr_assert_eq(
		cache_stage_ask(stage, &outcome, "/d", CACHE_RECORDS, "", false), CACHE_WAITING);
	ev_run(stage->loop, EVRUN_NOWAIT);
	memory_put(stage->registry, "/d/n00000", cache_stage_record("changed"));
	registry_dispatch(stage->registry, 1);
	for (int turns = 0; outcome.calls == 0; turns++) {
		cr_assert_lt(turns, 20);
		ev_run(stage->loop, EVRUN_NOWAIT);
	}
	cr_assert_eq(outcome.code, 0);
	for (int i = 0; i < 20; i++) {
		cache_stage_turn(stage);
	}
	cr_assert_eq(cache_stage_look(stage, &outcome, "/d/n00000", CACHE_RESOLVE), 0);
	cr_assert_str_eq(outcome.text, cache_stage_record("changed"));
	look_for_long(stage, &outcome, CACHE_RECORDS);
	cr_assert_not_null(strstr(outcome.text, "changed"), "the next client gets it");
}

/* The body that is being written has the known ETag: its record has changed behind the writer. */
STAGED(a_change_behind_the_writer_of_a_body_wakes_who_waits_for_changes, ROOMY_KIB)
{
	struct cache_outcome outcome;
	char etag[CACHE_ETAG_BYTES];
	put_children(stage, 1000);
	look_for_long(stage, &outcome, CACHE_RECORDS);
	strcpy(etag, outcome.etag);
	memory_put(stage->registry, "/d/n00001", cache_stage_record("for a moment"));
	cache_stage_turn(stage);
	memory_put(stage->registry, "/d/n00001", cache_stage_record("/d/n00001"));
	cache_stage_turn(stage);
	cr_assert_eq(
		cache_stage_ask(stage, &outcome, "/d", CACHE_RECORDS, etag, false), CACHE_WAITING);
	memory_put(stage->registry, "/d/n00000", cache_stage_record("changed"));
	for (int i = 0; i < 100 && outcome.calls == 0; i++) {
		cache_stage_turn(stage);
	}
	cr_assert_eq(outcome.calls, 1);
	cr_assert_not_null(strstr(outcome.text, "changed"));
}

/* All of the directory is known, and a body of it is being written. */
static void begin_body(struct cache_stage *stage, struct cache_outcome *outcome)
{
	put_children(stage, 300);
	look_for_long(stage, outcome, CACHE_ENDPOINTS);
	cr_assert_eq(
		cache_stage_ask(stage, outcome, "/d", CACHE_RECORDS, "", false), CACHE_WAITING);
}

static void keep_body(void *context, struct cache_answer *answer, const struct err *err)
{
	(void)err;
	cr_assert_not_null(answer);
	buffer_append(context, answer->body, answer->len);
}

/* The new child is the first one that the body lacks, and waits to be read. */
STAGED(a_body_goes_on_behind_its_last_child_though_those_before_it_went, ROOMY_KIB)
{
	enum { CHILDREN = 300, WRITTEN = 128 };
	struct cache_outcome outcome;
	struct buffer body;
	begin_body(stage, &outcome);
	buffer_init(&body, SIZE_MAX);
	outcome.wait.on_answer = keep_body;
	outcome.wait.context = &body;
	for (int i = 0; i < WRITTEN - 1; i++) {
		char path[32];
		snprintf(path, sizeof(path), "/d/n%05d", i);
		memory_remove(stage->registry, path);
	}
	memory_put(stage->registry, "/d/n00127-more", cache_stage_record("more"));
	memory_be_late(stage->registry, "/d/n00127-more");
	registry_dispatch(stage->registry, 1);
	cache_stage_turn(stage);
	cr_assert_eq(body.len, 0);
	memory_answer_late(stage->registry);
	for (int i = 0; i < 10 && body.len == 0; i++) {
		cache_stage_turn(stage);
	}
	json_t *records = json_loadb(buffer_text(&body), body.len, JSON_REJECT_DUPLICATES, NULL);
	cr_assert_not_null(records);
	cr_expect_eq(json_object_size(records), CHILDREN + 1);
	cr_expect_not_null(json_object_get(records, "/d/n00127"));
	cr_expect_not_null(json_object_get(records, "/d/n00127-more"));
	json_decref(records);
	buffer_finish(&body);
}
