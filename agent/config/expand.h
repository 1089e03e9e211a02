/*
 * ${…} in values.
 *
 *   ${VAR}             the environment variable; unset is an error
 *   ${VAR:-default}    the default when it is unset or empty; the default may hold ${…} itself
 *   ${berth.NAME}      what Berth knows itself, see builtin.h
 *   $$                 a dollar
 *
 * Any other dollar stays as it is: $1, $HOME, ${x%y}.
 */
#ifndef AGENT_CONFIG_EXPAND_H
#define AGENT_CONFIG_EXPAND_H

#include "lib/base/err.h"

/* A malloc'ed text, or NULL with `err`. */
char *config_expand(const char *text, struct err *err) ERR_REQUIRED(2);

/* The inverse: a malloc'ed text that config_expand() turns into `text`. */
char *config_unexpand(const char *text);

#endif
