#include "agent/base/registry_loop.h"

#include "lib/base/clock.h"

static void on_readable(void *context)
{
	struct registry_loop *driver = context;
	registry_dispatch(driver->registry, clock_monotonic_ms());
}

static void on_deadline(void *context)
{
	struct registry_loop *driver = context;
	driver->deadline_ms = INT64_MAX;
	registry_dispatch(driver->registry, clock_monotonic_ms());
}

/*
 * Any callback of this turn may have made a request, so the deadline is looked at just before the
 * loop sleeps. Most turns leave it as it is.
 */
static void on_prepare(struct ev_loop *loop, ev_prepare *prepare, int events)
{
	(void)loop;
	(void)events;
	struct registry_loop *driver = prepare->data;
	int64_t deadline_ms = registry_deadline_ms(driver->registry);
	bool late = deadline_ms != INT64_MAX && clock_monotonic_ms() > deadline_ms;
	/* The timer of a machine that was suspended would be late by that time. */
	if (deadline_ms == driver->deadline_ms && !late) {
		return;
	}
	driver->deadline_ms = deadline_ms;
	if (deadline_ms == INT64_MAX) {
		timer_stop(&driver->timer);
	} else {
		timer_start(&driver->timer, deadline_ms - clock_monotonic_ms());
	}
}

void registry_loop_init(
	struct registry_loop *driver, struct ev_loop *loop, struct registry *registry)
{
	driver->loop = loop;
	driver->registry = registry;
	driver->deadline_ms = INT64_MAX;
	timer_init(&driver->timer, loop, "registry", on_deadline, driver);
	ev_prepare_init(&driver->prepare, on_prepare);
	/* After every other: those may make requests too. */
	ev_set_priority(&driver->prepare, EV_MINPRI);
	driver->prepare.data = driver;
	lasting_io_start(
		&driver->io, loop, registry_fd(registry), "the registry", on_readable, driver);
	ev_prepare_start(loop, &driver->prepare);
}

void registry_loop_begin(struct registry_loop *driver)
{
	registry_dispatch(driver->registry, clock_monotonic_ms());
}

void registry_loop_finish(struct registry_loop *driver)
{
	lasting_io_stop(&driver->io);
	timer_stop(&driver->timer);
	ev_prepare_stop(driver->loop, &driver->prepare);
}
