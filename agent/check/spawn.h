/*
 * Starts a health command: in a session of its own, with nothing of the agent's but its environment.
 */
#ifndef AGENT_CHECK_SPAWN_H
#define AGENT_CHECK_SPAWN_H

#include <sys/types.h>

#include "agent/check/launch.h"
#include "agent/check/result.h"

struct check_spawn {
	char *const *argv;
	char *const *environment; /* all of it; PATH in it is not used for the search, the agent's own is */
	const struct check_identity *identity;
	const char *user; /* its name, for messages */
	const char *cwd;  /* "" : stay where we are */
	int output;       /* becomes stdout */
	int errors;       /* becomes stderr; may be the same */
};

/*
 * The process id, or -1 with verdict and detail of `result` saying why the command could not be run.
 *
 * The child leads a session and a process group, has default signal dispositions, an empty signal mask, /dev/null as
 * stdin and no descriptor beyond stderr. A command without a slash is searched in PATH. Blocks until the child has
 * called exec.
 */
pid_t check_spawn(const struct check_spawn *spawn, struct check_result *result);

#endif
