/*
 * A handle on an agent, for programs of ours that never need a registry: berth_open() would link
 * all backends into them, more than 100 KB.
 */
#ifndef LIB_CLIENT_OPEN_H
#define LIB_CLIENT_OPEN_H

#include "lib/berth.h"

/* As berth_open() with the path of an agent's socket, or NULL, and without options. */
int berth_open_agent(struct berth **ret_berth, const char *where, struct berth_failure *failure);

/*
 * As berth_watch(), of the agent's event stream at this target, a path with parameters. On a handle
 * of berth_open_agent().
 */
int berth_watch_stream(struct berth *berth, const char *target, berth_on_event *on_event,
	void *context, struct berth_watch **ret_watch, struct berth_failure *failure);

#endif
