/*
 * ${…} in values.
 *
 *   ${VAR}             the environment variable; unset is an error
 *   ${VAR:-default}    the default when it is unset or empty; the default may hold ${…} itself
 *   ${berth.NAME}      what Berth knows itself, see config_builtin.h
 *   $$                 a dollar
 *
 * Any other dollar stays as it is: $1, $HOME, ${x%y}.
 */
#ifndef CONFIG_EXPAND_H
#define CONFIG_EXPAND_H

#include "err.h"

/* A malloc'ed text, or NULL with `err`. */
char *config_expand(const char *text, struct err *err) ERR_REQUIRED(2);

/* The inverse: a malloc'ed text that config_expand() turns into `text`. */
char *config_unexpand(const char *text);

#endif
