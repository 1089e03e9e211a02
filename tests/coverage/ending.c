/*
 * How a process of a coverage build ends: _exit() and abort() write its counts first, which only
 * exit() does otherwise. When exit() writes them, no call fails on purpose any more
 * (tests/failures). Linked into every program (make coverage).
 */
#include <dlfcn.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

extern void __gcov_dump(void);
extern void __gcov_reset(void);

/* The counts themselves are written by a later destructor. */
__attribute__((destructor)) static void stop_failing(void)
{
	void (*stop)(void);
	*(void **)&stop = dlsym(RTLD_DEFAULT, "points_stop");
	if (stop) {
		stop();
	}
}

/* The reset is for a child of vfork(), whose parent goes on with the same counts. */
static void write_counts(void)
{
	__gcov_dump();
	__gcov_reset();
}

/* Weak: the simulation has its own. */
__attribute__((weak)) void _exit(int status)
{
	write_counts();
	for (;;) {
		syscall(SYS_exit_group, status);
	}
}

__attribute__((weak)) void abort(void)
{
	static volatile sig_atomic_t again;
	if (!again) {
		again = 1;
		write_counts();
	}
	signal(SIGABRT, SIG_DFL);
	raise(SIGABRT);
	for (;;) {
		syscall(SYS_exit_group, 127);
	}
}
