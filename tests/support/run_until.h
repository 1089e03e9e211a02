/*
 * RUN_UNTIL(loop, condition) runs the loop until the condition holds, and fails the test when that
 * takes longer than any machine needs.
 */
#ifndef TESTS_SUPPORT_RUN_UNTIL_H
#define TESTS_SUPPORT_RUN_UNTIL_H

#include <criterion/criterion.h>
#include <ev.h>

static inline void run_until_gives_up(struct ev_loop *loop, ev_timer *timer, int events)
{
	(void)loop;
	(void)events;
	cr_assert(false, "not within a minute: %s", (const char *)timer->data);
}

#define RUN_UNTIL(loop, condition)                                                                 \
	do {                                                                                       \
		ev_timer patience;                                                                 \
		ev_timer_init(&patience, run_until_gives_up, 60.0, 0.0);                           \
		patience.data = (void *)(uintptr_t) #condition;                                    \
		ev_timer_start((loop), &patience);                                                 \
		while (!(condition)) {                                                             \
			ev_run((loop), EVRUN_ONCE);                                                \
		}                                                                                  \
		ev_timer_stop((loop), &patience);                                                  \
	} while (0)

#endif
