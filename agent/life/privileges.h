/*
 * The agent's own privileges: it binds its sockets with the privileges that it was started with,
 * then becomes the user of [agent] user and group for good.
 *
 *   started as root --> sockets are bound --> user and group change --> everything else
 *
 * From then on the agent has no capability and can get none: its bounding set is empty, and
 * no_new_privs is set. Two things need more. Checks with a `user` of their own leave it the three
 * capabilities that changing the user and ending its processes take; a reload cannot add the first
 * such check. A main process may hold
 * set-user-ID programs, so for one the bounding set stays and no_new_privs is not set. Without
 * `user` and `group` nothing changes.
 *
 * The main process and the worker run as the same user. After an upgrade (life/upgrade.h) the
 * successor has what the predecessor had.
 */
#ifndef AGENT_LIFE_PRIVILEGES_H
#define AGENT_LIFE_PRIVILEGES_H

#include <stdbool.h>

#include "agent/core/upgrade.h"
#include "lib/base/err.h"

struct agent;
struct config;
struct config_problems;

/*
 * Binds the sockets into `received`, as if a predecessor had left them, and changes the user. Logs
 * what is in force. FAILED when an address cannot be bound, or the agent may not become that user.
 *
 * Root makes directories and the Unix socket only where root alone can write: elsewhere they could
 * be replaced by a link that leads root astray. There they are made with the user's own rights.
 */
int agent_privileges_drop(struct agent *agent, bool main_process, struct upgrade *received,
	struct err *err) __attribute__((warn_unused_result)) ERR_REQUIRED(4);

/*
 * Adds a problem for each check of `next` with a user that this agent can no longer become: it gave
 * up at its start what no check needed at that time.
 */
void agent_privileges_refuse_checks(
	const struct agent *agent, const struct config *next, struct config_problems *problems);

/* Lets the capabilities that are left pass through the exec() of an upgrade. */
void agent_privileges_pass(void);

#endif
