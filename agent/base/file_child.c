#include "agent/base/file_child.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "lib/base/close_files.h"

/* In the child; every signal is blocked, so that no handler of the agent's runs here. */
static _Noreturn void run(const struct file_work *work, pid_t agent, int lock_fd, int report)
{
	struct err err = ERR_INIT;
	if (lock_fd < 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
		if (getppid() != agent) {
			_exit(1); /* it has died before, and the signal will not come */
		}
	}
	dup2(report, STDIN_FILENO);
	dup2(lock_fd, STDOUT_FILENO);
	close_files(STDERR_FILENO + 1, INT_MAX);
	(void)file_work_do(work, &err);
	/* Smaller than a pipe's buffer: one write, whole or not at all. */
	(void)!write(STDIN_FILENO, &err, sizeof(err));
	_exit(0);
}

pid_t file_child_start(const struct file_work *work, int lock_fd, int *ret_report)
{
	int ends[2];
	sigset_t all, before;
	pid_t agent = getpid();
	if (pipe2(ends, O_CLOEXEC)) {
		return -errno;
	}
	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, &before);
	pid_t child = fork();
	if (child == 0) {
		run(work, agent, lock_fd, ends[1]);
	}
	int error = errno;
	sigprocmask(SIG_SETMASK, &before, NULL);
	close(ends[1]);
	if (child < 0) {
		close(ends[0]);
		return -error;
	}
	*ret_report = ends[0];
	return child;
}
