/*
 * USR2, at its end: what comes in the last turn of the loop before the new program is executed,
 * what ends before it, and which sockets go along.
 */
#include <limits.h>
#include <sys/auxv.h>

#include "tests/unit/agent/life/upgrade_stage.h"

/* ---- the last turn ---- */

static bool check_runs(struct life *life)
{
	json_t *checks = life_ask(life, "GET", "/v1/agent/checks", NULL);
	bool runs = json_is_true(json_object_get(json_array_get(checks, 0), "running"));
	json_decref(checks);
	return runs;
}

/* The agent's only check is this script. */
static void configure_check(struct life *life, const char *agent, const char *check)
{
	char text[SCRATCH_PATH + 256];
	snprintf(text, sizeof(text), "cd %s\n%s\n", life->folder, check);
	life_write(life, "check", text);
	snprintf(text, sizeof(text),
		"%s" LIFE_COMPONENT("a") LIFE_COMPONENT(
			"b") "[check c]\ncomponent = b\ncommand = sh %s\ntimeout = 1h\n"
			     "interval = 1h\n",
		agent, life_path(life, "check"));
	life_configure(life, text);
}

#define UNTIL_GO "while ! [ -e go ]; do sleep 0.01; done"

static void expect_sleep(struct life *life)
{
	turn->sleeps = false;
	LIFE_UNTIL((json_decref(life_ask(life, "GET", "/live", NULL)), turn->sleeps));
	cr_expect_not(turn->sleeps_deaf, "it sleeps while signals are blocked");
}

static void expect_answer(int connection, const char *part)
{
	char text[4096];
	ssize_t len = recv(connection, text, sizeof(text) - 1, 0);
	text[len > 0 ? len : 0] = '\0';
	cr_expect_not_null(strstr(text, part), "%s", text);
	close(connection);
}

LIFE(upgrade_end, a_request_of_the_last_turn_is_answered_first, "")
{
	watch_turns();
	install(life, "");
	configure_check(life, "", UNTIL_GO);
	life_start(life, NULL);
	LIFE_UNTIL(check_runs(life));
	ask_for_last_turn(life);
	int request = open_connection(life, RUN_CHECK);
	life_stand();
	turn->step = TURN_LOOSE;
	for (int i = 0; i < 20; i++) {
		cr_assert(check_runs(life));
	}
	expect_sleep(life);
	cr_expect_not(life_has(life, "document"));
	life_write(life, "go", "");
	expect_answer(request, "HTTP/1.1 200 OK\r\n");
	json_decref(upgraded(life));
	cr_expect(turn->blocks, "signals wait for the successor again");
	cr_expect_not(turn->sleeps_deaf, "signals arrived meanwhile");
}

LIFE(upgrade_end, an_agent_that_stays_after_all_sleeps_and_hears_signals, "")
{
	watch_turns();
	install(life, "");
	life_start(life, NULL);
	ask_for_last_turn(life);
	life_configure(life, "nonsense = 1\n");
	turn->step = TURN_LOOSE;
	expect_refusal(life, "the configuration has become bad: the old program stays");
	expect_sleep(life);
	life_pass(life, 20);
	life_pass(life, 20);
	cr_expect_not(life_logs(life, "the disk does not take our files"));
	cr_expect_eq(life_stop(life), 0);
}

LIFE(upgrade_end, a_stop_while_requests_are_waited_for_ends_it, "")
{
	watch_turns();
	install(life, "");
	configure_check(life, "drain_delay = 1h\n", UNTIL_GO);
	life_start(life, NULL);
	LIFE_UNTIL(check_runs(life));
	LIFE_UNTIL(strcmp(life_shows(life, "components.0.registered"), "true") == 0);
	ask_for_last_turn(life);
	int request = open_connection(life, RUN_CHECK);
	life_stand();
	turn->step = TURN_LOOSE;
	for (int i = 0; i < 20; i++) {
		cr_assert(check_runs(life));
	}
	cr_assert_eq(kill(life->pid, SIGTERM), 0);
	cr_expect_str_eq(life_told(life), "STOPPING=1");
	LIFE_UNTIL(strcmp(life_shows(life, "phase"), "\"lingering\"") == 0);
	life_write(life, "go", "");
	expect_answer(request, "HTTP/1.1 200 OK\r\n");
	cr_expect_str_eq(life_shows(life, "phase"), "\"lingering\"");
	expect_sleep(life);
	cr_assert_eq(kill(life->pid, SIGQUIT), 0);
	cr_expect_eq(life_wait(life), 0);
	cr_expect_not(life_has(life, "document"));
}

/* ---- the program that is executed ---- */

/* This program, executed as the new one, becomes the script. */
__attribute__((constructor)) static void become_script(int argc, char **argv)
{
	(void)argc;
	const char *path = getenv("LIFE_SCRIPT");
	if (path) {
		execve(path, argv, environ);
	}
}

/* ---- what ends, and what goes along ---- */
