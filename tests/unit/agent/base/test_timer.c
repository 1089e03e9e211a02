#include "agent/base/timer.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <time.h>

#include "lib/base/clock.h"

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

static void begin(struct stage *stage)
{
	*stage = (struct stage){ .loop = ev_loop_new(EVFLAG_AUTO) };
	timer_init(&stage->timer, stage->loop, "a test", on_end, stage);
	cr_assert_not(timer_runs(&stage->timer));
	cr_assert_eq(timer_left_ms(&stage->timer), 0);
}

static void be_busy(int64_t for_ms)
{
	for (int64_t start = clock_monotonic_ms(); clock_monotonic_ms() - start < for_ms;) {
		nanosleep(&(struct timespec){ 0, 1000000 }, NULL);
	}
}

Test(timer, ends_once)
{
	struct stage stage;
	begin(&stage);
	timer_start(&stage.timer, 1);
	cr_assert(timer_runs(&stage.timer));
	ev_run(stage.loop, 0); /* returns: nothing is active any more */
	cr_assert_eq(stage.ends, 1);
	cr_assert_not(timer_runs(&stage.timer));
	ev_loop_destroy(stage.loop);
}

Test(timer, counts_from_its_start_however_long_the_iteration_has_taken)
{
	struct stage stage;
	begin(&stage);
	be_busy(60); /* libev's time is that of the loop's making */
	int64_t started_ms = clock_monotonic_ms();
	timer_start(&stage.timer, 50);
	ev_run(stage.loop, 0);
	cr_assert_geq(stage.ended_ms - started_ms, 49);
	ev_loop_destroy(stage.loop);
}

Test(timer, one_that_is_started_again_forgets_its_first_time)
{
	struct stage stage;
	begin(&stage);
	timer_start(&stage.timer, 3600 * 1000);
	timer_start(&stage.timer, 1);
	ev_run(stage.loop, 0);
	cr_assert_eq(stage.ends, 1);
	ev_loop_destroy(stage.loop);
}

Test(timer, may_start_itself_again)
{
	struct stage stage;
	begin(&stage);
	stage.again = 3;
	timer_start(&stage.timer, 0);
	ev_run(stage.loop, 0);
	cr_assert_eq(stage.ends, 4);
	ev_loop_destroy(stage.loop);
}

Test(timer, ends_in_the_next_iteration_when_its_time_is_over_already)
{
	struct stage stage;
	begin(&stage);
	timer_start(&stage.timer, -5000);
	cr_assert_eq(stage.ends, 0);
	ev_run(stage.loop, EVRUN_ONCE);
	cr_assert_eq(stage.ends, 1);
	ev_loop_destroy(stage.loop);
}

Test(timer, a_stopped_one_does_not_end)
{
	struct stage stage;
	begin(&stage);
	timer_start(&stage.timer, 0);
	timer_stop(&stage.timer);
	timer_stop(&stage.timer);
	cr_assert_not(ev_run(stage.loop, 0));
	cr_assert_eq(stage.ends, 0);
	ev_loop_destroy(stage.loop);
}

static void free_it(void *context)
{
	free(context);
}

Test(timer, may_be_freed_by_its_function)
{
	struct ev_loop *loop = ev_loop_new(EVFLAG_AUTO);
	struct timer *timer = malloc(sizeof(*timer));
	timer_init(timer, loop, "a test", free_it, timer);
	timer_start(timer, 0);
	cr_assert_not(ev_run(loop, 0));
	ev_loop_destroy(loop);
}

Test(timer, says_how_much_is_left)
{
	struct stage stage;
	begin(&stage);
	timer_start(&stage.timer, 3600 * 1000);
	int64_t left_ms = timer_left_ms(&stage.timer);
	cr_assert(left_ms > 0 && left_ms <= 3600 * 1000);
	timer_start(&stage.timer, 1);
	be_busy(3);
	cr_assert_eq(timer_left_ms(&stage.timer), 0, "it is late");
	timer_stop(&stage.timer);
	ev_loop_destroy(stage.loop);
}

Test(timer, the_rest_of_its_time_is_in_milliseconds)
{
	struct stage stage;
	begin(&stage);
	int64_t began_ms = clock_monotonic_ms();
	timer_start(&stage.timer, 3600000);
	int64_t left_ms = timer_left_ms(&stage.timer);
	cr_assert(left_ms > 1800000 && left_ms <= 3600000, "%lld", (long long)left_ms);
	timer_start(&stage.timer, 900);
	left_ms = timer_left_ms(&stage.timer);
	cr_assert(left_ms <= 900 && (left_ms > 0 || clock_monotonic_ms() - began_ms >= 900));
	timer_stop(&stage.timer);
	cr_assert_eq(timer_left_ms(&stage.timer), 0);
	ev_loop_destroy(stage.loop);
}
