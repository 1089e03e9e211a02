/*
 * Time passes when a test says so, beside the true one: for one file of a program, whose
 * clock_gettime() this is.
 */
#ifndef TESTS_SUPPORT_SHIFTED_CLOCK_H
#define TESTS_SUPPORT_SHIFTED_CLOCK_H

#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static int clock_shift_s;

int clock_gettime(clockid_t clock, struct timespec *now)
{
	int ret = (int)syscall(SYS_clock_gettime, clock, now);
	now->tv_sec += clock_shift_s;
	return ret;
}

#endif
