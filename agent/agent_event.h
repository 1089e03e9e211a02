/*
 * Events of the agent: a transition for log and history, and the wake-up of agent_reconsider().
 */
#ifndef AGENT_AGENT_EVENT_H
#define AGENT_AGENT_EVENT_H

struct agent;

/* Writes a change of state to the log and the history. */
void agent_transition(struct agent *agent, const char *subject, const char *from, const char *to,
	const char *why);

/*
 * Lets agent_reconsider() run once, after the callback that the loop is in and before the loop sleeps.
 * Call it after any change of a component, the registry, the drain, the main process or the phase.
 */
void agent_wake(struct agent *agent);

#endif
