/*
 * Look-ups by nearness that fail over: of a path, and of the same path below those of [agent]
 * failover while nothing before them offers what is asked for (lib/render/failover.h).
 */
#ifndef AGENT_API_FURTHER_H
#define AGENT_API_FURTHER_H

#include "agent/api/internal.h"

/*
 * Answers the request. The query is one of ENDPOINTS or TARGETS with `near` in its filter; it is
 * copied. The answer is of one moment: a client that asks to wait for a change is answered at once.
 */
void api_look_up_further(
	struct api *api, struct http_request *request, const struct cache_query *query);

#endif
