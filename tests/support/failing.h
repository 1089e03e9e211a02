/*
 * Work in which calls fail: each allocation, or each system call of a kind, fails once, one run
 * each.
 *
 * For test programs that link tests/failures/points.o, which takes the place of these calls, counts
 * them, and lets one fail: those that include this header. Its kinds have names: "alloc", "open",
 * "socket" …
 */
#ifndef TESTS_SUPPORT_FAILING_H
#define TESTS_SUPPORT_FAILING_H

#include <stdbool.h>
#include <stdint.h>

enum { FAILING_WRONG = 1 };

/*
 * Does the work from its beginning to its end, and gives back all that it took. Returns 0 when it
 * has the right result, the negative code of a call that has failed, and FAILING_WRONG for a call
 * that claims to have succeeded with a wrong result. It asserts nothing: an assertion makes calls,
 * too.
 */
typedef int failing_work(void *context);

/*
 * Does the work once for each of its calls of this kind, which fails with `error`, and a last time
 * in which none fails. Fails the test when a result is wrong, when the work fails without cause,
 * and when memory or a descriptor is left.
 */
void failing_check(
	const char *what, const char *kind, int error, failing_work *work, void *context);
/* The same for allocations. */
void failing_check_memory(const char *what, failing_work *work, void *context);

/* For a part of a test: lets the call with this number fail, 1 for the next one. */
void failing_arm(const char *kind, uint64_t number, int error);
/*
 * For registry_options.on_answer, with a bool as its context: the allocation that follows the next
 * answer fails, when the bool is true; then it is false.
 */
void failing_behind_answer(void *next, int code, double duration_s);
/* Between these two the calls do not count: the test makes them itself, as its stage. */
void failing_pause(void);
void failing_resume(void);
/* No call fails from now on. True when one did. */
bool failing_disarm(void);

#endif
