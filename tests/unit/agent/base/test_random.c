#include "agent/base/random.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static bool refused;

ssize_t getrandom(void *bytes, size_t len, unsigned flags)
{
	return refused ? -1 : (ssize_t)syscall(SYS_getrandom, bytes, len, flags);
}

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

Test(random, two_processes_have_different_numbers)
{
	double first[2];
	for (int i = 0; i < 2; i++) {
		int ends[2];
		cr_assert_eq(pipe(ends), 0);
		pid_t pid = fork();
		if (pid == 0) {
			double number = random_unit();
			_exit(write(ends[1], &number, sizeof(number)) != sizeof(number));
		}
		cr_assert_eq(read(ends[0], &first[i], sizeof(first[i])), sizeof(first[i]));
		waitpid(pid, NULL, 0);
		close(ends[0]);
		close(ends[1]);
	}
	cr_assert_neq(first[0], first[1]);
}

Test(random, a_kernel_without_numbers_is_not_the_same_one_everywhere)
{
	unsigned short nothing[3] = { 0 };
	double first = erand48(nothing);
	refused = true;
	cr_assert_neq(random_unit(), first);
	cr_assert_neq(random_unit(), random_unit());
}
