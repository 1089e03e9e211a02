/*
 * The promises about the nodes that the host's agent makes for its containers: each belongs to one
 * of them, is allowed, and goes with it.
 */
#ifndef TESTS_SIM_BRIDGE_H
#define TESTS_SIM_BRIDGE_H

#include "tests/sim/events.h"

/* The container whose record the node holds; -1: none's, as when a stranger has written it. */
int bridge_container_of(const struct world_node *node);

/* After each change of the registry. */
void bridge_watch(const struct stage *stage);
/* At every moment: what was killed has gone in time. */
void bridge_watch_ends(struct stage *stage);
/* The container's own record is there, and was not before. */
void bridge_watch_return(const struct stage *stage, int number);

#endif
