/*
 * The clock that intervals are measured by: never set, never going back.
 */
#ifndef AGENT_BASE_CLOCK_H
#define AGENT_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline int64_t clock_monotonic_ms(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

#endif
