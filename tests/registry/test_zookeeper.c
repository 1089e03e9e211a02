/*
 * Behaviour of ZooKeeper alone: sessions that survive connections, workers and processes, and
 * sessions that do not.
 */
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "tests/registry/zookeeper_stage.h"
#include "tests/support/amount.h"
#include "tests/support/scratch.h"
#include "lib/base/clock.h"

enum { PATIENCE_MS = 60000, POLL_US = 20000 };

static unsigned long long czxid(void)
{
	return seen("czxid", NODE);
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

TestSuite(zookeeper, .init = start, .fini = stop, .timeout = 500);
TestSuite(zookeeper_server, .init = start_own, .fini = stop, .timeout = 500);

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

Test(zookeeper_server,
	a_server_that_pauses_is_noticed_and_the_session_presumed_over_after_its_timeout)
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

Test(zookeeper_server, a_server_that_pauses_for_less_than_the_timeout_changes_nothing)
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

Test(zookeeper_server, a_server_that_is_stopped_is_not_heard_until_it_answers_again)
{
	struct registry *registry = open_connected(NULL);
	cr_assert_eq(client_confirm(registry, &answer), 0, "%s", answer.err.msg);
	int64_t heard_ms = registry_heard_ms(registry, clock_monotonic_ms());
	zookeeper_server_pause(server);
	struct answer late = { 0 };
	int64_t asked_ms = clock_monotonic_ms();
	registry_confirm(registry, 0, answer_take, &late);
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

Test(zookeeper_server, a_server_that_restarts_keeps_the_session)
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
Test(zookeeper_server, tens_of_thousands_of_watched_paths_survive_a_restart_of_the_server)
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
