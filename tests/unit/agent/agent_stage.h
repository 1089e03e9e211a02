/*
 * The whole agent in a process of its own, without another program: this one executes itself, too,
 * when an agent is exchanged. A test program includes this in one source.
 */
#ifndef TESTS_UNIT_AGENT_AGENT_STAGE_H
#define TESTS_UNIT_AGENT_AGENT_STAGE_H

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/agent.h"
#include "lib/base/clock.h"
#include "lib/base/text.h"
#include "lib/peer/client.h"
#include "tests/support/one_test.h"
#include "tests/support/scratch.h"
#include "tests/support/staged.h"

enum { MOST_WORDS = 16, PATIENCE_MS = 60000, PAUSE_MS = 2 };

#define COMPONENT(name) "[component " name "]\npath = /app/" name "\n"

struct stage {
	char folder[SCRATCH_PATH];
	pid_t pid;
	int ready_fd; /* readable when it is ready, or has ended */
	struct client *client;
	bool closed;         /* it begins without standard files, and thus without a log */
	void (*after)(void); /* in the agent's process, when it has ended; or NULL */
	char answer[64 * 1024];
};

static struct stage stage;

/* In place of the one of the tests' runner: as berthd, this program is an agent. */
int main(int argc, char **argv)
{
	if (argc > 0 && strcmp(argv[0], "berthd") == 0) {
		return agent_main(argc, argv);
	}
	struct criterion_test_set *set = criterion_initialize();
	int failed = criterion_handle_args(argc, argv, true) && !criterion_run_all_tests(set);
	criterion_finalize(set);
	return failed;
}

/* ---- files ---- */

static inline const char *in(const char *name)
{
	static char paths[4][SCRATCH_PATH + 64];
	static unsigned next;
	char *path = paths[next++ % 4];
	snprintf(path, sizeof(paths[0]), "%s/%s", stage.folder, name);
	return path;
}

static inline const char *text_in(const char *name)
{
	static char text[64 * 1024];
	int fd = open(in(name), O_RDONLY | O_CLOEXEC);
	ssize_t len = fd >= 0 ? read(fd, text, sizeof(text) - 1) : 0;
	text[len > 0 ? len : 0] = '\0';
	if (fd >= 0) {
		close(fd);
	}
	return text;
}

static inline bool is_there(const char *name)
{
	return access(in(name), F_OK) == 0;
}

static inline void put_in(const char *name, const char *text)
{
	FILE *file = fopen(in("new"), "w");
	cr_assert_not_null(file);
	fputs(text, file);
	fclose(file);
	cr_assert_eq(rename(in("new"), in(name)), 0);
}

/* The text begins with more keys of [agent]; @ is the folder. */
static inline void configure(const char *text)
{
	FILE *file = fopen(in("new"), "w");
	cr_assert_not_null(file);
	fprintf(file, "[registry]\nurl = dir:%s/d\n[agent]\nsocket = %s/s\nstate_dir = %s/state\n",
		stage.folder, stage.folder, stage.folder);
	for (const char *at = text; *at; at++) {
		if (*at == '@') {
			fputs(stage.folder, file);
		} else {
			fputc(*at, file);
		}
	}
	fclose(file);
	cr_assert_eq(rename(in("new"), in("berth.ini")), 0);
}

static inline bool has(const char *text, const char *part)
{
	return strstr(text, part) != NULL;
}

static inline size_t logged(const char *text)
{
	size_t count = 0;
	for (const char *at = text_in("log"); (at = strstr(at, text)) != NULL; at++) {
		count++;
	}
	return count;
}

#define UNTIL(condition)                                                                           \
	for (int64_t until_ms = clock_monotonic_ms() + PATIENCE_MS; !(condition);) {               \
		cr_assert_lt(clock_monotonic_ms(), until_ms, "not in time: " #condition "\n%s",    \
			text_in("log"));                                                           \
		poll(NULL, 0, PAUSE_MS);                                                           \
	}

/* ---- the agent ---- */

/* For the test, of a process that was an agent. */
static inline void describe_process(void)
{
	FILE *file = fopen(in("process"), "w");
	int reaps = 0;
	prctl(PR_GET_CHILD_SUBREAPER, &reaps);
	fprintf(file, "dumpable %d, reaps orphans %d\n", prctl(PR_GET_DUMPABLE), reaps);
	fclose(file);
}

static inline _Noreturn void be_agent(char **words)
{
	int out = open(in("out"), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	int log = open(in("log"), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	int count = 0;
	dup2(out, STDOUT_FILENO);
	dup2(log, STDERR_FILENO);
	close(out);
	close(log);
	for (int fd = 0; stage.closed && fd <= STDERR_FILENO; fd++) {
		close(fd);
	}
	while (words[count]) {
		count++;
	}
	int result = agent_main(count, words);
	describe_process();
	if (stage.after) {
		stage.after();
	}
	exit(result);
}

/* Begins with these words, and those that every agent has if the first is "run". */
static inline pid_t begin_agent(char **words)
{
	int ends[2];
	char number[16];
	char *whole[MOST_WORDS] = { "berthd", "-c", (char *)in("berth.ini") };
	size_t count = 3;
	cr_assert_eq(pipe(ends), 0);
	if (words[0] && strcmp(words[0], "run") == 0) {
		snprintf(number, sizeof(number), "%d", ends[1]);
		whole[count++] = "--ready-fd";
		whole[count++] = number;
		words++;
	}
	while (*words) {
		whole[count++] = *words++;
	}
	fflush(NULL);
	pid_t pid = fork();
	cr_assert_geq(pid, 0);
	if (pid == 0) {
		close(ends[0]);
		be_agent(whole);
	}
	close(ends[1]);
	if (stage.ready_fd >= 0) {
		close(stage.ready_fd);
	}
	stage.ready_fd = ends[0];
	return pid;
}

#define BEGIN(...) (stage.pid = begin_agent((char *[MOST_WORDS]){ __VA_ARGS__ }))

/* False: it has ended without being ready. */
static inline bool is_ready(void)
{
	char byte = '\0';
	struct pollfd until = { .fd = stage.ready_fd, .events = POLLIN };
	cr_assert_eq(poll(&until, 1, PATIENCE_MS), 1);
	return read(stage.ready_fd, &byte, 1) == 1 && byte == '\n';
}

/* Its exit status; it has to end by itself. */
static inline int status_of(pid_t pid)
{
	int status = 0;
	pid_t ended = 0;
	UNTIL((ended = waitpid(pid, &status, WNOHANG)) != 0);
	cr_assert_eq(ended, pid);
	cr_assert(WIFEXITED(status), "signal %d\n%s", WTERMSIG(status), text_in("log"));
	return WEXITSTATUS(status);
}

static inline int status(void)
{
	int result = status_of(stage.pid);
	stage.pid = 0;
	return result;
}

#define RUN(...) (BEGIN(__VA_ARGS__), status())

/* An agent with this configuration, which is ready. */
static inline void serve(const char *text)
{
	configure(text);
	BEGIN("run");
	cr_assert(is_ready(), "%s", text_in("log"));
}

static inline int stop(int signal_number)
{
	kill(stage.pid, signal_number);
	return status();
}

/* The answer, or why there is none. */
static inline const char *ask(const char *method, const char *target)
{
	struct client_request request = { .method = method, .target = target };
	struct client_response response;
	struct err err = ERR_INIT;
	if (client_call(stage.client, &request, PATIENCE_MS, &response, NULL, &err)) {
		text_printf(stage.answer, sizeof(stage.answer), "%s", err.msg);
	} else {
		text_printf(stage.answer, sizeof(stage.answer), "%s", buffer_text(&response.body));
		client_response_finish(&response);
	}
	return stage.answer;
}

static inline const char *get(const char *target)
{
	return ask("GET", target);
}

/* The document of a predecessor, for the next agent that begins. */
static inline void leave(const char *document)
{
	char number[16];
	int fd = memfd_create("document", 0);
	cr_assert_eq(write(fd, document, strlen(document)), (ssize_t)strlen(document));
	snprintf(number, sizeof(number), "%d", fd);
	setenv("BERTH_UPGRADE", number, 1);
}

static inline void begin(void)
{
	struct err err = ERR_INIT;
	scratch_folder(stage.folder);
	scratch_programs(stage.folder);
	unsetenv("NOTIFY_SOCKET");
	stage.ready_fd = -1;
	cr_assert_eq(client_create(&stage.client, in("s"), &err), 0);
}

static inline void end(void)
{
	char command[SCRATCH_PATH + 16];
	if (stage.pid > 0) {
		kill(stage.pid, SIGKILL);
		waitpid(stage.pid, NULL, 0);
	}
	client_free(stage.client);
	if (stage.ready_fd >= 0) {
		close(stage.ready_fd);
	}
	snprintf(command, sizeof(command), "rm -rf %s", stage.folder);
	cr_assert_eq(system(command), 0);
}

#endif
