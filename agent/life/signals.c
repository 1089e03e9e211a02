#include "agent/life/signals.h"

#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "agent/core/state.h"
#include "lib/base/array.h"

/* With CHLD: the successor must learn of a main process that ends during an upgrade. */
static const int own[] = { SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR2, SIGUSR1, SIGWINCH, SIGCHLD };

/*
 * More of them, and the real-time ones, for a main process. Not those that speak of the process
 * that gets them: its mistakes, its limits and its terminal.
 */
static const int for_program[] = { SIGPWR, SIGALRM, SIGVTALRM, SIGPROF, SIGIO, SIGURG, SIGSTKFLT };

static volatile sig_atomic_t arrived[NSIG];
static volatile sig_atomic_t wake_fd = -1;

static sigset_t signal_set(bool program)
{
	sigset_t set;
	sigemptyset(&set);
	for (size_t i = 0; i < ARRAY_LEN(own); i++) {
		sigaddset(&set, own[i]);
	}
	for (size_t i = 0; program && i < ARRAY_LEN(for_program); i++) {
		sigaddset(&set, for_program[i]);
	}
	for (int number = SIGRTMIN; program && number <= SIGRTMAX; number++) {
		sigaddset(&set, number);
	}
	return set;
}

void agent_signals_block(bool program)
{
	sigset_t set = signal_set(program);
	sigprocmask(SIG_BLOCK, &set, NULL);
}

void agent_signals_unblock(void)
{
	sigset_t set = signal_set(true);
	sigprocmask(SIG_UNBLOCK, &set, NULL);
}

static void wake_loop(void)
{
	const uint64_t one = 1;
	(void)!write(wake_fd, &one, sizeof(one)); /* a full counter wakes the loop as well */
}

static void on_arrival(int signal_number)
{
	int error = errno;
	arrived[signal_number] = 1;
	wake_loop();
	errno = error;
}

static void take(struct agent *agent, int number)
{
	if (!arrived[number]) {
		return;
	}
	arrived[number] = 0;
	if (number == SIGCHLD) {
		ev_feed_signal_event(agent->loop, SIGCHLD); /* libev reaps */
	} else {
		agent->on_signal(agent, number);
	}
}

static void on_wake(void *context)
{
	uint64_t count;
	(void)!read(wake_fd, &count, sizeof(count));
	for (size_t i = 0; i < ARRAY_LEN(own); i++) {
		take(context, own[i]);
	}
	for (int number = 1; number < NSIG; number++) {
		take(context, number);
	}
}

/* Only a descriptor that the kernel has just refused has an event before the wait. */
static void before_wait(struct ev_loop *loop)
{
	if (ev_pending_count(loop) > 0) {
		wake_loop();
	}
}

int agent_signals_watch(struct agent *agent, bool program,
	void (*on_signal)(struct agent *agent, int signal_number), struct err *err)
{
	sigset_t set = signal_set(program);
	struct sigaction action = { .sa_handler = on_arrival, .sa_flags = SA_RESTART };
	sigfillset(&action.sa_mask);
	wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (wake_fd < 0) {
		return err_set_errno(
			err, BERTH_FAILED, errno, "cannot make a descriptor for signals");
	}
	agent->on_signal = on_signal;
	lasting_io_start(&agent->signals, agent->loop, wake_fd, "signals", on_wake, agent);
	ev_set_loop_release_cb(agent->loop, before_wait, NULL);
	for (int number = 1; number < NSIG; number++) {
		if (sigismember(&set, number) == 1) {
			sigaction(number, &action, NULL);
		}
	}
	agent_signals_unblock();
	return 0;
}
