#include "tests/support/one_test.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern const struct test_suite *const __start_test_suites[] __attribute__((weak));
extern const struct test_suite *const __stop_test_suites[] __attribute__((weak));

static const struct test_case *running;
static struct one_test_result *result;
static jmp_buf end_of_part;      /* the set-up, the test itself or its end */
static int messages = -1;        /* standard error, whatever a test makes of its own */
static const char *left, *right; /* texts that should be the same, or not */

enum { FIRST_FD = 500 }; /* out of the way of tests that count descriptors */

static const struct test_options *suite_of(const struct test_case *test)
{
	static const struct test_options none;
	for (const struct test_suite *const *suite = __start_test_suites;
		suite < __stop_test_suites; suite++) {
		if (strcmp((*suite)->name, test->suite) == 0) {
			return &(*suite)->options;
		}
	}
	return &none;
}

static bool begin(void)
{
	if (setjmp(end_of_part)) {
		return false;
	}
	if (suite_of(running)->init) {
		suite_of(running)->init();
	}
	if (running->options.init) {
		running->options.init();
	}
	return true;
}

static void end(void)
{
	if (setjmp(end_of_part)) {
		return;
	}
	if (running->options.fini) {
		running->options.fini();
	}
	if (suite_of(running)->fini) {
		suite_of(running)->fini();
	}
}

void one_test_run(const struct test_case *test, void *parameter, struct one_test_result *ret_result)
{
	running = test;
	result = ret_result;
	if (messages < 0) {
		messages = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, FIRST_FD);
	}
	if (begin()) {
		if (!setjmp(end_of_part)) {
			test->run(parameter);
		}
		end();
	}
	fflush(NULL);
}

const struct test_case *one_test_running(void)
{
	return running;
}

double one_test_timeout(const struct test_case *test)
{
	return test->options.timeout > 0 ? test->options.timeout : suite_of(test)->timeout;
}

bool test_texts_are(bool same, const char *actual, const char *expected)
{
	bool are_same = actual && expected ? strcmp(actual, expected) == 0 : actual == expected;
	left = actual ? actual : "(NULL)";
	right = expected ? expected : "(NULL)";
	if (are_same == same) {
		left = right = NULL;
	}
	return are_same == same;
}

static void tell(const char *file, int line, const char *what, const char *format, va_list values)
{
	if (!running) {
		fprintf(stderr, "%s:%d: before the tests: not so: %s\n", file, line, what);
		abort();
	}
	result->failed = true;
	dprintf(messages, "%s:%d: %s/%s: not so: %s", file, line, running->suite, running->name,
		what);
	if (left) {
		dprintf(messages, ": they are \"%s\" and \"%s\"", left, right);
	}
	left = right = NULL;
	if (format[1]) {
		dprintf(messages, ": ");
		vdprintf(messages, format + 1, values);
	}
	dprintf(messages, "\n");
}

void test_expected(const char *file, int line, const char *what, const char *format, ...)
{
	va_list values;
	va_start(values, format);
	tell(file, line, what, format, values);
	va_end(values);
}

void test_asserted(const char *file, int line, const char *what, const char *format, ...)
{
	va_list values;
	va_start(values, format);
	tell(file, line, what, format, values);
	va_end(values);
	longjmp(end_of_part, 1);
}

void test_skip(const char *format, ...)
{
	va_list values;
	va_start(values, format);
	vsnprintf(result->reason, sizeof(result->reason), format, values);
	va_end(values);
	result->skipped = true;
	longjmp(end_of_part, 1);
}
