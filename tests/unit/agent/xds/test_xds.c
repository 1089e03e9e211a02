/* The child that serves gRPC, as the agent sees it: a shell script takes its place. */
#include "agent/xds/xds.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/base/log.h"
#include "tests/support/descriptors.h"
#include "tests/support/scratch.h"
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

static char zone[] = "eu/1", listen_address[] = "127.0.0.1:1", agent_socket[] = "/run/b.sock";
static char domain[] = "berth", all[] = "/services/**", one[] = "/users/joe/db";
static char *serve[] = { all, one };
static char further[] = "/net/b";
static char *failover[] = { further };
static const struct config config = { .agent = { .socket = agent_socket, .zone = zone },
	.dns = { .domain = domain },
	.xds = { .listen = listen_address,
		.serve = serve,
		.serve_count = 2,
		.prefer = CONFIG_XDS_ZONE,
		.failover = failover,
		.failover_count = 1,
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

XDS_TEST(the_child_has_its_options_and_the_listening_socket)
{
	start(stage, "echo \"$@\" >told; readlink /proc/self/fd/0 >>told; " FIGURES STAND);
	RUN_UNTIL(stage, xds_counts(stage->xds).names > 0);
	cr_expect_str_eq(text_of(in(stage, "told")),
		"--socket /run/b.sock --listen-fd 0 --status-fd 1 --domain berth "
		"--min-instances 4 --zone eu/1 --failover-hold 7000 --failover /net/b "
		"--serve /services/** --serve /users/joe/db\n"
		"/dev/zero\n");
	cr_expect_str_eq(stage->states, "runs() ");
}

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
		"{\"connections\":2,\"domain\":\"berth\",\"failover\":[\"/net/b\"],"
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
	json_t *json = xds_json(stage->xds);
	pid_t pid = (pid_t)json_integer_value(json_object_get(json, "pid"));
	json_decref(json);
	xds_destroy(stage->xds);
	stage->xds = NULL;
	int status = 0;
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	cr_expect(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
}
