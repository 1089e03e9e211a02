/* The saved cache: a start during an outage with a good and with a damaged one. */

#include <criterion/criterion.h>

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/array.h"
#include "lib/base/clock.h"
#include "tests/support/cache_stage.h"
#include "tests/support/file_stage.h"
#include "tests/support/memory_backend.h"
#include "tests/support/scratch.h"
#include "tests/support/staged.h"

static char folder[SCRATCH_PATH];

static void make_folder(void)
{
	scratch_folder(folder);
}

static void remove_folder(void)
{
	char file[SCRATCH_PATH + 16];
	snprintf(file, sizeof(file), "%s/cache", folder);
	unlink(file);
	rmdir(folder);
}

TestSuite(cache_snapshot, .init = make_folder, .fini = remove_folder);

/* A cache whose registry is away from the beginning. */
static struct cache_stage *open_away(struct cache_stage *stage)
{
	cache_stage_open(stage, &(struct cache_options){ .resync_ms = 600000 });
	memory_set_state(stage->registry, REGISTRY_AWAY);
	cache_stage_turn(stage);
	return stage;
}

#define STAGED(name)                                                                               \
	STAGED_TEST(cache_snapshot, name, struct cache_stage *, stage,                             \
		open_away(&(struct cache_stage){ 0 }), cache_stage_close)

static void load_text(struct cache_stage *stage, const char *text)
{
	struct err err = ERR_INIT;
	cr_assert_eq(state_file_write(folder, "cache", "cache", text, strlen(text), &err), 0, "%s",
		err.msg);
	cache_load(stage->cache, folder, NULL);
}

static void load_lines(struct cache_stage *stage, const char *lines)
{
	char text[2000];
	snprintf(text, sizeof(text), "3\ndir:/here\n%s", lines);
	load_text(stage, text);
}

static size_t entries(const struct cache_stage *stage)
{
	struct cache_stats stats;
	cache_get_stats(stage->cache, &stats);
	return stats.entries;
}

static void ask(struct cache_stage *stage, struct cache_outcome *outcome, const char *path,
	enum cache_answer_kind kind)
{
	cr_assert_eq(cache_stage_ask(stage, outcome, path, kind, "", false), CACHE_READY, "%s",
		outcome->why);
	cr_assert_not(outcome->live);
}

/* ---- there and back ---- */

/* Saves a cache that knows the record of /a. */
static void save_record(void)
{
	struct cache_stage stage;
	struct cache_outcome outcome;
	struct err err = ERR_INIT;
	cache_stage_open(&stage, &(struct cache_options){ .resync_ms = 600000 });
	memory_put(stage.registry, "/a", cache_stage_record("one"));
	cr_assert_eq(cache_stage_look(&stage, &outcome, "/a", CACHE_RESOLVE), 0);
	cr_assert_eq(save_cache(stage.cache, folder, &err), 0, "%s", err.msg);
	cache_stage_close(&stage);
}

Test(cache_snapshot, of_another_registry_is_not_used)
{
	struct cache_stage stage;
	struct cache_outcome outcome;
	save_record();
	cache_stage_open_at(
		&stage, "dir:/elsewhere", &(struct cache_options){ .resync_ms = 600000 });
	memory_set_state(stage.registry, REGISTRY_AWAY);
	cache_stage_turn(&stage);
	cache_load(stage.cache, folder, NULL);
	cr_assert_eq(cache_stage_ask(&stage, &outcome, "/a", CACHE_RESOLVE, "", false),
		CACHE_UNAVAILABLE);
	cache_stage_close(&stage);
}

STAGED(a_known_entry_is_newer)
{
	struct cache_outcome outcome;
	memory_put(stage->registry, "/a", cache_stage_record("new"));
	memory_set_state(stage->registry, REGISTRY_CONNECTED);
	cache_stage_turn(stage);
	cr_assert_eq(cache_stage_look(stage, &outcome, "/a", CACHE_RESOLVE), 0);
	load_lines(stage, "[\"/a\",0,0,1,1,1,\"old\"]\n");
	cr_assert_eq(cache_stage_look(stage, &outcome, "/a", CACHE_RESOLVE), 0);
	cr_assert_str_eq(outcome.text, cache_stage_record("new"));
}

/* ---- a damaged file ---- */

#define GOOD "[\"/a\",0,0,1,1,1,\"\"]\n"

STAGED(a_malformed_line_is_left_out_and_the_others_are_taken)
{
	static const char *const bad[] = { "\n", "{}\n", "[]\n", "x\n", "[\"/b\",0,0,1,1,\"\"]\n",
		"[\"/b\",0,0,1,1,1,1]\n", "[\"/b\",0,0,1,1,1,[]]\n", "[\"/b\",0,0,1,1,1,null]\n",
		"[\"b\",0,0,1,1,1,\"\"]\n", "[\"/B\",0,0,1,1,1,\"\"]\n",
		"[\"/b\",0,1,1,1,1,\"\"]\n", "[\"/b\",2,0,1,1,1,\"\"]\n",
		"[\"/b\",-1,0,1,1,1,\"\"]\n", "[\"/b\",0,0,-1,1,1,\"\"]\n",
		"[\"/b\",0,0,1,1,-1,\"\"]\n", "[\"/b\",1,0,1,1,1,\"\"]\n",
		"[\"/b\",1,0,1,1,1,[1]]\n", "[\"/b\",1,0,1,1,1,[\"/b/x\",\"/c/x\"]]\n",
		"[\"/b\",1,0,1,1,1,[\"/b/x/y\"]]\n", "[\"/b\",1,0,1,1,1,[\"/b\"]]\n",
		"[\"/b\",1,0,1,1,1,[\"/b/X\"]]\n", "[\"/\",1,0,1,1,1,[\"/b/x\"]]\n" };
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct cache_stage other;
		char lines[300];
		open_away(&other);
		snprintf(lines, sizeof(lines), "%s" GOOD, bad[i]);
		load_lines(&other, lines);
		cr_assert_eq(entries(&other), 1, "%s", bad[i]);
		cache_stage_close(&other);
	}
	load_lines(stage,
		GOOD "[\"/b\",0,0,1,1,0,\"\"]\n[\"/\",1,0,1,1,1,[\"/a\",\"/b\"]]\n"
		     "[\"/b\",1,0,1,1,1,[]]\n[\"/c\",0,0,0,1,1,\"\"]\n"
		     "[\"/e\",0,0,1,1,3,\"a\\u0000b\"]\n[\"/f\",0,0,1,1,1,\"\"]\n"
		     "[\"/d\",0,0,1,1,1,\"cut off");
	cr_assert_eq(entries(stage), 7);
	cr_assert_eq(cache_stage_data(stage, "/e")->data_len, 3);
}

STAGED(a_file_of_another_version_or_without_a_head_is_not_used)
{
	load_text(stage, "2\ndir:/here\n" GOOD);
	load_text(stage, "4\ndir:/here\n" GOOD);
	load_text(stage, "3\ndir:/hereafter\n" GOOD);
	load_text(stage, "3\ndir:/here");
	load_text(stage, "3");
	load_text(stage, "");
	cr_assert_eq(entries(stage), 0);
	load_text(stage, "3\ndir:/here\n" GOOD);
	cr_assert_eq(entries(stage), 1);
}

/* ---- ages ---- */

static const char *boot_id(void)
{
	static char boot[64];
	int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
	ssize_t len = read(fd, boot, sizeof(boot) - 1);
	cr_assert_gt(len, 0);
	close(fd);
	boot[strcspn(boot, "\n")] = '\0';
	return boot;
}

/* The age of an entry that was true at second 995, with these clocks in the file. */
static int64_t age_with(const char *boot, const char *wall, int64_t monotonic_ms)
{
	struct cache_stage stage;
	struct cache_outcome outcome;
	char lines[400];
	open_away(&stage);
	snprintf(lines, sizeof(lines),
		"{\"boot\":\"%s\",\"wall\":%s,\"monotonic_ms\":%lld}\n"
		"[\"/a\",0,0,995,1,1,\"\"]\n",
		boot, wall, (long long)monotonic_ms);
	load_lines(&stage, lines);
	ask(&stage, &outcome, "/a", CACHE_RESOLVE);
	cache_stage_close(&stage);
	return outcome.age_ms;
}

Test(cache_snapshot, ages_follow_the_monotonic_clock_until_the_next_boot)
{
	enum { AGE_MS = 25000, SLOW_MS = 600000 };
	int64_t now_ms = clock_monotonic_ms();
	int64_t age_ms = age_with(boot_id(), "1000.0", now_ms - AGE_MS + 5000);
	cr_assert(age_ms >= AGE_MS && age_ms < AGE_MS + SLOW_MS, "%lld", (long long)age_ms);
	age_ms = age_with(boot_id(), "0.0", now_ms - AGE_MS);
	cr_assert_lt(age_ms, SLOW_MS, "it became true behind the end: now");
	const int64_t by_wall_ms = INT64_C(1000) * 1000 * 1000 * 1000;
	cr_assert_gt(age_with("another", "1000.0", now_ms - AGE_MS), by_wall_ms);
	cr_assert_gt(age_with(boot_id(), "-1.0", now_ms), by_wall_ms);
	cr_assert_lt(age_with(boot_id(), "-1.0", now_ms), 10 * by_wall_ms);
	cr_assert_lt(age_with(boot_id(), "1e12", now_ms), 10 * by_wall_ms);
	cr_assert_gt(age_with(boot_id(), "1000.0", -1), by_wall_ms);
	cr_assert_gt(age_with(boot_id(), "1000.0", now_ms + 3600 * 1000), by_wall_ms);
	cr_assert_gt(age_with(boot_id(), "null", now_ms), by_wall_ms);
}

STAGED(without_clocks_ages_follow_the_wall_clock)
{
	struct cache_outcome outcome;
	char lines[200];
	snprintf(lines, sizeof(lines),
		"[\"/a\",0,0,%.3f,1,1,\"\"]\n[\"/b\",0,0,100000000000,1,1,\"\"]\n",
		clock_wall_s() - 50);
	load_lines(stage, lines);
	ask(stage, &outcome, "/a", CACHE_RESOLVE);
	cr_assert(outcome.age_ms >= 49000 && outcome.age_ms < 650000);
	ask(stage, &outcome, "/b", CACHE_RESOLVE);
	cr_assert_lt(outcome.age_ms, 600000, "a time to come is now");
}

/* Loads the entries of a directory with two records, each with its age in seconds. */
static void load_directory(struct cache_stage *stage, const char *path, const int ages_s[4])
{
	char lines[600];
	double now_s = clock_wall_s();
	snprintf(lines, sizeof(lines),
		"[\"%s\",0,0,%.3f,1,1,\"\"]\n"
		"[\"%s\",1,0,%.3f,1,1,[\"%s/a\",\"%s/b\"]]\n"
		"[\"%s/a\",0,0,%.3f,1,1,\"{\\\"type\\\":\\\"JSONServiceRecord\\\"}\"]\n"
		"[\"%s/b\",0,0,%.3f,1,1,\"\"]\n",
		path, now_s - ages_s[0], path, now_s - ages_s[1], path, path, path,
		now_s - ages_s[2], path, now_s - ages_s[3]);
	load_lines(stage, lines);
}

static void check_age(
	struct cache_stage *stage, const char *path, enum cache_answer_kind kind, int64_t age_s)
{
	struct cache_outcome outcome;
	ask(stage, &outcome, path, kind);
	cr_expect(outcome.age_ms >= age_s * 1000 - 1 && outcome.age_ms < (age_s + 4000) * 1000,
		"%s, kind %d: %lld ms, not %lld s", path, (int)kind, (long long)outcome.age_ms,
		(long long)age_s);
}

STAGED(an_answer_of_what_was_saved_is_as_old_as_its_oldest_part)
{
	load_directory(stage, "/node", (const int[]){ 90000, 50000, 10, 10 });
	check_age(stage, "/node", CACHE_RESOLVE, 90000);
	check_age(stage, "/node", CACHE_LIST, 50000);
	check_age(stage, "/node", CACHE_STAT, 90000);
	check_age(stage, "/node", CACHE_RECORDS, 50000);
	check_age(stage, "/node", CACHE_ENDPOINTS, 90000);
	check_age(stage, "/node", CACHE_TARGETS, 90000);
	load_directory(stage, "/list", (const int[]){ 10, 70000, 50000, 10 });
	check_age(stage, "/list", CACHE_STAT, 70000);
	check_age(stage, "/list", CACHE_RECORDS, 70000);
	load_directory(stage, "/first", (const int[]){ 10, 50000, 70000, 10 });
	check_age(stage, "/first", CACHE_RECORDS, 70000);
	check_age(stage, "/first", CACHE_TARGETS, 70000);
	load_directory(stage, "/last", (const int[]){ 10, 50000, 20, 70000 });
	check_age(stage, "/last", CACHE_RECORDS, 70000);
}

/* One part of an answer that is too old is enough. */
Test(cache_snapshot, an_entry_that_is_older_than_max_stale_is_not_given)
{
	static const struct {
		const char *path;
		enum cache_answer_kind kind;
	} old[] = { { "/node", CACHE_RESOLVE }, { "/node", CACHE_STAT }, { "/list", CACHE_LIST },
		{ "/list", CACHE_STAT }, { "/list", CACHE_ENDPOINTS },
		{ "/child", CACHE_ENDPOINTS }, { "/child", CACHE_RECORDS } };
	struct cache_stage stage;
	struct cache_outcome outcome;
	cache_stage_open(
		&stage, &(struct cache_options){ .resync_ms = 600000, .max_stale_ms = 10000000 });
	memory_set_state(stage.registry, REGISTRY_AWAY);
	cache_stage_turn(&stage);
	load_directory(&stage, "/young", (const int[]){ 4000, 4000, 4000, 4000 });
	load_directory(&stage, "/node", (const int[]){ 20000, 10, 10, 10 });
	load_directory(&stage, "/list", (const int[]){ 10, 20000, 10, 10 });
	load_directory(&stage, "/child", (const int[]){ 10, 10, 10, 20000 });
	for (size_t i = 0; i < ARRAY_LEN(old); i++) {
		ask(&stage, &outcome, "/young", old[i].kind);
		cr_expect_eq(cache_stage_ask(&stage, &outcome, old[i].path, old[i].kind, "", false),
			CACHE_UNAVAILABLE, "%s, kind %d", old[i].path, (int)old[i].kind);
		cr_expect_not_null(strstr(outcome.why, "no later than max_stale allows"), "%s: %s",
			old[i].path, outcome.why);
	}
	ask(&stage, &outcome, "/node", CACHE_LIST);
	ask(&stage, &outcome, "/list", CACHE_RESOLVE);
	ask(&stage, &outcome, "/child/a", CACHE_RESOLVE);
	cache_stage_close(&stage);
}
