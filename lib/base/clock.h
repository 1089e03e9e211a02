/*
 * The two clocks. Intervals and deadlines are measured on the monotonic clock, which never jumps or
 * goes back. It is CLOCK_BOOTTIME and goes on while the machine is suspended: what was heard before
 * that is old, and the server has counted on for a session. The timers of libev count on
 * CLOCK_MONOTONIC, which stops meanwhile: after a resume they are late, so an age never
 * follows from a timer. The wall clock is for times that people read. A function that decides by
 * time takes the time as an argument; only its callers read a clock.
 */
#ifndef LIB_BASE_CLOCK_H
#define LIB_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline int64_t clock_read_ns(clockid_t clock)
{
	struct timespec now;
	clock_gettime(clock, &now);
	return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static inline int64_t clock_monotonic_ms(void)
{
	return clock_read_ns(CLOCK_BOOTTIME) / 1000000;
}

static inline double clock_monotonic_s(void)
{
	return (double)clock_read_ns(CLOCK_BOOTTIME) / 1e9;
}

/* Seconds since 1970. */
static inline double clock_wall_s(void)
{
	return (double)clock_read_ns(CLOCK_REALTIME) / 1e9;
}

#endif
