/*
 * A configuration takes the place of the one in force: of a reload, or for other addresses of this
 * machine.
 */
#ifndef AGENT_LIFE_APPLY_H
#define AGENT_LIFE_APPLY_H

struct agent;

/* Puts all of it into force but checks and components, which come first. */
void agent_apply_rest(struct agent *agent);

#endif
