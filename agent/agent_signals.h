/*
 * The agent's signals.
 */
#ifndef AGENT_AGENT_SIGNALS_H
#define AGENT_AGENT_SIGNALS_H

struct agent;

/* From the first moment on: a signal that comes before the loop runs waits for it. */
void agent_signals_block(void);
void agent_signals_unblock(void);
/* Calls on_signal from the loop for each signal, and unblocks them. */
void agent_signals_watch(
	struct agent *agent, void (*on_signal)(struct agent *agent, int signal_number));

#endif
