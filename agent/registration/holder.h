/*
 * The secret by which the agent knows its own records (agent/base/holder.h), kept in the state
 * directory, and handed on in an upgrade.
 */
#ifndef AGENT_REGISTRATION_HOLDER_H
#define AGENT_REGISTRATION_HOLDER_H

#include <stdbool.h>

struct agent;

/* `passed`: the secret of the program before, in an upgrade; "" or NULL: none. */
void agent_holder_open(struct agent *agent, const char *passed);
/* False while the disk does not have a new secret: agent_wake() follows, after 2 s at most. */
bool agent_holder_is_saved(const struct agent *agent);

#endif
