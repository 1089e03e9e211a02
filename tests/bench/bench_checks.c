/*
 * 500 command checks at one run a second, compared with a bare posix_spawn() and waitpid() of the
 * same command in the same run: one after the other as fast as they go, and at the pace of the
 * checks, where the processor has gone to sleep and its caches are cold.
 *
 * Lateness is measured against each check's own grid of seconds, which begins at its most punctual
 * run.
 */
#include <math.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "agent/check/check.h"
#include "tests/support/check_support.h"

enum { CHECKS = 500, SECONDS = 20, RUNS_MAX = SECONDS + 2, BARE_RUNS = 2000 };

static double starts[CHECKS][RUNS_MAX];
static int counts[CHECKS];
static double lateness[CHECKS * RUNS_MAX];
static char *command[] = { (char[]){ "/bin/true" }, NULL };

static double cpu_seconds(void)
{
	struct rusage usage;
	getrusage(RUSAGE_SELF, &usage);
	return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
		(double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

static void run_bare(void)
{
	pid_t pid;
	int status;
	if (posix_spawn(&pid, command[0], NULL, NULL, command, environ) == 0) {
		waitpid(pid, &status, 0);
	}
}

static double bare_cpu_per_run(bool paced)
{
	double before = cpu_seconds();
	struct timespec due;
	clock_gettime(CLOCK_MONOTONIC, &due);
	for (int i = 0; i < BARE_RUNS; i++) {
		run_bare();
		if (paced) {
			due.tv_nsec += 1000000000 / CHECKS;
			due.tv_sec += due.tv_nsec / 1000000000;
			due.tv_nsec %= 1000000000;
			clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &due, NULL);
		}
	}
	return (cpu_seconds() - before) / BARE_RUNS;
}

static void on_result(void *context, struct check *check, const struct check_result *result)
{
	(void)check;
	int i = (int)((double(*)[RUNS_MAX])context - starts);
	if (counts[i] < RUNS_MAX) {
		starts[i][counts[i]++] = result->started;
	}
}

static void on_end(struct ev_loop *loop, ev_timer *watcher, int events)
{
	(void)watcher;
	(void)events;
	ev_break(loop, EVBREAK_ALL);
}

static int collect_lateness(void)
{
	int total = 0;
	for (int i = 0; i < CHECKS; i++) {
		double grid = HUGE_VAL;
		for (int run = 0; run < counts[i]; run++) {
			grid = fmin(grid, starts[i][run] - run);
		}
		for (int run = 0; run < counts[i]; run++) {
			lateness[total++] = starts[i][run] - run - grid;
		}
	}
	return total;
}

static int ascending(const void *a, const void *b)
{
	double left = *(const double *)a, right = *(const double *)b;
	return (left > right) - (left < right);
}

static double run_checks(struct ev_loop *loop)
{
	struct config_check config = check_support_config(CONFIG_CHECK_COMMAND);
	config.argv = command;
	check_support_pace(&config, 1000);
	struct check_scheduler *scheduler = check_scheduler_create(loop, 16);
	struct check *checks[CHECKS];
	const struct check_component web = { "web", "/web" };
	for (int i = 0; i < CHECKS; i++) {
		struct check_callbacks callbacks = { on_result, NULL, &starts[i] };
		checks[i] = check_create(scheduler, &config, &web, 1, &callbacks, NULL);
		check_start(checks[i], true);
	}
	ev_timer end;
	ev_timer_init(&end, on_end, SECONDS, 0.);
	ev_timer_start(loop, &end);
	double before = cpu_seconds();
	ev_run(loop, 0);
	double used = cpu_seconds() - before;
	for (int i = 0; i < CHECKS; i++) {
		check_destroy(checks[i]);
	}
	check_scheduler_destroy(scheduler);
	return used;
}

int main(void)
{
	struct ev_loop *loop = ev_default_loop(0);
	check_support_be_subreaper();
	double bare = bare_cpu_per_run(false);
	double paced = bare_cpu_per_run(true);
	double used = run_checks(loop);
	check_support_run_until_childless();
	bare = (bare + bare_cpu_per_run(false)) / 2;
	paced = (paced + bare_cpu_per_run(true)) / 2;

	int total = collect_lateness();
	qsort(lateness, (size_t)total, sizeof(lateness[0]), ascending);
	double each = used / total;
	printf("%d checks at 1 s for %d s, %d runs of %s\n", CHECKS, SECONDS, total, command[0]);
	printf("%-28s %10s %10s\n", "", "p50", "p99");
	printf("%-28s %7.2f ms %7.2f ms\n", "lateness", lateness[total / 2] * 1e3,
		lateness[total * 99 / 100] * 1e3);
	printf("%-28s %10s %22s\n", "", "a run", "agent, next to it");
	printf("%-28s %7.1f us %22.2f\n", "CPU, bare, one by one", bare * 1e6, each / bare);
	printf("%-28s %7.1f us %22.2f\n", "CPU, bare, at this pace", paced * 1e6, each / paced);
	printf("%-28s %7.1f us\n", "CPU, agent", each * 1e6);
	return EXIT_SUCCESS;
}
