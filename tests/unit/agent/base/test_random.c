#include "agent/base/random.h"

#include <criterion/criterion.h>

Test(random, jitter_is_between_half_and_the_whole)
{
	int64_t least = INT64_MAX;
	int64_t most = 0;
	for (int i = 0; i < 10000; i++) {
		int64_t ms = random_jitter_ms(1000);
		least = ms < least ? ms : least;
		most = ms > most ? ms : most;
	}
	cr_assert(least >= 500 && least < 510, "%d", (int)least);
	cr_assert(most > 990 && most <= 1000, "%d", (int)most);
}
