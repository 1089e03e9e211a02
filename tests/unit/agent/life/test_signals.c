#include "agent/life/signals.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/core/state.h"
#include "lib/base/array.h"
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
	cr_assert_eq(agent_signals_watch(&agent, false, on_signal, &err), 0, "%s", err.msg);
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
	cr_assert_eq(agent_signals_watch(&agent, false, on_signal, &err), 0, "%s", err.msg);
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

/* ---- which signals ---- */

static const int ours[] = { SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR2, SIGUSR1, SIGWINCH, SIGCHLD };

enum { OURS = ARRAY_LEN(ours) };

static bool is_ours(int signal_number)
{
	for (size_t i = 0; i < OURS; i++) {
		if (ours[i] == signal_number) {
			return true;
		}
	}
	return false;
}

enum { STANDARD_SIGNALS = 32 };

static int arrivals[STANDARD_SIGNALS];

static void count_arrival(struct agent *that, int signal_number)
{
	cr_assert_eq(that, &agent);
	arrivals[signal_number]++;
}

static void watch(void)
{
	struct err err = ERR_INIT;
	agent.loop = ev_default_loop(EVFLAG_AUTO);
	cr_assert_eq(agent_signals_watch(&agent, false, count_arrival, &err), 0, "%s", err.msg);
}

static void end(void)
{
	close(agent.signals.io.fd);
	lasting_io_stop(&agent.signals);
	ev_loop_destroy(agent.loop);
}

static void expect_blocked(bool blocked)
{
	sigset_t set;
	sigprocmask(SIG_BLOCK, NULL, &set);
	for (int number = 1; number < STANDARD_SIGNALS; number++) {
		if (number != SIGALRM) { /* the runner's own */
			cr_expect_eq(sigismember(&set, number) == 1, blocked && is_ours(number),
				"%d", number);
		}
	}
}

Test(signals, arrive_once_when_they_are_no_longer_blocked)
{
	agent_signals_block(false);
	expect_blocked(true);
	for (size_t i = 0; i < OURS; i++) {
		raise(ours[i]);
	}
	watch();
	expect_blocked(false);
	ev_run(agent.loop, EVRUN_NOWAIT);
	ev_run(agent.loop, EVRUN_NOWAIT);
	for (int number = 1; number < STANDARD_SIGNALS; number++) {
		cr_expect_eq(arrivals[number], is_ours(number) && number != SIGCHLD, "%d", number);
	}
	raise(SIGUSR2);
	ev_run(agent.loop, EVRUN_NOWAIT);
	cr_expect_eq(arrivals[SIGUSR2], 2);
	cr_expect_eq(arrivals[SIGUSR1], 1);
	agent_signals_block(false);
	expect_blocked(true);
	agent_signals_unblock();
	expect_blocked(false);
	end();
}

Test(signals, disturb_no_call_and_not_each_other)
{
	watch();
	for (size_t i = 0; i < OURS; i++) {
		struct sigaction action;
		sigaction(ours[i], NULL, &action);
		cr_expect(action.sa_flags & SA_RESTART);
		cr_expect_eq(sigismember(&action.sa_mask, SIGHUP), 1);
		cr_expect_eq(sigismember(&action.sa_mask, SIGVTALRM), 1);
	}
	int fd = agent.signals.io.fd;
	cr_expect(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	cr_expect(fcntl(fd, F_GETFL) & O_NONBLOCK);
	uint64_t count = UINT64_MAX - 1; /* it takes no more */
	cr_assert_eq(write(fd, &count, sizeof(count)), (ssize_t)sizeof(count));
	errno = ENOTTY;
	raise(SIGHUP);
	cr_expect_eq(errno, ENOTTY);
	ev_run(agent.loop, EVRUN_NOWAIT);
	cr_expect_eq(arrivals[SIGHUP], 1);
	ev_run(agent.loop, EVRUN_NOWAIT);
	cr_expect_lt(read(fd, &count, sizeof(count)), 0, "nothing wakes it any more");
	end();
}

static void note_end(struct ev_loop *loop, ev_child *child, int events)
{
	(void)events;
	*(int *)child->data = child->rstatus;
	ev_child_stop(loop, child);
}

Test(signals, a_child_that_ends_is_reaped)
{
	int status = -1;
	ev_child child;
	watch();
	agent_signals_block(false);
	pid_t pid = fork();
	if (pid == 0) {
		_exit(3);
	}
	ev_child_init(&child, note_end, pid, 0);
	child.data = &status;
	ev_child_start(agent.loop, &child);
	agent_signals_unblock();
	RUN_UNTIL(agent.loop, status != -1);
	cr_expect_eq(WEXITSTATUS(status), 3);
	cr_expect_eq(arrivals[SIGCHLD], 0);
	end();
}
