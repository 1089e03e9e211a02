#include "agent/base/timer.h"

#include <math.h>

#include "agent/base/log.h"

static void on_timer(struct ev_loop *loop, ev_timer *watcher, int events)
{
	(void)loop;
	(void)events;
	struct timer *timer = watcher->data;
	log_debug("timer", "%s", timer->what);
	timer->on_end(timer->context);
}

void timer_init(struct timer *timer, struct ev_loop *loop, const char *what,
	void (*on_end)(void *context), void *context)
{
	ev_init(&timer->timer, on_timer);
	timer->timer.data = timer;
	timer->loop = loop;
	timer->what = what;
	timer->on_end = on_end;
	timer->context = context;
}

void timer_start(struct timer *timer, int64_t after_ms)
{
	ev_timer_stop(timer->loop, &timer->timer);
	ev_now_update(timer->loop);
	ev_timer_set(&timer->timer, after_ms > 0 ? (double)after_ms / 1000. : 0., 0.);
	ev_timer_start(timer->loop, &timer->timer);
}

void timer_stop(struct timer *timer)
{
	ev_timer_stop(timer->loop, &timer->timer);
}

bool timer_runs(const struct timer *timer)
{
	return ev_is_active(&timer->timer);
}

int64_t timer_left_ms(struct timer *timer)
{
	double left_s = 0;
	if (timer_runs(timer)) {
		ev_now_update(timer->loop);
		left_s = ev_timer_remaining(timer->loop, &timer->timer);
	}
	return left_s > 0 ? (int64_t)ceil(left_s * 1000.) : 0;
}
