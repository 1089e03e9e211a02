/*
 * USR2: the test of the new program, the wait for requests and files, the document, and what a
 * successor keeps.
 */
#include <sys/resource.h>

#include "agent/core/state.h"
#include "agent/life/upgrade.h"
#include "lib/base/array.h"
#include "tests/unit/agent/life/upgrade_stage.h"

/* ---- what is passed on ---- */

LIFE(upgrade, another_registry_gets_no_session, LIFE_COMPONENT("a"))
{
	char verdict[2 * SCRATCH_PATH];
	snprintf(verdict, sizeof(verdict), "sed -i 's#/registry$#/other#' %s\n",
		life_path(life, "berth.ini"));
	install(life, verdict);
	life_start(life, NULL);
	LIFE_UNTIL(life_is_ready(life));
	ask_for_upgrade(life);
	json_t *document = upgraded(life);
	cr_expect_null(json_object_get(document, "session"));
	json_decref(document);
}

/* ---- the test of the new program ---- */

LIFE(upgrade, a_program_that_does_not_answer_is_killed, "")
{
	install(life, "exec sleep 1000\n");
	life_start(life, NULL);
	life_stand();
	ask_for_upgrade(life);
	LIFE_UNTIL(strchr(life_read(life, "tested"), '\n'));
	cr_assert_eq(kill(life->pid, SIGUSR2), 0); /* one at a time */
	life_pass(life, 9);
	json_decref(life_ask(life, "GET", "/live", NULL));
	cr_expect_str_eq(life_last(life, "agent"), "");
	life_pass(life, 2);
	expect_refusal(life,
		"the new program does not start, or refuses the configuration: the old one stays");
	cr_expect_eq(strchr(life_read(life, "tested"), '\n') + 1,
		life_read(life, "tested") + strlen(life_read(life, "tested")));
}

LIFE(upgrade, a_stop_ends_the_test, "drain_delay = 1h\n" LIFE_COMPONENT("a"))
{
	char verdict[SCRATCH_PATH + 64];
	snprintf(
		verdict, sizeof(verdict), "echo $$ >%s\nexec sleep 1000\n", life_path(life, "pid"));
	install(life, verdict);
	prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
	life_start(life, NULL);
	LIFE_UNTIL(life_is_ready(life));
	ask_for_upgrade(life);
	LIFE_UNTIL(strchr(life_read(life, "pid"), '\n'));
	pid_t pid = (pid_t)atoi(life_read(life, "pid"));
	cr_assert_eq(kill(life->pid, SIGTERM), 0);
	LIFE_UNTIL(strcmp(life_shows(life, "phase"), "\"lingering\"") == 0);
	cr_assert_eq(kill(life->pid, SIGUSR2), 0); /* none begins any more */
	cr_assert_eq(kill(life->pid, SIGQUIT), 0);
	cr_expect_eq(life_wait(life), 0);
	int status = 0;
	cr_expect_eq(waitpid(pid, &status, 0), pid);
	cr_expect(WIFSIGNALED(status), "it has ended with the agent");
	cr_expect_not(life_has(life, "document"));
}

LIFE(upgrade, a_configuration_that_has_become_bad_stops_it, "")
{
	char verdict[2 * SCRATCH_PATH];
	snprintf(verdict, sizeof(verdict), "echo nonsense >>%s\n", life_path(life, "berth.ini"));
	install(life, verdict);
	life_start(life, NULL);
	ask_for_upgrade(life);
	expect_refusal(life, "the configuration has become bad: the old program stays");
	cr_expect_eq(life_stop(life), 0);
}

LIFE(upgrade, without_the_new_program_the_old_one_is_executed_again, "")
{
	install(life, "rm program\n");
	life_start(life, NULL);
	ask_for_upgrade(life);
	cr_expect_neq(life_wait(life), 1); /* this test's program, which knows no such arguments */
	cr_expect(life_logs(life, "program: No such file or directory: executing the old program"));
	cr_expect_not(life_logs(life, "cannot go on"));
}

/* ---- requests and files ---- */

#define SLOW_CHECK LIFE_COMPONENT("a") "[check c]\ncommand = sleep 1000\ntimeout = 1h\n"
#define CUT_OFF "warn  upgrade: requests under way take too long, and are cut off"

LIFE(upgrade, requests_under_way_are_waited_for_and_then_cut_off, SLOW_CHECK)
{
	install(life, "");
	life_start(life, NULL);
	int request = open_connection(life, RUN_CHECK);
	life_stand();
	ask_for_upgrade(life);
	LIFE_UNTIL(life_has(life, "tested"));
	for (int i = 0; i < 20; i++) {
		usleep(5000);
		json_decref(life_ask(life, "GET", "/v1/agent", NULL));
		cr_assert_str_eq(life->problem, "", "it goes on meanwhile");
	}
	life_pass(life, 1);
	cr_expect_not(life_has(life, "document"));
	cr_expect_not(life_logs(life, CUT_OFF));
	LIFE_UNTIL((life_pass(life, 1), life_logs(life, CUT_OFF)));
	json_decref(upgraded(life));
	close(request);
}

/* While the disk hangs: a drain has to be saved. */
static int hang(struct life *life)
{
	static char path[SCRATCH_PATH + 64];
	snprintf(path, sizeof(path), "%s", life_path(life, "hangs"));
	cr_assert_eq(mkfifo(path, 0600), 0);
	gate = path;
	life_start(life, NULL);
	return open_connection(life,
		"POST /v1/agent/drain HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
		"application/json\r\nContent-Length: 2\r\n\r\n{}");
}

static void let_go(void)
{
	int held = open(gate, O_RDWR | O_CLOEXEC);
	cr_assert_geq(held, 0);
	unlink(gate);
	usleep(1000);
	close(held);
}

LIFE(upgrade, a_disk_that_hangs_stops_it, "")
{
	install(life, "");
	int request = hang(life);
	LIFE_UNTIL(strcmp(life_shows(life, "drain.active"), "true") == 0);
	life_pass(life, 3); /* the order is answered without the disk */
	life_stand();
	ask_for_upgrade(life);
	LIFE_UNTIL(life_has(life, "tested"));
	for (int i = 0; i < 20; i++) {
		usleep(5000);
		json_decref(life_ask(life, "GET", "/live", NULL));
	}
	life_pass(life, 2);
	life_pass(life, 7);
	cr_expect_str_eq(life_last(life, "agent"), "");
	LIFE_UNTIL((life_pass(life, 1), *life_last(life, "agent")));
	cr_expect_not(life_logs(life, CUT_OFF));
	expect_refusal(life, "the disk does not take our files: the old program stays");
	let_go();
	close(request);
}

/* ---- what a successor keeps ---- */

struct successor {
	struct config config;
	struct config_listen listens[2];
	struct agent agent;
	struct upgrade received;
};

/* The descriptors of a predecessor with these options: each is open. */
static void receive(struct successor *successor, const char *socket, const char *path)
{
	struct upgrade *received = &successor->received;
	successor->config.agent = (struct config_agent){ .socket = "/run/sock",
		.socket_mode = 0660,
		.socket_group_id = 7,
		.state_dir = "/state",
		.listen = "h:1" };
	successor->config.xds.listen = "/xds";
	successor->listens[0] = (struct config_listen){ .name = "a", .address = "h:2" };
	successor->listens[1] = (struct config_listen){ .name = "b", .address = "h:3" };
	successor->config.listens = successor->listens;
	successor->config.listen_count = 2;
	successor->agent.config = &successor->config;
	*received = (struct upgrade){
		.document = json_pack("{s:s, s:s, s:s, s:s, s:s, s:f, s:I, s:I, s:s}", "socket",
			socket, "socket_path", path, "state_dir", "/state", "listen", "h:1", "xds",
			"/xds", "started", 17.5, "core_limit", (json_int_t)11, "files_limit",
			(json_int_t)12, "binary", "/usr/sbin/berthd"),
		.socket_fd = open("/dev/null", O_RDONLY),
		.listen_fd = open("/dev/null", O_RDONLY),
		.lock_fd = open("/dev/null", O_RDONLY),
		.xds_fd = open("/dev/null", O_RDONLY)
	};
	upgrade_add_listen(received, "a", "h:2", open("/dev/null", O_RDONLY));
	upgrade_add_listen(received, "b", "h:3", open("/dev/null", O_RDONLY));
	successor->agent.loop = ev_loop_new(EVFLAG_AUTO);
}

/* "socket listen lock xds a b": those that are kept, of which the others are closed. */
static const char *kept(struct successor *successor)
{
	static char text[64];
	static const char *const names[] = { "socket", "listen", "lock", "xds", "a", "b" };
	struct upgrade *received = &successor->received;
	const int before[] = { received->socket_fd, received->listen_fd, received->lock_fd,
		received->xds_fd, received->listens[0].fd, received->listens[1].fd };
	agent_upgrade_init(&successor->agent, received);
	const int after[] = { received->socket_fd, received->listen_fd, received->lock_fd,
		received->xds_fd, received->listens[0].fd, received->listens[1].fd };
	text[0] = '\0';
	for (size_t i = 0; i < 6; i++) {
		bool open_still = fcntl(before[i], F_GETFD) >= 0;
		cr_expect_eq(after[i], open_still ? before[i] : -1, "%s", names[i]);
		if (open_still) {
			strcat(strcat(text, *text ? " " : ""), names[i]);
			close(before[i]);
		}
	}
	agent_upgrade_finish(&successor->agent);
	cr_expect_null(successor->agent.upgrade);
	agent_upgrade_finish(&successor->agent); /* there is none any more */
	ev_loop_destroy(successor->agent.loop);
	upgrade_finish(received);
	return text;
}

#define SOCKET "/run/sock 0660 7"

Test(successor, a_socket_whose_use_is_the_same_is_kept)
{
	struct successor successor = { 0 };
	receive(&successor, SOCKET, "");
	cr_expect_str_eq(kept(&successor), "socket listen lock xds a b");
	cr_expect_eq(successor.agent.started, 17.5);
	cr_expect_eq(successor.agent.limits.core.rlim_cur, 11);
	cr_expect_eq(successor.agent.limits.files.rlim_cur, 12);
	struct rlimit limit;
	getrlimit(RLIMIT_NOFILE, &limit);
	cr_expect_eq(successor.agent.limits.files.rlim_max, limit.rlim_max);
	cr_expect_not(successor.agent.keep_socket);
}

Test(successor, a_socket_whose_use_has_changed_is_closed)
{
	static const struct {
		const char *member;
		const char *kept;
	} cases[] = { { "socket", "listen lock xds a b" }, { "listen", "socket lock xds a b" },
		{ "state_dir", "socket listen xds a b" }, { "xds", "socket listen lock a b" } };
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct successor successor = { 0 };
		receive(&successor, SOCKET, "");
		json_object_set_new(
			successor.received.document, cases[i].member, json_string("another"));
		cr_expect_str_eq(kept(&successor), cases[i].kept);
	}
	struct successor moved = { 0 };
	receive(&moved, SOCKET, "");
	moved.listens[0].address = "h:4";
	cr_expect_str_eq(kept(&moved), "socket listen lock xds b");
	struct successor renamed = { 0 };
	receive(&renamed, SOCKET, "");
	renamed.listens[1].name = "c";
	cr_expect_str_eq(kept(&renamed), "socket listen lock xds a");
	struct successor fewer = { 0 };
	receive(&fewer, SOCKET, "");
	fewer.config.listen_count = 1;
	cr_expect_str_eq(kept(&fewer), "socket listen lock xds a");
}

Test(successor, the_file_of_a_socket_that_is_closed_goes)
{
	struct scratch_listener listener;
	struct stat status;
	for (int same = 0; same < 2; same++) {
		struct successor successor = { 0 };
		scratch_listen(&listener);
		cr_assert_eq(stat(listener.address.sun_path, &status), 0);
		receive(&successor, same ? SOCKET : "another", listener.address.sun_path);
		successor.received.socket_place = (struct http_place){ .device = status.st_dev,
			.inode = status.st_ino };
		cr_expect_eq(strncmp(kept(&successor), "socket", 6) == 0, same);
		cr_expect_eq(access(listener.address.sun_path, F_OK) == 0, same);
		scratch_listen_end(&listener);
	}
}

Test(successor, a_fresh_start_takes_its_limits_and_keeps_its_time)
{
	struct successor successor = { 0 };
	struct rlimit files, core;
	getrlimit(RLIMIT_NOFILE, &files);
	getrlimit(RLIMIT_CORE, &core);
	core.rlim_cur = core.rlim_max > 4096 ? 4096 : core.rlim_max;
	cr_assert_eq(setrlimit(RLIMIT_CORE, &core), 0);
	receive(&successor, SOCKET, "");
	json_decref(successor.received.document);
	successor.received.document = NULL;
	successor.agent.started = 3;
	cr_expect_str_eq(kept(&successor), "socket listen lock xds a b");
	cr_expect_eq(successor.agent.limits.files.rlim_cur, files.rlim_cur);
	cr_expect_eq(successor.agent.limits.files.rlim_max, files.rlim_max);
	cr_expect_eq(successor.agent.limits.core.rlim_cur, core.rlim_cur);
	cr_expect_eq(successor.agent.limits.core.rlim_max, core.rlim_max);
	cr_expect_eq(successor.agent.started, 3);
}
