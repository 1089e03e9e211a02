#include "agent/base/registry_loop.h"

#include <criterion/criterion.h>

#include "tests/support/memory_backend.h"
#include "tests/support/run_until.h"

static void count(void *context, const struct registry_result *result)
{
	(void)result;
	++*(int *)context;
}

Test(registry_loop, hears_the_registry_after_the_kernel_refused_to_watch_it)
{
	struct ev_loop *loop = ev_loop_new(EVFLAG_AUTO);
	struct registry *registry = memory_open("loop", &(struct registry_options){ 0 });
	struct registry_loop driver;
	int states = 0;
	registry_loop_init(&driver, loop, registry);
	/* As libev does it when epoll_ctl() has failed. */
	ev_io_stop(loop, &driver.io.io);
	ev_feed_event(loop, &driver.io.io, EV_ERROR | EV_READ | EV_WRITE);
	RUN_UNTIL(loop, registry_state(registry) == REGISTRY_CONNECTED);
	registry_watch(registry, "/a", REGISTRY_WATCH_DATA, count, &states);
	RUN_UNTIL(loop, states == 1);
	ev_feed_event(loop, &driver.io.retry, EV_TIMER); /* its time comes */
	memory_put(registry, "/a", "");
	RUN_UNTIL(loop, states == 2);
	registry_loop_finish(&driver);
	registry_close(registry);
	ev_loop_destroy(loop);
}
