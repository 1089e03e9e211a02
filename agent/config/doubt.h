/*
 * Doubts: values that are legal but probably mistakes; berthd -t reports them as warnings.
 *
 * Each function returns 0, or BERTH_FAILED with an error that explains the doubt. They never change
 * a value.
 */
#ifndef AGENT_CONFIG_DOUBT_H
#define AGENT_CONFIG_DOUBT_H

#include "agent/config/options.h"
#include "lib/base/err.h"

/*
 * For every value as written: " #" or " ;", as a comment has a line of its own; quotes around it,
 * which are part of the value; a template's mark. The option's row says which of them it may hold.
 */
int config_doubt_value(const struct config_option *option, const char *raw, struct err *err)
	ERR_REQUIRED(3);

/* For the rows of the option table (config_option.doubt); the value is expanded. */

/* Perl's \d and the like, which POSIX expressions do not have. */
int config_doubt_regex(const char *value, struct err *err) ERR_REQUIRED(2);

/*
 * For every value as written: $NAME and $(…), which stay as they are; a command may hold them in
 * single quotes.
 */
int config_doubt_dollar(const char *raw, bool is_command, struct err *err) ERR_REQUIRED(3);
/* For a command as written that runs without a shell: | or > and the like. */
int config_doubt_shell_syntax(const char *raw, struct err *err) ERR_REQUIRED(2);
/* For its first word: whether there is such a program; `cwd` is "" for the agent's own. */
int config_doubt_program(const char *program, const char *cwd, struct err *err) ERR_REQUIRED(3);
/* For a user, whose label is that of another user's name too: for _ or upper case in it. */
int config_doubt_user(const char *user, const char *label, struct err *err) ERR_REQUIRED(3);
/* For a writer: whether the mode and group of the socket let it connect. */
int config_doubt_writer(const struct config_writer *writer, const struct config_agent *agent,
	struct err *err) ERR_REQUIRED(3);
/*
 * For the owner and the group of an output's file: whether an agent that has become [agent] user
 * can still give the file to them.
 */
int config_doubt_owner(const struct config_output *output, const struct config_agent *agent,
	struct err *err) ERR_REQUIRED(3);
int config_doubt_group(const struct config_output *output, const struct config_agent *agent,
	struct err *err) ERR_REQUIRED(3);

#endif
