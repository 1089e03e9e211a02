#include "agent/base/timer.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <time.h>

#include "lib/base/clock.h"
#include "tests/support/staged.h"

struct stage {
	struct ev_loop *loop;
	struct timer timer;
	int ends;
	int again; /* how often it starts itself once more */
	int64_t ended_ms;
};

static void on_end(void *context)
{
	struct stage *stage = context;
	cr_assert_not(timer_runs(&stage->timer));
	stage->ends++;
	stage->ended_ms = clock_monotonic_ms();
	if (stage->again > 0) {
		stage->again--;
		timer_start(&stage->timer, 1);
	}
}

static struct stage *begin(struct stage *stage)
{
	stage->loop = ev_loop_new(EVFLAG_AUTO);
	timer_init(&stage->timer, stage->loop, "a test", on_end, stage);
	cr_assert_not(timer_runs(&stage->timer));
	return stage;
}

static void end(struct stage *stage)
{
	cr_expect_not(ev_run(stage->loop, EVRUN_NOWAIT), "nothing is active");
	ev_loop_destroy(stage->loop);
}

#define STAGED(name)                                                                               \
	STAGED_TEST(timer, name, struct stage *, stage, begin(&(struct stage){ 0 }), end)

STAGED(counts_from_its_start_however_long_the_iteration_has_taken)
{
	nanosleep(&(struct timespec){ 0, 60000000 },
		NULL); /* libev's time is that of the loop's making */
	int64_t started_ms = clock_monotonic_ms();
	timer_start(&stage->timer, 50);
	ev_run(stage->loop, 0);
	cr_assert_eq(stage->ends, 1);
	cr_assert_geq(stage->ended_ms - started_ms, 49);
}

STAGED(one_that_is_started_again_or_stopped_forgets_its_first_time)
{
	timer_start(&stage->timer, 3600 * 1000);
	timer_start(&stage->timer, 1);
	ev_run(stage->loop, 0);
	cr_assert_eq(stage->ends, 1);
	timer_start(&stage->timer, 0);
	timer_stop(&stage->timer);
	timer_stop(&stage->timer);
	ev_run(stage->loop, EVRUN_NOWAIT);
	cr_assert_eq(stage->ends, 1);
}

STAGED(may_start_itself_again_and_ends_when_its_time_is_over_already)
{
	stage->again = 3;
	timer_start(&stage->timer, -5000);
	cr_assert_eq(stage->ends, 0, "not at once");
	ev_run(stage->loop, 0);
	cr_assert_eq(stage->ends, 4);
}

static void free_it(void *context)
{
	free(context);
}

STAGED(may_be_freed_by_its_function)
{
	struct timer *timer = malloc(sizeof(*timer));
	timer_init(timer, stage->loop, "a test", free_it, timer);
	timer_start(timer, 0);
	ev_run(stage->loop, 0);
}

STAGED(says_how_much_is_left_in_milliseconds)
{
	cr_assert_eq(timer_left_ms(&stage->timer), 0);
	timer_start(&stage->timer, 3600000);
	int64_t left_ms = timer_left_ms(&stage->timer);
	cr_assert(left_ms > 1800000 && left_ms <= 3600000, "%lld", (long long)left_ms);
	timer_start(&stage->timer, 1);
	nanosleep(&(struct timespec){ 0, 3000000 }, NULL);
	cr_assert_eq(timer_left_ms(&stage->timer), 0, "it is late");
	timer_stop(&stage->timer);
}
