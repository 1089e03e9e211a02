/* Paths that are absent below what the cache follows: a list above them says so. */

#include <criterion/criterion.h>

#include <string.h>

#include "lib/base/array.h"
#include "lib/base/limits.h"
#include "tests/support/cache_stage.h"
#include "tests/support/memory_backend.h"
#include "tests/support/staged.h"

static char *const warm[] = { "/s/**", "/nothing/**" };

static struct cache_stage *open_stage(struct cache_stage *stage)
{
	cache_stage_open(stage,
		&(struct cache_options){ .resync_ms = 600000, .warm = warm, .warm_count = 2 });
	memory_put(stage->registry, "/s", "");
	memory_put(stage->registry, "/s/a", cache_stage_record("one"));
	memory_put(stage->registry, "/s/a/x", "");
	cache_stage_turn(stage);
	return stage;
}

#define STAGED(name)                                                                               \
	STAGED_TEST(cache_absent, name, struct cache_stage *, stage,                               \
		open_stage(&(struct cache_stage){ 0 }), cache_stage_close)

static void count_read(void *context, const struct registry_task *task, struct err *err)
{
	(void)task;
	(void)err;
	++*(int *)context;
}

static size_t paths_of(const struct cache_stage *stage)
{
	struct cache_stats stats;
	cache_get_stats(stage->cache, &stats);
	return stats.paths;
}

static void check_absent(
	struct cache_stage *stage, const char *path, enum cache_answer_kind kind, bool confirmed)
{
	struct cache_outcome outcome;
	enum cache_verdict verdict = cache_stage_ask(stage, &outcome, path, kind, "", false);
	cr_assert_eq(verdict, CACHE_READY, "%s: verdict %d", path, verdict);
	cr_assert_eq(outcome.code, BERTH_PATH_NOT_FOUND, "%s: %d", path, outcome.code);
	cr_assert_eq(outcome.confirmed, confirmed, "%s", path);
	cr_assert_not_null(strstr(outcome.why, path));
}

STAGED(it_is_a_hit_without_a_read_at_any_depth)
{
	static const char *const paths[] = { "/s/b", "/s/b/x", "/s/a/x/y", "/s/b/c/d/e", "/nothing",
		"/nothing/x", "/nothing/x/y" };
	static const enum cache_answer_kind kinds[] = { CACHE_RESOLVE, CACHE_LIST, CACHE_RECORDS,
		CACHE_ENDPOINTS, CACHE_STAT };
	size_t before = paths_of(stage);
	int reads = 0;
	memory_on_task(stage->registry, count_read, &reads);
	for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
		for (size_t kind = 0; kind < ARRAY_LEN(kinds); kind++) {
			check_absent(stage, paths[i], kinds[kind], true);
			cache_stage_turn(stage);
			check_absent(stage, paths[i], kinds[kind], true);
		}
	}
	cache_stage_turn(stage);
	cr_assert_eq(reads, 0);
	cr_assert_eq(paths_of(stage), before, "nothing is kept of them");
}

STAGED(the_list_of_the_root_says_so_too)
{
	struct cache_outcome outcome;
	cr_assert_eq(cache_stage_look(stage, &outcome, "/", CACHE_LIST), 0);
	check_absent(stage, "/t", CACHE_RESOLVE, true);
	check_absent(stage, "/t/x", CACHE_RESOLVE, true);
	cache_stage_turn(stage);
}

STAGED(the_longest_path_is_one_like_any_other)
{
	char path[LIMIT_PATH_BYTES + 1];
	memset(path, 'x', sizeof(path) - 1);
	memcpy(path, "/s/", 3);
	path[sizeof(path) - 1] = '\0';
	struct cache_outcome outcome;
	cr_assert_eq(cache_stage_ask(stage, &outcome, path, CACHE_RESOLVE, "", false), CACHE_READY);
	cr_assert_eq(outcome.code, BERTH_PATH_NOT_FOUND);
	cache_stage_turn(stage);
}

STAGED(it_is_found_when_it_comes)
{
	struct cache_outcome outcome;
	check_absent(stage, "/s/b/c", CACHE_RESOLVE, true);
	memory_put(stage->registry, "/s/b", "");
	memory_put(stage->registry, "/s/b/c", cache_stage_record("new"));
	cache_stage_turn(stage);
	cr_assert_eq(cache_stage_look(stage, &outcome, "/s/b/c", CACHE_RESOLVE), 0);
	cr_assert_str_eq(outcome.text, cache_stage_record("new"));
	memory_remove(stage->registry, "/s/b/c");
	cache_stage_turn(stage);
	check_absent(stage, "/s/b/c", CACHE_RESOLVE, true);
}

STAGED(a_client_that_waits_for_it_hears_when_it_comes)
{
	struct cache_outcome outcome;
	struct cache_outcome waiting;
	check_absent(stage, "/s/b/c", CACHE_RESOLVE, true);
	cache_stage_ask(stage, &outcome, "/s/b/c", CACHE_RESOLVE, "", false);
	cr_assert_eq(cache_stage_ask(stage, &waiting, "/s/b/c", CACHE_RESOLVE, outcome.etag, false),
		CACHE_WAITING);
	cache_stage_turn(stage);
	cr_assert_eq(waiting.calls, 0);
	memory_put(stage->registry, "/s/b", "");
	memory_put(stage->registry, "/s/b/c", cache_stage_record("new"));
	cache_stage_turn(stage);
	cr_assert_eq(waiting.calls, 1);
	cr_assert_str_eq(waiting.text, cache_stage_record("new"));
}

STAGED(while_the_registry_is_away_it_is_as_stale_as_the_list)
{
	memory_set_state(stage->registry, REGISTRY_AWAY);
	cache_stage_turn(stage);
	check_absent(stage, "/s/b/c", CACHE_RESOLVE, false);
	struct cache_outcome outcome;
	cr_assert_eq(cache_stage_ask(stage, &outcome, "/elsewhere", CACHE_RESOLVE, "", false),
		CACHE_UNAVAILABLE, "no list says anything of it");
}

STAGED(it_is_read_when_the_client_wants_a_read)
{
	struct cache_outcome outcome;
	cr_assert_eq(
		cache_stage_ask(stage, &outcome, "/s/b", CACHE_RESOLVE, "", true), CACHE_WAITING);
	cache_stage_turn(stage);
	cr_assert_eq(outcome.code, BERTH_PATH_NOT_FOUND);
}

/* Any ETag makes it a client that waits for changes, if the present answer is not another one. */
STAGED(it_is_read_when_the_client_waits_for_changes)
{
	struct cache_outcome outcome;
	cr_assert_eq(
		cache_stage_ask(stage, &outcome, "/s/b", CACHE_RESOLVE, "x", false), CACHE_WAITING);
	cache_stage_turn(stage);
	cr_assert_eq(outcome.calls, 1);
	cr_assert_eq(outcome.code, BERTH_PATH_NOT_FOUND);
}

STAGED(a_search_for_targets_finds_none)
{
	struct cache_outcome outcome;
	struct cache_filter any = { .text = false };
	cr_assert_eq(cache_stage_look_filtered(stage, &outcome, "/s/b/c", CACHE_TARGETS, &any), 0);
	cr_assert_str_eq(outcome.text, "[]\n");
}

/* Evaluations of names ask for several paths, and begin again when one has been read. */
static void forbid_lists(void *context, const struct registry_task *task, struct err *err)
{
	(void)context;
	if (task->operation == REGISTRY_OP_CHILDREN) {
		err_set(err, BERTH_NO_PATH_PERMISSIONS, "not for you");
	}
}

STAGED(a_value_that_no_list_contradicts_is_kept)
{
	struct cache_outcome outcome;
	memory_on_task(stage->registry, forbid_lists, NULL);
	memory_put(stage->registry, "/s/c", "");
	cache_stage_turn(stage);
	cr_assert_eq(
		cache_stage_look(stage, &outcome, "/s/b", CACHE_RESOLVE), BERTH_PATH_NOT_FOUND);
	check_absent(stage, "/s/b", CACHE_RESOLVE, true);
}

/* The list may come to name the path, so that the path itself is asked for. */
STAGED(a_list_that_is_about_to_be_read_again_does_not_count)
{
	struct cache_outcome outcome;
	memory_put(stage->registry, "/s/b", cache_stage_record("new"));
	registry_dispatch(stage->registry, stage->now_ms);
	cr_assert_eq(cache_stage_look(stage, &outcome, "/s/b", CACHE_RESOLVE), 0);
	cr_assert_str_eq(outcome.text, cache_stage_record("new"));
}
