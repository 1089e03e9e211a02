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

LIFE(upgrade_end, a_long_poll_is_answered_by_the_old_program, LIFE_COMPONENT("a"))
{
	char text[512];
	install(life, "");
	life_start(life, NULL);
	LIFE_UNTIL(life_is_ready(life));
	int first = open_connection(life, "GET /v1/agent/checks HTTP/1.1\r\nHost: l\r\n\r\n");
	char answer[4096];
	ssize_t len = recv(first, answer, sizeof(answer) - 1, 0);
	answer[len > 0 ? len : 0] = '\0';
	close(first);
	const char *tag = strstr(answer, "ETag: ");
	cr_assert_not_null(tag, "%s", answer);
	snprintf(text, sizeof(text),
		"GET /v1/agent/checks HTTP/1.1\r\nHost: l\r\nIf-None-Match: %.*s\r\nPrefer: "
		"wait=600\r\n\r\n",
		(int)strcspn(tag + 6, "\r"), tag + 6);
	int poll = open_connection(life, text);
	ask_for_upgrade(life);
	json_t *document = upgraded(life);
	expect_answer(poll, "HTTP/1.1 304 ");
	json_decref(document);
}

LIFE(upgrade_end, a_refusal_after_a_stop_is_none, "drain_delay = 1h\n" LIFE_COMPONENT("a"))
{
	install(life, "while ! [ -e go ]; do sleep 0.01; done; echo >went; exit 1\n");
	life_start(life, NULL);
	LIFE_UNTIL(life_is_ready(life));
	ask_for_upgrade(life);
	LIFE_UNTIL(life_has(life, "tested"));
	cr_assert_eq(kill(life->pid, SIGTERM), 0);
	cr_expect_str_eq(life_told(life), "STOPPING=1");
	LIFE_UNTIL(strcmp(life_shows(life, "phase"), "\"lingering\"") == 0);
	life_write(life, "go", "");
	LIFE_UNTIL(life_has(life, "went"));
	for (int i = 0; i < 20; i++) {
		usleep(5000);
		cr_expect_str_eq(life_last(life, "agent"), "");
	}
	cr_assert_eq(kill(life->pid, SIGQUIT), 0);
	cr_expect_eq(life_wait(life), 0);
	cr_expect_not(life_logs(life, "upgrading"));
}

/* ---- the program that is executed ---- */

LIFE(upgrade_end, an_agent_that_can_execute_nothing_ends_with_an_error, "")
{
	watch_turns();
	turn->refuses = true;
	install(life, "");
	life_start(life, NULL);
	ask_for_upgrade(life);
	cr_expect_eq(life_wait(life), 1);
	/* A process of its own writes the log. */
	LIFE_UNTIL(life_logs(life, ": executing the old program again\n"));
	LIFE_UNTIL(life_logs(life, "error upgrade: cannot go on: "));
}

/* This program, executed as the new one, becomes the script. */
__attribute__((constructor)) static void become_script(int argc, char **argv)
{
	(void)argc;
	const char *path = getenv("LIFE_SCRIPT");
	if (path) {
		execve(path, argv, environ);
	}
}

LIFE(upgrade_end, without_proc_the_program_is_the_one_that_was_executed, "")
{
	char path[PATH_MAX];
	install(life, "");
	setenv("LIFE_SCRIPT", life_path(life, "program"), 1);
	program = "";
	life_start(life, NULL);
	ask_for_upgrade(life);
	json_t *document = upgraded(life);
	cr_assert_not_null(realpath((const char *)getauxval(AT_EXECFN), path));
	cr_expect_str_eq(text_of(document, "binary"), path);
	json_decref(document);
}

/* This process, or one that it forks, is to be the successor of an agent with this document. */
static int become_successor(json_t *document)
{
	char number[16];
	json_object_set_new(document, "version", json_integer(1));
	json_object_set_new(document, "files_limit", json_integer(1024));
	int fd = memfd_create("document", 0);
	cr_assert_eq(json_dumpfd(document, fd, 0), 0);
	json_decref(document);
	snprintf(number, sizeof(number), "%d", fd);
	setenv("BERTH_UPGRADE", number, 1);
	return fd;
}

static void succeed(struct life *life, json_t *document)
{
	int fd = become_successor(document);
	life_start(life, NULL);
	unsetenv("BERTH_UPGRADE");
	close(fd);
}

LIFE(upgrade_end, a_program_whose_name_is_too_long_is_looked_for_again, "")
{
	char name[5000];
	memset(name, 'x', sizeof(name));
	for (size_t len = 4096; len < sizeof(name); len += 903) {
		name[len] = '\0';
		install(life, "");
		succeed(life, json_pack("{s:s}", "binary", name));
		ask_for_upgrade(life);
		json_t *document = upgraded(life);
		cr_expect_str_eq(text_of(document, "binary"), program);
		json_decref(document);
		unlink(life_path(life, "document"));
		name[len] = 'x';
	}
}

LIFE(upgrade_end, a_successor_executes_the_program_of_its_predecessor, "")
{
	install(life, "");
	const char *path = program;
	program = "/no/such/program";
	succeed(life, json_pack("{s:s}", "binary", path));
	ask_for_upgrade(life);
	json_t *document = upgraded(life);
	cr_expect_str_eq(text_of(document, "binary"), path);
	json_decref(document);
}

/* The signals of a line of /proc/PID/status, without the two that are glibc's own. */
static unsigned long long signals_in(const char *text, const char *name)
{
	const char *line = strstr(text, name);
	cr_assert_not_null(line, "%s", text);
	return strtoull(line + strlen(name), NULL, 16) & ~(3ULL << 31);
}

LIFE(upgrade_end, the_test_of_the_new_program_gets_no_input_and_hears_signals, "")
{
	sigset_t set;
	install(life,
		"files=$(readlink /proc/$$/fd/0 /proc/$$/fd/1)\n"
		"while read -r name value; do echo $name $value; done </proc/$$/status >status\n"
		"echo \"$files\" >files\n"
		"exit 1\n");
	signal(SIGURG, SIG_IGN);
	sigemptyset(&set);
	sigaddset(&set, SIGVTALRM);
	sigprocmask(SIG_BLOCK, &set, NULL);
	life_start(life, NULL);
	ask_for_upgrade(life);
	cr_expect_str_eq(life_told(life), "READY=1");
	cr_expect_eq(signals_in(life_read(life, "status"), "SigBlk: "), 0);
	cr_expect_eq(signals_in(life_read(life, "status"), "SigIgn: "), 0);
	cr_expect_str_eq(life_read(life, "files"), "/dev/null\n/dev/null\n");
}

/* ---- what ends, and what goes along ---- */

LIFE(upgrade_end, checks_under_way_end, "")
{
	install(life, "");
	life_write(life, "begun",
		"while grep -q '^State:.[RS]' /proc/$(cat pid)/status; do sleep 0.01; done\n");
	configure_check(life, "", "echo $$ >pid; exec sleep 1000");
	life_start(life, NULL);
	LIFE_UNTIL(strchr(life_read(life, "pid"), '\n'));
	ask_for_upgrade(life);
	json_decref(upgraded(life));
}

LIFE(upgrade_end, the_outputs_of_checks_stay_in_the_history, "")
{
	install(life, "");
	configure_check(life, "", "echo no disk; exit 1");
	life_start(life, NULL);
	LIFE_UNTIL(*life_last(life, "check c"));
	ask_for_upgrade(life);
	json_t *document = upgraded(life);
	char *history = json_dumps(json_object_get(document, "history"), 0);
	cr_expect_not_null(strstr(history, "\"output\": \"no disk"), "%s", history);
	free(history);
	json_decref(document);
}

LIFE(upgrade_end, the_cache_is_saved, LIFE_COMPONENT("a"))
{
	install(life, "");
	life_start(life, NULL);
	LIFE_UNTIL(life_is_ready(life));
	json_decref(life_ask(life, "GET", "/v1/resolve/app/a", NULL));
	ask_for_upgrade(life);
	json_decref(upgraded(life));
	cr_expect_not_null(strstr(life_read(life, "state/cache"), "/app/a"), "%s",
		life_read(life, "state/cache"));
}

static void expect_socket(struct life *life, const json_t *number)
{
	char text[64];
	snprintf(text, sizeof(text), " %d -> socket:", (int)json_integer_value(number));
	cr_expect(json_is_integer(number));
	cr_expect_not_null(strstr(life_read(life, "open"), text), "%s", life_read(life, "open"));
}

LIFE(upgrade_end, sockets_of_each_kind_go_along, "")
{
	char text[1024];
	static const char names[] = "127.0.0.1:53"; /* the predecessor's */
	static const char *const kinds[] = { "dns", "listens", "bridge" };
	static const size_t counts[] = { 2, 1, 1 };
	install(life, "");
	life_write(life, "berth-xds", "#!/bin/sh\nexec sleep 1000\n");
	cr_assert_eq(chmod(life_path(life, "berth-xds"), 0755), 0);
	cr_assert_eq(mkdir(life_path(life, "containers"), 0755), 0);
	cr_assert_eq(mkdir(life_path(life, "containers/c1"), 0755), 0);
	scratch_programs(life->folder);
	snprintf(text, sizeof(text),
		"[listen l]\naddress = 127.0.0.1:0\nunder = /app/**\n[dns]\nlisten = %s\n"
		"[xds]\nlisten = %s/x\n[bridge]\ncontainers = %s/containers\n"
		"[container *]\nallow = /app/**\n",
		names, life->folder, life->folder);
	life_configure(life, text);
	int udp = socket(AF_INET, SOCK_DGRAM, 0);
	int tcp = socket(AF_INET, SOCK_STREAM, 0);
	cr_assert_eq(listen(tcp, 1), 0);
	succeed(life,
		json_pack("{s:[{s:s, s:b, s:i}, {s:s, s:b, s:i}]}", "dns", "address", names, "tcp",
			false, "fd", udp, "address", names, "tcp", true, "fd", tcp));
	LIFE_UNTIL(life_has(life, "containers/c1/berth.sock"));
	ask_for_upgrade(life);
	json_t *document = upgraded(life);
	for (size_t i = 0; i < 3; i++) {
		const json_t *list = json_object_get(document, kinds[i]);
		cr_assert_eq(json_array_size(list), counts[i], "%s", kinds[i]);
		for (size_t j = 0; j < counts[i]; j++) {
			expect_socket(life, json_object_get(json_array_get(list, j), "fd"));
		}
	}
	expect_socket(life, json_object_get(document, "xds_fd"));
	snprintf(text, sizeof(text), "%s/x", life->folder);
	cr_expect_str_eq(text_of(document, "xds"), text);
	json_decref(document);
	close(udp);
	close(tcp);
}

static void become_successor_with_main_process(void)
{
	pid_t pid = fork();
	if (pid == 0) {
		execlp("sleep", "sleep", "1000", NULL);
		_exit(1);
	}
	(void)become_successor(json_pack("{s:i}", "main_pid", (int)pid));
}

LIFE(upgrade_end, the_main_process_of_a_predecessor_goes_on, "")
{
	char *const main_process[] = { "--", "false", NULL };
	life_before = become_successor_with_main_process;
	life_start(life, main_process);
	cr_expect_str_eq(life_shows(life, "main_process.running"), "true");
	pid_t pid = (pid_t)atoi(life_shows(life, "main_process.pid"));
	cr_assert_gt(pid, 1);
	cr_assert_eq(kill(pid, SIGKILL), 0);
	cr_expect_eq(life_wait(life), 128 + SIGKILL);
	cr_expect(life_logs(life, "main process: running -> stopped: "), "%s",
		life_read(life, "log"));
}
