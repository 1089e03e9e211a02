/*
 * The container's main process (berthd -- CMD), as the agent sees it.
 */
#ifndef AGENT_LIFE_MAIN_PROCESS_H
#define AGENT_LIFE_MAIN_PROCESS_H

#include <stdbool.h>
#include <sys/types.h>

#include "lib/base/err.h"

struct agent;

/* Starts it, or adopts `running` (> 0) from a predecessor. `argv` NULL: no main process. */
int agent_main_process_start(struct agent *agent, char **argv, pid_t running, struct err *err)
	__attribute__((warn_unused_result)) ERR_REQUIRED(4);
/* Puts the options into force that may change at run time. */
void agent_main_process_apply_options(struct agent *agent);
/*
 * True when there is no main process, or when it has ended and will not start again, and post_stop
 * has ended too.
 */
bool agent_main_process_over(const struct agent *agent);

#endif
