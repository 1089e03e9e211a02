/* From the labels of a container to its services. Pure. */
#ifndef AGENT_BRIDGE_DESCRIBE_H
#define AGENT_BRIDGE_DESCRIBE_H

#include "agent/bridge/services.h"

/*
 * Reads the labels that the runtime's configuration names; `policy` (NULL: none) has defaults for
 * them, and pinned attributes. Finish the result.
 */
void bridge_services_make(struct bridge_services *ret_services, const struct bridge_facts *facts,
	const struct config_runtime *runtime, const struct config_container *policy);

#endif
