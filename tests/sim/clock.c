/*
 * Virtual time. These definitions take the place of libc's for this program and the libraries that
 * it loads, so that libev reads this clock and sleeps on it.
 */
#include <sys/time.h>
#include <time.h>

#include "tests/sim/sim.h"

#define WALL_BASE_MS (INT64_C(1700000000) * 1000)

static int64_t now_ms;
static int64_t polls; /* since the clock stepped */
static int64_t wall_ms;

int clock_gettime(clockid_t clock, struct timespec *ret_time)
{
	bool is_wall = clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE;
	int64_t ms = is_wall ? wall_ms : now_ms;
	ret_time->tv_sec = ms / 1000;
	ret_time->tv_nsec = ms % 1000 * 1000000 + polls * 1000;
	return 0;
}

int gettimeofday(struct timeval *restrict ret_time, void *restrict zone)
{
	(void)zone;
	ret_time->tv_sec = wall_ms / 1000;
	ret_time->tv_usec = wall_ms % 1000 * 1000;
	return 0;
}

time_t time(time_t *ret_time)
{
	if (ret_time) {
		*ret_time = wall_ms / 1000;
	}
	return wall_ms / 1000;
}

/* So that the clock does not stop for a loop that polls, nor reach the next millisecond. */
void sim_clock_poll(void)
{
	polls += polls < 999;
}

int64_t sim_now_ms(void)
{
	return now_ms;
}

int64_t sim_wall_ms(void)
{
	return wall_ms;
}

void sim_clock_begin(void)
{
	now_ms = SIM_HOUR; /* no machine has just started */
	wall_ms = WALL_BASE_MS;
	polls = 0;
}

void sim_clock_set(int64_t to_ms)
{
	wall_ms += to_ms - now_ms;
	now_ms = to_ms;
	polls = 0;
}

void sim_clock_jump(int64_t by_ms)
{
	wall_ms += by_ms;
}
