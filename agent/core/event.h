/*
 * Events of the agent: a transition for log and history, and the wake-up of agent_reconsider().
 */
#ifndef AGENT_CORE_EVENT_H
#define AGENT_CORE_EVENT_H

#include <jansson.h>

#include "agent/base/history.h"

struct agent;

/*
 * Writes a change of state to the log and the history. The line is a warning when something is
 * wrong in the new state. A retry that repeats is one entry with a count.
 */
void agent_event(struct agent *agent, const struct transition *transition);
/* The same with nothing but this. */
void agent_transition(struct agent *agent, const char *subject, const char *from, const char *to,
	const char *why);

/* Takes up the history from before an upgrade (`received`, or NULL) or a restart. */
void agent_history_load(struct agent *agent, const json_t *received);
/* Saves it for the next start, if there is anything new. */
void agent_history_save(struct agent *agent);

/*
 * Lets agent_reconsider() run once, after the callback that the loop is in and before the loop
 * sleeps. Call it after any change of a component, the registry, the drain, the main process or the
 * phase.
 */
void agent_wake(struct agent *agent);

#endif
