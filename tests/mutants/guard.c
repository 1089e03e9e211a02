/* In each program that holds mutants: what a mutant must not do to the machine. */
#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

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
