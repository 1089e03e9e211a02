#include "tests/support/failing.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <unistd.h>

static bool can_duplicate(void)
{
	int fd = dup2(STDERR_FILENO, STDERR_FILENO);
	return fd >= 0;
}

static void *duplicate(void *ret_good)
{
	*(bool *)ret_good = can_duplicate();
	return NULL;
}

/* Criterion and libraries have threads of their own. */
Test(failing, calls_of_another_thread_pass)
{
	bool good = false;
	pthread_t thread;
	failing_arm("pipe", 1, EMFILE);
	cr_assert_eq(pthread_create(&thread, NULL, duplicate, &good), 0);
	pthread_join(thread, NULL);
	cr_expect(good);
	cr_expect_not(can_duplicate());
	cr_expect(failing_disarm());
	cr_expect(can_duplicate());
}
