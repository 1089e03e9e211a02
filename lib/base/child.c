#include "lib/base/child.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

pid_t child_fork(bool dies_with_us)
{
	sigset_t all, before;
	pid_t parent = getpid();
	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, &before);
	pid_t child = fork();
	if (child == 0) {
		if (dies_with_us) {
			prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
			if (getppid() != parent) {
				_exit(1); /* it has died before, and the signal will not come */
			}
		}
		return 0;
	}
	int error = errno;
	sigprocmask(SIG_SETMASK, &before, NULL);
	errno = error;
	return child;
}

pid_t child_fork_reporting(bool dies_with_us, int *ret_report)
{
	int ends[2];
	if (pipe2(ends, O_CLOEXEC | O_NONBLOCK)) {
		return -1;
	}
	pid_t child = child_fork(dies_with_us);
	if (child == 0) {
		*ret_report = ends[1];
		return 0;
	}
	int error = errno;
	close(ends[1]);
	if (child < 0) {
		close(ends[0]);
		errno = error;
		return -1;
	}
	*ret_report = ends[0];
	return child;
}

void child_report(int fd, const void *report, size_t len)
{
	(void)!write(fd, report, len); /* whole or not at all */
	_exit(0);
}
