/*
 * One test of a program, and the functions that Criterion's macros call, in place of Criterion's
 * library: that has two dozen libraries below it and executes the program anew for each test, which
 * takes longer than most tests. tests/support/all_tests.c and tests/mutants/runtime.c run the tests
 * of a program, each in a process that they fork.
 */
#ifndef TESTS_SUPPORT_ONE_TEST_H
#define TESTS_SUPPORT_ONE_TEST_H

#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <stdbool.h>

/* The linker's names for the sections that the macros fill. Elements may be NULL. */
extern struct criterion_test *__start_cr_tst[], *__stop_cr_tst[];

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
	const struct criterion_test *test, void *parameter, struct one_test_result *ret_result);

/* The test that this process runs; NULL before. */
const struct criterion_test *one_test_running(void);

/* In seconds, the test's own or its suite's; 0: none. */
double one_test_timeout(const struct criterion_test *test);

#endif
