/*
 * Asks an agent for its shared map: GET /v1/shared on a connection of its own, whose answer carries
 * the descriptor.
 */
#ifndef LIB_SHARED_FETCH_H
#define LIB_SHARED_FETCH_H

#include <stdint.h>

#include "lib/shared/read.h"

enum shared_fetched {
	SHARED_FETCHED,
	SHARED_NOT_NOW, /* no answer in time, or the agent cannot hand one out at the moment */
	SHARED_NEVER    /* this agent has none, or none that this process can use */
};

/*
 * Sends the request on a connected socket and waits for the answer until `deadline_ms`
 * (clock_monotonic_ms()). The socket stays the caller's, who has no other use for it afterwards.
 * FETCHED opens *ret_map.
 */
enum shared_fetched shared_map_fetch(
	int socket_fd, int64_t deadline_ms, struct shared_map *ret_map);

#endif
