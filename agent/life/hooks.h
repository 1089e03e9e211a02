/* The agent's side of the API's requests. */
#ifndef AGENT_LIFE_HOOKS_H
#define AGENT_LIFE_HOOKS_H

#include "agent/api/api.h"

struct agent;

struct api_hooks agent_hooks(struct agent *agent);

#endif
