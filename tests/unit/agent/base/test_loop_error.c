#include "agent/base/loop_error.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <ev.h>
#include <signal.h>
#include <unistd.h>

#include "tests/support/failing.h"

static void count(struct ev_loop *loop, ev_io *io, int events)
{
	(void)loop;
	(void)events;
	++*(int *)io->data;
}

/* As libev does it after an event of a descriptor that is closed. */
Test(loop_error, the_kernel_gives_no_other_epoll_descriptor_at_once)
{
	struct ev_loop *loop = ev_loop_new(EVBACKEND_EPOLL);
	int ends[2];
	int calls = 0;
	ev_io io;
	loop_error_retry();
	cr_assert_eq(pipe(ends), 0);
	ev_io_init(&io, count, ends[0], EV_READ);
	io.data = &calls;
	ev_io_start(loop, &io);
	ev_run(loop, EVRUN_NOWAIT);

	ev_loop_fork(loop);
	failing_arm("epoll", 1, ENOMEM);
	ev_run(loop, EVRUN_NOWAIT);
	cr_assert(failing_disarm());
	cr_assert_eq(write(ends[1], "x", 1), 1);
	ev_run(loop, EVRUN_ONCE);
	cr_assert_eq(calls, 1);

	ev_io_stop(loop, &io);
	close(ends[0]);
	close(ends[1]);
	ev_loop_destroy(loop);
}

static void meet(int error)
{
	struct ev_loop *loop = ev_loop_new(EVBACKEND_EPOLL);
	loop_error_retry();
	failing_arm("epoll_wait", 1, error);
	ev_run(loop, EVRUN_NOWAIT);
}

Test(loop_error, a_descriptor_that_is_none_is_not_tried_for_ever, .signal = SIGABRT)
{
	meet(EBADF);
}

Test(loop_error, an_address_that_is_none_is_not_tried_for_ever, .signal = SIGABRT)
{
	meet(EFAULT);
}

Test(loop_error, a_mistake_is_not_tried_for_ever, .signal = SIGABRT)
{
	meet(EINVAL);
}
