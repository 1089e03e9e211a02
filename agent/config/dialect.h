/*
 * The instance that a [dialect] of the configuration and the component's endpoints describe, for
 * lib/dialect.
 */
#ifndef AGENT_CONFIG_DIALECT_H
#define AGENT_CONFIG_DIALECT_H

#include "agent/config/record.h"
#include "lib/record/target.h"

struct config_instance;

/* The state of the instance at run time, besides the configuration. */
struct config_instance_state {
	/* as for config_record() */
	const struct config_record_endpoint *endpoints;
	int64_t registered_ms; /* wall clock */
	bool out_of_service;
};

/*
 * The instance of a component in a dialect; free it with config_instance_free().
 * Its texts are borrowed from the configuration. A dialect's endpoint that is out gives port 0.
 */
struct config_instance *config_instance_create(const struct config_component *component,
	const struct config_dialect *dialect, const struct config_instance_state *state);
const struct dialect_instance *config_instance_get(const struct config_instance *instance);
/* Which of its endpoints has no address at the moment, and why; NULL when each has one. */
const char *config_instance_lack(const struct config_instance *instance);
/* Accepts NULL. */
void config_instance_free(struct config_instance *instance);

#endif
