/*
 * The agent's signals, and the descriptor that they wake the loop with.
 *
 * They do not use libev's own way from the handler to the loop: when the kernel refuses its
 * descriptor, nobody learns of it, and no signal arrives any more.
 *
 * The same descriptor wakes the loop when the kernel has refused another one: libev finds that out
 * right before it waits, and passes EV_ERROR to the watchers only after the wait.
 */
#ifndef AGENT_LIFE_SIGNALS_H
#define AGENT_LIFE_SIGNALS_H

#include <stdbool.h>

#include "lib/base/err.h"

struct agent;

/*
 * From the first moment on: a signal that comes before the loop runs waits for it. `program`: there
 * is a main process, which gets what the agent does not act upon itself.
 */
void agent_signals_block(bool program);
void agent_signals_unblock(void);
/*
 * Calls on_signal from the loop for each signal, lets libev reap children, unblocks the signals,
 * and has the loop report a refused descriptor at once.
 */
int agent_signals_watch(struct agent *agent, bool program,
	void (*on_signal)(struct agent *agent, int signal_number), struct err *err) ERR_REQUIRED(4);

#endif
