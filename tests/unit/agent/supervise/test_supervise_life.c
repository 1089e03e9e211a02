/* A main process from its start to its end: what is reported and logged, in which order. */
#include <criterion/criterion.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/base/log.h"
#include "agent/command/command.h"
#include "agent/supervise/supervise.h"
#include "tests/support/scratch.h"
#include "tests/support/shifted_clock.h"
#include "tests/support/staged.h"

/* libev's wall clock. */
int gettimeofday(struct timeval *restrict now, void *restrict zone)
{
	struct timespec precise;
	int ret = clock_gettime(CLOCK_REALTIME, &precise);
	(void)zone;
	now->tv_sec = precise.tv_sec;
	now->tv_usec = (suseconds_t)(precise.tv_nsec / 1000);
	return ret;
}

struct stage {
	struct ev_loop *loop;
	struct supervise *supervise;
	struct config_agent config;
	char log[SCRATCH_PATH];
	char events[1024]; /* "started exited(why,failed,again) over(0) " */
	int starts;
	int stop_at_start; /* the number of the start at which it is to stop */
	int status;
};

static void add(struct stage *stage, const char *event)
{
	size_t len = strlen(stage->events);
	snprintf(stage->events + len, sizeof(stage->events) - len, "%s ", event);
}

static void on_started(void *context, pid_t pid)
{
	struct stage *stage = context;
	cr_expect_eq(pid, supervise_pid(stage->supervise));
	cr_expect_eq(getpgid(pid), pid, "a group of its own");
	cr_expect_eq(getsid(pid), getsid(0), "in the agent's session, which has the terminal");
	add(stage, "started");
	if (++stage->starts == stage->stop_at_start) {
		supervise_stop(stage->supervise);
	}
}

static void on_exited(void *context, const char *why, bool failed, bool again)
{
	char text[256];
	snprintf(text, sizeof(text), "exited(%s%s%s)", why, failed ? ",failed" : "",
		again ? ",again" : "");
	add(context, text);
}

static void on_over(void *context, int status)
{
	struct stage *stage = context;
	char text[32];
	snprintf(text, sizeof(text), "over(%d)", status);
	add(stage, text);
	ev_break(stage->loop, EVBREAK_ALL);
}

static struct stage *open_stage(struct stage *stage)
{
	int fd = scratch_file(stage->log);
	cr_assert_geq(dup2(fd, STDERR_FILENO), 0);
	close(fd);
	log_set(LOG_LEVEL_INFO, false);
	stage->loop = ev_default_loop(EVFLAG_AUTO);
	stage->config = (struct config_agent){
		.stop_timeout_ms = 60000, .stop_signal = SIGTERM, .hook_timeout_ms = 60000
	};
	return stage;
}

static void close_stage(struct stage *stage)
{
	if (stage->supervise) {
		supervise_signal(stage->supervise, SIGKILL);
	}
	supervise_destroy(stage->supervise);
	supervise_destroy(NULL);
	unlink(stage->log);
}

#define STAGED(name)                                                                               \
	STAGED_TEST(supervise_life, name, struct stage *, stage,                                   \
		open_stage(&(struct stage){ .loop = NULL }), close_stage)

static int start_program(struct stage *stage, char **argv)
{
	struct err err = ERR_INIT;
	struct supervise_limits limits;
	const struct supervise_callbacks callbacks = { on_started, on_exited, on_over, stage };
	getrlimit(RLIMIT_CORE, &limits.core);
	getrlimit(RLIMIT_NOFILE, &limits.files);
	stage->supervise = supervise_create(stage->loop, argv, &limits, &callbacks);
	supervise_set_policy(stage->supervise, &stage->config);
	stage->status = -1;
	int code = supervise_start(stage->supervise, &stage->status, &err);
	cr_expect_eq(code, err.code);
	return code;
}

static char *script[] = { "/bin/sh", "-c", NULL, NULL };

/* From the start of this shell script to the end. */
static const char *run(struct stage *stage, const char *text)
{
	script[2] = (char *)(uintptr_t)text;
	cr_assert_eq(start_program(stage, script), 0);
	ev_run(stage->loop, 0);
	return stage->events;
}

/* Some seconds pass, and what was to happen in them does. */
static void pass(const struct stage *stage, int seconds)
{
	clock_shift_ms += 1000 * seconds;
	for (int i = 0; i < 4; i++) {
		ev_run(stage->loop, EVRUN_NOWAIT);
	}
}

static void run_until_waiting(const struct stage *stage, int starts)
{
	while (stage->starts < starts || supervise_pid(stage->supervise)) {
		ev_run(stage->loop, EVRUN_ONCE);
	}
}

static bool has_logged(const struct stage *stage, const char *text)
{
	static char logged[65536];
	FILE *log = fopen(stage->log, "r");
	cr_assert(log);
	logged[fread(logged, 1, sizeof(logged) - 1, log)] = '\0';
	fclose(log);
	return strstr(logged, text) != NULL;
}

STAGED(an_end_is_reported_with_its_status)
{
	cr_expect_str_eq(run(stage, "exit 0"), "started exited(exit status 0) over(0) ");
	cr_expect_eq(supervise_pid(stage->supervise), 0);
	supervise_signal(stage->supervise, SIGTERM); /* is for nobody, not for ourselves */
}

STAGED(the_agents_own_refusal_of_names_is_not_handed_on)
{
	setenv("BERTH_NSS", "off", 1);
	cr_expect_str_eq(
		run(stage, "exit ${#BERTH_NSS}"), "started exited(exit status 0) over(0) ");
}

STAGED(a_status_other_than_0_is_a_failure)
{
	cr_expect_str_eq(run(stage, "exit 3"), "started exited(exit status 3,failed) over(3) ");
}

STAGED(a_signal_is_reported_as_a_shell_does)
{
	const char *events = run(stage, "kill -KILL $$");
	cr_expect(strstr(events, "over(137)"), "%s", events);
	cr_expect(strstr(events, "SIGKILL") || strstr(events, "signal 9"), "%s", events);
	cr_expect(strstr(events, ",failed)"), "%s", events);
}

STAGED(a_process_that_stands_still_has_not_ended)
{
	cr_expect_str_eq(run(stage,
				 "(sleep 0.3; kill -CONT $$; sleep 0.3; kill -KILL $$) & "
				 "kill -STOP $$; exec sleep 60"),
		"started exited(killed by SIGKILL,failed) over(137) ");
}

STAGED(a_program_that_cannot_run_has_the_status_of_a_shell)
{
	char *absent[] = { "/nowhere/program", NULL };
	cr_expect_eq(start_program(stage, absent), BERTH_FAILED);
	cr_expect_eq(stage->status, 127);
	supervise_destroy(stage->supervise);
	char *no_program[] = { "/etc/passwd", NULL };
	cr_expect_eq(start_program(stage, no_program), BERTH_FAILED);
	cr_expect_eq(stage->status, 126);
	cr_expect_str_empty(stage->events);
}

STAGED(the_rest_of_the_group_ends_with_the_process)
{
	int ends[2];
	char text[128];
	char byte;
	cr_assert_eq(pipe(ends), 0);
	snprintf(text, sizeof(text), "echo >&%d; sleep 1000 >&%d & exit 0", ends[1], ends[1]);
	run(stage, text);
	close(ends[1]);
	cr_expect_eq(read(ends[0], &byte, 1), 1, "it has the files of the agent's caller");
	cr_expect_eq(read(ends[0], &byte, 1), 0, "nobody has the pipe any more");
}

STAGED(a_failure_is_restarted_only_where_that_is_wanted)
{
	stage->config.restart = RESTART_ON_FAILURE;
	stage->config.restart_limit = 1;
	cr_expect_str_eq(run(stage, "exit 2"),
		"started exited(exit status 2,failed,again) "
		"started exited(exit status 2,failed) over(2) ");
	cr_expect(has_logged(stage, "it ended 2 times in a row: not started again"));
}

STAGED(a_good_end_is_no_failure)
{
	stage->config.restart = RESTART_ON_FAILURE;
	cr_expect_str_eq(run(stage, "exit 0"), "started exited(exit status 0) over(0) ");
}

STAGED(each_end_is_restarted_where_that_is_wanted)
{
	stage->config.restart = RESTART_ALWAYS;
	stage->config.restart_limit = 1;
	cr_expect_str_eq(run(stage, "exit 0"),
		"started exited(exit status 0,again) started exited(exit status 0) over(0) ");
}

STAGED(a_stop_ends_it_without_a_failure_and_without_a_restart)
{
	stage->config.restart = RESTART_ALWAYS;
	stage->stop_at_start = 1;
	run(stage, "sleep 1000");
	cr_expect(strstr(stage->events, "over(143)"), "%s", stage->events);
	cr_expect_null(strstr(stage->events, "failed"), "%s", stage->events);
	cr_expect_eq(stage->starts, 1);
}

STAGED(the_stop_signal_is_the_configured_one)
{
	stage->stop_at_start = 1;
	stage->config.stop_signal = SIGUSR1;
	run(stage, "sleep 1000");
	cr_expect(strstr(stage->events, "over(138)"), "%s", stage->events);
}

STAGED(a_process_that_does_not_stop_is_killed)
{
	stage->stop_at_start = 1;
	stage->config.stop_timeout_ms = 1;
	stage->config.stop_signal = SIGCONT; /* which ends nothing */
	run(stage, "while :; do sleep 1000; done");
	cr_expect(strstr(stage->events, "over(137)"), "%s", stage->events);
	cr_expect(has_logged(stage, "still runs 0.001 s after its stop signal: sending KILL"));
}

/* Before its first step it waits, or is to be started again. */
static void stop_soon(struct ev_loop *loop, ev_timer *timer, int events)
{
	(void)loop;
	(void)events;
	supervise_stop(timer->data);
}

STAGED(a_stop_while_it_waits_for_its_restart_is_a_good_end)
{
	ev_timer timer;
	stage->config.restart = RESTART_ALWAYS;
	stage->config.stop_timeout_ms = 1;
	script[2] = "exit 4";
	cr_assert_eq(start_program(stage, script), 0);
	while (!strstr(stage->events, "again")) {
		ev_run(stage->loop, EVRUN_ONCE);
	}
	ev_timer_init(&timer, stop_soon, 0., 0.);
	timer.data = stage->supervise;
	ev_timer_start(stage->loop, &timer);
	ev_run(stage->loop, 0);
	pass(stage, 60); /* and nothing begins afterwards */
	supervise_forbid_restart(stage->supervise);
	cr_expect_str_eq(stage->events, "started exited(exit status 4,failed,again) over(0) ");
}

STAGED(the_time_to_stop_ends_with_the_process)
{
	stage->stop_at_start = 1;
	run(stage, "sleep 1000");
	pass(stage, 120);
	cr_expect_str_eq(stage->events, "started exited(killed by SIGTERM) over(143) ");
}

STAGED(a_process_that_stands_still_is_stopped_all_the_same)
{
	char path[64];
	char state = 'R';
	script[2] = "kill -STOP $$; exec sleep 1000";
	cr_assert_eq(start_program(stage, script), 0);
	snprintf(path, sizeof(path), "/proc/%d/stat", (int)supervise_pid(stage->supervise));
	while (state != 'T') {
		FILE *file = fopen(path, "re");
		cr_assert_eq(fscanf(file, "%*d (%*[^)]) %c", &state), 1);
		fclose(file);
	}
	supervise_stop(stage->supervise);
	ev_run(stage->loop, 0);
	cr_expect_str_eq(stage->events, "started exited(killed by SIGTERM) over(143) ");
}

STAGED(the_pause_grows_and_a_good_run_begins_anew)
{
	enum { PAUSES_TO_THE_LONGEST = 7, LONGEST_S = 30, GOOD_S = 61 };
	stage->config.restart = RESTART_ALWAYS;
	script[2] = "exit 1";
	cr_assert_eq(start_program(stage, script), 0);
	for (int i = 1; i <= PAUSES_TO_THE_LONGEST; i++) {
		run_until_waiting(stage, i);
		pass(stage, LONGEST_S);
	}
	run_until_waiting(stage, PAUSES_TO_THE_LONGEST + 1);
	pass(stage, LONGEST_S / 6);
	cr_expect_eq(stage->starts, PAUSES_TO_THE_LONGEST + 1, "half of it at least");
	script[2] = "sleep 1000";
	stage->config.restart_limit = PAUSES_TO_THE_LONGEST + 1;
	pass(stage, LONGEST_S);
	cr_assert_eq(stage->starts, PAUSES_TO_THE_LONGEST + 2);
	pass(stage, GOOD_S);
	supervise_signal(stage->supervise, SIGKILL);
	run_until_waiting(stage, PAUSES_TO_THE_LONGEST + 2);
	pass(stage, 1);
	cr_expect_eq(stage->starts, PAUSES_TO_THE_LONGEST + 3);
}

STAGED(a_good_run_counts_no_earlier_failure)
{
	stage->config.restart = RESTART_ALWAYS;
	stage->config.restart_limit = 1;
	script[2] = "sleep 1000";
	cr_assert_eq(start_program(stage, script), 0);
	for (int i = 1; i <= 3; i++) {
		pass(stage, 61);
		supervise_signal(stage->supervise, SIGKILL);
		run_until_waiting(stage, i);
		pass(stage, 1);
		cr_expect_eq(stage->starts, i + 1);
	}
}

STAGED(a_program_that_is_gone_at_its_restart_is_the_end)
{
	char path[SCRATCH_PATH];
	static const char text[] = "#!/bin/sh\nrm \"$0\"\n";
	char *argv[] = { path, NULL };
	int fd = scratch_file(path);
	cr_assert_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	cr_assert_eq(fchmod(fd, 0700), 0);
	close(fd);
	stage->config.restart = RESTART_ALWAYS;
	stage->config.restart_limit = 1;
	cr_assert_eq(start_program(stage, argv), 0);
	run_until_waiting(stage, 1);
	clock_shift_ms += 1000;
	ev_run(stage->loop, 0);
	cr_expect(strstr(stage->events, "exited(cannot run "), "%s", stage->events);
	cr_expect(strstr(stage->events, ",failed) over(127) "), "%s", stage->events);
}

/* As it is when the agent is killed: the kernel sends the signal. */
STAGED(the_stop_signal_comes_when_the_agent_dies)
{
	int ends[2];
	char byte;
	int how = 0;
	cr_assert_eq(pipe(ends), 0);
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	pid_t agent = fork();
	if (agent == 0) {
		char text[64];
		stage->config.stop_signal = SIGUSR1;
		snprintf(text, sizeof(text), "echo >&%d; exec sleep 1000", ends[1]);
		script[2] = text;
		(void)start_program(stage, script);
		pause();
	}
	cr_assert_eq(read(ends[0], &byte, 1), 1);
	kill(agent, SIGKILL);
	cr_assert_eq(waitpid(agent, NULL, 0), agent);
	cr_assert_gt(waitpid(-1, &how, 0), 0);
	cr_expect_eq(WTERMSIG(how), SIGUSR1);
	close(ends[0]);
	close(ends[1]);
}

STAGED(a_stop_stays_one_when_restarts_are_forbidden_too)
{
	script[2] = "sleep 1000";
	cr_assert_eq(start_program(stage, script), 0);
	supervise_stop(stage->supervise);
	supervise_forbid_restart(stage->supervise);
	ev_run(stage->loop, 0);
	cr_expect_null(strstr(stage->events, "failed"), "%s", stage->events);
}

STAGED(no_restart_comes_once_it_is_forbidden)
{
	stage->config.restart = RESTART_ALWAYS;
	script[2] = "exit 4";
	cr_assert_eq(start_program(stage, script), 0);
	supervise_forbid_restart(stage->supervise);
	ev_run(stage->loop, 0);
	cr_expect_str_eq(stage->events, "started exited(exit status 4,failed) over(4) ");
}

/* ---- the commands before and after it ---- */

static char *hook_argv[] = { "/bin/sh", "-c", NULL, NULL };

static char **hook(const char *text)
{
	hook_argv[2] = (char *)(uintptr_t)text;
	return hook_argv;
}

STAGED(the_process_starts_behind_a_good_pre_start)
{
	char text[2 * SCRATCH_PATH];
	char file[SCRATCH_PATH];
	close(scratch_file(file));
	unlink(file);
	snprintf(text, sizeof(text), "echo a; echo prepared >%s; echo all is ready; echo", file);
	stage->config.pre_start_argv = hook(text);
	snprintf(text + strlen(text) + 1, SCRATCH_PATH, "test -s %s", file);
	cr_expect_str_eq(
		run(stage, text + strlen(text) + 1), "started exited(exit status 0) over(0) ");
	cr_expect(has_logged(stage, " info  pre_start: exit status 0: all is ready\n"));
	cr_expect_not(has_logged(stage, " warn "));
	unlink(file);
}

STAGED(a_pre_start_that_fails_is_the_end)
{
	stage->config.pre_start_argv = hook("echo no database; exit 7");
	cr_expect_str_eq(run(stage, "exit 0"), "exited(pre_start failed,failed) over(7) ");
	cr_expect(has_logged(stage, " warn  pre_start: exit status 7: no database"));
}

STAGED(a_pre_start_that_is_killed_has_the_status_of_its_signal)
{
	stage->config.pre_start_argv = hook("kill -TERM $$");
	cr_expect_str_eq(run(stage, "exit 0"), "exited(pre_start failed,failed) over(143) ");
}

STAGED(a_pre_start_that_takes_too_long_cannot_run)
{
	stage->config.pre_start_argv = hook("sleep 1000");
	stage->config.hook_timeout_ms = 10;
	cr_expect_str_eq(run(stage, "exit 0"), "exited(pre_start failed,failed) over(126) ");
	cr_expect(has_logged(stage, "timed out"));
}

STAGED(a_pre_start_that_does_not_exist_is_an_error_at_once)
{
	char *absent[] = { "/nowhere/hook", NULL };
	stage->config.pre_start_argv = absent;
	script[2] = "exit 0";
	cr_expect_eq(start_program(stage, script), BERTH_FAILED);
	cr_expect_eq(stage->status, 126);
	cr_expect(has_logged(stage, "/nowhere/hook"));
}

STAGED(a_program_that_is_absent_behind_pre_start_is_the_end)
{
	char *absent[] = { "/nowhere/program", NULL };
	stage->config.pre_start_argv = hook("exit 0");
	cr_assert_eq(start_program(stage, absent), 0);
	ev_run(stage->loop, 0);
	cr_expect(strstr(stage->events, "/nowhere/program"), "%s", stage->events);
	cr_expect(strstr(stage->events, "over(127)"), "%s", stage->events);
}

STAGED(a_stop_during_pre_start_starts_nothing)
{
	stage->config.pre_start_argv = hook("sleep 1000");
	script[2] = "exit 0";
	cr_assert_eq(start_program(stage, script), 0);
	supervise_stop(stage->supervise);
	supervise_stop(stage->supervise);
	cr_expect_str_eq(
		stage->events, "exited(the agent stops before pre_start has ended) over(0) ");
}

STAGED(post_stop_comes_between_the_end_and_its_report)
{
	char text[2 * SCRATCH_PATH];
	char file[SCRATCH_PATH];
	close(scratch_file(file));
	snprintf(text, sizeof(text), "rm %s; echo cleaned", file);
	stage->config.post_stop_argv = hook(text);
	cr_expect_str_eq(run(stage, "exit 5"), "started exited(exit status 5,failed) over(5) ");
	cr_expect_neq(access(file, F_OK), 0, "it has run before the report");
	cr_expect(has_logged(stage, "post_stop: exit status 0: cleaned"));
}

STAGED(a_stop_during_post_stop_waits_for_its_end)
{
	char path[SCRATCH_PATH];
	char text[2 * SCRATCH_PATH];
	close(scratch_file(path));
	snprintf(text, sizeof(text), "while test -e %s; do sleep 0.01; done", path);
	stage->config.post_stop_argv = hook(text);
	script[2] = "exit 5";
	cr_assert_eq(start_program(stage, script), 0);
	while (!strstr(stage->events, "exited")) {
		ev_run(stage->loop, EVRUN_ONCE);
	}
	supervise_stop(stage->supervise);
	cr_expect_null(strstr(stage->events, "over"), "%s", stage->events);
	unlink(path);
	ev_run(stage->loop, 0);
	pass(stage, 120);
	cr_expect_str_eq(stage->events, "started exited(exit status 5,failed) over(5) ");
	cr_expect(has_logged(stage, " info  post_stop: exit status 0\n"));
}

STAGED(the_last_words_of_a_hook_may_be_a_single_one)
{
	stage->config.post_stop_argv = hook("printf x");
	run(stage, "exit 0");
	cr_expect(has_logged(stage, " info  post_stop: exit status 0: x\n"));
}

STAGED(a_hook_under_way_ends_with_its_owner)
{
	stage->config.pre_start_argv = hook("sleep 1000");
	cr_assert_eq(start_program(stage, script), 0);
	supervise_destroy(stage->supervise);
	stage->supervise = NULL;
	cr_expect(command_wait_for_all(60000));
	cr_expect_str_empty(stage->events);
}

STAGED(a_post_stop_that_does_not_exist_holds_nothing_up)
{
	char *absent[] = { "/nowhere/hook", NULL };
	stage->config.post_stop_argv = absent;
	cr_expect_str_eq(run(stage, "exit 0"), "started exited(exit status 0) over(0) ");
	cr_expect(has_logged(stage, "/nowhere/hook"));
}

STAGED(an_adopted_process_is_watched_like_a_started_one)
{
	pid_t pid = fork();
	if (pid == 0) {
		setpgid(0, 0);
		_exit(6);
	}
	const struct supervise_callbacks callbacks = { on_started, on_exited, on_over, stage };
	struct supervise_limits limits;
	getrlimit(RLIMIT_CORE, &limits.core);
	getrlimit(RLIMIT_NOFILE, &limits.files);
	script[2] = "exit 0";
	stage->supervise = supervise_create(stage->loop, script, &limits, &callbacks);
	supervise_set_policy(stage->supervise, &stage->config);
	supervise_adopt(stage->supervise, pid);
	cr_expect_eq(supervise_pid(stage->supervise), pid);
	ev_run(stage->loop, 0);
	cr_expect_str_eq(stage->events, "exited(exit status 6,failed) over(6) ");
}

STAGED(one_that_is_destroyed_hears_of_nothing_more)
{
	script[2] = "exit 0";
	stage->config.pre_start_argv = hook("exit 0");
	cr_assert_eq(start_program(stage, script), 0);
	supervise_destroy(stage->supervise);
	stage->supervise = NULL;
	stage->config.pre_start_argv = NULL;
	cr_assert_eq(start_program(stage, script), 0);
	supervise_destroy(stage->supervise);
	stage->supervise = NULL;
	stage->events[0] = '\0';
	ev_run(stage->loop, EVRUN_NOWAIT);
	usleep(1);
	ev_run(stage->loop, EVRUN_NOWAIT);
	cr_expect_str_empty(stage->events);
}
