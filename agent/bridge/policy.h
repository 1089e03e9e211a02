/*
 * The rules of the host for a container: its [container GLOB], and the paths that this allows.
 * Pure.
 */
#ifndef AGENT_BRIDGE_POLICY_H
#define AGENT_BRIDGE_POLICY_H

#include <stdbool.h>

#include "agent/config/config.h"

/* The part of SOURCE/NAME behind the source. */
const char *bridge_policy_plain_name(const char *name);
/*
 * The first [container GLOB] that matches NAME of SOURCE/NAME, or, with a slash in it, the whole;
 * NULL: it may register nothing. Borrowed.
 */
const struct config_container *bridge_policy_find(const struct config *config, const char *name);

/* Whether a container under this policy (NULL: none) may have a record at this valid path. */
bool bridge_policy_allows(const struct config_container *policy, const char *path);

/* Whether a subdirectory of this name can be a container. */
bool bridge_policy_is_name(const char *name);

#endif
