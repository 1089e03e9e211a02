/*
 * One test of a program: tests/support/all_tests.c and tests/mutants/runtime.c run the tests of a
 * program, each in a process that they fork, which takes less than most tests.
 */
#ifndef TESTS_SUPPORT_ONE_TEST_H
#define TESTS_SUPPORT_ONE_TEST_H

#include "tests/support/test.h"

/* The linker's names for the ends of the section of all tests. */
extern const struct test_case *const __start_test_cases[], *const __stop_test_cases[];

enum { ONE_TEST_REASON = 256 };

/* May lie in shared memory: a child of the test that fails an assertion fails the test. */
struct one_test_result {
	bool failed;
	bool skipped;
	char reason[ONE_TEST_REASON]; /* of the skip */
};

/*
 * Runs a test in this process, with the set-up and the end of it and of its suite. `parameter` is
 * for a ParameterizedTest(). Says on standard error which assertions failed.
 */
void one_test_run(
	const struct test_case *test, void *parameter, struct one_test_result *ret_result);

/* The test that this process runs; NULL before. */
const struct test_case *one_test_running(void);

/* In seconds, the test's own or its suite's; 0: none. */
double one_test_timeout(const struct test_case *test);

/*
 * The two parts of main(), of tests/support/all_tests.c or tests/mutants/runtime.c: whether there
 * are tests to run, which --list denies; and the exit status after them.
 */
bool all_tests_begin(int argc, char **argv);
int all_tests_run(void);

#endif
