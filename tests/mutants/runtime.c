/*
 * Runs the tests of a program on many mutants, in place of tests/support/all_tests.c. It reads a
 * plan on standard input. A line has the number of a mutant and words SECONDS:TEST, with the time
 * that the test may take; the answer is the number and the first test that fails, or "-". A word
 * without a test runs all tests that need no ZooKeeper; the answer is a line for each of them, with
 * its seconds and "passed" or "failed".
 */
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/mutants/reach.h"
#include "tests/mutants/switch.h"
#include "tests/support/one_test.h"

#define FAILED_STATUS 99
#define LOOP_SECONDS 3 /* of processor time */
#define FILE_BYTES (64 << 20)
#define LINE_BYTES (1 << 20)

static int chosen;
static FILE *report;

/* ---- for the mutated source ---- */

int berth_mutant(int function)
{
	const struct criterion_test *running = one_test_running();
	reach_note(function, running ? running->category : "", running ? running->name : "");
	return chosen;
}

/* ---- one test ---- */

static double now_seconds(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void limit(int resource, rlim_t most)
{
	struct rlimit limit = { .rlim_cur = most, .rlim_max = most + 1 };
	setrlimit(resource, &limit);
}

static void run_here(const struct criterion_test *test)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	dup2(null, STDIN_FILENO); /* the plan is there, and a mutant may read descriptor 0 */
	close(null);
	setpgid(0, 0);
	limit(RLIMIT_CPU, LOOP_SECONDS);
	limit(RLIMIT_FSIZE, FILE_BYTES);
	limit(RLIMIT_CORE, 0);
	struct one_test_result result = { 0 };
	if (test->data->kind_ == CR_TEST_PARAMETERIZED) {
		struct criterion_test_params params = test->data->param_();
		for (size_t i = 0; i < params.length && !result.failed; i++) {
			one_test_run(test, (char *)params.params + i * params.size, &result);
		}
	} else {
		one_test_run(test, NULL, &result);
	}
	exit(result.failed ? FAILED_STATUS : 0);
}

/* Ends the processes that a test has left: the kernel gave them to this one. */
static void end_children(void)
{
	char path[64], children[4096];
	snprintf(path, sizeof(path), "/proc/self/task/%d/children", (int)getpid());
	for (int round = 0; round < 10; round++) {
		int fd = open(path, O_RDONLY | O_CLOEXEC);
		ssize_t len = fd >= 0 ? read(fd, children, sizeof(children) - 1) : 0;
		close(fd);
		if (len <= 0) {
			return;
		}
		children[len] = '\0';
		for (char *rest = children, *word; (word = strtok_r(rest, " ", &rest));) {
			pid_t pid = (pid_t)atoi(word);
			kill(pid, SIGKILL);
			waitpid(pid, NULL, 0);
		}
	}
}

static bool passes(const struct criterion_test *test, double seconds)
{
	const struct criterion_test_extra_data *data = test->data;
	int status = 0;
	pid_t child = fork();
	if (child < 0) {
		abort(); /* to kill process -1 would end all of them */
	}
	if (child == 0) {
		run_here(test);
	}
	int fd = (int)syscall(SYS_pidfd_open, child, 0);
	struct pollfd until_end = { .fd = fd, .events = POLLIN };
	bool in_time = poll(&until_end, 1, (int)(seconds * 1000)) == 1;
	close(fd);
	kill(-child, SIGKILL);
	kill(child, SIGKILL);
	waitpid(child, &status, 0);
	end_children();
	if (!in_time) {
		return false;
	}
	return WIFSIGNALED(status) ? WTERMSIG(status) == data->signal && data->signal != 0
				   : WEXITSTATUS(status) == data->exit_code && data->signal == 0;
}

/* ---- the plan ---- */

static bool needs_zookeeper(const struct criterion_test *test)
{
	return strstr(test->category, "zookeeper") != NULL;
}

static void run_all(double seconds)
{
	for (struct criterion_test **test = __start_cr_tst; test < __stop_cr_tst; test++) {
		const struct criterion_test_extra_data *data = (*test)->data;
		if (data->disabled || needs_zookeeper(*test)) {
			continue;
		}
		double began = now_seconds();
		bool passed = passes(*test, seconds);
		fprintf(report, "%s/%s %.3f %s\n", (*test)->category, (*test)->name,
			now_seconds() - began, passed ? "passed" : "failed");
		fflush(report);
	}
}

static const struct criterion_test *find(const char *name)
{
	size_t len = strcspn(name, "/");
	for (struct criterion_test **test = __start_cr_tst; test < __stop_cr_tst; test++) {
		if (strncmp((*test)->category, name, len) == 0 && (*test)->category[len] == '\0' &&
			strcmp((*test)->name, name + len + 1) == 0) {
			return *test;
		}
	}
	abort();
}

static void run_mutant(char *words)
{
	const char *killer = "-";
	for (char *rest = words, *word; (word = strtok_r(rest, " \n", &rest));) {
		char *name;
		double seconds = strtod(word, &name);
		if (*++name == '\0') {
			run_all(seconds);
			return;
		}
		if (!passes(find(name), seconds)) {
			killer = name;
			break;
		}
	}
	fprintf(report, "%d %s\n", chosen, killer);
	fflush(report);
}

int criterion_run_all_tests(struct criterion_test_set *set)
{
	static char line[LINE_BYTES];
	(void)set;
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	while (fgets(line, sizeof(line), stdin)) {
		char *words;
		chosen = (int)strtol(line, &words, 10);
		run_mutant(words);
	}
	return 1;
}

struct criterion_test_set *criterion_initialize(void)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	report = fdopen(fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3), "w");
	dup2(null, STDOUT_FILENO);
	dup2(null, STDERR_FILENO);
	close(null);
	return NULL;
}

int criterion_handle_args(int argc, char **argv, bool unknown)
{
	(void)argc;
	(void)argv;
	(void)unknown;
	return 1;
}

void criterion_finalize(struct criterion_test_set *set)
{
	(void)set;
	fclose(report);
}

__attribute__((weak)) int main(void)
{
	struct criterion_test_set *set = criterion_initialize();
	criterion_run_all_tests(set);
	criterion_finalize(set);
	return 0;
}
