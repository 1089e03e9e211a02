/*
 * Labels of Berth's own: PREFIX.path, PREFIX.endpoint.NAME.port, PREFIX.check.NAME.type and so on,
 * where PREFIX is usually berth. docs/BRIDGE.md lists them.
 */
#ifndef AGENT_BRIDGE_LABELS_H
#define AGENT_BRIDGE_LABELS_H

#include "agent/bridge/services.h"

void bridge_labels_read(struct bridge_services *services, const struct bridge_facts *facts,
	const struct bridge_labels *labels, const struct config_runtime *runtime,
	const char *prefix);

#endif
