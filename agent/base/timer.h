/*
 * A time after which one function is called, once.
 *
 * libev counts from the beginning of the loop's iteration, which may have been long ago; a timer
 * here counts from the moment at which it is started. A timer that repeats is started again by its
 * function. With `level = debug` the log has a line for every timer that ends, so that an operator
 * finds what wakes an agent.
 */
#ifndef AGENT_BASE_TIMER_H
#define AGENT_BASE_TIMER_H

#include <ev.h>
#include <stdbool.h>
#include <stdint.h>

struct timer {
	ev_timer timer;
	struct ev_loop *loop;
	const char *what;
	void (*on_end)(void *context);
	void *context;
};

/*
 * Prepares a timer that does not run yet. The struct is the caller's memory and must not move while
 * the timer runs; `what` names it in the log and is borrowed. `on_end` may start the timer again,
 * or free it.
 */
void timer_init(struct timer *timer, struct ev_loop *loop, const char *what,
	void (*on_end)(void *context), void *context);
/* Lets it end in so many milliseconds from now, and no earlier; 0 or less: in the loop's next
 * iteration. A timer that runs is started anew. */
void timer_start(struct timer *timer, int64_t after_ms);
/* After it `on_end` is not called; stopping a timer that does not run is allowed. */
void timer_stop(struct timer *timer);
/* Whether it was started and has not ended: false in `on_end`. */
bool timer_runs(const struct timer *timer);
/* The milliseconds until it ends, 0 if it is late or does not run. */
int64_t timer_left_ms(struct timer *timer);

#endif
