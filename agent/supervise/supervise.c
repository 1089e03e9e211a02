#include "agent/supervise/supervise.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/base/allocate.h"
#include "agent/base/log.h"
#include "agent/base/random.h"

enum {
	BACKOFF_FIRST_MS = 500,
	BACKOFF_MAX_MS = 30000,
	GOOD_RUN_MS = 60000, /* a run of this length forgives what was before */
};

struct supervise {
	struct ev_loop *loop;
	char **argv;
	struct supervise_limits limits;
	struct supervise_callbacks callbacks;
	enum config_restart restart;
	bool restart_forbidden;
	int64_t stop_timeout_ms;
	pid_t pid;
	bool stopping;
	int64_t backoff_ms;
	ev_tstamp started_at;
	ev_child child;
	ev_timer timer; /* KILL while stopping, the next start while restarting */
};

static void on_timer(struct ev_loop *loop, ev_timer *timer, int events);

static int shell_status(int wait_status)
{
	return WIFSIGNALED(wait_status) ? 128 + WTERMSIG(wait_status) : WEXITSTATUS(wait_status);
}

static void arm_timer(struct supervise *supervise, int64_t delay_ms)
{
	ev_timer_stop(supervise->loop, &supervise->timer);
	/* libev counts from the beginning of this turn, which may have been long: KILL would follow TERM at once. */
	ev_now_update(supervise->loop);
	ev_timer_set(&supervise->timer, (double)delay_ms / 1000.0, 0.0);
	ev_timer_start(supervise->loop, &supervise->timer);
}

static void on_exit_of_child(struct ev_loop *loop, ev_child *child, int events)
{
	(void)events;
	struct supervise *supervise = child->data;
	ev_child_stop(loop, child);
	ev_timer_stop(loop, &supervise->timer);
	/* What is left of its group must not outlive it and hold its ports. */
	kill(-supervise->pid, SIGTERM);
	supervise->pid = 0;
	int status = shell_status(child->rstatus);
	bool again = !supervise->stopping && !supervise->restart_forbidden &&
		supervise->restart == RESTART_ON_FAILURE && status != 0;
	if (again) {
		if ((ev_now(loop) - supervise->started_at) * 1000.0 > GOOD_RUN_MS) {
			supervise->backoff_ms = BACKOFF_FIRST_MS;
		}
		arm_timer(supervise, random_jitter_ms(supervise->backoff_ms));
		supervise->backoff_ms = supervise->backoff_ms * 2 > BACKOFF_MAX_MS
			? BACKOFF_MAX_MS
			: supervise->backoff_ms * 2;
	}
	supervise->callbacks.on_ended(supervise->callbacks.context, status, again);
}

static void watch_child(struct supervise *supervise, pid_t pid)
{
	supervise->pid = pid;
	supervise->started_at = ev_now(supervise->loop);
	ev_child_set(&supervise->child, pid, 0);
	ev_child_start(supervise->loop, &supervise->child);
}

static void default_signals(void)
{
	struct sigaction action = { .sa_handler = SIG_DFL };
	for (int number = 1; number < NSIG; number++) {
		sigaction(number, &action, NULL);
	}
}

/*
 * Makes the child what it would be without us. All signals are blocked till the end, TTOU too: it lets a process group in the
 * background take the terminal.
 */
static _Noreturn void child(const struct supervise *supervise, int *ret_error)
{
	setpgid(0, 0);
	if (isatty(STDIN_FILENO)) {
		tcsetpgrp(STDIN_FILENO, getpid());
	}
	setrlimit(RLIMIT_CORE, &supervise->limits.core);
	setrlimit(RLIMIT_NOFILE, &supervise->limits.files);
	default_signals();
	sigset_t none;
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	execvp(supervise->argv[0], supervise->argv);
	*ret_error = errno;
	_exit(127);
}

/* Not inlined: what vfork's second return may clobber stays in this frame. */
static __attribute__((noinline)) pid_t spawn(const struct supervise *supervise, int *ret_error)
{
	sigset_t all, before;
	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, &before);
	pid_t pid = vfork();
	if (pid == 0) {
		child(supervise, ret_error);
	}
	if (pid < 0) {
		*ret_error = errno;
	}
	sigprocmask(SIG_SETMASK, &before, NULL);
	return pid;
}

int supervise_start(struct supervise *supervise, int *ret_status, struct err *err)
{
	/* The child that shares our memory until it executes writes it. */
	volatile int error = 0;
	pid_t pid = spawn(supervise, (int *)&error);
	if (error) {
		*ret_status = error == ENOENT ? 127 : 126;
		return err_set_errno(err, BERTH_FAILED, error, "cannot run %s", supervise->argv[0]);
	}
	watch_child(supervise, pid);
	supervise->callbacks.on_started(supervise->callbacks.context, pid);
	return 0;
}

void supervise_adopt(struct supervise *supervise, pid_t pid)
{
	watch_child(supervise, pid);
}

static void on_timer(struct ev_loop *loop, ev_timer *timer, int events)
{
	(void)loop;
	(void)events;
	struct supervise *supervise = timer->data;
	if (supervise->stopping) {
		log_warn("main process", "did not end within %.9g s of TERM: sending KILL",
			(double)supervise->stop_timeout_ms / 1000);
		supervise_signal(supervise, SIGKILL);
		return;
	}
	int status;
	struct err err = ERR_INIT;
	if (supervise_start(supervise, &status, &err)) {
		supervise->callbacks.on_ended(supervise->callbacks.context, status, false);
	}
}

struct supervise *supervise_create(struct ev_loop *loop, char **argv,
	const struct supervise_limits *limits, const struct supervise_callbacks *callbacks)
{
	struct supervise *supervise = allocate_zeroed(1, sizeof(*supervise));
	supervise->loop = loop;
	supervise->argv = argv;
	supervise->limits = *limits;
	supervise->callbacks = *callbacks;
	supervise->backoff_ms = BACKOFF_FIRST_MS;
	ev_init(&supervise->child, on_exit_of_child);
	ev_init(&supervise->timer, on_timer);
	supervise->child.data = supervise;
	supervise->timer.data = supervise;
	return supervise;
}

void supervise_destroy(struct supervise *supervise)
{
	if (!supervise) {
		return;
	}
	ev_child_stop(supervise->loop, &supervise->child);
	ev_timer_stop(supervise->loop, &supervise->timer);
	free(supervise);
}

void supervise_set_policy(
	struct supervise *supervise, enum config_restart restart, int64_t stop_timeout_ms)
{
	supervise->restart = restart;
	supervise->stop_timeout_ms = stop_timeout_ms;
}

void supervise_forbid_restart(struct supervise *supervise)
{
	supervise->restart_forbidden = true;
	if (supervise->pid == 0) {
		ev_timer_stop(supervise->loop, &supervise->timer);
	}
}

pid_t supervise_pid(const struct supervise *supervise)
{
	return supervise->pid;
}

void supervise_signal(struct supervise *supervise, int signal_number)
{
	if (supervise->pid > 0) {
		kill(-supervise->pid, signal_number);
	}
}

void supervise_stop(struct supervise *supervise)
{
	if (supervise->stopping) {
		return;
	}
	supervise->stopping = true;
	if (supervise->pid == 0) {
		ev_timer_stop(supervise->loop, &supervise->timer);
		supervise->callbacks.on_ended(supervise->callbacks.context, 0, false);
		return;
	}
	supervise_signal(supervise, SIGTERM);
	/* A stopped process cannot act on TERM. */
	supervise_signal(supervise, SIGCONT);
	arm_timer(supervise, supervise->stop_timeout_ms);
}
