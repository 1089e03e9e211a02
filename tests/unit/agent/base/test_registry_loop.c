#include "agent/base/registry_loop.h"

#include <criterion/criterion.h>
#include <time.h>
#include <unistd.h>

#include "lib/base/clock.h"
#include "lib/registry/internal.h"
#include "tests/support/clock_call.h"
#include "tests/support/memory_backend.h"
#include "tests/support/run_until.h"

/* The machine was suspended for so long: the clock of libev's timers has not noticed. */
static int64_t suspended_s;

int clock_gettime(clockid_t clock, struct timespec *now)
{
	int ret = (int)syscall(CLOCK_CALL, clock, now);
	now->tv_sec += clock == CLOCK_BOOTTIME ? suspended_s : 0;
	return ret;
}

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
	ev_feed_event(loop, &driver.io.retry.timer, EV_TIMER); /* its time comes */
	memory_put(registry, "/a", "");
	RUN_UNTIL(loop, states == 2);
	registry_loop_finish(&driver);
	cr_expect_not(ev_run(loop, EVRUN_NOWAIT), "nothing is active");
	registry_close(registry);
	ev_loop_destroy(loop);
}

Test(registry_loop, the_registry_is_heard_before_the_loop_runs)
{
	struct ev_loop *loop = ev_loop_new(EVFLAG_AUTO);
	struct registry *registry = memory_open("begin", &(struct registry_options){ 0 });
	struct registry_loop driver;
	registry_loop_init(&driver, loop, registry);
	cr_expect_neq(registry_state(registry), REGISTRY_CONNECTED);
	registry_loop_begin(&driver);
	cr_expect_eq(registry_state(registry), REGISTRY_CONNECTED);
	registry_loop_finish(&driver);
	cr_expect_not(ev_run(loop, EVRUN_NOWAIT), "nothing is active");
	registry_close(registry);
	ev_loop_destroy(loop);
}

/* A registry in memory that has to be called at a time; INT64_MAX: at none. */
static int64_t due_ms;

static int64_t due(const struct registry_backend *backend)
{
	(void)backend;
	return due_ms;
}

static void do_what_is_due(struct registry_backend *backend, int64_t now_ms)
{
	due_ms = now_ms >= due_ms ? INT64_MAX : due_ms;
	memory_ops.dispatch(backend, now_ms);
}

static struct registry *open_timed(const char *name)
{
	static struct registry_backend_ops ops;
	struct registry *registry;
	struct err err = ERR_INIT;
	ops = memory_ops;
	ops.deadline_ms = due;
	ops.dispatch = do_what_is_due;
	cr_assert_eq(registry_open_backend(&registry, &ops, name,
			     &(struct registry_options){ .url = "memory:timed" }, &err),
		0);
	return registry;
}

static void ask_later(struct ev_loop *loop, ev_prepare *prepare, int events)
{
	(void)loop;
	(void)events;
	due_ms = due_ms == INT64_MAX && prepare->data ? clock_monotonic_ms() + 1 : due_ms;
	prepare->data = NULL;
}

Test(registry_loop, does_what_is_due_in_its_time)
{
	struct ev_loop *loop = ev_loop_new(EVFLAG_AUTO);
	struct registry_loop driver;
	ev_prepare other;
	due_ms = INT64_MAX;
	struct registry *registry = open_timed("due");
	ev_prepare_init(&other, ask_later); /* it asks right before the loop sleeps */
	other.data = loop;
	ev_prepare_start(loop, &other);
	registry_loop_init(&driver, loop, registry);
	RUN_UNTIL(loop, !other.data && due_ms == INT64_MAX);
	due_ms = clock_monotonic_ms() + 2;
	RUN_UNTIL(loop, due_ms == INT64_MAX);
	due_ms = clock_monotonic_ms() + 600000;
	ev_run(loop, EVRUN_NOWAIT);
	ev_prepare_stop(loop, &other);
	registry_loop_finish(&driver);
	cr_expect_not(ev_run(loop, EVRUN_NOWAIT), "nothing is active");
	registry_close(registry);
	ev_loop_destroy(loop);
}

Test(registry_loop, does_what_became_due_while_the_machine_was_suspended)
{
	struct ev_loop *loop = ev_loop_new(EVFLAG_AUTO);
	struct registry_loop driver;
	due_ms = clock_monotonic_ms() + 600000;
	struct registry *registry = open_timed("suspended");
	registry_loop_init(&driver, loop, registry);
	for (int i = 0; i < 3; i++) {
		ev_run(loop, EVRUN_NOWAIT);
	}
	cr_assert_neq(due_ms, INT64_MAX);
	suspended_s = 3600;
	for (int i = 0; i < 3; i++) {
		ev_run(loop, EVRUN_NOWAIT); /* as when a client asks */
	}
	cr_assert_eq(due_ms, INT64_MAX);
	registry_loop_finish(&driver);
	cr_expect_not(ev_run(loop, EVRUN_NOWAIT), "nothing is active");
	registry_close(registry);
	ev_loop_destroy(loop);
}
