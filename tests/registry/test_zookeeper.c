/*
 * Behaviour of ZooKeeper alone: sessions that survive connections, workers and processes, and
 * sessions that do not.
 */
#include <criterion/criterion.h>
#include <dirent.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/support/amount.h"
#include "tests/support/registry_client.h"
#include "tests/support/scratch.h"
#include "tests/support/zookeeper.h"
#include "lib/base/clock.h"

#define PATH "/users/joe/tomcat"
#define NODE "/registry" PATH
#define RECORD "{\"type\":\"JSONServiceRecord\",\"description\":\"%s\"}"

/*
 * How long sessions are. A short one may end at any stall of a busy machine, a safe one at none; a
 * brief one only if a stall takes all of the third that is left of it when a silent server is
 * noticed. The client library rests longer between its attempts, and the registry between its
 * workers, the longer the session is.
 */
enum { SAFE_MS = 300000, BRIEF_MS = 30000, RESTARTS_MS = 12000, SHORT_MS = 4000 };

enum { PATIENCE_MS = 60000, POLL_US = 20000 };

static struct zookeeper_server *server;
static struct answer answer;

/* The states of a registry in words: "connected away connected". */
struct diary {
	char states[4096];
	char log[16384];
};

static struct diary diary;

static void note(char *out, size_t size, const char *word)
{
	size_t used = strlen(out);
	snprintf(out + used, size - used, "%s%s", used ? " " : "", word);
}

static void on_state(void *context, enum registry_state state, const char *why)
{
	struct diary *into = context;
	(void)why;
	note(into->states, sizeof(into->states), registry_state_name(state));
}

static void on_log(void *context, enum registry_log_level level, const char *message)
{
	struct diary *into = context;
	if (level <= REGISTRY_LOG_WARN) {
		note(into->log, sizeof(into->log), message);
	}
}

static struct registry *open_url(const char *url, int session_timeout_ms, const json_t *session)
{
	const struct registry_options options = { .url = url,
		.session_timeout_ms = session_timeout_ms,
		.session = session,
		.on_state = on_state,
		.on_log = on_log,
		.context = &diary };
	return client_open_with(&options);
}

static struct registry *open_with(int session_timeout_ms, const json_t *session)
{
	struct registry *registry = open_url(
		zookeeper_server_url(server), session_timeout_ms, session);
	client_wait_state(registry, REGISTRY_CONNECTED);
	return registry;
}

static struct registry *open_connected(const json_t *session)
{
	return open_with(SAFE_MS, session);
}

static void put(struct registry *registry, const char *words)
{
	char data[256];
	snprintf(data, sizeof(data), RECORD, words);
	cr_assert_eq(client_put(registry, PATH, data, REGISTRY_BIND_OVERWRITE, true, &answer), 0,
		"%s", answer.err.msg);
}

/* As the independent client sees it; 0 while there is no node. */
static unsigned long long seen(const char *field, const char *path)
{
	char out[256];
	int status = zookeeper_probe(server, out, sizeof(out), "stat", path, NULL);
	cr_assert(status == 0 || status == 3, "zk-probe: %d", status);
	const char *at = status == 0 ? strstr(out, field) : NULL;
	return at ? strtoull(at + strlen(field) + 1, NULL, 0) : 0;
}

static unsigned long long czxid(void)
{
	return seen("czxid", NODE);
}

static void pause_us(long us)
{
	struct timespec time = { .tv_nsec = us * 1000 };
	nanosleep(&time, NULL);
}

/*
 * Waits until the node's owner is one of the two (0: the node is absent); the server needs some
 * time to handle a request.
 */
static void await_owner(unsigned long long one, unsigned long long other)
{
	int64_t until_ms = clock_monotonic_ms() + PATIENCE_MS;
	unsigned long long owner;
	while ((owner = seen("ephemeralOwner", NODE)) != one && owner != other) {
		cr_assert_lt(clock_monotonic_ms(), until_ms, "it is still 0x%llx", owner);
		pause_us(POLL_US);
	}
}

/*
 * Closing sends the session's end and waits for no answer; the session itself would last for much
 * longer.
 */
static void close_and_await_end(struct registry *registry)
{
	client_close(registry);
	await_owner(0, 0);
}

/* The one child that is a worker. */
static pid_t worker_pid(void)
{
	char path[64];
	snprintf(path, sizeof(path), "/proc/self/task/%d/children", (int)getpid());
	FILE *children = fopen(path, "r");
	int pid;
	pid_t found = 0;
	while (children && fscanf(children, "%d", &pid) == 1) {
		char comm[32] = "";
		snprintf(path, sizeof(path), "/proc/%d/comm", pid);
		FILE *file = fopen(path, "r");
		if (file && fgets(comm, sizeof(comm), file) &&
			strncmp(comm, "berth-zookeeper", 15) == 0) {
			found = pid;
		}
		if (file) {
			fclose(file);
		}
	}
	if (children) {
		fclose(children);
	}
	return found;
}

/* There may be no worker to kill at this moment. */
static void kill_the_worker(void)
{
	pid_t pid = worker_pid();
	if (pid > 0) {
		kill(pid, SIGKILL);
	}
}

static bool left_connected(void *context)
{
	return registry_state(context) != REGISTRY_CONNECTED;
}

static bool noted_lost(void *context)
{
	return strstr(((struct diary *)context)->states, "lost") != NULL;
}

static bool says_other(void *context)
{
	const struct answer *watched = context;
	return watched->data && strcmp(watched->data, "other") == 0;
}

static void start(void)
{
	server = zookeeper_server_start();
}

static void stop(void)
{
	answer_clear(&answer);
	zookeeper_server_stop(server);
}

TestSuite(zookeeper, .init = start, .fini = stop, .timeout = 500);

Test(zookeeper, a_record_is_an_ephemeral_node_with_the_json_as_written)
{
	struct registry *registry = open_connected(NULL);
	char out[256];
	put(registry, "tomcat");
	cr_assert_eq(zookeeper_probe(server, out, sizeof(out), "get", NODE, NULL), 0);
	cr_assert_str_eq(out, "{\"type\":\"JSONServiceRecord\",\"description\":\"tomcat\"}");
	cr_assert_eq(
		seen("ephemeralOwner", NODE), strtoull(registry_session_name(registry), NULL, 16));
	cr_assert_eq(seen("ephemeralOwner", "/registry/users/joe"), 0);
	cr_assert(answer.stat.own && answer.stat.ephemeral);
	cr_assert_eq(answer.stat.node_id, czxid());
	close_and_await_end(registry);
}

Test(zookeeper, a_killed_worker_is_replaced_and_the_node_stays_the_same)
{
	struct registry *registry = open_connected(NULL);
	put(registry, "tomcat");
	unsigned long long before = czxid();
	for (int i = 0; i < 5; i++) {
		kill_the_worker();
		client_wait(left_connected, registry);
		client_wait_state(registry, REGISTRY_CONNECTED);
		cr_assert_eq(czxid(), before);
	}
	cr_assert_null(strstr(diary.states, "lost"));
	client_close(registry);
}

Test(zookeeper, a_frozen_worker_is_replaced_while_its_session_lives)
{
	struct registry *registry = open_with(RESTARTS_MS, NULL);
	put(registry, "tomcat");
	unsigned long long before = czxid();
	kill(worker_pid(), SIGSTOP);
	client_wait(left_connected, registry);
	client_wait_state(registry, REGISTRY_CONNECTED);
	cr_assert_eq(czxid(), before);
	cr_assert_null(strstr(diary.states, "lost"), "%s", diary.states);
	cr_assert(strstr(diary.log, "does not answer"), "%s", diary.log);
	client_close(registry);
}

Test(zookeeper, the_session_of_a_frozen_worker_ends_when_the_registry_is_closed)
{
	/* Half of the time for the frozen worker, the rest for another one. */
	const struct registry_options options = { .url = zookeeper_server_url(server),
		.session_timeout_ms = SAFE_MS,
		.close_timeout_ms = 8000,
		.on_state = on_state,
		.on_log = on_log,
		.context = &diary };
	struct registry *registry = client_open_with(&options);
	client_wait_state(registry, REGISTRY_CONNECTED);
	put(registry, "tomcat");
	kill(worker_pid(), SIGSTOP);
	client_close(registry);
	cr_assert_eq(worker_pid(), 0, "no worker is left");
	await_owner(0, 0);
}

/* Puts this shell script in the place of the worker, in a new folder. */
static void make_worker(char folder[SCRATCH_PATH], const char *script)
{
	char program[512];
	scratch_folder(folder);
	snprintf(program, sizeof(program), "%s/berth-zookeeper", folder);
	int fd = open(program, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0755);
	ssize_t len = (ssize_t)strlen(script);
	cr_assert_eq(write(fd, script, (size_t)len), len);
	close(fd);
	setenv("BERTH_LIBEXECDIR", folder, 1);
}

static void remove_worker(const char *folder)
{
	char program[512];
	snprintf(program, sizeof(program), "%s/berth-zookeeper", folder);
	cr_assert_eq(unlink(program), 0);
	cr_assert_eq(rmdir(folder), 0);
}

static bool noted_babble(void *context)
{
	return strstr(((struct diary *)context)->log, "cannot be understood") != NULL;
}

Test(zookeeper, a_worker_that_answers_garbage_is_replaced)
{
	char scratch[SCRATCH_PATH];
	char *directory = strdup(getenv("BERTH_LIBEXECDIR"));
	/* It says something no worker says, and then nothing. */
	make_worker(scratch, "#!/bin/sh\necho 'I am no worker' >&3\nread line <&3\n");
	struct registry *registry = open_url(zookeeper_server_url(server), SAFE_MS, NULL);
	client_wait(noted_babble, &diary);
	cr_assert_eq(registry_state(registry), REGISTRY_CONNECTING);
	setenv("BERTH_LIBEXECDIR", directory, 1);
	client_wait_state(registry, REGISTRY_CONNECTED);
	put(registry, "tomcat");
	close_and_await_end(registry);
	remove_worker(scratch);
	free(directory);
}

struct attempts {
	unsigned count;
	char why[128];
};

static void on_attempt(void *context, const char *why, unsigned count)
{
	struct attempts *attempts = context;
	attempts->count = count;
	snprintf(attempts->why, sizeof(attempts->why), "%s", why);
}

static bool has_made_three(void *context)
{
	return ((struct attempts *)context)->count >= 3;
}

/* Each notes its start, reports why it cannot connect, and ends. */
Test(zookeeper, a_worker_that_cannot_begin_is_one_attempt)
{
	char scratch[SCRATCH_PATH];
	char *directory = strdup(getenv("BERTH_LIBEXECDIR"));
	struct attempts attempts = { 0 };
	const struct registry_options options = {
		.url = "zookeeper://127.0.0.1:1/registry",
		.session_timeout_ms = SAFE_MS,
		.on_attempt = on_attempt,
		.context = &attempts,
	};
	/* A frame: the length of the rest, LOG, and its body: a kind and a string. */
	make_worker(scratch,
		"#!/bin/sh\necho >>\"${0%/*}/starts\"\n"
		"printf '\\0\\0\\0\\017\\007\\002\\0\\0\\0\\010no luck!\\0' >&3\n");
	struct registry *registry = client_open_with(&options);
	client_wait(has_made_three, &attempts);
	char starts[512];
	struct stat stat_of;
	snprintf(starts, sizeof(starts), "%s/starts", scratch);
	cr_assert_eq(stat(starts, &stat_of), 0);
	cr_expect_leq(attempts.count, stat_of.st_size, "%u attempts of %ld workers", attempts.count,
		(long)stat_of.st_size);
	cr_expect_str_eq(attempts.why, "no luck!");
	client_close(registry);
	setenv("BERTH_LIBEXECDIR", directory, 1);
	cr_assert_eq(unlink(starts), 0);
	remove_worker(scratch);
	free(directory);
}

Test(zookeeper, watches_hold_after_a_worker_was_killed)
{
	struct registry *registry = open_connected(NULL);
	struct answer watched = { 0 };
	put(registry, "tomcat");
	struct registry_watch *watch = registry_watch(
		registry, PATH, REGISTRY_WATCH_DATA, answer_take, &watched);
	client_wait_calls(&watched, 1);
	kill_the_worker();
	client_wait(left_connected, registry);
	client_wait_calls(&watched, 2);
	char out[16];
	cr_assert_eq(zookeeper_probe(server, out, sizeof(out), "set", NODE, "other", NULL), 0);
	client_wait(says_other, &watched);
	registry_unwatch(watch);
	answer_clear(&watched);
	client_close(registry);
}

Test(zookeeper, an_expired_session_is_lost_and_followed_by_a_new_one)
{
	struct registry *registry = open_connected(NULL);
	put(registry, "tomcat");
	json_t *session = registry_session(registry);
	char out[256];
	cr_assert_eq(zookeeper_probe(server, out, sizeof(out), "kill-session",
			     json_string_value(json_object_get(session, "id")),
			     json_string_value(json_object_get(session, "password")), NULL),
		0);
	client_wait(noted_lost, &diary);
	client_wait_state(registry, REGISTRY_CONNECTED);
	cr_assert_str_neq(
		registry_session_name(registry), json_string_value(json_object_get(session, "id")));
	cr_assert_eq(czxid(), 0);
	put(registry, "again");
	cr_assert_neq(czxid(), 0);
	json_decref(session);
	client_close(registry);
}

Test(zookeeper, a_server_that_pauses_is_noticed_and_the_session_presumed_over_after_its_timeout)
{
	struct registry *registry = open_with(SHORT_MS, NULL);
	char data[256];
	snprintf(data, sizeof(data), RECORD, "tomcat");
	do { /* so short a session may have lost its connection already */
		client_wait_state(registry, REGISTRY_CONNECTED);
		client_put(registry, PATH, data, REGISTRY_BIND_OVERWRITE, true, &answer);
	} while (answer.err.code == BERTH_REGISTRY_UNAVAILABLE);
	cr_assert_eq(answer.err.code, 0, "%s", answer.err.msg);
	cr_assert_eq(registry_session_timeout_ms(registry), SHORT_MS);
	zookeeper_server_pause(server);
	client_wait_state(registry, REGISTRY_AWAY);
	cr_assert_eq(client_get(registry, PATH, &answer), BERTH_REGISTRY_UNAVAILABLE);
	client_wait_state(registry, REGISTRY_LOST);
	int64_t heard_ms = registry_heard_ms(registry, 0);
	cr_assert_geq(clock_monotonic_ms(), heard_ms + SHORT_MS);
	zookeeper_server_resume(server);
	client_wait_state(registry, REGISTRY_CONNECTED);
	/*
	 * The server may find that the session is over or, when it was stopped itself, that it is
	 * not: the registry reports either.
	 */
	await_owner(0, strtoull(registry_session_name(registry), NULL, 16));
	client_close(registry);
}

Test(zookeeper, a_server_that_pauses_for_less_than_the_timeout_changes_nothing)
{
	struct registry *registry = open_with(BRIEF_MS, NULL);
	put(registry, "tomcat");
	unsigned long long before = czxid();
	zookeeper_server_pause(server);
	client_wait_state(registry, REGISTRY_AWAY);
	zookeeper_server_resume(server);
	client_wait_state(registry, REGISTRY_CONNECTED);
	cr_assert_eq(czxid(), before);
	client_close(registry);
}

Test(zookeeper, a_server_that_is_stopped_is_not_heard_until_it_answers_again)
{
	struct registry *registry = open_connected(NULL);
	cr_assert_eq(client_confirm(registry, &answer), 0, "%s", answer.err.msg);
	int64_t heard_ms = registry_heard_ms(registry, clock_monotonic_ms());
	zookeeper_server_pause(server);
	struct answer late = { 0 };
	int64_t asked_ms = clock_monotonic_ms();
	registry_confirm(registry, answer_take, &late);
	while (clock_monotonic_ms() < asked_ms + 1000) {
		registry_dispatch(registry, clock_monotonic_ms());
		pause_us(POLL_US);
	}
	cr_assert_eq(late.calls, 0);
	cr_assert_eq(registry_heard_ms(registry, clock_monotonic_ms()), heard_ms);
	zookeeper_server_resume(server);
	client_wait_calls(&late, 1);
	cr_assert_eq(late.err.code, 0, "%s", late.err.msg);
	cr_assert_geq(registry_heard_ms(registry, clock_monotonic_ms()), asked_ms);
	client_close(registry);
	answer_clear(&late);
}

Test(zookeeper, a_server_that_restarts_keeps_the_session)
{
	struct registry *registry = open_with(BRIEF_MS, NULL);
	put(registry, "tomcat");
	unsigned long long before = czxid();
	zookeeper_server_kill(server);
	client_wait_state(registry, REGISTRY_AWAY);
	zookeeper_server_restart(server);
	client_wait_state(registry, REGISTRY_CONNECTED);
	cr_assert_eq(czxid(), before);
	client_close(registry);
}

/* How many; the soak takes more. */
static size_t many(void)
{
	const char *number = getenv("BERTH_WATCHED_PATHS");
	return number ? strtoul(number, NULL, 10) : AMOUNT(20000);
}

struct count {
	size_t calls;
	size_t goal;
};

static void count_good(void *context, const struct registry_result *result)
{
	struct count *count = context;
	cr_assert_eq(result->err.code, 0, "%s", result->err.msg);
	count->calls++;
}

static bool is_counted(void *context)
{
	const struct count *count = context;
	return count->calls >= count->goal;
}

static void await_count(struct count *count, size_t goal)
{
	count->goal = goal;
	client_wait(is_counted, count);
}

/*
 * Their watches in one packet, as the client library would set them again, are more than a server
 * takes.
 */
Test(zookeeper, tens_of_thousands_of_watched_paths_survive_a_restart_of_the_server)
{
	enum { AT_ONCE = 1000 };
	size_t paths = many();
	struct count made = { 0 };
	struct count seen = { 0 };
	char path[128];
	struct registry *registry = open_connected(NULL);
	for (size_t i = 0; i < paths; i++) {
		snprintf(path, sizeof(path), "/users/joe/with-a-name-that-has-a-usual-length/n%zu",
			i);
		registry_mknode(registry, path, NULL, true, count_good, &made);
		if (i % AT_ONCE == 0 || i + 1 == paths) {
			await_count(&made, i + 1);
		}
	}
	for (size_t i = 0; i < paths; i++) {
		snprintf(path, sizeof(path), "/users/joe/with-a-name-that-has-a-usual-length/n%zu",
			i);
		cr_assert_not_null(
			registry_watch(registry, path, REGISTRY_WATCH_DATA, count_good, &seen));
	}
	await_count(&seen, paths);
	zookeeper_server_restart(server);
	await_count(&seen, 2 * paths);
	cr_assert_null(strstr(diary.states, "lost"), "%s", diary.states);
	char out[16];
	char node[160];
	snprintf(node, sizeof(node), "/registry%s", path);
	cr_assert_eq(zookeeper_probe(server, out, sizeof(out), "set", node, "changed", NULL), 0);
	await_count(&seen, 2 * paths + 1);
	client_close(registry);
}

Test(zookeeper, a_detached_session_is_resumed_by_another_process_with_the_same_node)
{
	struct registry *registry = open_connected(NULL);
	put(registry, "tomcat");
	unsigned long long before = czxid();
	client_forget(registry);
	json_t *session = registry_detach(registry);
	cr_assert_eq(worker_pid(), 0);
	char *text = json_dumps(session, 0);
	pid_t child = fork();
	if (child == 0) {
		json_t *inherited = json_loads(text, 0, NULL);
		struct registry *successor = open_connected(inherited);
		client_stat(successor, PATH, &answer);
		client_forget(successor);
		json_t *same = registry_detach(successor);
		_exit(answer.stat.own && answer.stat.node_id == before &&
					json_equal(same, inherited)
				? 0
				: 1);
	}
	int status;
	cr_assert_eq(waitpid(child, &status, 0), child);
	cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	struct registry *third = open_connected(session);
	cr_assert_eq(czxid(), before);
	close_and_await_end(third);
	free(text);
	json_decref(session);
}

Test(zookeeper, a_session_that_cannot_be_resumed_is_replaced_by_a_new_one)
{
	struct registry *registry = open_connected(NULL);
	char first[32];
	snprintf(first, sizeof(first), "%s", registry_session_name(registry));
	client_forget(registry);
	json_t *session = registry_detach(registry);
	json_object_set_new(session, "password", json_string("00112233445566778899aabbccddeeff"));
	registry = open_connected(session);
	cr_assert_str_neq(registry_session_name(registry), first);
	cr_assert(strstr(diary.log, first), "the log names the session: %s", diary.log);
	client_close(registry);
	json_decref(session);
}

Test(zookeeper, a_session_of_other_servers_is_not_used)
{
	json_t *session = json_pack("{s:s, s:s, s:s, s:i, s:s}", "backend", "zookeeper", "id",
		"0x1234", "password", "00112233445566778899aabbccddeeff", "timeout_ms", 4000, "url",
		"zookeeper://elsewhere:2181/registry");
	struct registry *registry = open_connected(session);
	cr_assert_null(strstr(diary.log, "0x1234"));
	client_close(registry);
	json_decref(session);
}

/* ---- writes whose connection breaks ---- */

static void expect_truth(struct registry *registry, const char *what, int round, const char *data)
{
	int code = answer.err.code;
	char message[sizeof(answer.err.msg)];
	snprintf(message, sizeof(message), "%s", answer.err.msg);
	/* The registry may not have noticed the break yet. */
	do {
		client_wait_state(registry, REGISTRY_CONNECTED);
	} while (client_get(registry, PATH, &answer) == BERTH_REGISTRY_UNAVAILABLE);
	bool stands = data ? answer.data && strcmp(answer.data, data) == 0
			   : answer.err.code == BERTH_PATH_NOT_FOUND;
	if (code != BERTH_TIMEOUT) {
		cr_assert_eq(stands, code == 0, "round %d, %s: said %s (%s), found %s", round, what,
			berth_error_name(code), message,
			answer.data ? answer.data : answer_name(&answer));
	}
}

enum write { CREATE, SET, REPLACE, DELETE, WRITES };

static void begin(struct registry *registry, enum write write, const char *data,
	const struct registry_stat *expected)
{
	struct registry_bind bind = {
		.data = data, .len = strlen(data), .ephemeral = write != REPLACE, .parents = true
	};
	bind.mode = write == CREATE ? REGISTRY_BIND_CREATE : REGISTRY_BIND_REPLACE;
	bind.expected = *expected;
	if (write == DELETE) {
		registry_delete(
			registry, PATH, REGISTRY_DELETE_NODE, expected, NULL, answer_take, &answer);
	} else {
		registry_bind(registry, PATH, &bind, answer_take, &answer);
	}
}

static void write_and_break(int rounds, void (*break_it)(struct registry *registry), unsigned seed)
{
	static const char *const names[] = { "create", "set", "replace", "delete" };
	struct registry *registry = open_with(RESTARTS_MS, NULL);
	char data[128];
	srandom(seed);
	for (int round = 0; round < rounds; round++) {
		enum write write = (enum write)(round % WRITES);
		do {
			client_wait_state(registry, REGISTRY_CONNECTED);
		} while (client_stat(registry, PATH, &answer) == BERTH_REGISTRY_UNAVAILABLE);
		struct registry_stat expected = answer.stat;
		if ((answer.err.code == 0) != (write != CREATE)) {
			continue; /* the write before did not happen */
		}
		snprintf(data, sizeof(data), RECORD, names[write]);
		snprintf(data + strlen(data), sizeof(data) - strlen(data), "%d", round);
		answer_clear(&answer);
		begin(registry, write, data, &expected);
		pause_us(random() % 3000);
		break_it(registry);
		client_wait_calls(&answer, 1);
		expect_truth(registry, names[write], round, write == DELETE ? NULL : data);
	}
	client_close(registry);
}

static void kill_worker(struct registry *registry)
{
	(void)registry;
	kill_the_worker();
}

static void restart_server(struct registry *registry)
{
	(void)registry;
	zookeeper_server_restart(server);
}

Test(zookeeper, a_write_tells_the_truth_when_the_worker_is_killed_meanwhile)
{
	write_and_break(AMOUNT(60), kill_worker, 1);
}

Test(zookeeper, a_write_tells_the_truth_when_the_server_is_killed_meanwhile)
{
	write_and_break(AMOUNT(20), restart_server, 2);
}

/* ---- replacing ---- */

static FILE *watch_independently(pid_t *ret_pid)
{
	int ends[2];
	char hosts[32];
	char program[512];
	snprintf(hosts, sizeof(hosts), "127.0.0.1:%d", zookeeper_server_port(server));
	snprintf(program, sizeof(program), "%s/tests/support/zk-probe", getenv("BERTH_BUILD_DIR"));
	cr_assert_eq(pipe2(ends, O_CLOEXEC), 0);
	*ret_pid = fork();
	if (*ret_pid == 0) {
		dup2(ends[1], 1);
		execl(program, "zk-probe", hosts, "watch", NODE, (char *)NULL);
		_exit(127);
	}
	close(ends[1]);
	return fdopen(ends[0], "r");
}

Test(zookeeper, a_replaced_node_is_never_absent_for_an_independent_watcher)
{
	enum { ROUNDS = 100 };
	struct registry *old = open_connected(NULL);
	struct registry *young = open_connected(NULL);
	pid_t watcher;
	char line[128];
	char last[32];
	put(old, "first");
	FILE *seen_lines = watch_independently(&watcher);
	cr_assert_not_null(fgets(line, sizeof(line), seen_lines));
	for (int i = 0; i < ROUNDS; i++) {
		struct registry_stat before = answer.stat;
		put(i % 2 ? old : young, "next");
		cr_assert_neq(answer.stat.node_id, before.node_id);
		cr_assert_neq(answer.stat.version, before.version,
			"a successor is told apart by its version too");
	}
	snprintf(last, sizeof(last), "czxid=0x%llx", (unsigned long long)answer.stat.node_id);
	do {
		cr_assert_not_null(fgets(line, sizeof(line), seen_lines));
		cr_assert_null(strstr(line, "absent"), "%s", line);
	} while (!strstr(line, last));
	kill(watcher, SIGKILL);
	waitpid(watcher, NULL, 0);
	fclose(seen_lines);
	client_close(old);
	client_close(young);
}

/* ---- limits, roots, servers ---- */

Test(zookeeper, data_beyond_the_limit_that_is_no_record_is_none)
{
	struct registry *registry = open_connected(NULL);
	char out[16];
	cr_assert_eq(client_mknode(registry, "/", false, &answer), 0);
	cr_assert_eq(zookeeper_probe(
			     server, out, sizeof(out), "fill", "/registry/large", "131073", NULL),
		0);
	cr_assert_eq(client_get(registry, "/large", &answer), BERTH_NO_RECORD);
	cr_assert_eq(answer.stat.size, 131073, "its stat is known all the same");
	cr_assert_eq(
		zookeeper_probe(server, out, sizeof(out), "fill", "/registry/fits", "131072", NULL),
		0);
	cr_assert_eq(client_get(registry, "/fits", &answer), 0);
	cr_assert_eq(answer.data_len, 131072);
	client_close(registry);
}

Test(zookeeper, a_deep_registry_root_is_made_by_the_first_write_and_not_by_reading)
{
	char url[128];
	snprintf(url, sizeof(url), "zookeeper://127.0.0.1:%d/a/b/c", zookeeper_server_port(server));
	struct registry *registry = open_url(url, SAFE_MS, NULL);
	client_wait_state(registry, REGISTRY_CONNECTED);
	cr_assert_eq(client_get(registry, PATH, &answer), BERTH_PATH_NOT_FOUND);
	cr_assert_eq(client_list(registry, "/", &answer), BERTH_PATH_NOT_FOUND);
	cr_assert_eq(seen("czxid", "/a"), 0);
	put(registry, "deep");
	cr_assert_neq(seen("czxid", "/a/b/c" PATH), 0);
	client_close(registry);
}

Test(zookeeper, a_host_that_does_not_resolve_is_reported_and_others_are_used)
{
	char url[128];
	snprintf(url, sizeof(url), "zookeeper://no-such-host.invalid:2181,127.0.0.1:%d/registry",
		zookeeper_server_port(server));
	struct registry *registry = open_url(url, SAFE_MS, NULL);
	client_wait_state(registry, REGISTRY_CONNECTED);
	client_close(registry);
}

static bool log_names_host(void *context)
{
	return strstr(((struct diary *)context)->log, "no-such-host.invalid") != NULL;
}

Test(zookeeper, a_registry_whose_only_host_does_not_resolve_says_so_and_keeps_trying)
{
	const struct registry_options options = {
		.url = "zookeeper://no-such-host.invalid:2181/registry",
		.request_timeout_ms = 100,
		.on_state = on_state,
		.on_log = on_log,
		.context = &diary
	};
	struct registry *registry = client_open_with(&options);
	cr_assert_eq(client_get(registry, PATH, &answer), BERTH_REGISTRY_UNAVAILABLE);
	client_wait(log_names_host, &diary);
	cr_assert_eq(registry_state(registry), REGISTRY_CONNECTING);
	client_close(registry);
}

/* ---- credentials ---- */

static struct registry *open_as(const char *credential, bool secure)
{
	char file[SCRATCH_PATH];
	int fd = scratch_file(file);
	cr_assert_eq(write(fd, credential, strlen(credential)), (ssize_t)strlen(credential));
	close(fd);
	const struct registry_options options = { .url = zookeeper_server_url(server),
		.auth = "digest",
		.auth_file = file,
		.secure = secure,
		.on_state = on_state,
		.on_log = on_log,
		.context = &diary };
	struct registry *registry = client_open_with(&options);
	unlink(file);
	client_wait_state(registry, REGISTRY_CONNECTED);
	return registry;
}

Test(zookeeper, a_password_decides_who_may_write)
{
	struct registry *right = open_as("joe:secret", true);
	struct registry *wrong = open_as("joe:guess", true);
	struct registry *other = open_as("ann:secret", true);
	char out[512];
	put(right, "mine");
	cr_assert_eq(client_put(wrong, PATH, "x", REGISTRY_BIND_OVERWRITE, true, &answer),
		BERTH_AUTHENTICATION_FAILED, "%s", answer.err.msg);
	cr_assert_eq(client_put(other, PATH, "x", REGISTRY_BIND_OVERWRITE, true, &answer),
		BERTH_NO_PATH_PERMISSIONS, "%s", answer.err.msg);
	cr_assert_eq(client_get(other, PATH, &answer), 0);
	cr_assert_eq(zookeeper_probe(server, out, sizeof(out), "acl", NODE, NULL), 0);
	cr_assert(strstr(out, "r world:anyone") && strstr(out, "rwcda digest:joe:"), "%s", out);
	client_close(right);
	client_close(wrong);
	client_close(other);
}

Test(zookeeper, a_root_that_may_not_be_made_is_an_error_of_the_write)
{
	struct registry *owner = open_as("joe:secret", true);
	char url[128];
	put(owner, "mine");
	snprintf(url, sizeof(url), "%s/below", zookeeper_server_url(server));
	struct registry *stranger = open_url(url, SAFE_MS, NULL);
	cr_assert_eq(client_put(stranger, PATH, "x", REGISTRY_BIND_OVERWRITE, true, &answer),
		BERTH_NO_PATH_PERMISSIONS, "%s", answer.err.msg);
	cr_assert(strstr(answer.err.msg, "making the registry's root node /registry/below"), "%s",
		answer.err.msg);
	client_close(stranger);
	client_close(owner);
}

/* ---- servers that are none ---- */

static int fake_server(int *ret_port)
{
	struct sockaddr_in address = { .sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(address);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	cr_assert_eq(bind(fd, (struct sockaddr *)&address, len), 0);
	cr_assert_eq(listen(fd, 64), 0);
	cr_assert_eq(getsockname(fd, (struct sockaddr *)&address, &len), 0);
	*ret_port = ntohs(address.sin_port);
	return fd;
}

/*
 * Answers each of `count` connections differently: garbage, half a frame, a giant length, nothing.
 */
static pid_t be_hostile(int fd, int count)
{
	static const char garbage[] = "HTTP/1.1 400 Bad Request\r\n\r\nthis is no ZooKeeper at all";
	static const char half[] = { 0, 0, 0, 37, 0, 0, 0, 0, 0 };
	static const char giant[] = { 0x7f, (char)0xff, (char)0xff, (char)0xff, 1, 2, 3, 4 };
	static const char negative[] = { (char)0xff, (char)0xff, (char)0xff, (char)0xff, 0, 0, 0,
		0 };
	pid_t pid = fork();
	for (int i = 0; pid == 0 && i < count; i++) {
		char request[256];
		int client = accept(fd, NULL, NULL);
		(void)!read(client, request, sizeof(request));
		const char *reply = (const char *[]){ garbage, half, giant, negative, "" }[i % 5];
		size_t len = (size_t[]){ sizeof(garbage), sizeof(half), sizeof(giant),
			sizeof(negative), 0 }[i % 5];
		(void)!send(client, reply, len, MSG_NOSIGNAL);
		close(client);
	}
	if (pid == 0) {
		_exit(0);
	}
	return pid;
}

static bool has_ended(void *context)
{
	pid_t *pid = context;
	if (*pid && waitpid(*pid, NULL, WNOHANG) == *pid) {
		*pid = 0;
	}
	return *pid == 0;
}

Test(zookeeper, a_hostile_server_harms_nobody_but_the_worker)
{
	int port;
	char url[64];
	int fd = fake_server(&port);
	pid_t hostile = be_hostile(fd, 10);
	snprintf(url, sizeof(url), "zookeeper://127.0.0.1:%d/registry", port);
	struct registry *registry = open_url(url, SHORT_MS, NULL);
	client_wait(has_ended, &hostile);
	cr_assert_eq(registry_state(registry), REGISTRY_CONNECTING);
	client_close(registry);
	cr_assert_eq(worker_pid(), 0);
	close(fd);
}
