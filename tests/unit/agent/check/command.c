#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <pwd.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/check/command.h"
#include "agent/check/probe.h"
#include "agent/command/orphans.h"
#include "lib/base/array.h"
#include "tests/support/check_support.h"
#include "tests/support/descriptors.h"
#include "tests/support/rights.h"
#include "tests/support/scratch.h"

static struct ev_loop *loop;
static struct config_check config;
static char *argv[4];
static struct check_result result;
static bool has_result;
static bool gone;

static void on_result(void *context, const struct check_result *said)
{
	(void)context;
	cr_assert_not(has_result, "two results of one run");
	cr_expect_gt(said->started, 0);
	result = *said;
	has_result = true;
}

static void on_gone(void *context)
{
	(void)context;
	cr_assert(has_result, "gone without a result");
	gone = true;
}

static bool is_nobody(pid_t pid)
{
	(void)pid;
	return false;
}

static void start(void)
{
	check_support_be_subreaper();
	loop = ev_default_loop(0);
	/* Opens the list of children, which stays open. */
	(void)command_orphans_kill("BERTH_RUN=none", is_nobody);
}

TestSuite(check_command, .init = start);

static struct check_probe *begin(void)
{
	struct check_run_callbacks callbacks = { on_result, on_gone, NULL };
	has_result = gone = false;
	result = (struct check_result){ .verdict = CHECK_PASSING };
	struct command_launch *launch = check_command_launch(&config, "web", "/users/joe/web");
	struct check_probe *probe = check_probe_start(
		loop, &config, launch, NULL, NULL, &callbacks, &result);
	command_launch_destroy(launch);
	return probe;
}

/* Runs a command to its end. Nothing of it may be left, whatever command it was. */
static void run(void)
{
	/* The first use of the loop opens descriptors of its own. */
	cr_assert(check_support_run_until_childless());
	int descriptors = descriptors_count();
	if (begin()) {
		cr_assert(check_support_run_until_true(&gone));
	}
	cr_expect(check_support_run_until_childless(), "a process is left");
	cr_expect_eq(descriptors_count(), descriptors, "a descriptor is left");
}

static void run_script(const char *script)
{
	config = check_support_script(argv, script);
	run();
}

static void expect(enum check_verdict verdict, const char *detail, const char *output)
{
	cr_expect_str_eq(check_verdict_name(result.verdict), check_verdict_name(verdict));
	cr_expect_str_eq(result.detail, detail);
	cr_expect_str_eq(result.output, output);
}

struct script_case {
	char script[128];
	int verdict;
	char detail[64];
	char output[64];
};

ParameterizedTestParameters(check_command, an_exit_is_judged)
{
	static struct script_case cases[] = {
		{ "echo fine", CHECK_PASSING, "exit status 0", "fine\n" },
		{ "echo hm; exit 1", CHECK_FAILING, "exit status 1", "hm\n" },
		{ "echo hm; exit 3", CHECK_WARNING, "exit status 3", "hm\n" },
		{ "echo hm; exit 4", CHECK_WARNING, "exit status 4", "hm\n" },
		{ "echo no >&2; exit 2", CHECK_FAILING, "exit status 2", "no\n" },
		{ "exit 255", CHECK_FAILING, "exit status 255", "" },
		{ "echo bye; kill -9 $$", CHECK_FAILING, "killed by SIGKILL", "bye\n" },
		{ "kill -TERM $$", CHECK_FAILING, "killed by SIGTERM", "" },
		{ "printf 'a\\377\\303\\251\\303'", CHECK_PASSING, "exit status 0", "a?\303\251?" },
		{ "echo 1; echo 2 >&2; echo 3", CHECK_PASSING, "exit status 0", "1\n2\n3\n" },
		{ "exec >&- 2>&-; sleep 0.05; exit 2", CHECK_FAILING, "exit status 2", "" },
		{ "read line || echo nothing to read", CHECK_PASSING, "exit status 0",
			"nothing to read\n" },
	};
	return cr_make_param_array(struct script_case, cases, ARRAY_LEN(cases));
}

ParameterizedTest(struct script_case *its, check_command, an_exit_is_judged)
{
	run_script(its->script);
	expect((enum check_verdict)its->verdict, its->detail, its->output);
}

struct match_case {
	char script[64];
	char match[32];
	bool invert;
	bool ignore_exit_status;
	int verdict;
};

/* Registrar ignores stdoutMatch.invert; here each combination counts. */
ParameterizedTestParameters(check_command, the_output_is_matched)
{
	static struct match_case cases[] = {
		{ "echo all is well", "is well$", false, false, CHECK_PASSING },
		{ "echo all is well", "is well$", true, false, CHECK_FAILING },
		{ "echo on fire", "is well$", false, false, CHECK_FAILING },
		{ "echo on fire", "is well$", true, false, CHECK_PASSING },
		{ "echo all is well >&2", "is well$", false, false, CHECK_FAILING },
		{ "echo all is well; exit 2", "is well$", false, false, CHECK_FAILING },
		{ "echo all is well; exit 2", "is well$", false, true, CHECK_PASSING },
		{ "echo on fire; exit 0", "is well$", false, true, CHECK_FAILING },
		{ "echo all is well; exit 3", "is well$", false, false, CHECK_WARNING },
		{ "echo all is well; exit 3", "is well$", false, true, CHECK_PASSING },
		{ "exit 7", "", false, true, CHECK_PASSING },
		{ "yes | head -c 5000; echo lost", "^lost$", true, false, CHECK_FAILING },
		{ "yes | head -n 999999; echo lost", "^lost$", false, false, CHECK_PASSING },
		{ "yes | head -n 999999; printf lost", "^lost$", false, false, CHECK_PASSING },
		{ "yes | head -n 999999; printf lost", "^$", false, false, CHECK_FAILING },
		{ "head -c 99999 /dev/zero; echo lost", "lost", false, false, CHECK_FAILING },
		{ "head -c 99999 /dev/zero; echo; echo lost", "^lost", false, false,
			CHECK_PASSING },
		{ "true", "^$", false, false, CHECK_PASSING },
		{ "kill -9 $$", "", false, true, CHECK_FAILING },
	};
	return cr_make_param_array(struct match_case, cases, ARRAY_LEN(cases));
}

ParameterizedTest(struct match_case *its, check_command, the_output_is_matched)
{
	config = check_support_script(argv, its->script);
	config.match = its->match;
	config.match_invert = its->invert;
	config.ignore_exit_status = its->ignore_exit_status;
	run();
	cr_expect_str_eq(check_verdict_name(result.verdict), check_verdict_name(its->verdict),
		"%s: %s", its->script, result.detail);
}

static void expect_could_not_run(char *command, const char *detail)
{
	argv[0] = command;
	argv[1] = NULL;
	config = check_support_config(CONFIG_CHECK_COMMAND);
	config.argv = argv;
	run();
	cr_expect_not(has_result, "reported by return, not by callback");
	expect(CHECK_COULD_NOT_RUN, detail, "");
}

Test(check_command, a_program_that_cannot_be_run_has_a_reason)
{
	char missing[] = "/no/such/command", unknown[] = "no-such-command", directory[] = "/tmp";
	setenv("PATH", "/usr/bin:/bin", 1); /* all of which we may look into */
	expect_could_not_run(missing, "cannot run /no/such/command: No such file or directory");
	expect_could_not_run(unknown, "cannot run no-such-command: No such file or directory");
	expect_could_not_run(directory, "cannot run /tmp: Is a directory");

	char file[SCRATCH_PATH];
	close(scratch_file(file));
	char detail[SCRATCH_PATH + 64];
	snprintf(detail, sizeof(detail), "cannot run %s: Permission denied", file);
	expect_could_not_run(file, detail);
	unlink(file);
}

Test(check_command, runs_as_its_user_in_its_directory)
{
	rights_needed("users");
	char user[] = "nobody", directory[] = "/";
	config = check_support_script(
		argv, "id -un; id -G; pwd; grep -E '^(Uid|Gid|CapEff)' /proc/self/status");
	config.user = user;
	config.cwd = directory;
	run();
	const struct passwd *entry = getpwnam(user);
	char wanted[256];
	int uid = (int)entry->pw_uid, gid = (int)entry->pw_gid;
	snprintf(wanted, sizeof(wanted),
		"nobody\n%d\n/\nUid:\t%d\t%d\t%d\t%d\n"
		"Gid:\t%d\t%d\t%d\t%d\nCapEff:\t0000000000000000\n",
		gid, uid, uid, uid, uid, gid, gid, gid, gid);
	expect(CHECK_PASSING, "exit status 0", wanted);
	cr_expect_eq(geteuid(), 0);
}

Test(check_command, sees_the_environment_that_it_was_promised)
{
	char home[] = "HOME", there[] = "/there", component[] = "BERTH_COMPONENT",
	     wrong[] = "wrong";
	struct config_name_value environment[] = { { home, there }, { component, wrong } };
	setenv("INHERITED", "yes", 1);
	setenv("BERTH_PATH", "of somebody else", 1);
	config = check_support_script(argv,
		"echo $BERTH_CHECK $BERTH_COMPONENT $BERTH_PATH $HOME $INHERITED;"
		"env | cut -d= -f1 | sort | uniq -d");
	config.environment = environment;
	config.environment_count = 2;
	run();
	expect(CHECK_PASSING, "exit status 0", "probe web /users/joe/web /there yes\n");
}

Test(check_command, does_not_speak_to_the_service_manager_of_the_agent)
{
	char wanted[] = "WATCHDOG_PID", seven[] = "7";
	struct config_name_value environment[] = { { wanted, seven } };
	setenv("NOTIFY_SOCKET", "/run/systemd/notify", 1);
	setenv("NOTIFY_SOCKET_OF_MINE", "kept", 1);
	setenv("WATCHDOG_USEC", "1000000", 1);
	setenv("WATCHDOG_PID", "1", 1);
	config = check_support_script(argv, "env | grep -e NOTIFY -e WATCHDOG | sort");
	run();
	expect(CHECK_PASSING, "exit status 0", "NOTIFY_SOCKET_OF_MINE=kept\n");
	config.environment = environment;
	config.environment_count = 1;
	run();
	expect(CHECK_PASSING, "exit status 0", "NOTIFY_SOCKET_OF_MINE=kept\nWATCHDOG_PID=7\n");
}

Test(check_command, inherits_no_descriptor_no_signal_mask_and_no_disposition)
{
	int extra[2];
	cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, extra), 0);
	signal(SIGUSR1, SIG_IGN);
	signal(SIGPIPE, SIG_IGN);
	sigset_t blocked;
	sigemptyset(&blocked);
	sigaddset(&blocked, SIGUSR2);
	sigprocmask(SIG_BLOCK, &blocked, NULL);
	char command[] = "/bin/sh", option[] = "-c",
	     script[] = "for f in /proc/$$/fd/*; do [ -e $f ] && echo ${f##*/}; done;"
			" grep '^SigBlk' /proc/self/status;"
			" set -- $(grep '^SigIgn' /proc/self/status);"
			" echo $((0x$2 & 0x7fffffff))";
	argv[0] = command;
	argv[1] = option;
	argv[2] = script;
	argv[3] = NULL;
	config = check_support_config(CONFIG_CHECK_COMMAND);
	config.argv = argv;
	run();
	expect(CHECK_PASSING, "exit status 0",
		/* glibc keeps signals 32 and 33 for itself, and they may be ignored. */
		"0\n1\n2\nSigBlk:\t0000000000000000\n0\n");
	sigset_t mask;
	sigprocmask(SIG_SETMASK, NULL, &mask);
	cr_expect(sigismember(&mask, SIGUSR2), "our own mask stays");
	close(extra[0]);
	close(extra[1]);
}

struct stubborn_case {
	char script[128];
};

/* Registrar: a timeout kills only the shell. */
ParameterizedTestParameters(check_command, a_stubborn_one_is_timed_out_and_leaves_nothing)
{
	static struct stubborn_case cases[] = {
		{ "exec sleep 1000" },
		{ "sleep 1000; true" },
		{ "trap '' TERM; sleep 1000; sleep 1000" },
		{ "trap '' TERM HUP INT; while :; do sleep 1000; done" },
		{ "kill -STOP $$" },
		{ "setsid sh -c 'setsid sleep 1000 & sleep 1000' & sleep 1000" },
		{ "(setsid sh -c 'trap \"\" TERM HUP; (setsid sleep 1000 &); "
		  "sleep 1000' &); sleep 1000" },
		{ "sleep 1000 | sleep 1000 | cat" },
		{ "exec yes" },
	};
	return cr_make_param_array(struct stubborn_case, cases, ARRAY_LEN(cases));
}

ParameterizedTest(
	struct stubborn_case *its, check_command, a_stubborn_one_is_timed_out_and_leaves_nothing)
{
	config = check_support_script(argv, its->script);
	config.timeout_ms = 200;
	run();
	cr_expect_eq(result.verdict, CHECK_TIMED_OUT);
	cr_expect_str_eq(result.detail, "no exit within 0.2s");
}

ParameterizedTestParameters(
	check_command, what_a_command_leaves_behind_is_killed_and_delays_nothing)
{
	static struct stubborn_case cases[] = {
		{ "sleep 1000 & exit 2" },
		{ "(sleep 1000 &); exit 2" },
		{ "setsid sleep 1000 & exit 2" },
		{ "(setsid sh -c '(setsid sleep 1000 &); sleep 1000' &); sleep 0.05; exit 2" },
		{ "setsid sh -c 'trap \"\" TERM HUP; sleep 1000; sleep 1000' & exit 2" },
		{ "trap '' HUP; yes & exit 2" },
		{ "setsid yes >&2 & exit 2" },
	};
	return cr_make_param_array(struct stubborn_case, cases, ARRAY_LEN(cases));
}

ParameterizedTest(struct stubborn_case *its, check_command,
	what_a_command_leaves_behind_is_killed_and_delays_nothing)
{
	run_script(its->script);
	cr_expect_eq(result.verdict, CHECK_FAILING);
	cr_expect_str_eq(result.detail, "exit status 2");
}

/* A run's sweep must not take another run's processes for its own. */
Test(check_command, a_run_leaves_the_processes_of_another_alone)
{
	char *other_argv[4];
	struct config_check other = check_support_script(other_argv, "sleep 1000");
	bool nothing = false;
	struct check_run_callbacks callbacks = { on_result, on_gone, &nothing };
	struct check_result unused;
	struct command_launch *launch = check_command_launch(&other, "", "");
	struct check_probe *slow = check_probe_start(
		loop, &other, launch, NULL, NULL, &callbacks, &unused);
	command_launch_destroy(launch);
	config = check_support_script(argv, "(setsid sleep 1000 &); exit 2");
	cr_assert_not_null(begin());
	cr_assert(check_support_run_until_true(&gone));
	cr_expect_str_eq(result.detail, "exit status 2");
	cr_expect(check_support_has_children(), "the other one still runs");
	check_probe_abandon(slow);
	cr_assert(check_support_run_until_childless());
}

Test(check_command, its_errors_are_shown_behind_its_output)
{
	config = check_support_script(argv, "echo wrong >&2; echo right");
	config.match = (char[]){ "right" };
	run();
	cr_expect_eq(result.verdict, CHECK_PASSING);
	cr_expect_str_eq(result.output, "right\nwrong\n");
	config.match = (char[]){ "wrong" };
	run();
	cr_expect_eq(result.verdict, CHECK_FAILING);
	cr_expect_str_eq(result.detail, "output does not match: wrong");
}
