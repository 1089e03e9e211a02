#include "lib/base/late_close.h"

#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <unistd.h>

#include "lib/base/close_files.h"

/* Lives until the caller has closed its own copy, and with it the other end of the pipe. */
static _Noreturn void hold(int fd, const int ends[2])
{
	char byte;
	int low = fd < ends[0] ? fd : ends[0];
	int high = fd < ends[0] ? ends[0] : fd;
	close_files(0, low - 1);
	close_files(low + 1, high - 1);
	close_files(high + 1, INT_MAX);
	(void)!read(ends[0], &byte, 1);
	_exit(0);
}

void late_close(int fd)
{
	int ends[2];
	sigset_t all, before;
	if (pipe2(ends, O_CLOEXEC)) {
		close(fd);
		return;
	}
	/* No handler of the caller's may run in the child. */
	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, &before);
	if (fork() == 0) {
		hold(fd, ends);
	}
	sigprocmask(SIG_SETMASK, &before, NULL);
	close(ends[0]);
	close(fd);
	close(ends[1]);
}
