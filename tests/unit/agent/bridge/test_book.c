/* Which container has which path, and what the disk knows of it. */
#include "agent/bridge/book.h"

#include <sys/time.h>

#include "lib/base/array.h"
#include "tests/support/shifted_clock.h"
#include "tests/unit/agent/bridge/bridge_stage.h"

static char *gate; /* a FIFO, while each child waits at this place for its other end */

int fsync(int fd)
{
	int at = gate ? open(gate, O_RDONLY | O_CLOEXEC) : -1;
	(void)fd;
	if (at >= 0) {
		close(at);
	}
	return 0;
}

/* libev's wall clock. */
int gettimeofday(struct timeval *restrict now, void *restrict zone)
{
	struct timespec precise;
	int ret = clock_gettime(CLOCK_REALTIME, &precise);
	(void)zone;
	now->tv_sec = precise.tv_sec;
	now->tv_usec = (suseconds_t)(precise.tv_nsec / 1000);
	return ret;
}

static struct bridge_stage *begin(struct bridge_stage *stage)
{
	return stage_open(stage, &(struct registry_options){ 0 });
}

#define BOOK_TEST(name)                                                                            \
	STAGED_TEST(bridge_book, name, struct bridge_stage *, stage,                               \
		begin(&(struct bridge_stage){ 0 }), stage_close)

static void wait_for_disk(const struct bridge_stage *stage)
{
	cr_assert(file_queue_wait(stage->files, 60000));
}

static void enter(const struct bridge_stage *stage, const char *path, const char *container)
{
	bridge_book_enter(stage->book, path, container);
	wait_for_disk(stage);
}

/* The container of a path in the file; "" without one. */
static const char *on_disk(const struct bridge_stage *stage, const char *path)
{
	static char text[64];
	json_t *paths = bridge_book_load(&stage->state);
	const char *container = json_string_value(
		json_object_get(json_object_get(paths, "paths"), path));
	snprintf(text, sizeof(text), "%s", container ? container : "");
	json_decref(paths);
	return text;
}

BOOK_TEST(a_path_is_entered_and_removed)
{
	cr_expect_null(bridge_book_find(stage->book, "/a"));
	enter(stage, "/a", "web-1");
	cr_expect_str_eq(bridge_book_find(stage->book, "/a"), "web-1");
	cr_expect_str_eq(on_disk(stage, "/a"), "web-1");
	cr_expect_eq(stage->saved, 1);
	cr_expect(bridge_book_is_saved(stage->book, "/a"));
	enter(stage, "/a", "web-2");
	cr_expect_str_eq(bridge_book_find(stage->book, "/a"), "web-2");
	cr_expect_str_eq(on_disk(stage, "/a"), "web-2");
	bridge_book_remove(stage->book, "/a");
	wait_for_disk(stage);
	cr_expect_null(bridge_book_find(stage->book, "/a"));
	cr_expect_str_eq(on_disk(stage, "/a"), "");
	cr_expect_eq(stage->saved, 3);
	bridge_book_remove(stage->book, "/a");
	wait_for_disk(stage);
	cr_expect_eq(stage->saved, 3, "nothing has changed");
}

BOOK_TEST(an_entry_during_a_save_is_saved_behind_it)
{
	bridge_book_enter(stage->book, "/a", "web-1");
	bridge_book_enter(stage->book, "/b", "web-2");
	cr_expect_not(bridge_book_is_saved(stage->book, "/a"));
	cr_expect_not(bridge_book_is_saved(stage->book, "/b"));
	RUN_UNTIL(stage->loop, stage->saved > 0);
	cr_expect(bridge_book_is_saved(stage->book, "/a"));
	cr_expect_not(bridge_book_is_saved(stage->book, "/b"));
	RUN_UNTIL(stage->loop, stage->saved > 1);
	cr_expect(bridge_book_is_saved(stage->book, "/b"));
	cr_expect_str_eq(on_disk(stage, "/b"), "web-2");
	wait_for_disk(stage);
	cr_expect_eq(stage->saved, 2);
}

BOOK_TEST(an_entry_during_a_save_is_saved_though_nobody_asks)
{
	bridge_book_enter(stage->book, "/a", "web-1");
	bridge_book_enter(stage->book, "/b", "web-2");
	wait_for_disk(stage);
	cr_expect_str_eq(on_disk(stage, "/b"), "web-2");
	cr_expect_eq(stage->saved, 2);
}

BOOK_TEST(a_book_that_cannot_be_read_or_written_is_told)
{
	int log = stage_begin_log();
	json_decref(bridge_book_load(&stage->state));
	enter(stage, "/a", "web-1");
	json_decref(bridge_book_load(&stage->state));
	cr_expect_eq(stage_logged(log, "bridge: the book"), 0);
	stage_put(stage, "state/bridge", "oops", 4);
	json_decref(bridge_book_load(&stage->state));
	cr_expect_eq(stage_logged(log, "the book cannot be read, an empty one is begun: "), 1);
	stage_remove(stage, "state");
	enter(stage, "/b", "web-1");
	cr_expect_eq(stage_logged(log, "the book is not saved; "), 1);
	enter(stage, "/c", "web-1");
	cr_expect_eq(stage_logged(log, "the book is not saved; "), 0, "once");
	cr_assert_eq(mkdir(stage_file(stage, "state"), 0700), 0);
	enter(stage, "/d", "web-1");
	cr_expect_eq(stage_logged(log, "the book is not saved; "), 0);
	close(log);
}

BOOK_TEST(the_disk_knows_a_path_of_this_container_alone)
{
	enter(stage, "/a", "web-1");
	bridge_book_enter(stage->book, "/a", "web-2");
	cr_expect_not(bridge_book_is_saved(stage->book, "/a"));
	wait_for_disk(stage);
	cr_expect(bridge_book_is_saved(stage->book, "/a"));
	cr_expect_eq(stage->saved, 2);
	cr_expect_not(bridge_book_is_saved(stage->book, "/none"));
	wait_for_disk(stage);
	cr_expect_eq(stage->saved, 3, "the question has begun a save");
}

BOOK_TEST(another_book_is_empty)
{
	static const char *const texts[] = {
		"{\"version\":2,\"paths\":{\"/a\":\"web-1\"}}",
		"{\"paths\":{\"/a\":\"web-1\"}}",
		"{\"version\":1,\"paths\":[\"/a\"]}",
		"{\"version\":1}",
	};
	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		json_t *document = json_loads(texts[i], 0, NULL);
		state_dir_save(&stage->state, "bridge", document, NULL, NULL);
		json_decref(document);
		wait_for_disk(stage);
		json_t *paths = bridge_book_load(&stage->state);
		cr_expect(json_is_object(paths), "%s", texts[i]);
		cr_expect_eq(json_object_size(json_object_get(paths, "paths")), 0, "%s", texts[i]);
		json_decref(paths);
	}
	stage_put(stage, "state/bridge", "oops", 4);
	json_t *paths = bridge_book_load(&stage->state);
	cr_expect_eq(json_object_size(json_object_get(paths, "paths")), 0);
	json_decref(paths);
}

BOOK_TEST(no_path_waits_for_a_disk_that_fails)
{
	stage_remove(stage, "state");
	bridge_book_enter(stage->book, "/a", "web-1");
	cr_expect_not(bridge_book_is_saved(stage->book, "/a"));
	RUN_UNTIL(stage->loop, stage->saved > 0);
	cr_expect(bridge_book_is_saved(stage->book, "/a"));
	cr_assert_eq(mkdir(stage_file(stage, "state"), 0700), 0);
	enter(stage, "/b", "web-1");
	cr_expect_str_eq(on_disk(stage, "/a"), "web-1");
	cr_expect_not(bridge_book_is_saved(stage->book, "/c"), "the disk is good again");
	wait_for_disk(stage);
}

BOOK_TEST(no_path_waits_for_a_disk_that_hangs)
{
	cr_assert_eq(mkfifo(stage_file(stage, "hangs"), 0600), 0);
	gate = strdup(stage_file(stage, "hangs"));
	bridge_book_enter(stage->book, "/a", "web-1");
	for (int i = 0; i < 5; i++) {
		ev_run(stage->loop, EVRUN_NOWAIT);
	}
	cr_expect_eq(stage->saved, 0);
	cr_expect_not(bridge_book_is_saved(stage->book, "/a"));
	clock_shift_ms += 2000;
	RUN_UNTIL(stage->loop, stage->saved > 0);
	cr_expect(bridge_book_is_saved(stage->book, "/a"));
	int held = open(gate, O_RDWR | O_CLOEXEC);
	unlink(gate);
	RUN_UNTIL(stage->loop, stage->saved > 1);
	cr_expect_str_eq(on_disk(stage, "/a"), "web-1");
	cr_expect_not(bridge_book_is_saved(stage->book, "/c"), "the disk goes on");
	wait_for_disk(stage);
	close(held);
	clock_shift_ms += 10000;
	for (int i = 0; i < 5; i++) {
		ev_run(stage->loop, EVRUN_NOWAIT);
	}
	cr_expect_not(bridge_book_is_saved(stage->book, "/d"), "nobody is impatient again");
	wait_for_disk(stage);
	free(gate);
	gate = NULL;
}
