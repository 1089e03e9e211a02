#include "agent/base/random.h"
#include "lib/base/random_bytes.h"

#include <stdlib.h>

double random_unit(void)
{
	static unsigned short state[3];
	static int seeded;
	if (!seeded) {
		(void)random_bytes(state, sizeof(state));
		seeded = 1;
	}
	return erand48(state);
}

int64_t random_jitter_ms(int64_t ms)
{
	return (int64_t)((double)ms * (0.5 + random_unit() / 2));
}
