/*
 * Ten thousand runs of checks of every temper, and afterwards not a zombie, descriptor or megabyte
 * more than before.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/check/check.h"
#include "lib/base/array.h"
#include "tests/support/check_support.h"
#include "tests/support/descriptors.h"

enum { RUNS = 10000, WARM_UP_RUNS = 1000, RESIDENT_GROWTH_BYTES = 4 << 20 };

static const char *const scripts[] = {
	"exit 0", "echo fine", "exit 2", "kill -9 $$", "sleep 1000 & exit 1",
	"(setsid sleep 1000 &); exit 0", "head -c 100000 /dev/zero",
	"exec sleep 1000", /* until its timeout */
};
enum { CHECKS = 2 * ARRAY_LEN(scripts) };

static char *argvs[CHECKS][4];
static struct config_check configs[CHECKS];
static struct check *checks[CHECKS];
static int runs;
static int most_descriptors;
static long resident_after_warm_up;
static int failed;

static void on_result(void *context, struct check *check, const struct check_result *result)
{
	(void)context;
	(void)check;
	(void)result;
	runs++;
	int descriptors = descriptors_count();
	most_descriptors = descriptors > most_descriptors ? descriptors : most_descriptors;
	if (runs == WARM_UP_RUNS) {
		resident_after_warm_up = check_support_resident_bytes();
	}
}

static bool ran_enough(void *context)
{
	return runs >= *(int *)context;
}

static void say(bool good, int number, const char *what)
{
	printf("%s %d - %s\n", good ? "ok" : "not ok", number, what);
	failed += !good;
}

static void configure(int i)
{
	static char missing[] = "/no/such/command";
	configs[i] = check_support_script(argvs[i], scripts[i / 2]);
	check_support_pace(&configs[i], 1);
	configs[i].timeout_ms = i / 2 == CHECKS / 2 - 1 ? 100 : 30000;
	if (i == 1) {
		argvs[i][0] = missing;
	}
}

/* check_support_run_until() gives up after a while; so it runs by parts. */
static bool run_all(void)
{
	for (int part = 250; part <= RUNS; part += 250) {
		if (!check_support_run_until(ran_enough, &part)) {
			return false;
		}
	}
	return true;
}

int main(void)
{
	struct check_callbacks callbacks = { on_result, NULL, NULL, NULL };
	const struct check_component web = { "web", "/web" };
	struct check_scheduler *scheduler = check_scheduler_create(ev_default_loop(0), CHECKS / 2);
	check_support_be_subreaper();
	check_support_run_until_childless();
	/* The list of children is opened by the first run, and stays so. */
	int before = descriptors_count() + 1;
	for (int i = 0; i < CHECKS; i++) {
		configure(i);
		checks[i] = check_create(scheduler, &configs[i], &web, 1, &callbacks, NULL);
		check_start(checks[i], true);
	}
	printf("1..5\n");
	say(run_all(), 1, "ten thousand runs");
	long grown = check_support_resident_bytes() - resident_after_warm_up;
	for (int i = 0; i < CHECKS; i++) {
		check_destroy(checks[i]);
	}
	check_scheduler_destroy(scheduler);
	say(check_support_run_until_childless(), 2, "no process is left, dead or alive");
	say(descriptors_count() == before, 3, "no descriptor is left");
	say(most_descriptors <= before + CHECKS / 2, 4, "never more than one descriptor a run");
	say(grown < RESIDENT_GROWTH_BYTES, 5, "memory stays as it was");
	printf("# %d runs, at most %d descriptors above the %d at rest, %ld KiB grown\n", runs,
		most_descriptors - before, before, grown / 1024);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
