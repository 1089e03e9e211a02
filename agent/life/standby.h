/*
 * A second agent of a host with a bridge: it waits for the end of the one that serves, and then
 * starts as its successor, with its session and its state.
 */
#ifndef AGENT_LIFE_STANDBY_H
#define AGENT_LIFE_STANDBY_H

#include <stdbool.h>

#include "agent/config/config.h"

/*
 * True when no other agent has the state directory, at once if the configuration has no standby.
 * False: is_asked_to_end() became true first.
 */
bool agent_standby_wait(
	const struct config *config, bool (*is_asked_to_end)(const struct config *config));

#endif
