/*
 * Random numbers for jitter: not for secrets. Seeded once from the kernel.
 */
#ifndef AGENT_BASE_RANDOM_H
#define AGENT_BASE_RANDOM_H

#include <stdint.h>

/* Uniform in [0, 1). */
double random_unit(void);

/* Uniform between half of `ms` and `ms`. */
int64_t random_jitter_ms(int64_t ms);

#endif
