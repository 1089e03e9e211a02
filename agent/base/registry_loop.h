/*
 * A registry driven by a libev loop: polls its descriptor, wakes at its deadline.
 */
#ifndef AGENT_BASE_REGISTRY_LOOP_H
#define AGENT_BASE_REGISTRY_LOOP_H

#include <ev.h>

#include "agent/base/lasting_io.h"
#include "lib/registry/registry.h"

struct registry_loop {
	struct ev_loop *loop;
	struct registry *registry;
	struct lasting_io io;
	struct timer timer;
	int64_t deadline_ms; /* that the timer is set for; INT64_MAX: it is stopped */
	ev_prepare prepare;
};

/* Starts to drive `registry`. The struct is the caller's memory and must not move. */
void registry_loop_init(
	struct registry_loop *driver, struct ev_loop *loop, struct registry *registry);
/* Lets it begin now, not in the loop's first iteration; callbacks come from within. */
void registry_loop_begin(struct registry_loop *driver);
/* Stops; the registry is left open. */
void registry_loop_finish(struct registry_loop *driver);

#endif
