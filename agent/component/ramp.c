#include "agent/component/ramp.h"

int ramp_weight(int whole, int64_t slow_start_ms, int64_t passed_ms, int64_t *ret_next_ms)
{
	int64_t steps = whole - 1 < RAMP_STEPS ? whole - 1 : RAMP_STEPS;
	*ret_next_ms = -1;
	if (whole < 2 || passed_ms >= slow_start_ms) {
		return whole;
	}
	int64_t step = passed_ms > 0 ? passed_ms * steps / slow_start_ms : 0;
	/* The first millisecond at which the division above gives the next step. */
	*ret_next_ms = ((step + 1) * slow_start_ms + steps - 1) / steps;
	return (int)(1 + (whole - 1) * step / steps);
}
