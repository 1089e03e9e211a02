/*
 * The promises that must hold. Some promises hold at every moment, and their places check them:
 * nobody changes another's node (net_wire.c), no answer is older than it says (answers.c). The
 * others hold once nothing has gone wrong for a while: then everything must be right again.
 */
#ifndef TESTS_SIM_ORACLE_H
#define TESTS_SIM_ORACLE_H

#include "tests/sim/events.h"

/* No fault is left that may delay anything. */
bool oracle_is_calm(const struct stage *stage);
/* Checks the promises for every moment. */
void oracle_watch(struct stage *stage);
/*
 * True when everything was checked: once all is calm, after changes of the registry, and when the
 * calm ends.
 */
bool oracle_check(struct stage *stage, bool ends);

#endif
