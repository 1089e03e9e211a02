/*
 * ${…} in values.
 *
 *   ${VAR}             the environment variable; unset is an error
 *   ${VAR:-default}    the default when it is unset or empty; the default may hold ${…} itself
 *   ${berth.NAME}      what Berth knows itself, see builtin.h
 *   $$                 a dollar
 *
 * ${NAME followed by anything but } or :- is an error. Any other dollar stays as it is: $1, $HOME,
 * ${1}.
 */
#ifndef AGENT_CONFIG_EXPAND_H
#define AGENT_CONFIG_EXPAND_H

#include <stdbool.h>

#include "lib/base/buffer.h"
#include "lib/base/err.h"

/* A malloc'ed text, or NULL with `err`. */
char *config_expand(const char *text, struct err *err) ERR_REQUIRED(2);

/* The same, but ${container.…} stays as it is, until there is a container. */
char *config_expand_but_containers(const char *text, struct err *err) ERR_REQUIRED(2);

/*
 * `text` points to a dollar: appends the value, with the blanks around it, and sets *ret_end behind
 * the name. 0 or BERTH_FAILED.
 */
int config_expand_dollar(struct buffer *to, const char *text, const char **ret_end, struct err *err)
	ERR_REQUIRED(4);

/*
 * While a configuration is made, an address that the machine does not have yet gets a placeholder
 * (own_address.h) and no error. True when that has happened since the last call; `ret_why` says
 * which one, and why.
 */
bool config_expand_missing(struct err *ret_why) ERR_REQUIRED(1);

/* The inverse: a malloc'ed text that config_expand() turns into `text`. */
char *config_unexpand(const char *text);

#endif
