#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <criterion/parameterized.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/command/command.h"
#include "agent/command/orphans.h"
#include "lib/base/array.h"
#include "lib/base/buffer.h"
#include "tests/support/check_support.h"
#include "tests/support/descriptors.h"
#include "tests/support/failing.h"
#include "tests/support/rights.h"

/* Health commands test the runner too; see tests/unit/agent/check/test_command.c. */

static struct ev_loop *loop;
static struct command_launch *launch;
static struct command_options options;
static struct buffer seen; /* all of stdout */
static enum command_end end;
static int status;
static char output[256], errors[256];
static bool output_cut, errors_cut;
static bool ended, gone;

static void on_output(void *context, const char *data, size_t len)
{
	(void)context;
	buffer_append(&seen, data, len);
}

static void on_end(void *context, const struct command_outcome *outcome)
{
	(void)context;
	cr_assert(not(ended));
	ended = true;
	end = outcome->end;
	status = outcome->status;
	snprintf(output, sizeof(output), "%.*s", (int)outcome->output_len, outcome->output);
	snprintf(errors, sizeof(errors), "%.*s", (int)outcome->errors_len, outcome->errors);
	output_cut = outcome->output_cut;
	errors_cut = outcome->errors_cut;
}

static void on_gone(void *context)
{
	(void)context;
	gone = true;
}

static const struct command_callbacks callbacks = { on_output, on_end, on_gone, NULL };

static void start(void)
{
	check_support_be_subreaper();
	loop = ev_default_loop(0);
	launch = command_launch_create(&(struct command_launch_options){ .user = "", .cwd = "" });
	options =
		(struct command_options){ .launch = launch, .output_max = 64, .timeout_ms = 60000 };
	buffer_init(&seen, 1 << 20);
}

static void finish(void)
{
	cr_assert(check_support_run_until_childless());
	command_launch_destroy(launch);
	buffer_finish(&seen);
}

TestSuite(command, .init = start, .fini = finish);

static struct command *begin(const char *script)
{
	static char *argv[] = { "/bin/sh", "-c", NULL, NULL };
	struct err err = ERR_INIT;
	argv[2] = (char *)script;
	options.argv = argv;
	ended = gone = false;
	struct command *command = command_start(loop, &options, &callbacks, &err);
	cr_assert(ne(ptr, command, NULL), "%s", err.msg);
	return command;
}

static void run(const char *script)
{
	begin(script);
	cr_assert(check_support_run_until_true(&gone));
	cr_assert(ended);
}

Test(command, reads_what_it_is_given)
{
	options.input = "one\ntwo\n";
	options.input_len = 8;
	run("sort -r; read more || echo end");
	cr_assert(eq(str, output, "two\none\nend\n"));
}

Test(command, need_not_read_what_it_is_given)
{
	static char much[1 << 20];
	options.input = much;
	options.input_len = sizeof(much);
	run("head -c 10 >/dev/null; exec true");
	cr_assert(eq(int, end, COMMAND_EXITED));
	cr_assert(eq(int, status, 0));
	run("wc -c");
	cr_assert(eq(str, output, "1048576\n"));
}

Test(command, an_empty_input_is_at_its_end)
{
	options.input = "";
	run("wc -c");
	cr_assert(eq(str, output, "0\n"));
}

Test(command, errors_are_separate_when_that_is_asked_for)
{
	options.separate_errors = true;
	run("echo out; echo err >&2; exit 3");
	cr_assert(eq(int, status, 3));
	cr_assert(eq(str, output, "out\n"));
	cr_assert(eq(str, errors, "err\n"));
	cr_assert(eq(str, (char *)buffer_text(&seen), "out\n"));
}

Test(command, the_first_bytes_are_kept_and_all_are_seen)
{
	options.separate_errors = true;
	run("head -c 100000 /dev/zero | tr '\\0' x; head -c 65 /dev/zero | tr '\\0' y >&2");
	cr_assert(eq(sz, strlen(output), 64));
	cr_assert(eq(sz, strlen(errors), 64));
	cr_assert(output_cut);
	cr_assert(errors_cut);
	cr_assert(eq(sz, seen.len, 100000));
}

Test(command, output_and_errors_are_read_while_it_runs)
{
	options.separate_errors = true;
	run("head -c 200000 /dev/zero >&2; head -c 200000 /dev/zero; echo done");
	cr_assert(eq(int, status, 0));
	cr_assert(eq(sz, seen.len, 200005));
	cr_assert(errors_cut);
}

Test(command, nothing_stays_open_behind_it)
{
	options.input = "input";
	options.input_len = 5;
	run("cat");
	int before = descriptors_count();
	for (int i = 0; i < 2; i++) {
		options.separate_errors = i == 1;
		run("cat >&2");
		cr_assert(eq(int, status, 0));
		cr_assert(eq(int, descriptors_count(), before));
	}
	options.input = NULL;
	run("cat");
	cr_assert(eq(int, descriptors_count(), before));
}

/* A start at which this call of a kind fails; the error's text. */
static const char *fail(const char *kind, uint64_t number, int error)
{
	static struct err err;
	static char *argv[] = { "/bin/true", NULL };
	options.argv = argv;
	err = (struct err)ERR_INIT;
	int before = descriptors_count();
	failing_arm(kind, number, error);
	struct command *command = command_start(loop, &options, &callbacks, &err);
	cr_assert(failing_disarm(), "%s %d", kind, (int)number);
	cr_assert(eq(ptr, command, NULL), "%s %d", kind, (int)number);
	cr_assert(eq(int, descriptors_count(), before));
	cr_assert(eq(int, err.code, BERTH_FAILED));
	return err.msg;
}

Test(command, a_start_that_fails_says_why_and_leaves_nothing)
{
	ended = false;
	options.separate_errors = true;
	options.input = "input";
	options.input_len = 5;
	cr_assert(eq(
		str, (char *)fail("pipe", 1, EMFILE), "cannot make a pipe: Too many open files"));
	cr_assert(eq(
		str, (char *)fail("pipe", 2, EMFILE), "cannot make a pipe: Too many open files"));
	cr_assert(eq(str, (char *)fail("write", 1, ENOSPC),
		"cannot make a pipe: No space left on device"));
	cr_assert(eq(str, (char *)fail("fork", 1, EAGAIN),
		"cannot start a process: Resource temporarily unavailable"));
	cr_assert(not(ended));
}

Test(command, output_as_long_as_the_limit_is_not_cut)
{
	run("head -c 64 /dev/zero");
	cr_assert(not(output_cut));
}

struct ending {
	char script[64];
	int timeout_ms;
	int end;
	char text[32];
};

ParameterizedTestParameters(command, the_end_has_a_name)
{
	static struct ending endings[] = {
		{ "exit 0", 60000, COMMAND_EXITED, "exit status 0" },
		{ "exit 255", 60000, COMMAND_EXITED, "exit status 255" },
		{ "kill -SEGV $$", 60000, COMMAND_KILLED, "killed by SIGSEGV" },
		{ "kill -KILL $$", 60000, COMMAND_KILLED, "killed by SIGKILL" },
		{ "kill -40 $$", 60000, COMMAND_KILLED, "killed by SIGRTMIN+6" },
		{ "sleep 1000", 100, COMMAND_TIMED_OUT, "" },
	};
	return cr_make_param_array(struct ending, endings, ARRAY_LEN(endings));
}

ParameterizedTest(struct ending *its, command, the_end_has_a_name)
{
	options.timeout_ms = its->timeout_ms;
	run(its->script);
	cr_assert(eq(int, end, its->end), "%s", its->script);
	if (end != COMMAND_TIMED_OUT) {
		char text[COMMAND_STATUS_BYTES];
		command_status_text(text, end, status);
		cr_assert(eq(str, text, its->text));
	}
}

static void relaunch(const struct command_launch_options *wanted)
{
	command_launch_destroy(launch);
	launch = command_launch_create(wanted);
	options.launch = launch;
}

Test(command, has_the_limits_that_were_asked_for)
{
	const struct command_limit limits[] = {
		{ RLIMIT_CORE, { 0, 0 } },
		{ RLIMIT_NOFILE, { 20, 20 } },
	};
	relaunch(&(struct command_launch_options){
		.user = "", .cwd = "", .limits = limits, .limit_count = 2 });
	run("ulimit -n; ulimit -Hn; ulimit -c");
	cr_assert(eq(str, output, "20\n20\n0\n"));
	struct rlimit ours;
	getrlimit(RLIMIT_NOFILE, &ours);
	cr_assert(ne(int, (int)ours.rlim_cur, 20), "the limit is the command's alone");
}

Test(command, cannot_gain_privileges_when_it_renounced_them)
{
	run("grep ^NoNewPrivs /proc/self/status");
	cr_assert(eq(str, output, "NoNewPrivs:\t0\n"));
	relaunch(&(struct command_launch_options){
		.user = "", .cwd = "", .no_new_privileges = true });
	run("grep ^NoNewPrivs /proc/self/status");
	cr_assert(eq(str, output, "NoNewPrivs:\t1\n"));
}

Test(command, nothing_is_left_when_all_were_waited_for)
{
	struct command *first = begin(
		"trap '' TERM; (setsid sleep 1000 &); sleep 1000; sleep 1000");
	struct command *second = begin(
		"(setsid sh -c '(setsid sleep 1000 &); sleep 1000' &) ; exit 2");
	cr_assert(not(command_wait_for_all(50)), "they are not asked to end yet");
	command_abandon(first);
	if (!gone) {
		command_abandon(second);
	}
	cr_assert(command_wait_for_all(60000));
	cr_assert(not(check_support_has_children()));
}

/* ---- command_spawn() alone ---- */

static pid_t spawn(const char *script, int said, int death_signal)
{
	char *argv[] = { "/bin/sh", "-c", (char *)script, NULL };
	const struct command_spawn wanted = {
		.argv = argv,
		.launch = launch,
		.placement = COMMAND_FOREGROUND,
		.files = { -1, said, -1 },
		.keep_files = true,
		.death_signal = death_signal,
	};
	struct err err = ERR_INIT;
	pid_t pid = command_spawn(&wanted, &err);
	cr_assert_gt(pid, 0, "%s", err.msg);
	return pid;
}

/* Kills a process that has started another one. */
static void die_as_parent(int death_signal)
{
	int said[2];
	cr_assert(zero(int, pipe(said)));
	pid_t parent = fork();
	if (parent == 0) {
		spawn("echo up; exec sleep 1000", said[1], death_signal);
		pause();
		_exit(0);
	}
	close(said[1]);
	char text[8] = "";
	cr_assert(eq(long, read(said[0], text, sizeof(text)), 3));
	kill(parent, SIGKILL);
	waitpid(parent, NULL, 0);
	/* The child became ours when its parent was killed, and can be reaped only when it dies. */
	int ended_by = 0;
	cr_assert_gt(waitpid(-1, &ended_by, 0), 0);
	cr_assert(eq(int, WTERMSIG(ended_by), death_signal));
	close(said[0]);
}

Test(command, dies_with_the_process_that_started_it, .timeout = 60)
{
	die_as_parent(SIGTERM);
	die_as_parent(SIGKILL);
}

Test(command, a_program_that_cannot_be_run_has_an_errno)
{
	char *argv[] = { "/no/such/program", NULL };
	const struct command_spawn wanted = {
		.argv = argv, .launch = launch, .files = { -1, -1, -1 }, .keep_files = true
	};
	struct err err = ERR_INIT;
	cr_assert(eq(int, command_spawn(&wanted, &err), -ENOENT));
	cr_assert(eq(str, err.msg, "cannot run /no/such/program: No such file or directory"));
}

/* ---- what a launch gives ---- */

Test(command, its_variables_replace_those_of_the_agent)
{
	const struct command_variable variables[] = { { "BERTH_T", "own" }, { "BERTH_T", "second" },
		{ "BERTH_NEW", "new" } };
	setenv("BERTH_T", "agent", 1);
	setenv("BERTH_TWO", "inherited", 1);
	setenv("BERTH_RUN", "another", 1);
	setenv("NOTIFY_SOCKET", "/run/manager", 1);
	setenv("WATCHDOG_USEC", "1", 1);
	setenv("WATCHDOG_PID", "1", 1);
	relaunch(&(struct command_launch_options){
		.user = "", .cwd = "", .variables = variables, .variable_count = 3 });
	run("echo $BERTH_T $BERTH_TWO $BERTH_NEW $NOTIFY_SOCKET $WATCHDOG_USEC $WATCHDOG_PID");
	cr_assert(eq(str, output, "own inherited new\n"));
	run("env | grep -c ^BERTH_T=; test \"$BERTH_RUN\" != another");
	cr_assert(eq(str, output, "1\n"));
	cr_assert(zero(int, status));
}

Test(command, it_has_all_variables_of_the_agent)
{
	static char *of_the_agent[] = { "FIRST=1", "SECOND=2", "LAST=3", NULL };
	char **before = environ;
	environ = of_the_agent;
	relaunch(&(struct command_launch_options){ .user = "", .cwd = "" });
	environ = before;
	run("echo $FIRST $SECOND $LAST");
	cr_assert(eq(str, output, "1 2 3\n"));
}

Test(command, leads_a_session_without_a_terminal)
{
	run("cut -d' ' -f6,7 /proc/$$/stat; echo $$ 0");
	char *second = strchr(output, '\n') + 1;
	cr_assert(eq(int, strncmp(output, second, strlen(second)), 0), "%s", output);
}

Test(command, without_a_marker_it_has_the_environment_all_the_same)
{
	int said[2];
	char text[16] = "";
	setenv("BERTH_T", "here", 1);
	relaunch(&(struct command_launch_options){ .user = "", .cwd = "" });
	cr_assert(zero(int, pipe(said)));
	pid_t pid = spawn("echo $BERTH_T", said[1], 0);
	cr_assert(eq(long, read(said[0], text, sizeof(text) - 1), 5));
	cr_assert(eq(str, text, "here\n"));
	waitpid(pid, NULL, 0);
	close(said[0]);
	close(said[1]);
}

Test(command, runs_in_its_directory)
{
	relaunch(&(struct command_launch_options){ .user = "", .cwd = "/usr" });
	run("pwd");
	cr_assert(eq(str, output, "/usr\n"));
	command_launch_destroy(NULL);
}

Test(command, begins_with_default_signals)
{
	sigset_t blocked;
	sigset_t after;
	signal(SIGUSR1, SIG_IGN);
	sigemptyset(&blocked);
	sigaddset(&blocked, SIGUSR1);
	sigprocmask(SIG_BLOCK, &blocked, NULL);
	run("kill -USR1 $$; echo alive");
	cr_assert(eq(int, end, COMMAND_KILLED));
	cr_assert(eq(int, status, SIGUSR1));
	sigprocmask(SIG_SETMASK, NULL, &after);
	cr_assert(sigismember(&after, SIGUSR1), "the agent's mask is as before");
	cr_assert(not(sigismember(&after, SIGTERM)));
}

Test(command, becomes_its_user)
{
	rights_needed("users");
	relaunch(&(struct command_launch_options){ .user = "nobody", .cwd = "/" });
	run("id -u; id -G; grep ^Uid: /proc/self/status");
	cr_assert(eq(str, output, "65534\n65534\nUid:\t65534\t65534\t65534\t65534\n"));
}

/* Starts a program that cannot be started; its error. */
static int refused(const struct command_launch_options *wanted, const char *program, char *text)
{
	char *argv[] = { (char *)program, NULL };
	struct err err = ERR_INIT;
	relaunch(wanted);
	const struct command_spawn spawned = {
		.argv = argv, .launch = launch, .files = { -1, -1, -1 }
	};
	int error = command_spawn(&spawned, &err);
	cr_assert(eq(int, err.code, BERTH_FAILED));
	strcpy(text, err.msg);
	return error;
}

Test(command, a_launch_that_fails_says_at_what)
{
	const struct command_limit limit = { RLIMIT_NOFILE, { 20, 10 } };
	const struct command_launch_options plain = { .user = "", .cwd = "" };
	char text[sizeof(((struct err *)NULL)->msg)];
	int error = refused(
		&(struct command_launch_options){ .user = "", .cwd = "/nowhere" }, "true", text);
	cr_assert(eq(int, error, -ENOENT));
	cr_assert(eq(str, text, "cannot change to /nowhere: No such file or directory"));
	error = refused(
		&(struct command_launch_options){
			.user = "", .cwd = "", .limits = &limit, .limit_count = 1 },
		"true", text);
	cr_assert(eq(int, error, -EINVAL));
	cr_assert(eq(str, text, "cannot set a limit of true: Invalid argument"));
	cr_assert(eq(int, refused(&plain, "/usr", text), -EISDIR));
	cr_assert(eq(str, text, "cannot run /usr: Is a directory"));
	cr_assert(eq(int, refused(&plain, "/etc/passwd", text), -EACCES));
	cr_assert(eq(str, text, "cannot run /etc/passwd: Permission denied"));
}

Test(command, names_of_limits_and_signals_lead_there_and_back)
{
	cr_assert(eq(int, command_limit_resource("nofile"), RLIMIT_NOFILE));
	cr_assert(eq(int, command_limit_resource("as"), RLIMIT_AS));
	cr_assert(eq(int, command_signal_number("ABRT"), SIGABRT));
	cr_assert(eq(str, (char *)command_signal_name(SIGABRT), "ABRT"));
	cr_assert(eq(int, command_limit_resource("nofiles"), -1));
	cr_assert(eq(int, command_signal_number("TERM"), SIGTERM));
	cr_assert(eq(int, command_signal_number("NONE"), -1));
	cr_assert(eq(str, (char *)command_signal_name(SIGHUP), "HUP"));
	cr_assert(eq(int, command_signal_number("RTMIN+3"), SIGRTMIN + 3));
	cr_assert(eq(str, (char *)command_signal_name(SIGRTMIN + 3), "RTMIN+3"));
	cr_assert(eq(int, command_signal_number("RTMIN+"), -1));
	cr_assert(eq(int, command_signal_number("RTMIN+3x"), -1));
	cr_assert(eq(int, command_signal_number("RTMIN+100"), -1));
	cr_assert(eq(ptr, (void *)command_signal_name(SIGRTMAX + 1), NULL));
}

/* Fields 1 to 52 of /proc/PID/stat, all 7 but the three that count. */
static bool has_environment(const char *name, int startcode, int env_start, int env_end)
{
	char stat[512];
	int len = snprintf(stat, sizeof(stat), "7 (%s) S", name);
	for (int number = 4; number <= 52; number++) {
		int value = number == 26 ? startcode
			: number == 50   ? env_start
			: number == 51   ? env_end
					 : 7;
		len += snprintf(stat + len, sizeof(stat) - (size_t)len, " %d", value);
	}
	return command_orphans_stat_has_environment(stat);
}

Test(command, an_empty_environment_is_known_by_its_ends)
{
	cr_assert(has_environment("sh", 1, 20, 21));
	cr_assert(not(has_environment("sh", 1, 20, 20)));
	cr_assert(not(has_environment("a) S 1 (b", 1, 20, 20)), "a name may hold anything");
	cr_assert(has_environment("a) S 1 (b", 1, 20, 30));
	cr_assert(has_environment("sh", 0, 0, 0), "nobody knows");
	cr_assert(command_orphans_stat_has_environment(""), "nor here");
}

/* ---- orphans ---- */

static const char RUN[] = "BERTH_RUN=7-1";

static bool is_nobody(pid_t pid)
{
	(void)pid;
	return false;
}

static pid_t known;

static bool is_known(pid_t pid)
{
	return pid == known;
}

/* A child that sleeps, with this environment; NULL: that of the test. */
static pid_t sleeper(char *const *environment, bool in_own_session)
{
	int ready[2];
	char byte;
	cr_assert(zero(int, pipe2(ready, O_CLOEXEC)));
	pid_t pid = fork();
	if (pid == 0) {
		if (in_own_session) {
			setsid();
		}
		if (environment) {
			execle("/bin/sleep", "sleep", "1000", NULL, environment);
		}
		close(ready[1]);
		pause();
	}
	close(ready[1]);
	/* The end: it has begun its program, or is in its pause. */
	cr_assert(eq(long, read(ready[0], &byte, 1), 0));
	close(ready[0]);
	return pid;
}

static bool is_alive(pid_t pid)
{
	return waitpid(pid, NULL, WNOHANG) == 0;
}

static void end_sleeper(pid_t pid)
{
	kill(pid, SIGKILL);
	cr_assert(eq(int, waitpid(pid, NULL, 0), pid));
}

/* Is it killed as one of RUN? Otherwise nothing has to be looked at again. */
static bool sweep_kills(char *const *environment)
{
	pid_t pid = sleeper(environment, true);
	known = pid;
	cr_assert(not(command_orphans_kill(RUN, is_known)));
	bool killed = command_orphans_kill(RUN, is_nobody);
	int how = 0;
	if (!killed) {
		cr_assert(not(command_orphans_kill(RUN, is_nobody)), "nor at the next look");
		cr_assert(is_alive(pid));
		end_sleeper(pid);
		return false;
	}
	cr_assert(eq(int, waitpid(pid, &how, 0), pid));
	cr_assert(eq(int, WTERMSIG(how), SIGKILL));
	cr_assert(not(command_orphans_kill(RUN, is_nobody)));
	return true;
}

Test(command, an_orphan_is_known_by_the_whole_marker_in_its_environment)
{
	cr_assert(sweep_kills((char *[]){ (char *)RUN, NULL }));
	cr_assert(sweep_kills((char *[]){ "A=1", (char *)RUN, "B=2", NULL }));
	cr_assert(not(sweep_kills((char *[]){ "BERTH_RUN=7-11", "A=1", NULL })));
	cr_assert(not(sweep_kills((char *[]){ "BERTH_RUN=7-2", NULL })));
	cr_assert(not(sweep_kills((char *[]){ "A=1", NULL })));
	cr_assert(not(sweep_kills((char *[]){ NULL })));
}

Test(command, a_large_environment_is_read_in_pieces)
{
	enum { PIECE = 16384 };
	static char padding[PIECE + 64];
	for (int more = -16; more <= 4; more += 4) {
		memset(padding, 'p', sizeof(padding));
		padding[1] = '=';
		padding[PIECE + more] = '\0';
		cr_assert(sweep_kills((char *[]){ padding, (char *)RUN, NULL }), "%d", more);
	}
	memset(padding, 'p', sizeof(padding));
	padding[1] = '=';
	padding[PIECE] = '\0';
	cr_assert(not(sweep_kills((char *[]){ padding, "BERTH_RUN=7-12", padding, NULL })));
}

Test(command, unmarked_orphans_are_claimed_when_the_agent_has_begun_alone)
{
	cr_assert(command_orphans_may_claim());
	pid_t own = sleeper((char *[]){ "A=1", NULL }, false);
	cr_assert(not(command_orphans_may_claim()), "a child that was there before");
	command_orphans_claim_unmarked(true);
	cr_assert(sweep_kills((char *[]){ "A=1", NULL }));
	cr_assert(not(sweep_kills((char *[]){ "BERTH_RUN=7-2", NULL })), "another run's");
	cr_assert(is_alive(own), "what the agent itself has started is in its session");
	command_orphans_claim_unmarked(false);
	cr_assert(not(sweep_kills((char *[]){ "A=1", NULL })));
	end_sleeper(own);
}

Test(command, many_bystanders_stay_alive)
{
	enum { MANY = 70 };
	pid_t pids[MANY];
	unsetenv("BERTH_RUN");
	for (int i = 0; i < MANY; i++) {
		pids[i] = sleeper(NULL, false);
	}
	cr_assert(sweep_kills((char *[]){ (char *)RUN, NULL }));
	for (int i = 0; i < MANY; i++) {
		cr_assert(is_alive(pids[i]));
		end_sleeper(pids[i]);
	}
}

Test(command, the_dead_are_looked_at_again)
{
	pid_t pid = sleeper(NULL, false);
	siginfo_t info;
	kill(pid, SIGKILL);
	cr_assert(zero(int, waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT)));
	cr_assert(command_orphans_kill(RUN, is_nobody), "it may have had children");
	cr_assert(eq(int, waitpid(pid, NULL, 0), pid));
}
