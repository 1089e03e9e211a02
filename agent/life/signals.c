#include "agent/life/signals.h"

#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "agent/core/state.h"

/* With CHLD: the successor must learn of a main process that ends during an upgrade. */
static const int numbers[] = { SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR2, SIGUSR1, SIGWINCH,
	SIGCHLD };

enum { NUMBER_COUNT = sizeof(numbers) / sizeof(numbers[0]) };

static volatile sig_atomic_t arrived[NUMBER_COUNT];
static volatile sig_atomic_t wake_fd = -1;

static sigset_t signal_set(void)
{
	sigset_t set;
	sigemptyset(&set);
	for (size_t i = 0; i < NUMBER_COUNT; i++) {
		sigaddset(&set, numbers[i]);
	}
	return set;
}

void agent_signals_block(void)
{
	sigset_t set = signal_set();
	sigprocmask(SIG_BLOCK, &set, NULL);
}

void agent_signals_unblock(void)
{
	sigset_t set = signal_set();
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
	for (size_t i = 0; i < NUMBER_COUNT; i++) {
		if (numbers[i] == signal_number) {
			arrived[i] = 1;
		}
	}
	wake_loop();
	errno = error;
}

static void on_wake(void *context)
{
	struct agent *agent = context;
	uint64_t count;
	(void)!read(wake_fd, &count, sizeof(count));
	for (size_t i = 0; i < NUMBER_COUNT; i++) {
		if (!arrived[i]) {
			continue;
		}
		arrived[i] = 0;
		if (numbers[i] == SIGCHLD) {
			ev_feed_signal_event(agent->loop, SIGCHLD); /* libev reaps */
		} else {
			agent->on_signal(agent, numbers[i]);
		}
	}
}

/* Only a descriptor that the kernel has just refused has an event before the wait. */
static void before_wait(struct ev_loop *loop)
{
	if (ev_pending_count(loop) > 0) {
		wake_loop();
	}
}

int agent_signals_watch(struct agent *agent,
	void (*on_signal)(struct agent *agent, int signal_number), struct err *err)
{
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
	for (size_t i = 0; i < NUMBER_COUNT; i++) {
		sigaction(numbers[i], &action, NULL);
	}
	agent_signals_unblock();
	return 0;
}
