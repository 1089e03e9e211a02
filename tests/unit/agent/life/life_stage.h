/*
 * A whole agent in a process of its own: agent_main() on a directory as the registry, with this
 * process as the service manager. Its clock goes on by what a test adds to it, too, or alone.
 */
#ifndef TESTS_UNIT_AGENT_LIFE_LIFE_STAGE_H
#define TESTS_UNIT_AGENT_LIFE_LIFE_STAGE_H

#include <criterion/criterion.h>
#include <fcntl.h>
#include <jansson.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "agent/agent.h"
#include "lib/peer/client.h"
#include "tests/support/clock_call.h"
#include "tests/support/scratch.h"
#include "tests/support/staged.h"

enum { LIFE_PATIENCE_MS = 20000, LIFE_CLOCKS = CLOCK_BOOTTIME + 1 };

struct life {
	char folder[SCRATCH_PATH];
	pid_t pid; /* 0: it has ended */
	int manager;
	struct client *client;
	char problem[4096]; /* the body of the last answer that was an error */
};

/* ---- time ---- */

/* Shared with the agent. */
static struct life_clock {
	int64_t added_s;
	bool stands;
	struct timespec stood[LIFE_CLOCKS];
} * life_clock;

int clock_gettime(clockid_t clock, struct timespec *now)
{
	int ret = (int)syscall(CLOCK_CALL, clock, now);
	if (life_clock && life_clock->stands && clock < LIFE_CLOCKS) {
		const struct timespec *stood = life_clock->stood;
		struct timespec monotonic;
		syscall(CLOCK_CALL, CLOCK_MONOTONIC, &monotonic);
		int64_t ms = (monotonic.tv_sec - stood[CLOCK_MONOTONIC].tv_sec) * 1000 +
			(monotonic.tv_nsec - stood[CLOCK_MONOTONIC].tv_nsec) / 1000000;
		int64_t ns = stood[clock].tv_nsec + ms * 1000;
		now->tv_sec = stood[clock].tv_sec + ns / 1000000000;
		now->tv_nsec = ns % 1000000000;
	}
	now->tv_sec += life_clock ? life_clock->added_s : 0;
	return ret;
}

/*
 * From now on time passes by life_pass(), and else a thousand times as slowly: a timer of no time
 * needs some.
 */
static inline void life_stand(void)
{
	for (clockid_t clock = 0; clock < LIFE_CLOCKS; clock++) {
		syscall(CLOCK_CALL, clock, &life_clock->stood[clock]);
	}
	life_clock->stands = true;
}

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

/* ---- files ---- */

static inline const char *life_path(const struct life *life, const char *name)
{
	static char paths[4][SCRATCH_PATH + 64];
	static int next;
	char *path = paths[next++ % 4];
	snprintf(path, sizeof(paths[0]), "%s/%s", life->folder, name);
	return path;
}

static inline void life_write(const struct life *life, const char *name, const char *text)
{
	char temporary[SCRATCH_PATH + 64];
	snprintf(temporary, sizeof(temporary), "%s/%s.new", life->folder, name);
	FILE *file = fopen(temporary, "w");
	cr_assert_not_null(file);
	fputs(text, file);
	fclose(file);
	cr_assert_eq(rename(temporary, life_path(life, name)), 0);
}

/* "" when there is no such file. */
static inline const char *life_read(const struct life *life, const char *name)
{
	static char text[64 * 1024];
	FILE *file = fopen(life_path(life, name), "r");
	size_t len = file ? fread(text, 1, sizeof(text) - 1, file) : 0;
	text[len] = '\0';
	if (file) {
		fclose(file);
	}
	return text;
}

/* Whether the process that writes the agent's log runs: else all is written. */
static inline bool life_writes(const struct life *life)
{
	char path[64];
	int pid = 0;
	bool writes = false;
	snprintf(path, sizeof(path), "/proc/%d/task/%d/children", life->pid, life->pid);
	FILE *children = life->pid ? fopen(path, "r") : NULL;
	while (children && fscanf(children, "%d", &pid) == 1) {
		char name[16] = "", state = 'Z';
		snprintf(path, sizeof(path), "/proc/%d/stat", pid);
		FILE *stat = fopen(path, "r");
		if (stat) {
			(void)!fscanf(stat, "%*d (%15[^)]) %c", name, &state);
			fclose(stat);
		}
		writes = writes || (strcmp(name, "berth-log") == 0 && !strchr("SZ", state));
	}
	if (children) {
		fclose(children);
	}
	return writes;
}

static inline bool life_logs(const struct life *life, const char *part)
{
	while (life_writes(life)) {
		usleep(1000);
	}
	return strstr(life_read(life, "log"), part) != NULL;
}

#define LIFE_UNTIL(condition)                                                                      \
	for (int tries = 0; !(condition); tries++) {                                               \
		cr_assert_lt(tries, LIFE_PATIENCE_MS, "never: %s", #condition);                    \
		usleep(1000);                                                                      \
	}

static inline bool life_has(const struct life *life, const char *name)
{
	return access(life_path(life, name), F_OK) == 0;
}

/* ---- the agent ---- */

static inline void life_configure(const struct life *life, const char *text)
{
	char whole[4096];
	snprintf(whole, sizeof(whole),
		"[registry]\nurl = dir:%s/registry\n[agent]\nsocket = %s/sock\n"
		"state_dir = %s/state\n%s%s",
		life->folder, life->folder, life->folder,
		strstr(text, "drain_delay") ? "" : "drain_delay = 0s\n", text);
	life_write(life, "berth.ini", whole);
}

/* The next message to the service manager, in one line; none about the status. */
static inline const char *life_told(struct life *life)
{
	static char text[1024];
	do {
		struct pollfd ready = { .fd = life->manager, .events = POLLIN };
		cr_assert_eq(poll(&ready, 1, LIFE_PATIENCE_MS), 1, "no message: %s",
			life_read(life, "log"));
		ssize_t len = recv(life->manager, text, sizeof(text) - 1, 0);
		cr_assert_geq(len, 0);
		text[len] = '\0';
	} while (strncmp(text, "STATUS=", 7) == 0);
	text[strcspn(text, "\n")] = '\0';
	return text;
}

static void (*life_before)(void); /* what the agent's process does first; NULL: nothing */

/* Starts it with these arguments behind "berthd -c berth.ini", and does not wait. */
static inline void life_launch(struct life *life, char *const *more)
{
	char *argv[16] = { "berthd", "-c", (char *)(uintptr_t)life_path(life, "berth.ini") };
	int argc = 3;
	for (; more && *more; more++) {
		argv[argc++] = *more;
	}
	life->pid = fork();
	cr_assert_geq(life->pid, 0);
	if (life->pid == 0) {
		int log = open(life_path(life, "log"), O_WRONLY | O_CREAT | O_APPEND, 0600);
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		dup2(log, STDERR_FILENO);
		close(log);
		close(life->manager);
		setenv("NOTIFY_SOCKET", life_path(life, "notify"), 1);
		if (life_before) {
			life_before();
		}
		exit(agent_main(argc, argv));
	}
}

static inline void life_start(struct life *life, char *const *more)
{
	life_launch(life, more);
	cr_assert_str_eq(life_told(life), "READY=1");
}

/* The status of its end. */
static inline int life_wait(struct life *life)
{
	int status = -1;
	cr_assert_eq(waitpid(life->pid, &status, 0), life->pid);
	life->pid = 0;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

static inline int life_stop(struct life *life)
{
	cr_assert_eq(kill(life->pid, SIGTERM), 0);
	return life_wait(life);
}

/* The JSON of the answer, or NULL: an error, or an answer without a body. */
static inline json_t *life_ask(
	struct life *life, const char *method, const char *target, const char *body)
{
	struct err err = ERR_INIT;
	struct client_response response;
	struct buffer problem;
	json_t *json = NULL;
	const struct client_request request = { .method = method, .target = target, .body = body };
	buffer_init(&problem, sizeof(life->problem) - 1);
	life->problem[0] = '\0';
	if (client_call(life->client, &request, LIFE_PATIENCE_MS, &response, &problem, &err) == 0) {
		json = json_loadb(response.body.data, response.body.len, 0, NULL);
		client_response_finish(&response);
	} else {
		snprintf(life->problem, sizeof(life->problem), "%s %.*s", err.msg, (int)problem.len,
			problem.data ? problem.data : "");
		err_clear(&err);
	}
	buffer_finish(&problem);
	return json;
}

/* GET /metrics, for free(). */
static inline char *life_metrics(struct life *life)
{
	struct err err = ERR_INIT;
	struct client_response response;
	const struct client_request request = { .method = "GET", .target = "/metrics" };
	cr_assert_eq(client_call(life->client, &request, LIFE_PATIENCE_MS, &response, NULL, &err),
		0, "%s", err.msg);
	char *text = strndup(response.body.data, response.body.len);
	client_response_finish(&response);
	return text;
}

/* The member of GET /v1/agent, as JSON; "a.b" is one of an object. */
static inline const char *life_shows(struct life *life, const char *member)
{
	static char text[4096];
	json_t *status = life_ask(life, "GET", "/v1/agent", NULL);
	cr_assert_not_null(status, "%s", life->problem);
	const json_t *json = status;
	char names[64];
	snprintf(names, sizeof(names), "%s", member);
	for (char *rest = names, *name; (name = strtok_r(rest, ".", &rest));) {
		json = json_is_array(json) ? json_array_get(json, (size_t)atoi(name))
					   : json_object_get(json, name);
	}
	char *dumped = json ? json_dumps(json, JSON_ENCODE_ANY | JSON_SORT_KEYS) : NULL;
	snprintf(text, sizeof(text), "%s", dumped ? dumped : "absent");
	free(dumped);
	json_decref(status);
	return text;
}

/* "SUBJECT: FROM > TO (WHY)" of the last transition of this subject. */
static inline const char *life_last(struct life *life, const char *subject)
{
	static char text[1024];
	size_t index;
	json_t *entry;
	json_t *history = life_ask(life, "GET", "/v1/agent/history", NULL);
	cr_assert_not_null(history, "%s", life->problem);
	text[0] = '\0';
	json_array_foreach (history, index, entry) {
		const char *of = json_string_value(json_object_get(entry, "subject"));
		if (strcmp(of, subject) == 0) {
			snprintf(text, sizeof(text), "%s > %s (%s)",
				json_string_value(json_object_get(entry, "from")),
				json_string_value(json_object_get(entry, "to")),
				json_string_value(json_object_get(entry, "why")));
		}
	}
	json_decref(history);
	return text;
}

/*
 * The agent's clock goes on, and its loop looks at it. The agent answers once before: a time limit
 * of a thing that it was about to begin counts from before, too.
 */
static inline void life_pass(struct life *life, int seconds)
{
	json_decref(life_ask(life, "GET", "/live", NULL));
	life_clock->added_s += seconds;
	json_decref(life_ask(life, "GET", "/v1/agent", NULL));
}

/* ---- the stage ---- */

static inline struct life *life_begin(struct life *life, const char *text)
{
	struct err err = ERR_INIT;
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	life_clock = mmap(NULL, sizeof(*life_clock), PROT_READ | PROT_WRITE,
		MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	cr_assert_neq(life_clock, MAP_FAILED);
	scratch_folder(life->folder);
	cr_assert_eq(chmod(life->folder, 0755), 0);
	snprintf(address.sun_path, sizeof(address.sun_path), "%s", life_path(life, "notify"));
	life->manager = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	cr_assert_eq(bind(life->manager, (struct sockaddr *)&address, sizeof(address)), 0);
	cr_assert_eq(client_create(&life->client, life_path(life, "sock"), &err), 0);
	life_configure(life, text);
	return life;
}

static inline void life_end(struct life *life)
{
	char command[SCRATCH_PATH + 16];
	if (life->pid > 0) {
		cr_expect_eq(life_stop(life), 0, "%s", life_read(life, "log"));
	}
	client_free(life->client);
	close(life->manager);
	snprintf(command, sizeof(command), "rm -rf %s", life->folder);
	cr_assert_eq(system(command), 0);
}

/* With an agent of this configuration, which is to be started. */
#define LIFE(suite, name, text)                                                                    \
	STAGED_TEST(                                                                               \
		suite, name, struct life *, life, life_begin(&(struct life){ 0 }, text), life_end)

#define LIFE_COMPONENT(name) "[component " name "]\npath = /app/" name "\n"

static inline bool life_is_ready(struct life *life)
{
	json_decref(life_ask(life, "GET", "/ready", NULL));
	return life->problem[0] == '\0';
}

#endif
