/*
 * slow_start: the weight of a component that has come up, on its way from 1 to the configured one,
 * in eight equal steps at most. Pure: the caller has the clock.
 */
#ifndef AGENT_COMPONENT_RAMP_H
#define AGENT_COMPONENT_RAMP_H

#include <stdint.h>

enum { RAMP_STEPS = 8 };

/*
 * The weight after so long, and in *ret_next_ms the time from the beginning to the next step; -1
 * when there is none.
 */
int ramp_weight(int whole, int64_t slow_start_ms, int64_t passed_ms, int64_t *ret_next_ms);

#endif
