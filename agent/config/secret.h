/* Hides secrets: values whose names sound secret, and passwords in URLs. */
#ifndef AGENT_CONFIG_SECRET_H
#define AGENT_CONFIG_SECRET_H

#include <stdbool.h>

#include "agent/config/options.h"

#define CONFIG_MASK "****"

/* True when the name contains a word that is usual for secrets, in any letter case. */
bool config_name_is_secret(const char *name);

/*
 * A copy of the value for eyes: CONFIG_MASK for a secret, scheme://user:****@ for a password within
 * a URL.
 */
char *config_mask(const struct config_option *option, const char *key, const char *value);

#endif
