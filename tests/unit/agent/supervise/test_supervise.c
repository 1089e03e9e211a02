#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <signal.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "agent/supervise/supervise.h"
#include "lib/base/clock.h"

enum { STOP_TIMEOUT_MS = 1000 };

static struct ev_loop *loop;
static struct supervise *supervise;
static int said; /* the process's output comes here */
static double stopped_at;
static int status_at_end = -1;

static void on_started(void *context, pid_t pid)
{
	(void)context;
	(void)pid;
}

static void on_exited(void *context, const char *why, bool failed, bool again)
{
	(void)context;
	cr_assert(ne(str, (char *)why, ""));
	cr_assert(not(failed), "it was asked to stop");
	cr_assert(not(again));
}

static void on_over(void *context, int status)
{
	(void)context;
	status_at_end = status;
	ev_break(loop, EVBREAK_ALL);
}

/* This turn of the loop is long before the process is to stop. */
static void stop_late_in_the_turn(struct ev_loop *timers_loop, ev_timer *timer, int events)
{
	(void)timers_loop;
	(void)timer;
	(void)events;
	char byte;
	cr_assert(eq(long, read(said, &byte, 1), 1));
	usleep((STOP_TIMEOUT_MS + 100) * 1000);
	stopped_at = clock_monotonic_s();
	supervise_stop(supervise);
}

Test(supervise, time_to_stop_begins_with_term)
{
	int pipe_fds[2];
	cr_assert(zero(int, pipe(pipe_fds)));
	said = pipe_fds[0];
	char script[128];
	snprintf(script, sizeof(script),
		"trap 'exit 5' TERM; echo >/dev/fd/%d; while :; do sleep 0.01; done", pipe_fds[1]);
	char *argv[] = { "/bin/sh", "-c", script, NULL };
	struct supervise_limits limits;
	getrlimit(RLIMIT_CORE, &limits.core);
	getrlimit(RLIMIT_NOFILE, &limits.files);
	const struct supervise_callbacks callbacks = { on_started, on_exited, on_over, NULL };
	const struct config_agent config = { .stop_timeout_ms = STOP_TIMEOUT_MS,
		.stop_signal = SIGTERM };
	loop = ev_default_loop(EVFLAG_AUTO);
	supervise = supervise_create(loop, argv, &limits, &callbacks);
	supervise_set_policy(supervise, &config);
	int status;
	struct err err = ERR_INIT;
	cr_assert(zero(int, supervise_start(supervise, &status, &err)));
	ev_timer timer;
	ev_timer_init(&timer, stop_late_in_the_turn, 0., 0.);
	ev_timer_start(loop, &timer);
	ev_run(loop, 0);
	/* A shell that does not come to its trap in all that time may be killed. */
	bool in_time = clock_monotonic_s() - stopped_at < STOP_TIMEOUT_MS / 1000.;
	cr_assert(eq(int, status_at_end, in_time ? 5 : status_at_end));
	supervise_destroy(supervise);
}
