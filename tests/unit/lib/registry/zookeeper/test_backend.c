/* The worker's life: started, listened to, replaced, closed; and what the backend's options say. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/base/array.h"
#include "tests/support/zk_stage.h"

int clock_gettime(clockid_t clock, struct timespec *now)
{
	return zk_stage_clock(clock, now);
}

enum { LASTED_MS = 1000, LONGEST_PAUSE_MS = ZK_STAGE_TIMEOUT_MS / 16, BEGIN_MS = 60000 };

static int64_t due_in_ms(void)
{
	return registry_zk_ops.deadline_ms(zk_stage.backend) - zk_stage.now_ms;
}

static void open_first(void)
{
	zk_stage_open((struct registry_options){ 0 });
}

#define assert_words(text, words) cr_assert(strstr(text, words), "%s", text)
#define assert_text(text, expected) cr_assert_str_eq(text, expected, "%s", text)

TestSuite(zk_backend, .init = zk_stage_open_connected, .fini = zk_stage_detach);
TestSuite(zk_first, .init = open_first, .fini = zk_stage_detach);
TestSuite(zk_options, .fini = zk_stage_detach);
TestSuite(zk_end, .fini = zk_stage_clear);

/* ---- what the worker says ---- */

Test(zk_backend, events_name_the_paths_of_the_registry)
{
	zk_stage_event(ZK_EVENT_DATA, "/registry/a/b", false);
	zk_stage_event(ZK_EVENT_CHILDREN, "/registry/a", false);
	zk_stage_event(ZK_EVENT_DATA, "/registry/a", true);
	zk_stage_event(ZK_EVENT_CHILDREN, "/registry", false);
	assert_text(zk_stage.changes, "data /a/b\nchildren /a\ngone /a\nchildren /\n");
}

Test(zk_backend, events_of_other_nodes_have_two_slashes)
{
	zk_stage_event(ZK_EVENT_DATA, "/registry2/a", false);
	zk_stage_event(ZK_EVENT_DATA, "/b", false);
	zk_stage_event(ZK_EVENT_DATA, "/", false);
	assert_text(zk_stage.changes, "data //registry2/a\ndata //b\ndata //\n");
}

/* The library repeats itself for as long as a server is away. */
Test(zk_first, words_of_the_library_are_a_warning_now_and_then)
{
	static const struct {
		int64_t pass_ms;
		const char *level;
	} steps[] = { { 0, "debug" }, { 1499, "debug" }, { 1, "warn" }, { 1, "debug" },
		{ 9998, "debug" }, { 1, "warn" }, { 1, "debug" } };
	for (size_t i = 0; i < ARRAY_LEN(steps); i++) {
		char line[64];
		zk_stage_pass_ms(steps[i].pass_ms);
		zk_stage.log[0] = '\0';
		zk_stage_log(ZK_LOG_LIBRARY, "refused");
		snprintf(line, sizeof(line), "%s: ZooKeeper: refused, attempt %zu\n",
			steps[i].level, i + 1);
		assert_text(zk_stage.log, line);
	}
	cr_assert_str_eq(zk_stage.trouble, "refused");
	zk_stage_connect();
	zk_stage_pass_ms(LASTED_MS);
	zk_stage_lose_connection();
	zk_stage.log[0] = '\0';
	zk_stage_log(ZK_LOG_LIBRARY, "refused");
	assert_text(zk_stage.log, "debug: ZooKeeper: refused, attempt 1\n");
}

Test(zk_backend, a_workers_cage_is_news_once)
{
	zk_stage.log[0] = '\0';
	zk_stage_log(ZK_LOG_CAGE, "cage: all");
	assert_text(zk_stage.log, "info: the ZooKeeper worker's cage: all\n");
	zk_stage_pass_ms(LASTED_MS);
	zk_stage_kill_worker();
	zk_stage.log[0] = '\0';
	zk_stage_log(ZK_LOG_CAGE, "cage: all");
	zk_stage_log(ZK_LOG_CAGE, "cage: less");
	assert_text(zk_stage.log,
		"debug: the ZooKeeper worker's cage: all\n"
		"info: the ZooKeeper worker's cage: less\n");
	cr_assert_eq(zk_stage.attempts, 0);
}

/* ---- the worker ends ---- */

Test(zk_backend, a_worker_that_lasted_is_replaced_at_once)
{
	for (unsigned i = 1; i < 4; i++) {
		zk_stage_pass_ms(LASTED_MS);
		zk_stage_kill_worker();
		cr_assert_eq(zk_stage.workers, i + 1);
		cr_assert_eq(zk_stage.hello.session_id, ZK_STAGE_SESSION);
		zk_stage_connect();
	}
	assert_words(zk_stage.log, "warn: the ZooKeeper worker ended; starting another one\n");
	assert_words(zk_stage.states, "away: the ZooKeeper worker ended\n");
	cr_assert_eq(zk_stage.attempts, 0);
}

/* The pause before the next worker, which passes. */
static int64_t pass_pause(void)
{
	unsigned workers = zk_stage.workers;
	int64_t pause_ms = zk_stage.worker ? 0 : due_in_ms();
	if (pause_ms > 0) {
		zk_stage_pass_ms(pause_ms - 1);
		cr_assert_eq(zk_stage.workers, workers);
		zk_stage_pass_ms(1);
		cr_assert_eq(zk_stage.workers, workers + 1);
	}
	return pause_ms;
}

static int64_t pause_of_closing_servers(void)
{
	for (unsigned i = 0; i < 3; i++) {
		cr_assert_neq(zk_stage.worker, 0, "after %u of three servers", i);
		zk_stage_log(ZK_LOG_CLOSED, "10.0.0.1:2181: closed");
	}
	cr_assert_eq(zk_stage.worker, 0);
	int64_t pause_ms = pass_pause();
	zk_stage_lose_connection(); /* as each worker begins */
	return pause_ms;
}

Test(zk_first, servers_that_close_each_connection_are_tried_more_and_more_slowly)
{
	static const int64_t longest_ms[] = { 1000, 2000, 4000, 8000, 16000, 20000, 20000 };
	zk_stage_session(&(struct zk_session){
		.state = ZK_SESSION_CONNECTING, .server = "", .addresses = ZK_STAGE_ADDRESSES });
	for (unsigned i = 0; i < ARRAY_LEN(longest_ms); i++) {
		int64_t pause_ms = pause_of_closing_servers();
		cr_assert_leq(pause_ms, longest_ms[i], "worker %u", i);
		cr_assert_geq(pause_ms, longest_ms[i] / 2, "worker %u", i);
		cr_assert(zk_stage.hello.look_up);
	}
	zk_stage_connect();
	zk_stage_pass_ms(LASTED_MS);
	zk_stage_lose_connection();
	int64_t pause_ms = pause_of_closing_servers();
	cr_assert_leq(pause_ms, 1000, "after a connection all begins anew");
	cr_assert_geq(pause_ms, 500);
}

Test(zk_first, workers_that_end_are_replaced_more_and_more_slowly)
{
	static const int64_t pauses_ms[] = { 0, 50, 100, 200, 400, 800, 1600, 3200,
		LONGEST_PAUSE_MS, LONGEST_PAUSE_MS };
	for (unsigned i = 0; i < ARRAY_LEN(pauses_ms); i++) {
		zk_stage_kill_worker();
		cr_assert_eq(zk_stage.attempts, i + 1);
		cr_assert_str_eq(zk_stage.trouble, "the ZooKeeper worker ended");
		cr_assert_eq(pass_pause(), pauses_ms[i], "worker %u", i);
	}
	zk_stage_connect();
	zk_stage_pass_ms(LASTED_MS - 1);
	zk_stage_kill_worker();
	cr_assert_eq(pass_pause(), LONGEST_PAUSE_MS, "it has not lasted");
	zk_stage_connect();
	zk_stage_pass_ms(LASTED_MS);
	zk_stage_kill_worker();
	cr_assert_eq(pass_pause(), 0);
	zk_stage_kill_worker();
	cr_assert_eq(pass_pause(), 50);
}

Test(zk_options, no_pause_between_workers_is_longer_than_five_seconds)
{
	zk_stage_open((struct registry_options){ .session_timeout_ms = 600000 });
	for (int i = 0; i < 9; i++) {
		zk_stage_kill_worker();
		cr_assert_leq(pass_pause(), 5000);
	}
	zk_stage_kill_worker();
	cr_assert_eq(pass_pause(), 5000);
}

/* ---- no worker can be started ---- */

static void forbid_worker(void)
{
	setenv("BERTH_LIBEXECDIR", "/nonexistent", 1);
}

static void allow_worker(void)
{
	setenv("BERTH_LIBEXECDIR", zk_stage.folder, 1);
}

Test(zk_first, tasks_fail_while_no_worker_can_be_started)
{
	struct registry_task waiting = { .operation = REGISTRY_OP_STAT, .path = "/a" };
	struct registry_task later = { .operation = REGISTRY_OP_STAT, .path = "/b" };
	struct registry_task second = { .operation = REGISTRY_OP_STAT, .path = "/d" };
	zk_stage_submit(&waiting);
	zk_stage_submit(&second);
	forbid_worker();
	zk_stage_kill_worker();
	cr_assert_eq(zk_stage.worker, 0);
	cr_assert(zk_stage_is_done(&waiting) && zk_stage_is_done(&second));
	cr_assert_eq(waiting.ret_err.code, BERTH_REGISTRY_UNAVAILABLE);
	assert_words(waiting.ret_err.msg,
		"/a: cannot start the ZooKeeper worker /nonexistent/berth-zookeeper");
	assert_words(zk_stage.trouble, "cannot start the ZooKeeper worker");
	cr_assert_eq(zk_stage.attempts, 2);
	zk_stage_submit(&later);
	zk_stage_dispatch();
	cr_assert(zk_stage_is_done(&later));
	cr_assert_eq(later.ret_err.code, BERTH_REGISTRY_UNAVAILABLE);
	allow_worker();
	zk_stage_pass_ms(due_in_ms());
	cr_assert_eq(zk_stage.workers, 2);
	cr_assert_eq(due_in_ms(), BEGIN_MS);
	struct registry_task again = { .operation = REGISTRY_OP_STAT, .path = "/c" };
	zk_stage_submit(&again);
	zk_stage_dispatch();
	cr_assert(!zk_stage_is_done(&again));
	zk_stage_connect();
	cr_assert_str_eq(zk_stage_request()->path, "/registry/c");
	cr_assert_null(zk_stage_request(), "what was refused is not sent later");
}

/* ---- requests ---- */

Test(zk_backend, a_watch_that_nobody_needs_is_taken_off)
{
	registry_zk_ops.unwatch(zk_stage.backend, "/a", REGISTRY_WATCH_DATA);
	registry_zk_ops.unwatch(zk_stage.backend, "/", REGISTRY_WATCH_CHILDREN);
	const struct zk_request *request = zk_stage_request();
	cr_assert_eq(request->operation, ZK_UNWATCH_DATA);
	cr_assert_str_eq(request->path, "/registry/a");
	request = zk_stage_request();
	cr_assert_eq(request->operation, ZK_UNWATCH_CHILDREN);
	cr_assert_str_eq(request->path, "/registry");
	zk_stage_pass_ms(LASTED_MS);
	zk_stage_lose_connection();
	registry_zk_ops.unwatch(zk_stage.backend, "/a", REGISTRY_WATCH_DATA);
	cr_assert_null(zk_stage_request());
}

static bool is_readable(void)
{
	struct pollfd pollfd = { .fd = registry_zk_ops.fd(zk_stage.backend), .events = POLLIN };
	return poll(&pollfd, 1, 0) == 1;
}

Test(zk_backend, a_worker_that_reads_slowly_gets_everything)
{
	enum { WRITES = 20, BYTES = 100000 };
	static char data[BYTES];
	static struct registry_task tasks[WRITES];
	memset(data, 'x', sizeof(data));
	cr_assert(!is_readable());
	for (int i = 0; i < WRITES; i++) {
		tasks[i] = (struct registry_task){ .operation = REGISTRY_OP_SET,
			.path = "/a",
			.data = data,
			.len = sizeof(data) };
		zk_stage_submit(&tasks[i]);
	}
	cr_assert(!is_readable(), "the socket is full");
	int got = 0;
	for (int round = 0; round < 1000 && got < WRITES; round++) {
		const struct zk_request *request = zk_stage_request();
		if (request) {
			cr_assert_eq(request->len, BYTES);
			got++;
		} else {
			cr_assert(is_readable(), "there is more to be written");
			zk_stage_dispatch();
		}
	}
	cr_assert_eq(got, WRITES);
	zk_stage_dispatch();
	cr_assert(!is_readable());
	zk_stage_event(ZK_EVENT_DATA, "/registry/a", false);
	assert_text(zk_stage.changes, "data /a\n");
}

/* ---- the process ---- */

static int frozen_fd = -1;
static bool waited_for_nothing;

/*
 * Takes the place of poll(), of which a header says that it reads nothing. Waiting for the frozen
 * worker is in vain, and only the stage's time passes.
 */
int stage_poll(struct pollfd *fds, nfds_t count, int timeout_ms) __asm__("poll");

int stage_poll(struct pollfd *fds, nfds_t count, int timeout_ms)
{
	struct timespec timeout = { timeout_ms / 1000, timeout_ms % 1000 * 1000000L };
	if (count == 1 && fds->fd == frozen_fd && frozen_fd >= 0) {
		frozen_fd = -1; /* the next worker's socket may have its number */
		zk_stage_spend_ms(timeout_ms);
		return 0;
	}
	if (count == 1 && fds->fd < 0) {
		waited_for_nothing = true;
		return 0;
	}
	return ppoll(fds, count, timeout_ms < 0 ? NULL : &timeout, NULL);
}

/* Half of the time is for the frozen worker, the rest for another one. */
Test(zk_end, closing_ends_the_session_of_a_frozen_worker)
{
	zk_stage_open((struct registry_options){ .close_timeout_ms = 6000 });
	zk_stage_connect();
	pid_t worker = zk_stage.worker;
	int64_t began_ms = zk_stage.now_ms;
	zk_stage_freeze_worker();
	zk_stage_leave_worker();
	frozen_fd = ((struct registry_zk *)zk_stage.backend)->worker.fd;
	registry_zk_ops.close(zk_stage.backend);
	cr_assert_eq(zk_stage.now_ms - began_ms, 3000);
	cr_assert(zk_stage_was_closed());
	cr_assert_lt(kill(worker, 0), 0);
}

static json_t *detach_connected(void)
{
	zk_stage_open_connected();
	pid_t worker = zk_stage.worker;
	char byte;
	json_t *session = registry_zk_ops.detach(zk_stage.backend);
	cr_assert_lt(kill(worker, 0), 0);
	cr_assert_eq(recv(zk_stage.socket, &byte, 1, 0), 0, "it was not told to close the session");
	zk_stage_clear();
	return session;
}

static uint64_t session_of_successor(const json_t *session, const char *url)
{
	zk_stage_open((struct registry_options){ .url = url, .session = session });
	uint64_t id = zk_stage.hello.session_id;
	if (id != 0) {
		cr_assert_eq(memcmp(zk_stage.hello.session_password, ZK_STAGE_PASSWORD,
				     ZK_PASSWORD_BYTES),
			0);
	}
	zk_stage_detach();
	return id;
}

Test(zk_detached, a_session_is_for_a_successor_on_the_same_servers)
{
	json_t *session = detach_connected();
	cr_assert_eq(session_of_successor(session, NULL), ZK_STAGE_SESSION);
	cr_assert_eq(session_of_successor(session, "zookeeper://one,two,three/other"), 0);
	cr_assert_eq(session_of_successor(session, "zookeeper://one,two/registry"), 0);
	static const struct {
		const char *key;
		const char *value;
	} changes[] = { { "backend", "dir" }, { "id", "0x0" }, { "password", "00" },
		{ "password", "0011223344556677889900112233445g" } };
	for (size_t i = 0; i < ARRAY_LEN(changes); i++) {
		json_t *changed = json_copy(session);
		json_object_set_new(changed, changes[i].key, json_string(changes[i].value));
		cr_assert_eq(session_of_successor(changed, NULL), 0, "%s", changes[i].key);
		json_decref(changed);
	}
	json_object_set_new(session, "timeout_ms", json_integer(0));
	cr_assert_eq(session_of_successor(session, NULL), 0);
	json_object_set_new(session, "timeout_ms", json_integer(1));
	cr_assert_eq(session_of_successor(session, NULL), ZK_STAGE_SESSION);
	json_object_del(session, "url");
	cr_assert_eq(session_of_successor(session, NULL), 0);
	json_decref(session);
}

/* ---- options ---- */

static char secret[SCRATCH_PATH];

static void write_secret(const char *text)
{
	int fd = open(secret, O_WRONLY | O_TRUNC | O_CLOEXEC);
	cr_assert_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	close(fd);
}

static void open_with_secret(void)
{
	close(scratch_file(secret));
	write_secret("joe:old");
	zk_stage_open((struct registry_options){ .auth = "digest", .auth_file = secret });
	cr_assert_str_eq(zk_stage.hello.auth, "digest");
	cr_assert_str_eq(zk_stage.hello.credential, "joe:old");
	zk_stage_connect();
	zk_stage_pass_ms(LASTED_MS);
}

static int reauthenticate(void)
{
	struct err err = ERR_INIT;
	int code = registry_zk_ops.reauthenticate(zk_stage.backend, &err);
	zk_stage_dispatch();
	return code;
}

Test(zk_options, new_credentials_are_used_at_once)
{
	open_with_secret();
	cr_assert_eq(reauthenticate(), 0);
	cr_assert_eq(zk_stage.workers, 1, "they are the same");
	write_secret("joe:new");
	cr_assert_eq(reauthenticate(), 0);
	cr_assert_eq(zk_stage.workers, 2);
	cr_assert_str_eq(zk_stage.hello.credential, "joe:new");
	cr_assert_eq(zk_stage.hello.session_id, ZK_STAGE_SESSION);
	assert_words(zk_stage.states, "away: the credentials have changed\n");
	unlink(secret);
	cr_assert_lt(reauthenticate(), 0);
	cr_assert_eq(zk_stage.workers, 2);
}

static void refuse_credentials(void)
{
	zk_stage_session(&(struct zk_session){
		.state = ZK_SESSION_AUTH_FAILED, .server = "", .addresses = "" });
	cr_assert_eq(zk_stage.worker, 0);
}

Test(zk_options, refused_credentials_are_read_again_for_the_next_attempt)
{
	open_with_secret();
	refuse_credentials();
	write_secret("joe:new");
	zk_stage_pass_ms(due_in_ms());
	cr_assert_null(strstr(zk_stage.log, "warn: \n"));
	cr_assert_str_eq(zk_stage.hello.credential, "joe:new");
	refuse_credentials();
	cr_assert_eq(reauthenticate(), 0);
	cr_assert_neq(zk_stage.worker, 0, "a reload tries them at once");
	refuse_credentials();
	unlink(secret);
	zk_stage_pass_ms(due_in_ms());
	assert_words(zk_stage.log, "warn: ");
	cr_assert_str_eq(zk_stage.hello.credential, "joe:new", "without a file it goes on");
}
