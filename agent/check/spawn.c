#include "agent/check/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/*
 * posix_spawn() cannot change the user, and a second process image that could do so would cost another exec per
 * run. So this does what posix_spawn() does inside: vfork, then nothing but system calls until exec. It is safe
 * because the agent has one thread and blocks all signals meanwhile; and since the child shares our memory,
 * it can tell us in a variable what went wrong, with no pipe. Ids are changed by bare system calls: the
 * C library's functions would look for other threads to change.
 */

struct failure {
	const char *what; /* NULL: none */
	const char *whom;
	int error;
};

static bool change_identity(const struct check_identity *identity)
{
	return syscall(SYS_setgroups, (size_t)identity->group_count, identity->groups) == 0 &&
		syscall(SYS_setresgid, identity->gid, identity->gid, identity->gid) == 0 &&
		syscall(SYS_setresuid, identity->uid, identity->uid, identity->uid) == 0;
}

static void default_signals(void)
{
	struct sigaction action = { .sa_handler = SIG_DFL };
	for (int number = 1; number < NSIG; number++) {
		sigaction(number, &action, NULL);
	}
	sigset_t none;
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
}

/* The pipes were made with descriptors above 2, so that no dup2 overwrites what a later one needs. */
static bool redirect(const struct check_spawn *spawn)
{
	int null = open("/dev/null", O_RDONLY);
	return null >= 0 && dup2(null, STDIN_FILENO) >= 0 &&
		dup2(spawn->output, STDOUT_FILENO) >= 0 &&
		dup2(spawn->errors, STDERR_FILENO) >= 0 &&
		syscall(SYS_close_range, 3U, ~0U, 0U) == 0;
}

static _Noreturn void fail(struct failure *failure, const char *what, const char *whom)
{
	*failure = (struct failure){ .what = what, .whom = whom, .error = errno };
	_exit(127);
}

static _Noreturn void child(const struct check_spawn *spawn, struct failure *failure)
{
	setsid();
	if (!redirect(spawn)) {
		fail(failure, "cannot redirect", "output");
	}
	if (spawn->identity->change && !change_identity(spawn->identity)) {
		fail(failure, "cannot become user", spawn->user);
	}
	if (*spawn->cwd && chdir(spawn->cwd)) {
		fail(failure, "cannot change to", spawn->cwd);
	}
	/* Last, so that no handler of the agent's can run in the child. */
	default_signals();
	execvpe(spawn->argv[0], spawn->argv, spawn->environment);
	fail(failure, "cannot run", spawn->argv[0]);
}

/* Not inlined: what vfork's second return may clobber stays in this frame. */
static __attribute__((noinline)) pid_t start(
	const struct check_spawn *spawn, struct failure *failure)
{
	sigset_t all, before;
	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, &before);
	pid_t pid = vfork();
	if (pid == 0) {
		child(spawn, failure);
	}
	if (pid < 0) {
		*failure = (struct failure){ "cannot start", "a process", errno };
	}
	sigprocmask(SIG_SETMASK, &before, NULL);
	return pid;
}

/* exec says "permission denied" of a directory. */
static int explain(int error, const char *command)
{
	struct stat status;
	bool directory = error == EACCES && strchr(command, '/') && stat(command, &status) == 0 &&
		S_ISDIR(status.st_mode);
	return directory ? EISDIR : error;
}

static pid_t could_not_run(struct check_result *result, const struct failure *failure)
{
	result->verdict = CHECK_COULD_NOT_RUN;
	check_result_set_detail(result, "%s %s: %s", failure->what, failure->whom,
		strerror(explain(failure->error, failure->whom)));
	return -1;
}

pid_t check_spawn(const struct check_spawn *spawn, struct check_result *result)
{
	int error = spawn->identity->error;
	if (error) {
		return could_not_run(
			result, &(struct failure){ "cannot find user", spawn->user, error });
	}
	struct failure failure = { 0 };
	pid_t pid = start(spawn, &failure);
	/* A child that failed has exited; the loop reaps it like any other that nobody waits for. */
	return failure.what ? could_not_run(result, &failure) : pid;
}
