/*
 * The agent's signals.
 *
 * They do not use libev's own way from the handler to the loop: when the kernel refuses its
 * descriptor, nobody learns of it, and no signal arrives any more.
 */
#ifndef AGENT_AGENT_SIGNALS_H
#define AGENT_AGENT_SIGNALS_H

#include "lib/base/err.h"

struct agent;

/* From the first moment on: a signal that comes before the loop runs waits for it. */
void agent_signals_block(void);
void agent_signals_unblock(void);
/*
 * Calls on_signal from the loop for each signal, lets libev reap children, and unblocks the
 * signals.
 */
int agent_signals_watch(struct agent *agent,
	void (*on_signal)(struct agent *agent, int signal_number), struct err *err) ERR_REQUIRED(3);

#endif
