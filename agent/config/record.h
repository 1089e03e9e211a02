/*
 * The service record of a component: its configuration, without the endpoints that are out, and
 * with the values that come at run time.
 */
#ifndef AGENT_CONFIG_RECORD_H
#define AGENT_CONFIG_RECORD_H

#include <jansson.h>
#include <stdbool.h>

#include "agent/base/holder.h"
#include "agent/config/config.h"
#include "lib/base/err.h"
#include "lib/record/record.h"

/* The run-time part of one endpoint of the configuration, in the same order. */
struct config_record_endpoint {
	bool out; /* a check that guards it is not up */
	/* dynamic: what a local process supplied, an array of objects; NULL while nothing is */
	json_t *addresses;
};

/* Attribute that carries "passing", "warning" or "failing". */
#define CONFIG_RECORD_HEALTH "berth:health"

/*
 * `endpoints` has config->endpoint_count items. `health` NULL: no such attribute. `mark`: may
 * be NULL. The record passes record_check() or the error says which limit it breaks.
 */
int config_record(struct record **ret_record, const struct config_component *config,
	const struct config_record_endpoint *endpoints, const char *health,
	const struct holder_attribute *mark, struct err *err) __attribute__((warn_unused_result))
ERR_REQUIRED(6);

#endif
