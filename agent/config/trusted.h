/*
 * The users who could have written a configuration. The agent runs the commands in it, with the
 * rights of the user who starts the agent, so root takes it only from root.
 *
 * The agent's user, [agent] user, may own it too if it gains nothing by that: when the agent
 * becomes this user and none of its checks runs as another user. A file on a read-only mount is
 * good with any owner: a container's files there have the owners of another machine.
 */
#ifndef AGENT_CONFIG_TRUSTED_H
#define AGENT_CONFIG_TRUSTED_H

#include "agent/config/config.h"

/*
 * config_load() for the agent: where root, or the agent's user, would run the commands of a file
 * that others could have written, this is a mistake. To all other users it is a warning.
 */
int config_load_trusted(struct config **ret_config, const char *path,
	struct config_problems *problems) __attribute__((warn_unused_result));

#endif
