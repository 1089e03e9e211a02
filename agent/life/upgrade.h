/*
 * USR2: the upgrade. The agent executes the program file that is now at its path, in place; the
 * registry session, the sockets and idle connections live on, and no record changes.
 *
 *   IDLE --USR2--> TESTING --the new program accepts the configuration--> SETTLING <--+
 *     ^               |                                                      |        | a request
 *     |               | it does not, or the agent stops                      |        | came in
 *     +---------------+------------------------------------------------------+        |
 *                              all requests are answered: signals are BLOCKED --------+
 *                                                                           |
 *                                                                           +--> exec()
 *
 * BLOCKED lasts one turn of the loop: the old program acts on signals that came before it, the new
 * program on those that come later.
 */
#ifndef AGENT_LIFE_UPGRADE_H
#define AGENT_LIFE_UPGRADE_H

#include "agent/core/upgrade.h"
#include "lib/base/err.h"

struct agent;

/*
 * `received`: from upgrade_receive(). Closes descriptors that the new configuration does not use.
 */
void agent_upgrade_init(struct agent *agent, struct upgrade *received);
void agent_upgrade_finish(struct agent *agent);
/* Begins an upgrade. A failed one leaves the old program running. */
void agent_upgrade_begin(struct agent *agent);

#endif
