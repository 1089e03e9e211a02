/* The child that serves gRPC, as the agent sees it: a shell script takes its place. */
#include "agent/xds/xds.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/base/log.h"
#include "tests/support/descriptors.h"
#include "tests/support/scratch.h"
#include "tests/support/shifted_clock.h"
#include "tests/support/staged.h"

#define STAND "exec sleep 60"
#define FIGURES "echo '{\"connections\":2,\"names\":3,\"refusals\":1}'; "

struct stage {
	char folder[SCRATCH_PATH];
	char log[SCRATCH_PATH];
	struct ev_loop *loop;
	struct xds *xds;
	int listen_fd;
	int descriptors; /* open without a child */
	char states[512];
};

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

static char zone[] = "eu/1", listen_address[] = "127.0.0.1:1", agent_socket[] = "/run/b.sock";
static char domain[] = "berth", all[] = "/services/**", one[] = "/users/joe/db";
static char *serve[] = { all, one };
static char further[] = "/net/b", furthest[] = "/net/c";
static char *failover[] = { further, furthest };
static const struct config config = { .agent = { .socket = agent_socket, .zone = zone },
	.dns = { .domain = domain },
	.xds = { .listen = listen_address,
		.serve = serve,
		.serve_count = 2,
		.prefer = CONFIG_XDS_ZONE,
		.failover = failover,
		.failover_count = 2,
		.failover_hold_ms = 7000,
		.min_instances = 4 } };

static void on_state(void *context, bool runs, const char *why)
{
	struct stage *stage = context;
	size_t len = strlen(stage->states);
	snprintf(stage->states + len, sizeof(stage->states) - len, "%s(%s) ",
		runs ? "runs" : "ends", runs ? "" : why);
	cr_expect(!runs || strncmp(why, "pid ", 4) == 0, "%s", why);
	cr_expect(!stage->xds || xds_runs(stage->xds) == runs);
}

static const char *in(const struct stage *stage, const char *name)
{
	static char path[SCRATCH_PATH + 32];
	snprintf(path, sizeof(path), "%s/%s", stage->folder, name);
	return path;
}

/* The content of a file; "" when there is none. */
static const char *text_of(const char *path)
{
	static char text[16384];
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t len = fd >= 0 ? read(fd, text, sizeof(text) - 1) : 0;
	text[len > 0 ? len : 0] = '\0';
	close(fd);
	return text;
}

static struct stage *begin(struct stage *stage)
{
	int fd = scratch_file(stage->log);
	cr_assert_geq(dup2(fd, STDERR_FILENO), 0);
	close(fd);
	log_set(LOG_LEVEL_INFO, false);
	scratch_folder(stage->folder);
	setenv("BERTH_LIBEXECDIR", stage->folder, 1);
	stage->loop = ev_default_loop(EVFLAG_AUTO);
	stage->listen_fd = open("/dev/zero", O_RDONLY | O_CLOEXEC);
	stage->descriptors = descriptors_count();
	return stage;
}

static void end(struct stage *stage)
{
	char command[SCRATCH_PATH + 16];
	xds_destroy(stage->xds);
	xds_destroy(NULL);
	cr_expect_eq(descriptors_count(), stage->descriptors);
	close(stage->listen_fd);
	unlink(stage->log);
	snprintf(command, sizeof(command), "rm -rf %s", stage->folder);
	cr_assert_eq(system(command), 0);
}

static int other_children;

static void on_other_child(struct ev_loop *loop, ev_child *child, int events)
{
	(void)loop;
	(void)child;
	(void)events;
	other_children++;
}

#define XDS_TEST(name)                                                                             \
	STAGED_TEST(xds, name, struct stage *, stage, begin(&(struct stage){ 0 }), end)

static void install(const struct stage *stage, const char *script)
{
	FILE *file = fopen(in(stage, "new"), "w");
	cr_assert(file);
	fprintf(file, "#!/bin/sh\ncd %s\n%s\n", stage->folder, script);
	fchmod(fileno(file), 0755);
	fclose(file);
	char to[SCRATCH_PATH + 32];
	snprintf(to, sizeof(to), "%s/berth-xds", stage->folder);
	cr_assert_eq(rename(in(stage, "new"), to), 0);
}

static void start_with(struct stage *stage, const struct config *used)
{
	const struct xds_options options = { .loop = stage->loop,
		.config = used,
		.listen_fd = stage->listen_fd,
		.on_state = on_state,
		.context = stage };
	stage->xds = xds_create(&options);
}

static void start(struct stage *stage, const char *script)
{
	install(stage, script);
	start_with(stage, &config);
}

#define RUN_UNTIL(stage, condition)                                                                \
	while (!(condition)) {                                                                     \
		ev_run((stage)->loop, EVRUN_ONCE);                                                 \
	}

/* Everything that is ready. */
static void go_on(const struct stage *stage)
{
	for (int i = 0; i < 5; i++) {
		ev_run(stage->loop, EVRUN_NOWAIT);
	}
}

static pid_t child_of(const struct stage *stage)
{
	json_t *json = xds_json(stage->xds);
	pid_t pid = (pid_t)json_integer_value(json_object_get(json, "pid"));
	json_decref(json);
	return pid;
}

static void put(const struct stage *stage, const char *name, size_t len)
{
	FILE *file = fopen(in(stage, name), "w");
	cr_assert(file);
	while (len-- > 0) {
		fputc('x', file);
	}
	fclose(file);
}

/* For a script: it waits until the test makes the file. */
#define AWAIT(name) "while [ ! -e " name " ]; do sleep 0.01; done; "

XDS_TEST(without_a_preference_the_zone_is_not_said)
{
	struct config other = config;
	other.xds.prefer = CONFIG_XDS_ZONE + 1;
	install(stage, "echo \"$@\" >told; " FIGURES STAND);
	start_with(stage, &other);
	RUN_UNTIL(stage, xds_counts(stage->xds).names > 0);
	cr_expect_null(strstr(text_of(in(stage, "told")), "--zone"));
}

XDS_TEST(its_figures_are_told)
{
	start(stage, "echo nonsense; echo '[1]'; " FIGURES STAND);
	RUN_UNTIL(stage, xds_counts(stage->xds).names > 0);
	cr_expect(xds_runs(stage->xds));
	struct xds_counts counts = xds_counts(stage->xds);
	cr_expect_eq(counts.connections, 2);
	cr_expect_eq(counts.names, 3);
	cr_expect_eq(counts.refusals, 1);
	cr_expect_eq(counts.restarts, 0);
	json_t *json = xds_json(stage->xds);
	cr_expect_gt(json_integer_value(json_object_get(json, "pid")), 1);
	json_object_del(json, "pid");
	char *text = json_dumps(json, JSON_COMPACT | JSON_SORT_KEYS);
	cr_expect_str_eq(text,
		"{\"connections\":2,\"domain\":\"berth\",\"failover\":[\"/net/b\",\"/net/c\"],"
		"\"listen\":\"127.0.0.1:1\",\"min_instances\":4,\"names\":3,\"refusals\":1,"
		"\"restarts\":0,\"running\":true,\"zone\":\"eu/1\"}");
	free(text);
	json_decref(json);
}

XDS_TEST(its_lines_go_to_the_log_at_their_levels)
{
	start(stage,
		"exec 3>&1 >&2; echo 'berth-xds: error: one'; echo 'berth-xds: warn: two'; "
		"printf 'berth-xds: info: '; echo three; echo 'odd: four'; "
		"head -c 3000 /dev/zero | tr '\\0' x; exec >&3; " FIGURES STAND);
	RUN_UNTIL(stage,
		xds_counts(stage->xds).names > 0 && strstr(text_of(stage->log), "odd: four") &&
			strstr(text_of(stage->log), "xxx"));
	const char *log = text_of(stage->log);
	cr_expect(strstr(log, "error xds: one\n"), "%s", log);
	cr_expect(strstr(log, "warn  xds: two\n"), "%s", log);
	cr_expect(strstr(log, "info  xds: three\n"), "%s", log);
	cr_expect(strstr(log, "warn  xds: odd: four\n"), "%s", log);
	cr_expect_null(strstr(log, "berth-xds"), "each once");
}

XDS_TEST(a_line_may_come_in_parts)
{
	start(stage,
		"printf q >&2; " FIGURES AWAIT("go") "echo uiet >&2; echo >&2; "
						     "echo '{\"names\":4}'; " STAND);
	RUN_UNTIL(stage, xds_counts(stage->xds).names == 3);
	go_on(stage);
	cr_expect_null(strstr(text_of(stage->log), "xds: "));
	put(stage, "go", 0);
	RUN_UNTIL(stage, xds_counts(stage->xds).names == 4);
	go_on(stage);
	cr_expect(strstr(text_of(stage->log), "xds: quiet\n"), "%s", text_of(stage->log));
	cr_expect(strstr(text_of(stage->log), "xds: \n"), "%s", text_of(stage->log));
}

/* A line of 2048 bytes is one, even without its end. */
XDS_TEST(a_line_has_a_bound)
{
	put(stage, "most", 2047);
	put(stage, "more", 2048);
	start(stage,
		"cat most >&2; " FIGURES AWAIT(
			"go") "echo y >&2; cat more >&2; "
			      "echo '{\"names\":4}'; " AWAIT(
				      "on") "echo z >&2; echo '{\"names\":5}'; " STAND);
	RUN_UNTIL(stage, xds_counts(stage->xds).names == 3);
	go_on(stage);
	cr_expect_null(strstr(text_of(stage->log), "xds: "));
	put(stage, "go", 0);
	RUN_UNTIL(stage, xds_counts(stage->xds).names == 4);
	go_on(stage);
	/* The log cuts them. */
	const char *line = strstr(text_of(stage->log), "xds: x");
	cr_expect(line && strstr(line + 1, "xds: x"), "two long lines");
	cr_expect_null(strstr(text_of(stage->log), "xds: y"), "the end of the first one");
	put(stage, "on", 0);
	RUN_UNTIL(stage, xds_counts(stage->xds).names == 5);
	go_on(stage);
	cr_expect(strstr(text_of(stage->log), "xds: z\n"));
}

XDS_TEST(many_lines_at_once_are_all_told)
{
	FILE *file = fopen(in(stage, "lines"), "w");
	for (int i = 0; i < 60; i++) {
		fprintf(file, "berth-xds: info: %d %0100d\n", i, 0);
	}
	fclose(file);
	start(stage, "cat lines >&2; >told; " FIGURES STAND);
	while (access(in(stage, "told"), F_OK) != 0) {
		usleep(1000);
	}
	RUN_UNTIL(stage, xds_counts(stage->xds).names > 0);
	go_on(stage);
	for (int i = 0; i < 60; i++) {
		char line[32];
		snprintf(line, sizeof(line), "info  xds: %d 0000", i);
		cr_expect(strstr(text_of(stage->log), line), "%s", line);
	}
}

XDS_TEST(the_last_figures_count)
{
	start(stage,
		FIGURES
		"echo '{\"connections\":7,\"names\":8,\"refusals\":9}'; echo '[1]'; echo no; "
		"echo told >&2; " STAND);
	RUN_UNTIL(stage, strstr(text_of(stage->log), "told"));
	go_on(stage);
	cr_expect_eq(xds_counts(stage->xds).connections, 7);
	cr_expect_eq(xds_counts(stage->xds).names, 8);
	cr_expect_eq(xds_counts(stage->xds).refusals, 9);
}

XDS_TEST(the_child_is_of_the_agents_session_and_gains_no_privileges)
{
	char expected[64];
	start(stage,
		"cut -d' ' -f6 /proc/$$/stat >told; grep NoNewPrivs /proc/$$/status >>told; "
		"echo $LD_BIND_NOW >>told; " FIGURES STAND);
	RUN_UNTIL(stage, xds_counts(stage->xds).names > 0);
	snprintf(expected, sizeof(expected), "%d\nNoNewPrivs:\t1\n1\n", (int)getsid(0));
	cr_expect_str_eq(text_of(in(stage, "told")), expected);
}

/* ---- children that end ---- */

/* The next one runs when the pause is over, and not before. */
static void expect_pause(struct stage *stage, int64_t pause_ms)
{
	RUN_UNTIL(stage, !xds_runs(stage->xds));
	clock_shift_ms += pause_ms - 1;
	go_on(stage);
	cr_expect_not(xds_runs(stage->xds), "before %d ms", (int)pause_ms);
	uint64_t before = xds_counts(stage->xds).restarts;
	clock_shift_ms += 2;
	go_on(stage);
	cr_assert_eq(xds_counts(stage->xds).restarts, before + 1, "after %d ms", (int)pause_ms);
}

XDS_TEST(pauses_double_up_to_half_a_minute)
{
	clock_stands = true;
	clock_shift_ms = 1000;
	start(stage, "exit 3");
	for (int64_t pause_ms = 200; pause_ms < 30000; pause_ms *= 2) {
		expect_pause(stage, pause_ms);
	}
	expect_pause(stage, 30000);
	expect_pause(stage, 30000);
}

/* Ends the child that runs, after that time. */
static void kill_after(const struct stage *stage, int64_t ms)
{
	clock_shift_ms += ms;
	cr_assert_eq(kill(child_of(stage), SIGKILL), 0);
}

XDS_TEST(after_a_minute_without_an_end_the_first_pause_comes_again)
{
	clock_stands = true;
	clock_shift_ms = 1000;
	start(stage, STAND);
	kill_after(stage, 0);
	expect_pause(stage, 200);
	kill_after(stage, 0);
	expect_pause(stage, 400);
	/* To the second, as no fraction of it is exact. */
	kill_after(stage, 0);
	RUN_UNTIL(stage, !xds_runs(stage->xds));
	clock_shift_ms += 1000 - clock_shift_ms % 1000 + 1000;
	go_on(stage);
	cr_assert(xds_runs(stage->xds));
	kill_after(stage, 60000);
	expect_pause(stage, 1600);
	kill_after(stage, 60100);
	expect_pause(stage, 200);
}

XDS_TEST(other_children_and_a_child_that_is_stopped_end_nothing)
{
	start(stage, STAND);
	pid_t other = fork();
	if (other == 0) {
		_exit(7);
	}
	ev_child ends;
	ev_child stops;
	ev_child_init(&ends, on_other_child, other, 0);
	ev_child_init(&stops, on_other_child, child_of(stage), 1);
	other_children = 0;
	ev_child_start(stage->loop, &ends);
	ev_child_start(stage->loop, &stops);
	RUN_UNTIL(stage, other_children == 1);
	go_on(stage);
	cr_expect_str_eq(stage->states, "runs() ");
	kill(child_of(stage), SIGSTOP);
	RUN_UNTIL(stage, other_children == 2);
	go_on(stage);
	cr_expect_str_eq(stage->states, "runs() ");
	kill(child_of(stage), SIGCONT);
	ev_child_stop(stage->loop, &ends);
	ev_child_stop(stage->loop, &stops);
}

/* A process that it leaves behind may hold its end of the pipe. */
XDS_TEST(the_log_goes_on_until_the_next_child)
{
	clock_stands = true;
	clock_shift_ms = 1000;
	start(stage,
		"[ -e again ] || { >again; (" AWAIT(
			"go") "echo late >&2; " STAND
			      ") & echo $! >left; exit 3; }; " FIGURES STAND);
	int with_a_child = descriptors_count();
	RUN_UNTIL(stage, strstr(stage->states, "ends"));
	put(stage, "go", 0);
	RUN_UNTIL(stage, strstr(text_of(stage->log), "xds: late\n"));
	clock_shift_ms += 201;
	RUN_UNTIL(stage, xds_counts(stage->xds).names > 0);
	cr_expect_eq(descriptors_count(), with_a_child);
	pid_t left = (pid_t)atoi(text_of(in(stage, "left")));
	cr_assert_gt(left, 1);
	kill(left, SIGKILL);
}

XDS_TEST(without_a_pipe_it_waits)
{
	struct rlimit limit;
	cr_assert_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
	int free_fd = dup(STDIN_FILENO);
	close(free_fd);
	clock_stands = true;
	clock_shift_ms = 1000;
	install(stage, FIGURES STAND);
	/* For none of the two pipes, and for one. */
	for (int pipes = 0; pipes < 2; pipes++) {
		const struct rlimit less = { (rlim_t)(free_fd + 2 * pipes), limit.rlim_max };
		cr_assert_eq(setrlimit(RLIMIT_NOFILE, &less), 0);
		start_with(stage, &config);
		cr_assert_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
		cr_expect(
			strstr(stage->states, "ends(no pipe for berth-xds: "), "%s", stage->states);
		cr_expect(strstr(stage->states, strerror(EMFILE)), "%s", stage->states);
		cr_expect_null(strstr(stage->states, "runs"));
		cr_expect_geq(fcntl(STDIN_FILENO, F_GETFD), 0, "nobody has closed it");
		stage->states[0] = '\0';
		clock_shift_ms += 201;
		RUN_UNTIL(stage, xds_counts(stage->xds).names > 0);
		cr_expect_str_eq(stage->states, "runs() ");
		stage->states[0] = '\0';
		xds_destroy(stage->xds);
		stage->xds = NULL;
	}
}

XDS_TEST(after_its_end_nothing_is_started)
{
	clock_stands = true;
	clock_shift_ms = 1000;
	start(stage, "exit 3");
	RUN_UNTIL(stage, strstr(stage->states, "ends"));
	xds_destroy(stage->xds);
	stage->xds = NULL;
	clock_shift_ms += 60000;
	go_on(stage);
	cr_expect_str_eq(stage->states, "runs() ends(exited with 3) ");
}

XDS_TEST(a_child_that_ends_is_started_again_after_a_pause)
{
	start(stage, FIGURES "echo last words >&2; [ -e again ] && " STAND "; >again; exit 3");
	RUN_UNTIL(stage, strstr(stage->states, "ends"));
	cr_expect_str_eq(stage->states, "runs() ends(exited with 3) ");
	cr_expect_not(xds_runs(stage->xds));
	cr_expect_eq(xds_counts(stage->xds).names, 0);
	cr_expect(strstr(text_of(stage->log), "last words\n"));
	json_t *json = xds_json(stage->xds);
	cr_expect_eq(json_integer_value(json_object_get(json, "pid")), 0);
	json_decref(json);
	RUN_UNTIL(stage, xds_counts(stage->xds).names > 0);
	cr_expect_str_eq(stage->states, "runs() ends(exited with 3) runs() ");
	cr_expect_eq(xds_counts(stage->xds).restarts, 1);
}

XDS_TEST(figures_end_with_the_child_that_told_them)
{
	start(stage, FIGURES ">told");
	while (access(in(stage, "told"), F_OK) != 0) {
		usleep(1000);
	}
	RUN_UNTIL(stage, strstr(stage->states, "ends"));
	install(stage, STAND);
	RUN_UNTIL(stage, xds_runs(stage->xds));
	cr_expect_eq(xds_counts(stage->xds).names, 0);
}

XDS_TEST(a_child_that_is_killed_is_told_so)
{
	start(stage, "kill -KILL $$");
	RUN_UNTIL(stage, strstr(stage->states, "ends"));
	cr_expect_str_eq(stage->states, "runs() ends(killed by signal 9) ");
}

XDS_TEST(a_program_that_is_not_there_is_looked_for_again)
{
	start_with(stage, &config);
	cr_expect(strstr(stage->states, "ends("), "%s", stage->states);
	cr_expect(strstr(stage->states, "berth-xds"), "%s", stage->states);
	cr_expect_null(strstr(stage->states, "runs"), "%s", stage->states);
	install(stage, FIGURES STAND);
	RUN_UNTIL(stage, xds_runs(stage->xds));
}

XDS_TEST(without_a_place_for_it_it_lies_beside_the_agent)
{
	unsetenv("BERTH_LIBEXECDIR");
	start_with(stage, &config);
	cr_expect(strstr(stage->states, "/berth-xds"), "%s", stage->states);
	cr_expect_null(strstr(stage->states, stage->folder));
	setenv("BERTH_LIBEXECDIR", "", 1);
	xds_destroy(stage->xds);
	stage->xds = NULL;
	stage->states[0] = '\0';
	start_with(stage, &config);
	cr_expect(strstr(stage->states, "/berth-xds"), "%s", stage->states);
	cr_expect_null(strstr(stage->states, " /berth-xds"));
}

XDS_TEST(a_process_that_it_leaves_behind_holds_nobody_up)
{
	start(stage, "sleep 60 & echo $! >left; exit 3");
	RUN_UNTIL(stage, strstr(stage->states, "ends(exited with 3)"));
	pid_t left = (pid_t)atoi(text_of(in(stage, "left")));
	cr_assert_gt(left, 1);
	kill(left, SIGKILL);
}

XDS_TEST(a_child_that_closes_its_pipes_goes_on)
{
	start(stage, "exec >&- 2>&-; >closed; " STAND);
	while (access(in(stage, "closed"), F_OK) != 0) {
		usleep(1000);
	}
	for (int i = 0; i < 2; i++) {
		errno = EAGAIN; /* says nothing of a pipe at its end */
		ev_run(stage->loop, EVRUN_NOWAIT);
	}
	cr_expect_eq(descriptors_count(), stage->descriptors);
	cr_expect(xds_runs(stage->xds));
}

XDS_TEST(the_child_ends_with_its_owner)
{
	start(stage, FIGURES STAND);
	RUN_UNTIL(stage, xds_counts(stage->xds).names > 0);
	ev_child ends;
	ev_child_init(&ends, on_other_child, child_of(stage), 0);
	other_children = 0;
	xds_destroy(stage->xds);
	stage->xds = NULL;
	ev_child_start(stage->loop, &ends);
	RUN_UNTIL(stage, other_children == 1);
	cr_expect(WIFSIGNALED(ends.rstatus) && WTERMSIG(ends.rstatus) == SIGTERM);
	ev_child_stop(stage->loop, &ends);
	cr_expect_str_eq(stage->states, "runs() ");
}
