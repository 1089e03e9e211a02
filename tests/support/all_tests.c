/*
 * The tests of a program, one after the other, each in a process of its own:
 *
 *   test_NAME [--list] [--filter SUITE/NAME] [--tap=FILE]
 *
 * The results are TAP, on standard output or in the file; a pattern may have wildcards. The exit
 * status is 0 if all passed.
 */
#include <errno.h>
#include <fnmatch.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/support/one_test.h"

static struct {
	const char *filter;
	bool list;
	FILE *report;
	struct one_test_result *result; /* of the test that runs; its process writes it */
	char running[256];
	int count;
	bool failed;
} run = { .filter = "*" };

/* The runner's signal for a program that takes too long. */
static void on_abort(int number)
{
	(void)!write(STDERR_FILENO, run.running, strlen(run.running));
	signal(number, SIG_DFL);
	raise(number);
}

static double now_seconds(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* The name of a test with this parameter; NULL or "": its own. */
extern const char *one_test_parameter_name(void *parameter) __attribute__((weak));

static _Noreturn void run_here(const struct criterion_test *test, void *parameter)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	signal(SIGABRT, SIG_DFL);
	one_test_run(test, parameter, run.result);
	exit(run.result->failed);
}

/* Waits for the end of a process, and kills it when its time is over. Returns its status. */
static int wait_for(pid_t child, double seconds, bool *ret_late)
{
	int fd = (int)syscall(SYS_pidfd_open, child, 0);
	struct pollfd until_end = { .fd = fd, .events = POLLIN };
	int ended;
	do {
		ended = poll(&until_end, 1, seconds > 0 ? (int)(seconds * 1000) : -1);
	} while (ended < 0 && errno == EINTR);
	close(fd);
	*ret_late = ended == 0;
	if (*ret_late) {
		kill(child, SIGKILL);
	}
	int status = 0;
	waitpid(child, &status, 0);
	return status;
}

/* Returns the reason of a failure as the end of a line; "" without a failure. */
static void judge(const struct criterion_test *test, int status, char *ret_text, size_t size)
{
	const struct criterion_test_extra_data *data = test->data;
	*ret_text = '\0';
	if (WIFSIGNALED(status) && WTERMSIG(status) != data->signal) {
		snprintf(ret_text, size, " unexpected signal %d", WTERMSIG(status));
	} else if (data->signal && !WIFSIGNALED(status)) {
		snprintf(ret_text, size, " ended without signal %d", data->signal);
	} else if (!run.result->failed && !data->signal && WEXITSTATUS(status) != data->exit_code) {
		snprintf(ret_text, size, " exit status %d", WEXITSTATUS(status));
	}
}

static const char *name_of(const struct criterion_test *test, void *parameter)
{
	return parameter && one_test_parameter_name ? one_test_parameter_name(parameter)
						    : test->name;
}

static bool is_chosen(const struct criterion_test *test, void *parameter)
{
	char name[256];
	snprintf(name, sizeof(name), "%s/%s", test->category, name_of(test, parameter));
	return fnmatch(run.filter, name, 0) == 0;
}

static void run_one(const struct criterion_test *test, void *parameter)
{
	const char *name = name_of(test, parameter);
	if (run.list && is_chosen(test, parameter)) {
		printf("%s/%s\n", test->category, name);
	}
	if (run.list || !is_chosen(test, parameter)) {
		return;
	}
	run.count++;
	if (test->data->disabled) {
		fprintf(run.report, "ok - %s::%s # SKIP disabled\n", test->category, name);
		return;
	}
	*run.result = (struct one_test_result){ 0 };
	snprintf(run.running, sizeof(run.running), "it is at %s/%s\n", test->category, name);
	fflush(NULL);
	double began = now_seconds();
	pid_t child = fork();
	if (child < 0) {
		abort(); /* to kill process -1 would end all of them */
	}
	if (child == 0) {
		run_here(test, parameter);
	}
	bool late;
	char wrong[64];
	int status = wait_for(child, one_test_timeout(test), &late);
	judge(test, status, wrong, sizeof(wrong));
	bool failed = late || run.result->failed || *wrong;
	run.failed = run.failed || failed;
	fprintf(run.report, "%sok - %s::%s%s", failed ? "not " : "", test->category, name,
		late ? " not done in time" : wrong);
	if (!failed && run.result->skipped) {
		fprintf(run.report, " # SKIP %s", run.result->reason);
	} else {
		fprintf(run.report, " (%.2fs)", now_seconds() - began);
	}
	fprintf(run.report, "\n");
	fflush(run.report);
}

static void run_with_parameters(const struct criterion_test *test)
{
	struct criterion_test_params params = test->data->param_();
	for (size_t i = 0; i < params.length; i++) {
		run_one(test, (char *)params.params + i * params.size);
	}
	if (params.cleanup) {
		params.cleanup(&params);
	}
}

static void run_each(void)
{
	for (struct criterion_test **at = __start_cr_tst; at < __stop_cr_tst; at++) {
		if (*at && (*at)->data->kind_ == CR_TEST_PARAMETERIZED) {
			run_with_parameters(*at);
		} else if (*at) {
			run_one(*at, NULL);
		}
	}
}

int criterion_run_all_tests(struct criterion_test_set *set)
{
	(void)set;
	run.result = mmap(NULL, sizeof(*run.result), PROT_READ | PROT_WRITE,
		MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (run.result == MAP_FAILED) {
		abort();
	}
	signal(SIGABRT, on_abort);
	run_each();
	munmap(run.result, sizeof(*run.result));
	fprintf(run.report, "1..%d\n", run.count);
	return !run.failed;
}

struct criterion_test_set *criterion_initialize(void)
{
	run.report = stdout;
	return NULL;
}

/* Returns whether there are tests to run: 0 after --list. Ends the process on a mistake. */
int criterion_handle_args(int argc, char **argv, bool unknown)
{
	(void)unknown;
	const char *report = NULL;
	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--list") == 0) {
			run.list = true;
		} else if (strcmp(argv[i], "--filter") == 0 && i + 1 < argc) {
			run.filter = argv[++i];
		} else if (strncmp(argv[i], "--tap=", 6) == 0) {
			report = argv[i] + 6;
		} else {
			fprintf(stderr, "usage: %s [--list] [--filter SUITE/NAME] [--tap=FILE]\n",
				argv[0]);
			exit(2);
		}
	}
	if (run.list) {
		run_each();
		return 0;
	}
	if (report && !(run.report = fopen(report, "we"))) {
		perror(report);
		exit(2);
	}
	return 1;
}

void criterion_finalize(struct criterion_test_set *set)
{
	(void)set;
	fclose(run.report);
}

__attribute__((weak)) int main(int argc, char **argv)
{
	struct criterion_test_set *set = criterion_initialize();
	int failed = criterion_handle_args(argc, argv, true) && !criterion_run_all_tests(set);
	criterion_finalize(set);
	return failed;
}
