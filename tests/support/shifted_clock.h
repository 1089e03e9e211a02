/*
 * Time passes when a test says so: besides the true one, or alone while the clock is stopped.
 * For one file of a program, whose clock_gettime() this is.
 */
#ifndef TESTS_SUPPORT_SHIFTED_CLOCK_H
#define TESTS_SUPPORT_SHIFTED_CLOCK_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>
#include <unistd.h>

#include "tests/support/clock_call.h"

static int64_t clock_shift_ms;
static bool clock_stands; /* at clock_shift_ms */

int clock_gettime(clockid_t clock, struct timespec *now)
{
	int ret = 0;
	if (clock_stands) {
		*now = (struct timespec){ .tv_sec = 0 };
	} else {
		ret = (int)syscall(CLOCK_CALL, clock, now);
	}
	int64_t nanoseconds = now->tv_nsec + clock_shift_ms % 1000 * 1000000;
	now->tv_sec += clock_shift_ms / 1000 + nanoseconds / 1000000000;
	now->tv_nsec = nanoseconds % 1000000000;
	return ret;
}

#endif
