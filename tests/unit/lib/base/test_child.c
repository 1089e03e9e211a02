/* Children: their reports, what they keep, and how they end. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/base/array.h"
#include "lib/base/child.h"
#include "lib/base/close_files.h"

TestSuite(child, .timeout = 120);

/* The next byte of a pipe; -1 at its end. */
static int next_byte(int fd)
{
	unsigned char byte;
	struct pollfd readable = { .fd = fd, .events = POLLIN };
	cr_assert_eq(poll(&readable, 1, 60000), 1);
	return read(fd, &byte, 1) == 1 ? byte : -1;
}

static int status_of(pid_t pid)
{
	int status = -1;
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	return status;
}

Test(child, reports_once_with_every_signal_blocked)
{
	int report;
	pid_t pid = child_fork_reporting(true, &report);
	if (pid == 0) {
		sigset_t blocked;
		sigprocmask(SIG_SETMASK, NULL, &blocked);
		unsigned char good = sigismember(&blocked, SIGTERM) &&
			sigismember(&blocked, SIGCHLD);
		child_report(report, &good, 1);
	}
	cr_assert_gt(pid, 0);
	sigset_t blocked;
	sigprocmask(SIG_SETMASK, NULL, &blocked);
	cr_expect(!sigismember(&blocked, SIGTERM), "the caller hears signals as before");
	cr_expect_eq(next_byte(report), 1);
	cr_expect_eq(next_byte(report), -1);
	cr_expect_eq(status_of(pid), 0);
}

/* A pipe whose other end a child of a child has: at its end that child has ended. */
static int start_grandchild(void)
{
	int ends[2];
	cr_assert_eq(pipe2(ends, O_CLOEXEC), 0);
	pid_t pid = fork();
	if (pid == 0) {
		if (child_fork(true) == 0) {
			const int kept[] = { ends[1] };
			char byte = 'x';
			close_files_but(kept, ARRAY_LEN(kept));
			(void)!write(ends[1], &byte, 1);
			for (;;) {
				pause();
			}
		}
		close(ends[1]);
		cr_assert_eq(next_byte(ends[0]), 'x');
		_exit(7);
	}
	close(ends[1]);
	cr_expect_eq(WEXITSTATUS(status_of(pid)), 7);
	return ends[0];
}

Test(child, dies_with_its_parent)
{
	cr_expect_eq(next_byte(start_grandchild()), -1);
}

Test(child, keeps_the_descriptors_that_it_names_alone)
{
	int report;
	int other = open("/dev/null", O_RDONLY);
	pid_t pid = child_fork_reporting(true, &report);
	if (pid == 0) {
		const int kept[] = { -1, report, report, STDERR_FILENO };
		close_files_but(kept, ARRAY_LEN(kept));
		unsigned char good = fcntl(other, F_GETFD) < 0 &&
			fcntl(STDIN_FILENO, F_GETFD) < 0 && fcntl(STDERR_FILENO, F_GETFD) >= 0;
		child_report(report, &good, 1);
	}
	cr_expect_eq(next_byte(report), 1);
	cr_expect_eq(status_of(pid), 0);
	close(other);
}
