/* The bridge for the containers of this host: its life, and what the agent says of it. */
#ifndef AGENT_REGISTRATION_BRIDGE_H
#define AGENT_REGISTRATION_BRIDGE_H

#include <jansson.h>

#include "lib/base/err.h"
#include "lib/registry/registry.h"

struct agent;
struct upgrade;

/* After the components; takes up what a predecessor has left in the session. */
int agent_bridge_open(struct agent *agent, struct upgrade *received, struct err *err)
	__attribute__((warn_unused_result)) ERR_REQUIRED(3);
/* Adds the containers' sockets to what a successor gets. */
void agent_bridge_pass(const struct agent *agent, struct upgrade *passed);
/* The records stay in the session. */
void agent_bridge_close(struct agent *agent);
/* When no file is on its way to the disk any more. */
void agent_bridge_forget(struct agent *agent);

void agent_bridge_on_registry_state(
	struct agent *agent, enum registry_state state, const char *why);
void agent_bridge_apply_options(struct agent *agent);
void agent_bridge_proceed(struct agent *agent);
/* Whether a container of this host has this name, SOURCE/NAME. */
bool agent_bridge_has(const struct agent *agent, const char *name);
/* Its drain has begun or ended. */
void agent_bridge_review(struct agent *agent, const char *name);
/* Records of it that are in the registry, or may be. */
size_t agent_bridge_records_left(const struct agent *agent, const char *name);
void agent_bridge_update_metrics(struct agent *agent);

/* For GET /v1/agent: directory, state, numbers of containers and of records by state; or NULL. */
json_t *agent_bridge_status(const struct agent *agent);
/* GET /v1/bridge: everything, or the part of one container. PATH_NOT_FOUND when there is none. */
json_t *agent_bridge_json(const struct agent *agent, const char *container, struct err *err)
	ERR_REQUIRED(3);

#endif
