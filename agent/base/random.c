#include "agent/base/random.h"

#include <stdlib.h>
#include <sys/random.h>

double random_unit(void)
{
	static unsigned short state[3];
	static int seeded;
	if (!seeded) {
		if (getrandom(state, sizeof(state), GRND_NONBLOCK) != (ssize_t)sizeof(state)) {
			state[0] = (unsigned short)(uintptr_t)&state;
		}
		seeded = 1;
	}
	return erand48(state);
}

int64_t random_jitter_ms(int64_t ms)
{
	return (int64_t)((double)ms * (0.5 + random_unit() / 2));
}
