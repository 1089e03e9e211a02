/*
 * The persistent nodes with its records that the agent leaves in the registry when it ends, by
 * path, with the version that it wrote last and, during a write, with what it writes, in the state
 * directory. A successor whose configuration has changed knows the record of its predecessor by
 * that also when the record has no yarn:id.
 */
#ifndef AGENT_REGISTRATION_PERSISTENT_H
#define AGENT_REGISTRATION_PERSISTENT_H

#include <stdbool.h>

#include "agent/component/component.h"

struct agent;

/* Before the components are made. */
void agent_persistent_load(struct agent *agent);
/* The state of the component has changed: notes what it leaves, once that is known. */
void agent_persistent_update(struct agent *agent, const struct component *component);
/*
 * Saves what the component leaves, if that is something else. False while the disk does not have
 * it: agent_wake() follows.
 */
bool agent_persistent_note(struct agent *agent, const struct component *component);
void agent_persistent_finish(struct agent *agent);

#endif
