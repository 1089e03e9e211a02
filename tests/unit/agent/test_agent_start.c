/* Starts that fail, wait or go on with what another agent had; and what berthd does instead. */

#include "tests/unit/agent/agent_stage.h"

/* berthd --convert-… executes another program: none is there, and the test sees which ones. */
int execv(const char *path, char *const argv[])
{
	if (strcmp(argv[0], "berth") != 0) {
		return execve(path, argv, environ);
	}
	printf("%s", path);
	for (size_t i = 0; argv[i]; i++) {
		printf(" %s", argv[i]);
	}
	printf("\n");
	errno = ENOENT;
	return -1;
}

/* If not 0, only this process makes pauses. */
static pid_t patient;

int poll(struct pollfd *files, nfds_t count, int pause_ms)
{
	struct timespec pause = { pause_ms / 1000, pause_ms % 1000 * 1000000L };
	if (patient && getpid() != patient && !files) {
		return 0;
	}
	return ppoll(files, count, pause_ms < 0 ? NULL : &pause, NULL);
}

TestSuite(agent_start, .init = begin, .fini = end);
TestSuite(agent_inspect, .init = begin, .fini = end);
TestSuite(agent_upgrade, .init = begin, .fini = end);

/* ---- a start that fails ---- */

/* The agent of this configuration does not start, and says why. */
static void fails(const char *text, const char *why)
{
	configure(text);
	cr_expect_eq(RUN("run"), 1);
	cr_expect_not(is_ready());
	cr_expect(has(text_in("log"), why), "%s", text_in("log"));
	cr_expect_not(has(text_in("log"), " runs, pid "));
	unlink(in("log"));
}

/* The session of an agent before stays for one after it, and so do its orders to drain. */
Test(agent_start, a_start_that_fails_leaves_what_it_found)
{
	serve("");
	ask("POST", "/v1/agent/drain");
	UNTIL(has(get("/v1/agent"), "\"done\":true"));
	cr_expect_eq(stop(SIGTERM), 0);
	put_in("state/session", "of another agent");
	unlink(in("log"));
	fails("[dns]\nlisten = 192.0.2.1:1\n", "cannot start: ");
	cr_expect(is_there("state/session"));
	cr_expect(is_there("state/drain"));
}

Test(agent_start, every_part_may_fail_and_is_named)
{
	cr_assert_eq(mkdir(in("taken"), 0700), 0);
	fails("[dns]\nlisten = 192.0.2.1:1\n", "cannot start: ");
	fails("listen = 192.0.2.1:1\n", "cannot start: ");
	fails("[xds]\nlisten = @/taken\n", "cannot start: [xds] listen: ");
	fails("[bridge]\ncontainers = @/berth.ini\n", "cannot start: ");
	fails("user = nobody-of-this-name\n", "nobody-of-this-name");
	put_in("d", "a file in the place of the registry");
	cr_expect_eq(unlink(in("d")), 0);
	fails("listen = 127.0.0.1:none\n", "listen");
}

Test(agent_start, a_main_process_that_cannot_be_executed_is_an_end)
{
	configure("");
	int result = RUN("run", "--", "/nothing/there");
	cr_expect_neq(result, 0);
	cr_expect(has(text_in("log"), "/nothing/there"), "%s", text_in("log"));
}

Test(agent_start, one_agent_at_a_time_has_the_state_directory)
{
	char text[4 * SCRATCH_PATH];
	serve("");
	snprintf(text, sizeof(text),
		"[registry]\nurl = dir:%s/d\n[agent]\nsocket = %s/other\nstate_dir = %s/state\n",
		stage.folder, stage.folder, stage.folder);
	put_in("berth.ini", text);
	pid_t other = begin_agent((char *[]){ "run", NULL });
	cr_expect_eq(status_of(other), 1);
	cr_expect_eq(logged("cannot start: "), 1);
	cr_expect_eq(logged("no session was saved"), 1, "the other one did not look for any");
	cr_expect(has(get("/v1/agent"), "\"running\""), "the first one goes on");
	cr_expect_eq(stop(SIGTERM), 0);
}

Test(agent_start, without_a_state_directory_it_serves)
{
	put_in("state", "a file in its place");
	serve(COMPONENT("a"));
	UNTIL(logged("nothing will survive a restart: ") == 1);
	UNTIL(has(get("/v1/list/app"), "/app/a"));
	cr_expect_eq(stop(SIGTERM), 0);
}

Test(agent_start, a_configuration_with_mistakes_is_an_end)
{
	configure("bad = yes\n");
	cr_expect_eq(RUN("run"), 1);
	cr_expect(has(text_in("log"), "berth.ini:6: "), "%s", text_in("log"));
	cr_expect(has(text_in("log"), "`bad`"));
	cr_expect_not(is_there("state"));
}

Test(agent_start, the_log_is_as_it_is_configured_from_the_first_line_on)
{
	serve("log_format = json\n");
	cr_expect_eq(stop(SIGTERM), 0);
	cr_expect_eq(text_in("log")[0], '{');
	cr_expect(has(text_in("log"), " runs, pid "));
	unlink(in("log"));
	serve("log_level = error\n");
	cr_expect_eq(stop(SIGTERM), 0);
	cr_expect_str_eq(text_in("log"), "");
}

Test(agent_start, doubts_of_the_configuration_are_logged)
{
	serve("[component a]\nuser = Some_One\nservice_class = c\ninstance = i\nname = n\n");
	cr_expect_neq(logged("berth.ini:7: "), 0, "%s", text_in("log"));
	cr_expect_eq(stop(SIGTERM), 0);
}

/* ---- standby ---- */

#define STANDBY "[bridge]\ncontainers = @/containers\nstandby = yes\n"

Test(agent_start, one_on_standby_takes_over)
{
	cr_assert_eq(mkdir(in("containers"), 0755), 0);
	serve(STANDBY);
	pid_t first = stage.pid;
	BEGIN("run");
	cr_assert(is_ready());
	UNTIL(logged("standby: another agent uses ") == 1);
	kill(first, SIGQUIT);
	cr_expect_eq(status_of(first), 0);
	UNTIL(logged("standby: taking over") == 1);
	UNTIL(has(get("/v1/agent"), "\"running\""));
	cr_expect_eq(stop(SIGTERM), 0);
}

Test(agent_start, one_on_standby_ends_when_it_is_asked_to)
{
	static const int signals[] = { SIGTERM, SIGINT, SIGQUIT };
	cr_assert_eq(mkdir(in("containers"), 0755), 0);
	serve(STANDBY);
	pid_t first = stage.pid;
	for (size_t i = 0; i < 3; i++) {
		BEGIN("run");
		cr_assert(is_ready());
		kill(stage.pid, SIGHUP); /* no reason to end */
		poll(NULL, 0, 150);
		cr_expect_eq(waitpid(stage.pid, NULL, WNOHANG), 0);
		cr_expect_eq(stop(signals[i]), 0);
		cr_expect_eq(logged("standby: asked to end"), i + 1);
	}
	stage.pid = first;
	cr_expect_eq(stop(SIGTERM), 0);
	cr_expect_eq(logged(" runs, pid "), 1);
}

/* ---- a test of a configuration ---- */

#define GOOD(name, user)                                                                           \
	"[component " name "]\nuser = " user "\nservice_class = c\ninstance = i\nname = " name     \
	"\n[endpoint e" name "]\ncomponent = " name                                                \
	"\napi = a\nprotocol = http\naddress_type = host/port\naddress = 10.0.0.1:80\n"            \
	"[check c" name "]\ncomponent = " name "\ntype = ttl\ninterval = 60s\n"
#define DOUBTFUL GOOD("a", "Some_One")

Test(agent_inspect, a_good_configuration_is_good)
{
	configure(GOOD("a", "joe"));
	cr_expect_eq(RUN("-t"), 0);
	cr_expect(has(text_in("out"), "/berth.ini: good: 1 component"), "%s", text_in("out"));
	cr_expect_not(has(text_in("out"), "warning"));
	cr_expect_eq(text_in("out")[strlen(text_in("out")) - 1], '\n');
	cr_expect_str_eq(text_in("log"), "");
	cr_expect_eq(RUN("-t", "--strict"), 0);
	cr_expect(has(text_in("out"), "/berth.ini: good: "), "%s", text_in("out"));
	cr_expect_not(is_there("state"));
}

Test(agent_inspect, a_bad_one_is_bad)
{
	configure("bad = yes\n");
	cr_expect_eq(RUN("-t"), 1);
	cr_expect_str_eq(text_in("out"), "");
	cr_expect(has(text_in("log"), "berth.ini:6: "), "%s", text_in("log"));
	cr_expect_eq(RUN("-T"), 1);
	cr_expect_str_eq(text_in("out"), "");
}

Test(agent_inspect, a_doubt_is_bad_for_a_strict_test_alone)
{
	configure(DOUBTFUL);
	cr_expect_eq(RUN("-t"), 0);
	cr_expect(has(text_in("out"), "/berth.ini: good: "), "%s", text_in("out"));
	cr_expect(has(text_in("out"), "; 1 warning\n"), "%s", text_in("out"));
	cr_expect(has(text_in("log"), "berth.ini:7: "), "%s", text_in("log"));
	cr_expect_eq(RUN("-t", "--strict"), 1);
	cr_expect(has(text_in("out"), "/berth.ini: bad: "), "%s", text_in("out"));
	configure(DOUBTFUL GOOD("b", "Some_Two"));
	cr_expect_eq(RUN("-t"), 0);
	cr_expect(has(text_in("out"), "; 2 warnings\n"), "%s", text_in("out"));
}

Test(agent_inspect, the_options_in_force_are_printed)
{
	configure(COMPONENT("a"));
	cr_expect_eq(RUN("-T"), 0);
	cr_expect(has(text_in("out"), "[component a]"), "%s", text_in("out"));
	cr_expect(has(text_in("out"), "drain_delay = 0s"), "%s", text_in("out"));
	cr_expect_not(has(text_in("out"), "good"));
	configure(DOUBTFUL);
	cr_expect_eq(RUN("-T"), 0);
}

Test(agent_inspect, words_that_are_wrong_are_an_end)
{
	configure("");
	cr_expect_eq(RUN("--nothing"), 2);
	cr_expect_eq(RUN("-V"), 0);
	cr_expect_str_eq(text_in("out"), "berthd " BERTH_VERSION "\n");
}

Test(agent_inspect, other_programs_files_are_converted_by_the_berth_next_to_it)
{
	char expected[8192], program[4096];
	ssize_t len = readlink("/proc/self/exe", program, sizeof(program) - 1);
	cr_assert_gt(len, 0);
	program[len] = '\0';
	*strrchr(program, '/') = '\0';
	cr_expect_eq(RUN("--convert-nerve", "/n.json"), 1);
	snprintf(expected, sizeof(expected), "%s/berth berth convert nerve /n.json\n", program);
	cr_expect(strncmp(text_in("out"), expected, strlen(expected)) == 0, "%s", text_in("out"));
	cr_expect(has(text_in("out"), "/bin/berth berth convert nerve /n.json\n"));
	cr_expect(has(text_in("log"), "berthd: cannot run "), "%s", text_in("log"));
	cr_expect(has(text_in("log"), "No such file"));
}

/* ---- an upgrade ---- */

Test(agent_upgrade, another_one_goes_on_in_its_place)
{
	serve(COMPONENT("a"));
	UNTIL(has(get("/v1/list/app"), "/app/a"));
	kill(stage.pid, SIGUSR2);
	UNTIL(logged(" runs, pid ") == 2);
	UNTIL(has(get("/v1/list/app"), "/app/a"));
	cr_expect_eq(stop(SIGTERM), 0);
	cr_expect_not(is_there("d/app/a"));
}

Test(agent_upgrade, a_successor_waits_for_a_good_configuration)
{
	leave("{\"version\":1}");
	configure("bad = yes\n");
	BEGIN("run");
	UNTIL(logged("`bad`") >= 2);
	poll(NULL, 0, 300);
	cr_expect_lt(logged("`bad`"), 30, "there is time between two looks");
	cr_expect_eq(logged(" runs, pid "), 0);
	configure(COMPONENT("a"));
	UNTIL(logged(" runs, pid ") == 1);
	UNTIL(has(get("/v1/list/app"), "/app/a"));
	struct pollfd ready = { .fd = stage.ready_fd, .events = POLLIN };
	cr_expect_eq(poll(&ready, 1, 0), 0, "the first of the line has said so");
	cr_expect_eq(stop(SIGTERM), 0);
}

Test(agent_upgrade, a_successor_that_waits_may_be_asked_to_end)
{
	leave("{\"version\":1}");
	configure("bad = yes\n");
	BEGIN("run");
	UNTIL(logged("`bad`") >= 1);
	cr_expect_eq(stop(SIGTERM), 1);
}

Test(agent_upgrade, a_successor_does_not_wait_for_ever)
{
	leave("{\"version\":1}");
	configure("bad = yes\n");
	patient = getpid();
	cr_expect_eq(RUN("run"), 1);
	cr_expect_gt(logged("`bad`"), 100, "it was patient");
	cr_expect_eq(logged(" runs, pid "), 0);
}

Test(agent_upgrade, a_successor_has_the_history_and_the_drain)
{
	leave("{\"version\":1,\"history\":[{\"time\":1.0,\"subject\":\"long ago\",\"from\":\"a\","
	      "\"to\":\"b\",\"why\":\"\"}],\"drain\":{\"agent\":{\"reason\":\"a new disk\","
	      "\"since\":1.0},\"components\":{}}}");
	configure(COMPONENT("a"));
	BEGIN("run");
	UNTIL(logged(" runs, pid ") == 1);
	cr_expect(has(get("/v1/agent/history"), "long ago"), "%s", stage.answer);
	cr_expect_eq(stop(SIGTERM), 0);
}
