#include "tests/support/failing.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "tests/failures/points.h"
#include "tests/support/descriptors.h"

/* A sanitizer has a better eye for leaks, and its strdup() allocates past the counted malloc(). */
extern int __lsan_do_recoverable_leak_check(void) __attribute__((weak));

static bool sanitized(void)
{
	return __lsan_do_recoverable_leak_check != NULL;
}

enum { PATIENCE_MS = 10000 };

static struct points_page *page;

static void prepare(void)
{
	if (!page) {
		page = points_page_create("failing");
	}
}

static uint32_t number_of(const char *kind)
{
	uint32_t number = 0;
	while (strcmp(page->names[number], kind) != 0) {
		cr_assert(page->names[number][0], "there is no kind %s", kind);
		number++;
	}
	return number;
}

void failing_arm(const char *kind, uint64_t number, int error)
{
	prepare();
	uint32_t armed = number_of(kind);
	page->fired = 0;
	page->error = error;
	page->number = number;
	page->seen = 0;
	page->stack = 0;
	page->kind = armed;
}

void failing_behind_answer(void *next, int code, double duration_s)
{
	bool *wanted = next;
	(void)code;
	(void)duration_s;
	if (*wanted) {
		failing_arm("alloc", 1, ENOMEM);
		*wanted = false;
	}
}

static uint32_t paused = POINTS_NONE;

void failing_pause(void)
{
	prepare();
	paused = page->kind;
	page->kind = POINTS_NONE;
}

void failing_resume(void)
{
	prepare();
	page->kind = paused != POINTS_NONE ? paused : page->kind;
	paused = POINTS_NONE;
}

bool failing_disarm(void)
{
	prepare();
	page->kind = POINTS_NONE;
	return page->fired;
}

/* A thread of the test, such as a server, may close its end a little later. */
static bool has_closed(int descriptors)
{
	bool closed = descriptors_count() <= descriptors;
	for (int i = 0; i < PATIENCE_MS && !closed; i++) {
		poll(NULL, 0, 1);
		closed = descriptors_count() <= descriptors;
	}
	return closed;
}

/* The stack of the call that failed, for addr2line. */
static const char *place(void)
{
	static char text[POINTS_FRAMES_MAX * (POINTS_PLACE_BYTES + 1)];
	size_t len = 0;
	for (uint32_t i = 0; i < page->frame_count; i++) {
		len += (size_t)snprintf(text + len, sizeof(text) - len, "%s\n", page->frames[i]);
	}
	return text;
}

void failing_check(const char *what, const char *kind, int error, failing_work *work, void *context)
{
	/* libc and other libraries keep some of what they take: they take it now. */
	cr_assert_eq(work(context), 0, "%s", what);
	prepare();
	bool fired = true;
	for (int number = 1; fired; number++) {
		bool freed = false;
		/* A library that keeps memory for later keeps it once. */
		for (int i = 0; i < 2 && !freed; i++) {
			int descriptors = descriptors_count();
			int64_t memory = page->live;
			failing_arm(kind, (uint64_t)number, error);
			int code = work(context);
			fired = failing_disarm();
			freed = sanitized() || page->live == memory;
			bool good = code == 0 || (fired && code < 0);
			cr_assert(good, "%s: %d without %s %d, called at\n%s", what, code, kind,
				number, good ? "" : place());
			cr_assert(has_closed(descriptors), "%s: a descriptor is left without %s %d",
				what, kind, number);
		}
		cr_assert(freed, "%s: memory is left without %s %d", what, kind, number);
		cr_assert(fired || number > 1 || sanitized(), "%s makes no call of the kind %s",
			what, kind);
	}
}

void failing_check_memory(const char *what, failing_work *work, void *context)
{
	failing_check(what, "alloc", ENOMEM, work, context);
}
