/*
 * Time passes when a test says so: beside the true one, or alone while the clock stands.
 * For one file of a program, whose clock_gettime() this is.
 */
#ifndef TESTS_SUPPORT_SHIFTED_CLOCK_H
#define TESTS_SUPPORT_SHIFTED_CLOCK_H

#include <stdbool.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static int clock_shift_s;
static bool clock_stands; /* at clock_shift_s */

int clock_gettime(clockid_t clock, struct timespec *now)
{
	int ret = 0;
	if (clock_stands) {
		*now = (struct timespec){ .tv_sec = 0 };
	} else {
		ret = (int)syscall(SYS_clock_gettime, clock, now);
	}
	now->tv_sec += clock_shift_s;
	return ret;
}

#endif
