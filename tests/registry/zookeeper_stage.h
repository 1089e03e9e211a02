/* A registry on a real ZooKeeper server: a root for each test, or a server for each test. */
#ifndef TESTS_REGISTRY_ZOOKEEPER_STAGE_H
#define TESTS_REGISTRY_ZOOKEEPER_STAGE_H

#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tests/support/registry_client.h"
#include "tests/support/zookeeper.h"

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

static struct zookeeper_server *server;
static struct answer answer;

/* The states of a registry in words: "connected away connected". */
struct diary {
	char states[4096];
	char log[16384];
};

static struct diary diary;

static inline void note(char *out, size_t size, const char *word)
{
	size_t used = strlen(out);
	snprintf(out + used, size - used, "%s%s", used ? " " : "", word);
}

static inline void on_state(void *context, enum registry_state state, const char *why)
{
	struct diary *into = context;
	(void)why;
	note(into->states, sizeof(into->states), registry_state_name(state));
}

static inline void on_log(void *context, enum registry_log_level level, const char *message)
{
	struct diary *into = context;
	if (level <= REGISTRY_LOG_WARN) {
		note(into->log, sizeof(into->log), message);
	}
}

static inline struct registry *open_url(
	const char *url, int session_timeout_ms, const json_t *session)
{
	const struct registry_options options = { .url = url,
		.session_timeout_ms = session_timeout_ms,
		.session = session,
		.on_state = on_state,
		.on_log = on_log,
		.context = &diary };
	return client_open_with(&options);
}

static inline struct registry *open_with(int session_timeout_ms, const json_t *session)
{
	struct registry *registry = open_url(
		zookeeper_server_url(server), session_timeout_ms, session);
	client_wait_state(registry, REGISTRY_CONNECTED);
	return registry;
}

static inline struct registry *open_connected(const json_t *session)
{
	return open_with(SAFE_MS, session);
}

static inline void put(struct registry *registry, const char *words)
{
	char data[256];
	snprintf(data, sizeof(data), RECORD, words);
	cr_assert_eq(client_put(registry, PATH, data, REGISTRY_BIND_OVERWRITE, true, &answer), 0,
		"%s", answer.err.msg);
}

/* As the independent client sees it; 0 while there is no node. */
static inline unsigned long long seen(const char *field, const char *path)
{
	char out[256];
	int status = zookeeper_probe(server, out, sizeof(out), "stat", path, NULL);
	cr_assert(status == 0 || status == 3, "zk-probe: %d", status);
	const char *at = status == 0 ? strstr(out, field) : NULL;
	return at ? strtoull(at + strlen(field) + 1, NULL, 0) : 0;
}

static inline void pause_us(long us)
{
	struct timespec time = { .tv_nsec = us * 1000 };
	nanosleep(&time, NULL);
}

/* The one child that is a worker. */
static inline pid_t worker_pid(void)
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
static inline void kill_the_worker(void)
{
	pid_t pid = worker_pid();
	if (pid > 0) {
		kill(pid, SIGKILL);
	}
}

static inline void start(void)
{
	server = zookeeper_server_share();
}

/* For tests that pause or kill it. */
static inline void start_own(void)
{
	server = zookeeper_server_start();
}

static inline void stop(void)
{
	answer_clear(&answer);
	zookeeper_server_stop(server);
}

#endif
