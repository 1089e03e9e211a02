#include "agent/life/signals.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <signal.h>
#include <unistd.h>

#include "agent/core/state.h"
#include "tests/support/failing.h"
#include "tests/support/run_until.h"

static struct agent agent;
static int arrived;

static void on_signal(struct agent *that, int signal_number)
{
	cr_assert_eq(that, &agent);
	arrived = signal_number;
}

Test(signals, arrive_after_the_kernel_refused_to_watch_for_them)
{
	struct err err = ERR_INIT;
	agent.loop = ev_loop_new(EVFLAG_AUTO);
	cr_assert_eq(agent_signals_watch(&agent, on_signal, &err), 0, "%s", err.msg);
	/* As libev does it when epoll_ctl() has failed. */
	ev_io_stop(agent.loop, &agent.signals.io);
	ev_feed_event(agent.loop, &agent.signals.io, EV_ERROR | EV_READ | EV_WRITE);
	ev_run(agent.loop, EVRUN_NOWAIT);
	cr_assert(timer_runs(&agent.signals.retry));
	raise(SIGHUP);
	ev_run(agent.loop, EVRUN_NOWAIT);
	cr_assert_eq(arrived, 0);
	ev_feed_event(agent.loop, &agent.signals.retry.timer, EV_TIMER); /* its time comes */
	RUN_UNTIL(agent.loop, arrived == SIGHUP);
	lasting_io_stop(&agent.signals);
	ev_loop_destroy(agent.loop);
}

static void note_error(struct ev_loop *loop, ev_io *io, int events)
{
	(void)loop;
	*(int *)io->data = events;
}

static void note_time(struct ev_loop *loop, ev_timer *timer, int events)
{
	(void)loop;
	(void)events;
	*(bool *)timer->data = true;
}

Test(signals, wake_the_loop_when_the_kernel_refuses_a_descriptor)
{
	struct err err = ERR_INIT;
	int ends[2];
	int events = 0;
	bool late = false;
	ev_io io;
	ev_timer timer;
	agent.loop = ev_loop_new(EVFLAG_AUTO);
	cr_assert_eq(agent_signals_watch(&agent, on_signal, &err), 0, "%s", err.msg);
	ev_timer_init(&timer, note_time, 30., 0.);
	timer.data = &late;
	ev_timer_start(agent.loop, &timer);
	ev_run(agent.loop, EVRUN_NOWAIT);

	cr_assert_eq(pipe(ends), 0);
	ev_io_init(&io, note_error, ends[0], EV_READ);
	io.data = &events;
	ev_io_start(agent.loop, &io);
	failing_arm("epoll", 1, ENOSPC);
	ev_run(agent.loop, EVRUN_ONCE);
	cr_assert(failing_disarm());
	cr_assert(events & EV_ERROR);
	cr_assert_not(late, "it waited for the timer");

	ev_timer_stop(agent.loop, &timer);
	lasting_io_stop(&agent.signals);
	close(ends[0]);
	close(ends[1]);
	ev_loop_destroy(agent.loop);
}
