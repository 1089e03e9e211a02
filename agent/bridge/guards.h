/*
 * The checks that guard the records of a runtime's container: which of them run, and whether a
 * record may be in the registry by their word.
 */
#ifndef AGENT_BRIDGE_GUARDS_H
#define AGENT_BRIDGE_GUARDS_H

#include <jansson.h>
#include <stddef.h>

#include "agent/bridge/claim.h"
#include "agent/bridge/services.h"
#include "agent/check/check.h"
#include "agent/config/config.h"
#include "lib/base/list.h"

/* All borrowed until the call returns, but for the scheduler and the callbacks' context. */
struct bridge_guards_owner {
	const char *name;                      /* for the log */
	const struct config_container *policy; /* NULL: nothing is allowed */
	struct check_scheduler *scheduler;
	struct check_callbacks callbacks;
};

/*
 * The checks of all services that may be registered run, and no others; equal ones go on. NULL:
 * none runs.
 */
void bridge_guards_arrange(struct list *guards, const struct bridge_guards_owner *owner,
	const struct bridge_services *services);
void bridge_guards_end(struct list *guards);
/* Their verdict on the record at the path, and why it is not in. */
enum bridge_hold bridge_guards_hold(
	const struct list *guards, const char *path, char *ret_why, size_t size);
/* As check_json() has each. New reference. */
json_t *bridge_guards_json(const struct list *guards);

#endif
