/*
 * 500 command checks at one run a second, compared with a bare posix_spawn() and waitpid() of the
 * same command: one after the other as fast as they go, and at the pace of the checks, where the
 * processor has gone to sleep and its caches are cold. The three take turns, so that the load of
 * the machine is the same for all; a row is the median of the rounds, and a ratio the agent's cost
 * to that of the row in the same round.
 *
 * Lateness is measured against each check's own grid of seconds, which begins at its most punctual
 * run.
 */
#include <math.h>
#include <spawn.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "agent/check/check.h"
#include "tests/support/check_support.h"

enum { CHECKS = 500, ROUNDS = 7, SECONDS = 4, RUNS_MAX = SECONDS + 2, BARE_RUNS = CHECKS };

/* Processor time of a run, in seconds. */
struct cost {
	double own; /* of the process that starts it */
	double all; /* with the child's */
};

struct round {
	struct cost bare, paced, agent;
};

static double starts[CHECKS][RUNS_MAX];
static int counts[CHECKS];
static double lateness[ROUNDS * CHECKS * RUNS_MAX];
static int lateness_count;
static char *command[] = { (char[]){ "/bin/true" }, NULL };

static double cpu_seconds(int who)
{
	struct rusage usage;
	getrusage(who, &usage);
	return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
		(double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

static struct cost spent(void)
{
	double own = cpu_seconds(RUSAGE_SELF);
	return (struct cost){ own, own + cpu_seconds(RUSAGE_CHILDREN) };
}

static struct cost each_since(struct cost before, int runs)
{
	struct cost now = spent();
	return (struct cost){ (now.own - before.own) / runs, (now.all - before.all) / runs };
}

static void run_bare(void)
{
	pid_t pid;
	int status;
	if (posix_spawn(&pid, command[0], NULL, NULL, command, environ) == 0) {
		waitpid(pid, &status, 0);
	}
}

static struct cost cost_of_bare(bool paced)
{
	struct cost before = spent();
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
	return each_since(before, BARE_RUNS);
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

/* Returns the number of runs. */
static int collect_lateness(void)
{
	int total = 0;
	for (int i = 0; i < CHECKS; i++) {
		double grid = HUGE_VAL;
		for (int run = 0; run < counts[i]; run++) {
			grid = fmin(grid, starts[i][run] - run);
		}
		for (int run = 0; run < counts[i]; run++) {
			lateness[lateness_count++] = starts[i][run] - run - grid;
		}
		total += counts[i];
		counts[i] = 0;
	}
	return total;
}

static int ascending(const void *a, const void *b)
{
	double left = *(const double *)a, right = *(const double *)b;
	return (left > right) - (left < right);
}

static struct cost cost_of_agent(struct ev_loop *loop)
{
	struct config_check config = check_support_config(CONFIG_CHECK_COMMAND);
	config.argv = command;
	check_support_pace(&config, 1000);
	struct check_scheduler *scheduler = check_scheduler_create(loop, 16);
	struct check *checks[CHECKS];
	const struct check_component web = { "web", "/web" };
	for (int i = 0; i < CHECKS; i++) {
		struct check_callbacks callbacks = { on_result, NULL, NULL, &starts[i] };
		checks[i] = check_create(scheduler, &config, &web, 1, &callbacks, NULL);
		check_start(checks[i], true);
	}
	ev_timer end;
	ev_timer_init(&end, on_end, SECONDS, 0.);
	ev_timer_start(loop, &end);
	struct cost before = spent();
	ev_run(loop, 0);
	struct cost cost = each_since(before, collect_lateness());
	for (int i = 0; i < CHECKS; i++) {
		check_destroy(checks[i]);
	}
	check_scheduler_destroy(scheduler);
	check_support_run_until_childless();
	return cost;
}

static double median(double values[ROUNDS])
{
	qsort(values, ROUNDS, sizeof(values[0]), ascending);
	return values[ROUNDS / 2];
}

static void report(const char *name, const struct round rounds[ROUNDS], size_t offset)
{
	double own[ROUNDS], all[ROUNDS], own_ratio[ROUNDS], all_ratio[ROUNDS];
	for (int i = 0; i < ROUNDS; i++) {
		const struct cost *cost =
			(const struct cost *)(const void *)((const char *)&rounds[i] + offset);
		own[i] = cost->own * 1e6;
		all[i] = cost->all * 1e6;
		own_ratio[i] = rounds[i].agent.own / cost->own;
		all_ratio[i] = rounds[i].agent.all / cost->all;
	}
	printf("%-28s %7.1f us %9.2f %10.1f us %9.2f\n", name, median(own), median(own_ratio),
		median(all), median(all_ratio));
}

int main(void)
{
	static struct round rounds[ROUNDS];
	struct ev_loop *loop = ev_default_loop(0);
	check_support_be_subreaper();
	for (int i = 0; i < ROUNDS; i++) {
		rounds[i].bare = cost_of_bare(false);
		rounds[i].paced = cost_of_bare(true);
		rounds[i].agent = cost_of_agent(loop);
	}
	qsort(lateness, (size_t)lateness_count, sizeof(lateness[0]), ascending);
	printf("%d checks at 1 s, %d rounds of %d s, %d runs of %s\n", CHECKS, ROUNDS, SECONDS,
		lateness_count, command[0]);
	printf("%-28s %10s %10s\n", "", "p50", "p99");
	printf("%-28s %7.2f ms %7.2f ms\n", "lateness", lateness[lateness_count / 2] * 1e3,
		lateness[lateness_count * 99 / 100] * 1e3);
	printf("%-28s %10s %9s %13s %9s\n", "processor time of a run", "own", "ratio", "with child",
		"ratio");
	report("bare, one by one", rounds, offsetof(struct round, bare));
	report("bare, at this pace", rounds, offsetof(struct round, paced));
	report("agent", rounds, offsetof(struct round, agent));
	return EXIT_SUCCESS;
}
