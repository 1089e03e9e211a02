#include "agent/agent_signals.h"

#include <criterion/criterion.h>
#include <signal.h>

#include "agent/agent_internal.h"
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
	cr_assert(ev_is_active(&agent.signals.retry));
	raise(SIGHUP);
	ev_run(agent.loop, EVRUN_NOWAIT);
	cr_assert_eq(arrived, 0);
	ev_feed_event(agent.loop, &agent.signals.retry, EV_TIMER); /* its time comes */
	RUN_UNTIL(agent.loop, arrived == SIGHUP);
	lasting_io_stop(&agent.signals);
	ev_loop_destroy(agent.loop);
}
