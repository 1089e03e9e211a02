/*
 * The agent's checks: made from the configuration, reported in log, history and metrics; after a
 * change of state, the components that a check guards decide anew.
 */
#ifndef AGENT_REGISTRATION_CHECKS_H
#define AGENT_REGISTRATION_CHECKS_H

#include <jansson.h>

struct agent;

/* Before the components. `saved`: agent_checks_save() of a predecessor, or NULL. */
void agent_checks_create(struct agent *agent, const json_t *saved);
/* After the components. */
void agent_checks_destroy(struct agent *agent);
/* New reference. */
json_t *agent_checks_save(const struct agent *agent);

#endif
