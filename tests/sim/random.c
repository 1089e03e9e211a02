/* Randomness from the seed alone. */
#include <sys/random.h>

#include "tests/sim/sim.h"

static struct sim_random agents;

/* splitmix64 */
static uint64_t draw(struct sim_random *random)
{
	uint64_t z = random->state += UINT64_C(0x9e3779b97f4a7c15);
	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return z ^ (z >> 31);
}

void sim_random_init(struct sim_random *random, uint64_t seed, uint64_t stream)
{
	random->state = seed * UINT64_C(0xd1342543de82ef95) + stream;
	random->state = draw(random);
}

uint64_t sim_below(struct sim_random *random, uint64_t count)
{
	return draw(random) % count;
}

bool sim_chance(struct sim_random *random, unsigned percent)
{
	return sim_below(random, 100) < percent;
}

void sim_random_begin(uint64_t seed)
{
	sim_random_init(&agents, seed, 1);
}

/* For the agents' own randomness: seeds of generators and of hash tables. */
ssize_t getrandom(void *data, size_t len, unsigned flags)
{
	(void)flags;
	for (size_t i = 0; i < len; i++) {
		((unsigned char *)data)[i] = (unsigned char)draw(&agents);
	}
	return (ssize_t)len;
}
