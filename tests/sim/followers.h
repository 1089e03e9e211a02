/*
 * The promises of what follows the components, once nothing has gone wrong for a while: the nodes
 * of dialects, an import, DNS names, and the file of an output.
 */
#ifndef TESTS_SIM_FOLLOWERS_H
#define TESTS_SIM_FOLLOWERS_H

#include "tests/sim/events.h"

/* Has the agents read what the check asks for: it takes some milliseconds of virtual time. */
void followers_prepare(const struct stage *stage);
void followers_check(const struct stage *stage);

#endif
