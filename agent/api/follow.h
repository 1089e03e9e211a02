/*
 * GET /v1/follow, POST /v1/follow/ID: the registry as an agent in a container follows it.
 *
 * The stream belongs to the container over whose socket it came. Its agent asks by POST for nodes
 * and lists; the answers come by the stream, in the order in which they become known, so that an
 * answer, a change and a confirmation that come one after another are true in this order:
 *
 *   SUBSCRIBED                            who this is, and what became of the container's records
 *   READ id, node | error, why            the answer to a question
 *   CHANGED path, list                    once, after a READ that was to be watched
 *   CONFIRMED id, heard_ms                all that changed before this time has been sent
 *   STALE why, FRESH                      the host's agent has lost its registry, and has it again
 *   CONTAINER container                   another state of the container's own records
 *   HEARTBEAT
 *
 * A reader that does not keep up gets answers as fast as it takes them.
 */
#ifndef AGENT_API_FOLLOW_H
#define AGENT_API_FOLLOW_H

#include "agent/api/internal.h"

enum {
	API_FOLLOW_STREAMS = 2, /* of a container: the older ones end */
	API_FOLLOW_READS = 4096 /* of a stream: under way and watched */
};

void api_follows_init(struct api *api);
void api_follows_finish(struct api *api);

#endif
