#include "lib/program/log_rate.h"

#include "lib/base/clock.h"

enum { AT_ONCE = 8 };

static double times_of(const struct log_rate *rate)
{
	return rate->times ? rate->times : 1;
}

/* Time makes up for one line a second. */
static double lines_at(const struct log_rate *rate, int64_t now_ms)
{
	double made_up = (double)(now_ms - rate->at_ms) / 1000. * times_of(rate);
	return rate->lines > made_up ? rate->lines - made_up : 0;
}

static bool has_room(const struct log_rate *rate, int64_t now_ms)
{
	return lines_at(rate, now_ms) + 1 <= AT_ONCE * times_of(rate);
}

static void count(struct log_rate *rate, int64_t now_ms)
{
	rate->lines = lines_at(rate, now_ms) + 1;
	rate->at_ms = now_ms;
}

bool log_rate_allows(struct log_rate *rate, unsigned *ret_left_out)
{
	int64_t now_ms = clock_monotonic_ms();
	if (!has_room(rate, now_ms) || (rate->all && !has_room(rate->all, now_ms))) {
		rate->left_out++;
		return false;
	}
	count(rate, now_ms);
	if (rate->all) {
		count(rate->all, now_ms);
	}
	*ret_left_out = rate->left_out;
	rate->left_out = 0;
	return true;
}

bool log_rate_is_new(const struct log_rate *rate)
{
	return lines_at(rate, clock_monotonic_ms()) <= 0 && rate->left_out == 0;
}
