/* berth-xds, when [xds] listen is set. */
#ifndef AGENT_SERVING_XDS_H
#define AGENT_SERVING_XDS_H

#include <jansson.h>

#include "agent/core/upgrade.h"
#include "lib/base/err.h"

struct agent;

/*
 * After the API, whose socket it uses. Takes received->xds_fd. BERTH_FAILED: the address cannot be
 * listened at.
 */
int agent_xds_open(struct agent *agent, struct upgrade *received, struct err *err) ERR_REQUIRED(3);
/* Listens at the address of the configuration, after it has changed. 0 or BERTH_FAILED. */
int agent_xds_listen(struct agent *agent, struct err *err) ERR_REQUIRED(2);
/* Ends the process; removes the socket unless a successor gets it. */
void agent_xds_close(struct agent *agent);
/* The successor gets the socket, and starts a process of its own. */
void agent_xds_pass(struct agent *agent, struct upgrade *passed);

/* {"listen","running",…}, null without [xds] listen; a new reference. */
json_t *agent_xds_json(const struct agent *agent);
void agent_xds_update_metrics(struct agent *agent);

#endif
