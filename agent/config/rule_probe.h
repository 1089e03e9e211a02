/* Rules for a [check] that berth-probe makes: TLS, and whether the program is there. */
#ifndef AGENT_CONFIG_RULE_PROBE_H
#define AGENT_CONFIG_RULE_PROBE_H

#include "agent/config/build.h"

/* For types http and grpc, once the target is known. Fills the texts of certificates and key. */
void config_rule_probe(struct config_builder *builder, struct config_check *check);

#endif
