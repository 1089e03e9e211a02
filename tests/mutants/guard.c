/* In each program that holds mutants: what a mutant must not do to the machine. */
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#define MOST_BYTES (INT64_C(1) << 30) /* of a file, and of memory */

/* A mutant that has a wrong number of a process ends neither all of them nor the first one. */
__attribute__((weak)) int kill(pid_t pid, int number)
{
	if (number != 0 && (pid == -1 || pid == 1)) {
		abort();
	}
	return (int)syscall(SYS_kill, pid, number);
}

__attribute__((weak)) int killpg(pid_t group, int number)
{
	return kill(-group, number);
}

__attribute__((weak)) void __asan_init(void); /* it takes more memory than there is */

__attribute__((constructor)) static void limit_bytes(void)
{
	const struct rlimit most = { .rlim_cur = MOST_BYTES, .rlim_max = MOST_BYTES };
	setrlimit(RLIMIT_FSIZE, &most);
	if (!__asan_init) {
		setrlimit(RLIMIT_DATA, &most);
	}
}
