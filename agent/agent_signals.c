#include "agent/agent_signals.h"

#include <signal.h>

#include "agent/agent_internal.h"

static const int numbers[AGENT_SIGNAL_COUNT] = { SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR2, SIGUSR1,
	SIGWINCH };

/* With CHLD: the successor must learn of a main process that ends during an upgrade. */
static sigset_t signal_set(void)
{
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	for (size_t i = 0; i < AGENT_SIGNAL_COUNT; i++) {
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

static void on_signal_watcher(struct ev_loop *loop, ev_signal *watcher, int events)
{
	(void)loop;
	(void)events;
	struct agent *agent = watcher->data;
	agent->on_signal(agent, watcher->signum);
}

void agent_signals_watch(
	struct agent *agent, void (*on_signal)(struct agent *agent, int signal_number))
{
	agent->on_signal = on_signal;
	for (size_t i = 0; i < AGENT_SIGNAL_COUNT; i++) {
		ev_signal_init(&agent->signals[i], on_signal_watcher, numbers[i]);
		agent->signals[i].data = agent;
		ev_signal_start(agent->loop, &agent->signals[i]);
	}
	agent_signals_unblock();
}
