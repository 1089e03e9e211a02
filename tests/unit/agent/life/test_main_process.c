/* The main process as the agent sees it: it comes and goes with the agent. */
#include "tests/unit/agent/life/life_stage.h"

static void start(struct life *life, const char *script)
{
	char *const main_process[] = { "--", "sh", "-c", (char *)(uintptr_t)script, NULL };
	life_start(life, main_process);
}

#define UNTIL_ENDED "while ! [ -e ended ]; do sleep 0.01; done; "

LIFE(main_process, its_end_is_that_of_the_agent, "drain_delay = 1h\n" LIFE_COMPONENT("a"))
{
	char script[SCRATCH_PATH + 128];
	snprintf(script, sizeof(script), "cd %s; " UNTIL_ENDED "exit 7", life->folder);
	start(life, script);
	LIFE_UNTIL(life_is_ready(life));
	life_write(life, "ended", "");
	cr_expect_eq(life_wait(life), 7);
	cr_expect(life_logs(life, "stopping: the main process has ended"));
	cr_expect(life_logs(life, "warn  main process: running -> stopped: "));
	cr_expect_not(life_logs(life, "staying for another"), "it serves no client any more");
}

LIFE(main_process, a_record_waits_for_it, "pre_start = false\n" LIFE_COMPONENT("a"))
{
	char *const main_process[] = { "--", "sleep", "1000", NULL };
	life_launch(life, main_process);
	cr_expect_neq(life_wait(life), 0);
	cr_expect(life_logs(life, "main process: starting -> stopped: "), "%s",
		life_read(life, "log"));
	cr_expect_not(life_logs(life, "component a: writing -> registered"));
}

/* ---- a stop ---- */

LIFE(main_process, its_end_ends_a_stop_that_waits, "drain_delay = 1h\n" LIFE_COMPONENT("a"))
{
	start(life, "exec sleep 1000");
	LIFE_UNTIL(life_is_ready(life));
	pid_t pid = (pid_t)atoi(life_shows(life, "main_process.pid"));
	cr_assert_eq(kill(life->pid, SIGTERM), 0);
	LIFE_UNTIL(strcmp(life_shows(life, "phase"), "\"lingering\"") == 0);
	cr_assert_eq(kill(pid, SIGKILL), 0);
	cr_expect_eq(life_wait(life), 128 + SIGKILL);
}

LIFE(main_process, a_stop_waits_for_its_end, "stop_timeout = 1h\n")
{
	char script[SCRATCH_PATH + 128];
	snprintf(script, sizeof(script),
		"cd %s; trap 'touch told' TERM; touch ready; " UNTIL_ENDED "exit 4", life->folder);
	start(life, script);
	LIFE_UNTIL(life_has(life, "ready"));
	cr_assert_eq(kill(life->pid, SIGTERM), 0);
	LIFE_UNTIL(life_has(life, "told"));
	cr_expect_str_eq(life_shows(life, "phase"), "\"stopping the main process\"");
	cr_assert_eq(kill(life->pid, SIGQUIT), 0);
	cr_assert_eq(kill(life->pid, SIGTERM), 0);
	LIFE_UNTIL(life_logs(life, "SIGTERM: already stopping"));
	cr_expect_str_eq(life_shows(life, "phase"), "\"stopping the main process\"");
	life_write(life, "ended", "");
	cr_expect_eq(life_wait(life), 4);
}

LIFE(main_process, an_agent_that_stops_does_not_start_it_again,
	"restart = always\ndrain_delay = 1h\n" LIFE_COMPONENT("a"))
{
	start(life, "exec sleep 1000");
	LIFE_UNTIL(life_is_ready(life));
	pid_t pid = (pid_t)atoi(life_shows(life, "main_process.pid"));
	cr_assert_eq(kill(life->pid, SIGTERM), 0);
	LIFE_UNTIL(strcmp(life_shows(life, "phase"), "\"lingering\"") == 0);
	cr_assert_eq(kill(pid, SIGKILL), 0);
	cr_expect_eq(life_wait(life), 128 + SIGKILL);
	cr_expect_not(life_logs(life, "restarting"));
}
