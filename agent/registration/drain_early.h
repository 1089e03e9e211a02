/*
 * drain_early: drain_delay ends when no connection is left on the ports of a component that is
 * drained, or of all components when the agent stops.
 *
 * A timer looks at the kernel's list of sockets while a delay runs. A component is idle when two
 * looks in a row found a listener and no connection on each of its ports: clients that have just
 * read the record may still be about to connect. A port that nobody here listens on says nothing,
 * because the published port may be another machine's; then the whole delay passes.
 */
#ifndef AGENT_REGISTRATION_DRAIN_EARLY_H
#define AGENT_REGISTRATION_DRAIN_EARLY_H

struct agent;

void agent_drain_early_init(struct agent *agent);
/* Part of agent_reconsider(): looks as long as a delay runs that can end early. */
void agent_drain_early_proceed(struct agent *agent);
#endif
