/*
 * The container's main process (berthd -- CMD), as the agent sees it.
 */
#ifndef AGENT_AGENT_MAIN_PROCESS_H
#define AGENT_AGENT_MAIN_PROCESS_H

#include <stdbool.h>
#include <sys/types.h>

#include "lib/base/err.h"

struct agent;

/* Starts it, or adopts `running` (> 0) from a predecessor. `argv` NULL: there is none. */
int agent_main_process_start(struct agent *agent, char **argv, pid_t running, struct err *err)
	__attribute__((warn_unused_result)) ERR_REQUIRED(4);
/* Puts the options into force that may change at run time. */
void agent_main_process_apply_options(struct agent *agent);
/* There is none, or it has ended for good and post_stop with it. */
bool agent_main_process_over(const struct agent *agent);

#endif
