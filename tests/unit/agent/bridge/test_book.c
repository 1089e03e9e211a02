/* The book of paths, and its copy on the disk. */
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

static const char *container; /* of /a, whenever the book is saved */

static void on_save(void *context, json_t *document)
{
	(void)context;
	json_object_set_new(json_object_get(document, "paths"), "/a", json_string(container));
}

static struct bridge_stage *begin(struct bridge_stage *stage)
{
	stage_open(stage, &(struct registry_options){ 0 });
	bridge_book_open(stage->book, on_save, NULL);
	return stage;
}

#define BOOK_TEST(name)                                                                            \
	STAGED_TEST(bridge_book, name, struct bridge_stage *, stage,                               \
		begin(&(struct bridge_stage){ 0 }), stage_close)

static void wait_for_disk(const struct bridge_stage *stage)
{
	cr_assert(file_queue_wait(stage->files, 60000));
}

static uint64_t enter(const struct bridge_stage *stage, const char *name)
{
	container = name;
	return bridge_book_change(stage->book);
}

/* The container of /a in the file; "" without one. */
static const char *on_disk(const struct bridge_stage *stage)
{
	static char text[64];
	json_t *book = bridge_book_load(&stage->state);
	const char *found = json_string_value(
		json_object_get(json_object_get(book, "paths"), "/a"));
	snprintf(text, sizeof(text), "%s", found ? found : "");
	json_decref(book);
	return text;
}

BOOK_TEST(a_change_during_a_save_is_saved_behind_it)
{
	cr_expect(bridge_book_is_saved(stage->book, BRIDGE_BOOK_INHERITED));
	uint64_t first = enter(stage, "web-1");
	uint64_t second = enter(stage, "web-2");
	cr_expect_not(bridge_book_is_saved(stage->book, first));
	RUN_UNTIL(stage->loop, stage->saved > 0);
	cr_expect(bridge_book_is_saved(stage->book, first));
	cr_expect_not(bridge_book_is_saved(stage->book, second));
	wait_for_disk(stage);
	cr_expect(bridge_book_is_saved(stage->book, second));
	cr_expect_str_eq(on_disk(stage), "web-2");
	cr_expect_eq(stage->saved, 2);
}

BOOK_TEST(a_book_that_is_closed_saves_at_once_what_waits)
{
	container = "web-1";
	bridge_book_change_later(stage->book);
	bridge_book_close(stage->book);
	wait_for_disk(stage);
	cr_expect_str_eq(on_disk(stage), "web-1");
}

BOOK_TEST(a_book_that_cannot_be_read_or_written_is_told)
{
	int log = stage_begin_log();
	json_decref(bridge_book_load(&stage->state));
	(void)enter(stage, "web-1");
	wait_for_disk(stage);
	json_decref(bridge_book_load(&stage->state));
	cr_expect_eq(stage_logged(log, "bridge: the book"), 0);
	stage_put(stage, "state/bridge", "oops", 4);
	json_decref(bridge_book_load(&stage->state));
	cr_expect_eq(stage_logged(log, "the book cannot be read, an empty one is begun: "), 1);
	stage_remove(stage, "state");
	for (int i = 0; i < 2; i++) {
		(void)enter(stage, "web-2");
		wait_for_disk(stage);
	}
	cr_expect_eq(stage_logged(log, "the book is not saved; "), 1, "once");
	cr_assert_eq(mkdir(stage_file(stage, "state"), 0700), 0);
	(void)enter(stage, "web-3");
	wait_for_disk(stage);
	cr_expect_eq(stage_logged(log, "the book is not saved; "), 0);
	close(log);
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

BOOK_TEST(nothing_waits_for_a_disk_that_fails)
{
	stage_remove(stage, "state");
	uint64_t change = enter(stage, "web-1");
	cr_expect_not(bridge_book_is_saved(stage->book, change));
	RUN_UNTIL(stage->loop, stage->saved > 0);
	cr_expect(bridge_book_is_saved(stage->book, change));
	cr_assert_eq(mkdir(stage_file(stage, "state"), 0700), 0);
	(void)enter(stage, "web-2");
	wait_for_disk(stage);
	cr_expect_str_eq(on_disk(stage), "web-2");
	change = enter(stage, "web-3");
	cr_expect_not(bridge_book_is_saved(stage->book, change), "the disk is good again");
	wait_for_disk(stage);
}

BOOK_TEST(nothing_waits_for_a_disk_that_hangs)
{
	cr_assert_eq(mkfifo(stage_file(stage, "hangs"), 0600), 0);
	gate = strdup(stage_file(stage, "hangs"));
	uint64_t change = enter(stage, "web-1");
	for (int i = 0; i < 5; i++) {
		ev_run(stage->loop, EVRUN_NOWAIT);
	}
	cr_expect_eq(stage->saved, 0);
	cr_expect_not(bridge_book_is_saved(stage->book, change));
	clock_shift_ms += 2000;
	RUN_UNTIL(stage->loop, stage->saved > 0);
	cr_expect(bridge_book_is_saved(stage->book, change));
	int held = open(gate, O_RDWR | O_CLOEXEC);
	unlink(gate);
	RUN_UNTIL(stage->loop, stage->saved > 1);
	cr_expect_str_eq(on_disk(stage), "web-1");
	change = enter(stage, "web-2");
	cr_expect_not(bridge_book_is_saved(stage->book, change), "the disk goes on");
	wait_for_disk(stage);
	close(held);
	free(gate);
	gate = NULL;
}
