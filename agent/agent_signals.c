#include "agent/agent_internal.h"

#include <signal.h>

#include "agent/base/log.h"

static const int numbers[AGENT_SIGNAL_COUNT] = { SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR2, SIGUSR1,
	SIGWINCH };

/* CHLD is among them: a main process that ends while we execute ourselves must not go unnoticed. */
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

static void on_signal(struct ev_loop *loop, ev_signal *watcher, int events)
{
	(void)loop;
	(void)events;
	struct agent *agent = watcher->data;
	switch (watcher->signum) {
	case SIGTERM:
		agent_stop(agent, "SIGTERM");
		break;
	case SIGINT:
		agent_stop(agent, "SIGINT");
		break;
	case SIGHUP:
		json_decref(agent_reload(agent));
		break;
	case SIGQUIT:
		agent_quit(agent, "SIGQUIT");
		break;
	case SIGUSR2:
		agent_reexecute(agent);
		break;
	default:
		if (agent->main_process) {
			supervise_signal(agent->main_process, watcher->signum);
		}
	}
}

void agent_signals_watch(struct agent *agent)
{
	for (size_t i = 0; i < AGENT_SIGNAL_COUNT; i++) {
		ev_signal_init(&agent->signals[i], on_signal, numbers[i]);
		agent->signals[i].data = agent;
		ev_signal_start(agent->loop, &agent->signals[i]);
	}
	agent_signals_unblock();
}
