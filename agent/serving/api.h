/*
 * The agent's front door: the API over HTTP, on the Unix socket and on `listen`.
 */
#ifndef AGENT_SERVING_API_H
#define AGENT_SERVING_API_H

#include "agent/api/api.h"
#include "agent/core/upgrade.h"
#include "lib/base/err.h"

struct agent;

/* `received`: the listening sockets of a predecessor or a service manager. */
int agent_api_open(struct agent *agent, const struct api_hooks *hooks,
	const struct upgrade *received, struct err *err) __attribute__((warn_unused_result))
ERR_REQUIRED(4);
/*
 * Takes the predecessor's connections; withdraws what a connection held that has ended meanwhile.
 */
void agent_api_adopt(struct agent *agent, const struct upgrade *received);
/* Gives the further listeners to a successor. */
void agent_api_pass(const struct agent *agent, struct upgrade *passed);
void agent_api_close(struct agent *agent);
/* Listens at the addresses of the configuration, after they have changed. 0 or BERTH_FAILED. */
int agent_api_listen(struct agent *agent, struct err *err) ERR_REQUIRED(2);
/* Makes the Unix socket again when somebody has removed it. */
void agent_api_renew_socket(struct agent *agent);
/* Puts the options into force that may change at run time. */
void agent_api_apply_options(struct agent *agent);

#endif
