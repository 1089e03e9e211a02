/* Names answered from the cache. */
#include <criterion/criterion.h>

#include "agent/names/lookup.h"
#include "lib/base/clock.h"
#include "tests/support/cache_stage.h"
#include "tests/support/memory_backend.h"

TestSuite(names_lookup);

enum { CONFIRM_MS = 10000 };

static size_t tasks;

static void count_task(void *context, const struct registry_task *task, struct err *err)
{
	(void)context;
	(void)task;
	(void)err;
	tasks++;
}

static int answers;

static void on_answer(void *context, const struct names_view *view)
{
	(void)context;
	cr_expect_eq(view->answer->status, NAMES_FOUND);
	answers++;
}

/* Whether the name is answered at once, by lookups that have evaluated nothing before. */
static bool ask_anew(struct cache_stage *stage)
{
	struct names_lookups *lookups = names_lookups_create(stage->loop, stage->cache, "berth");
	struct names_wait wait = { .on_answer = on_answer };
	struct names_view view;
	bool is_answered = names_ask(lookups, "a.berth", &view, &wait);
	if (is_answered) {
		cr_expect_eq(view.answer->status, NAMES_FOUND);
		cr_expect_not(view.stale);
	}
	cache_stage_turn(stage);
	names_cancel(&wait);
	names_lookups_destroy(lookups);
	return is_answered;
}

/* The bound of a name's age is the cache's own: a question does not ask the server for less. */
Test(names_lookup, a_server_heard_lately_is_not_asked)
{
	struct cache_stage stage;
	cache_stage_open(
		&stage, &(struct cache_options){ .resync_ms = 600000, .confirm_ms = CONFIRM_MS });
	memory_put(stage.registry, "/a", cache_stage_record("one"));
	cr_assert_not(ask_anew(&stage), "it has to be read first");
	cr_assert_eq(answers, 1);
	memory_set_heard_ms(stage.registry, clock_monotonic_ms() - CONFIRM_MS * 9 / 20);
	cache_set_options(stage.cache,
		&(struct cache_options){ .resync_ms = 600000,
			.max_size_bytes = 1024 * 1024,
			.confirm_ms = CONFIRM_MS });
	memory_on_task(stage.registry, count_task, NULL);
	cr_expect(ask_anew(&stage));
	cr_expect_eq(tasks, 0);
	cache_stage_close(&stage);
}
