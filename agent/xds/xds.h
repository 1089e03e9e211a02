/*
 * berth-xds as the agent sees it: a child process that serves gRPC and Envoy.
 *
 *   RUNNING --it ends--> WAITING --a pause, from 0.2 s to 30 s--> RUNNING
 *
 * The listening socket is the agent's: while the child is away, clients wait in its backlog. The
 * agent's log gets the lines that the child prints. The kernel ends it when the agent dies. Loop
 * thread only; needs the default loop.
 */
#ifndef AGENT_XDS_XDS_H
#define AGENT_XDS_XDS_H

#include <ev.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "agent/config/config.h"

struct xds;

struct xds_options {
	struct ev_loop *loop;
	const struct config *config; /* used during the call */
	int listen_fd;               /* stays the caller's, open for as long as this lives */
	/* It began to run, or ended; `why` in words. */
	void (*on_state)(void *context, bool runs, const char *why);
	void *context;
};

/* The figures of the child that runs; 0 while none does. */
struct xds_counts {
	double connections;
	double names;
	double refusals;   /* answers that clients refused */
	uint64_t restarts; /* of the child, so far */
};

struct xds *xds_create(const struct xds_options *options);
/* Ends the child, without waiting for it. Accepts NULL. */
void xds_destroy(struct xds *xds);

bool xds_runs(const struct xds *xds);
struct xds_counts xds_counts(const struct xds *xds);
/*
 * {"listen","running","pid","restarts", and its figures}, and with what it was started:
 * {"domain","min_instances","zone","failover"}; a new reference.
 */
json_t *xds_json(const struct xds *xds);

#endif
