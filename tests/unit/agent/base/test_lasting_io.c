#include "agent/base/lasting_io.h"

#include <criterion/criterion.h>
#include <unistd.h>

static void count(void *context)
{
	++*(int *)context;
}

/* As libev does it when epoll_ctl() has failed. */
static void refuse(struct ev_loop *loop, ev_io *io)
{
	ev_io_stop(loop, io);
	ev_feed_event(loop, io, EV_ERROR | EV_READ | EV_WRITE);
}

Test(lasting_io, a_descriptor_that_the_kernel_refuses_is_watched_again)
{
	struct ev_loop *loop = ev_loop_new(EVFLAG_AUTO);
	struct lasting_io lasting;
	int pipe_fds[2];
	int calls = 0;
	cr_assert_eq(pipe(pipe_fds), 0);
	lasting_io_start(&lasting, loop, pipe_fds[0], "a pipe", count, &calls);
	refuse(loop, &lasting.io);
	ev_run(loop, EVRUN_NOWAIT);
	cr_assert_eq(calls, 0);
	cr_assert_not(ev_is_active(&lasting.io));

	cr_assert_eq(write(pipe_fds[1], "x", 1), 1);
	while (calls == 0) {
		ev_run(loop, EVRUN_ONCE);
	}
	lasting_io_stop(&lasting);
	cr_assert_not(ev_is_active(&lasting.io) || timer_runs(&lasting.retry));
	close(pipe_fds[0]);
	close(pipe_fds[1]);
	ev_loop_destroy(loop);
}

Test(lasting_io, a_descriptor_is_watched_at_once)
{
	struct ev_loop *loop = ev_loop_new(EVFLAG_AUTO);
	struct lasting_io lasting;
	int pipe_fds[2];
	int calls = 0;
	cr_assert_eq(pipe(pipe_fds), 0);
	cr_assert_eq(write(pipe_fds[1], "x", 1), 1);
	lasting_io_start(&lasting, loop, pipe_fds[0], "a pipe", count, &calls);
	ev_run(loop, EVRUN_NOWAIT);
	cr_assert_eq(calls, 1);
	lasting_io_stop(&lasting);
	close(pipe_fds[0]);
	close(pipe_fds[1]);
	ev_loop_destroy(loop);
}

Test(lasting_io, a_refused_descriptor_may_be_given_up)
{
	struct ev_loop *loop = ev_loop_new(EVFLAG_AUTO);
	struct lasting_io lasting;
	int calls = 0;
	lasting_io_start(&lasting, loop, STDIN_FILENO, "a pipe", count, &calls);
	refuse(loop, &lasting.io);
	ev_run(loop, EVRUN_NOWAIT);
	lasting_io_stop(&lasting);
	cr_assert_not(ev_run(loop, 0)); /* ends: nothing is active */
	cr_assert_eq(calls, 0);
	ev_loop_destroy(loop);
}
