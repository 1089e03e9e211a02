/* A reload: what is read again, what it changes, and what becomes of mistakes. */
#include "tests/unit/agent/life/life_stage.h"

static json_t *reload(struct life *life, const char *how)
{
	char target[64];
	snprintf(target, sizeof(target), "/v1/agent/reload%s", how);
	return life_ask(life, "POST", target, NULL);
}

static void reload_to(struct life *life, const char *text)
{
	life_configure(life, text);
	json_decref(reload(life, ""));
	cr_assert_str_eq(life->problem, "");
}

static bool check_runs(struct life *life, size_t index)
{
	json_t *checks = life_ask(life, "GET", "/v1/agent/checks", NULL);
	bool runs = json_is_true(json_object_get(json_array_get(checks, index), "running"));
	json_decref(checks);
	return runs;
}

static bool has_metric(struct life *life, const char *line)
{
	char *text = life_metrics(life);
	bool found = strstr(text, line) != NULL;
	free(text);
	return found;
}

LIFE(reload, an_agent_that_stops_does_not_read_it_again, "drain_delay = 1h\n" LIFE_COMPONENT("a"))
{
	static const char *const how[] = { "", "?dry_run=yes" };
	life_start(life, NULL);
	LIFE_UNTIL(life_is_ready(life));
	life_stand();
	cr_assert_eq(kill(life->pid, SIGTERM), 0);
	cr_expect_str_eq(life_told(life), "STOPPING=1");
	LIFE_UNTIL(strcmp(life_shows(life, "phase"), "\"lingering\"") == 0);
	for (size_t i = 0; i < 2; i++) {
		json_decref(reload(life, how[i]));
		cr_expect_not_null(
			strstr(life->problem, "the agent is stopping, and does not read it again"),
			"%s", life->problem);
		cr_expect_not_null(strstr(life->problem, "berth.ini"), "%s", life->problem);
		cr_expect_not_null(strstr(life->problem, "\"line\":0"), "%s", life->problem);
	}
	cr_expect_str_eq(life_last(life, "config"), "");
	life_pass(life, 3599);
	cr_expect_str_eq(life_shows(life, "phase"), "\"lingering\"");
	life_pass(life, 2);
	cr_expect_eq(life_wait(life), 0);
}

LIFE(reload, a_socket_that_was_removed_is_made_again, "")
{
	life_start(life, NULL);
	cr_assert_eq(unlink(life_path(life, "sock")), 0);
	cr_assert_eq(kill(life->pid, SIGHUP), 0);
	cr_expect_str_eq(life_told(life), "RELOADING=1");
	cr_expect_str_eq(life_told(life), "READY=1");
	cr_expect(life_has(life, "sock"));
	cr_expect_str_eq(life_last(life, "config"), "in force > reloaded (on request)");
}

/* ---- options that may change ---- */

#define SLEEPERS                                                                                   \
	LIFE_COMPONENT("a")                                                                        \
	"[check c]\ncommand = sleep 1000\ntimeout = 1000s\n[check d]\ncommand = sleep 1000\n"      \
	"timeout = 1000s\n"

LIFE(reload, more_checks_run_at_a_time, "max_parallel_checks = 1\n" SLEEPERS)
{
	life_start(life, NULL);
	LIFE_UNTIL(check_runs(life, 0) || check_runs(life, 1));
	cr_expect_not(check_runs(life, 0) && check_runs(life, 1));
	reload_to(life, "max_parallel_checks = 2\n" SLEEPERS);
	LIFE_UNTIL(check_runs(life, 0) && check_runs(life, 1));
	reload_to(life, LIFE_COMPONENT("a"));
	cr_expect_not(has_metric(life, "check=\"c\""));
}

LIFE(reload, a_new_component_is_drained_with_the_others, LIFE_COMPONENT("a"))
{
	life_start(life, NULL);
	LIFE_UNTIL(life_is_ready(life));
	json_decref(life_ask(life, "POST", "/v1/agent/drain", "{}"));
	LIFE_UNTIL(strcmp(life_shows(life, "drain.done"), "true") == 0);
	reload_to(life, LIFE_COMPONENT("a") LIFE_COMPONENT("b"));
	cr_expect_str_eq(life_shows(life, "components.1.registered"), "false");
	LIFE_UNTIL(strcmp(life_shows(life, "drain.done"), "true") == 0);
}

LIFE(reload, a_main_process_starts_again_from_then_on, "restart = never\n")
{
	char *const main_process[] = { "--", "sh", "-c", (char *)(uintptr_t) "exec sleep 1000",
		NULL };
	life_start(life, main_process);
	LIFE_UNTIL(strcmp(life_shows(life, "main_process.running"), "true") == 0);
	pid_t first = (pid_t)atoi(life_shows(life, "main_process.pid"));
	reload_to(life, "restart = always\n");
	cr_assert_eq(kill(first, SIGKILL), 0);
	LIFE_UNTIL(strncmp(life_last(life, "main process"), "running > restarting", 20) == 0);
	cr_expect(has_metric(life, "berth_main_process_restarts_total 1\n"));
	life_pass(life, 60);
	LIFE_UNTIL(strcmp(life_shows(life, "main_process.running"), "true") == 0);
	cr_expect_neq(atoi(life_shows(life, "main_process.pid")), first);
	cr_expect_eq(life_stop(life), 128 + SIGTERM);
}
