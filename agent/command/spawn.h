/*
 * Starts a process: a command that the agent runs and waits for, or the container's main process.
 *
 * A `struct command_launch` holds the part that is the same for all runs (environment, user,
 * limits). It is made once, because the user database may ask a server.
 */
#ifndef AGENT_COMMAND_SPAWN_H
#define AGENT_COMMAND_SPAWN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/types.h>

#include "lib/base/err.h"

struct command_launch;

struct command_variable {
	const char *name;
	const char *value;
};

struct command_limit {
	int resource; /* RLIMIT_… */
	struct rlimit value;
};

struct command_launch_options {
	/* Of two with one name the first counts; all of them replace the agent's own. */
	const struct command_variable *variables;
	size_t variable_count;
	const char *user; /* "": the agent's own */
	const char *cwd;  /* "": the agent's own */
	const struct command_limit *limits;
	size_t limit_count;
	bool no_new_privileges; /* no set-user-ID program and no file capability gives it more */
};

/*
 * The environment is the variables above and the agent's own, without those from a service manager
 * for the agent (NOTIFY_SOCKET and its like). Copies its arguments; never NULL.
 */
struct command_launch *command_launch_create(const struct command_launch_options *options);
/* Accepts NULL. */
void command_launch_destroy(struct command_launch *launch);

enum command_placement {
	COMMAND_SESSION, /* leads a session of its own, without a terminal */
	/* leads a group of the agent's session, which gets the terminal on stdin */
	COMMAND_FOREGROUND,
};

struct command_spawn {
	/* A program without a slash is searched in the agent's own PATH. NULL-terminated. */
	char *const *argv;
	const struct command_launch *launch;
	enum command_placement placement;
	const char *marker; /* "NAME=value", one more variable; NULL: none */
	/* stdin, stdout and stderr; -1: /dev/null for stdin, else the agent's own */
	int files[3];
	/* other inheritable descriptors stay open; else all above stderr are closed */
	bool keep_files;
	int death_signal; /* the kernel sends it when the agent dies; 0: none */
};

/*
 * Returns the process id, or a negative errno and fills `err`: the user is unknown, the directory
 * is absent, the program cannot be run. The child has default signal dispositions and an empty
 * signal mask. Blocks until the child has called exec.
 */
pid_t command_spawn(const struct command_spawn *spawn, struct err *err) ERR_REQUIRED(2);

/* The resource of a limit's name ("nofile", "as", …), -1 for an unknown one. */
int command_limit_resource(const char *name);
#define COMMAND_LIMIT_NAMES "as, core, cpu, data, fsize, memlock, nofile, nproc, stack"

#endif
