/*
 * The labels and variables of Registrator: SERVICE_NAME, SERVICE_80_NAME, SERVICE_TAGS and so on,
 * with its rules for names and ports. docs/MIGRATING.md says what is taken, and what is not.
 */
#ifndef AGENT_BRIDGE_REGISTRATOR_H
#define AGENT_BRIDGE_REGISTRATOR_H

#include "agent/bridge/services.h"

#define BRIDGE_REGISTRATOR "registrator"

/* A container that has a service by now, by labels of berth's own, is left alone. */
void bridge_registrator_read(struct bridge_services *services, const struct bridge_facts *facts,
	const struct bridge_labels *labels, const struct config_runtime *runtime);

#endif
