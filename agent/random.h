/*
 * Random numbers for jitter: not for secrets. Seeded once from the kernel.
 */
#ifndef RANDOM_H
#define RANDOM_H

#include <stdint.h>

/* Uniform in [0, 1). */
double random_unit(void);

/* Uniform between half of `ms` and `ms`. */
int64_t random_jitter_ms(int64_t ms);

#endif
