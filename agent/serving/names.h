/* Names: lookups by name and the DNS server, from the cache. */
#ifndef AGENT_SERVING_NAMES_H
#define AGENT_SERVING_NAMES_H

#include "agent/core/upgrade.h"
#include "lib/base/err.h"

struct agent;

/* After the cache, before the API. 0, or BERTH_FAILED naming the address that cannot be served. */
int agent_names_open(struct agent *agent, struct upgrade *received, struct err *err)
	__attribute__((warn_unused_result)) ERR_REQUIRED(3);
/* After the API, before the cache. */
void agent_names_close(struct agent *agent);
void agent_names_apply_options(struct agent *agent);
/*
 * Serves names at the addresses of the configuration, after they have changed. 0; or BERTH_FAILED,
 * and nothing listens.
 */
int agent_names_listen(struct agent *agent, struct err *err) ERR_REQUIRED(2);
/* Brings the metrics of names up to date. */
void agent_names_update_metrics(struct agent *agent);
/* Gives the listening sockets to a successor. Only agent_names_close() may follow. */
void agent_names_pass(struct agent *agent, struct upgrade *passed);

#endif
