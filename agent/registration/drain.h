/*
 * Drains (maintenance) of the whole agent, and of single components or containers: begun and ended
 * by request, saved across restarts, ended by their time. The agent's drain is done when the
 * registry has confirmed that no node of ours is left; a component's or container's when its
 * records are withdrawn; all after drain_delay.
 */
#ifndef AGENT_REGISTRATION_DRAIN_H
#define AGENT_REGISTRATION_DRAIN_H

#include <jansson.h>
#include <stdint.h>

#include "agent/component/component.h"
#include "lib/base/err.h"

struct agent;

/* `passed`: the predecessor's drain in an upgrade, or NULL to read the state directory. */
void agent_drain_load(struct agent *agent, const json_t *passed);
/* Once the components exist: drains them again that were drained. */
void agent_drain_load_components(struct agent *agent);
/* The argument of agent_drain_load(). New reference. */
json_t *agent_drain_save(struct agent *agent);

/* `component`: one of the agent's, or NULL for the whole agent. */
void agent_drain_begin(
	struct agent *agent, struct component *component, const char *reason, int64_t for_ms);
void agent_drain_end(struct agent *agent, struct component *component);
/*
 * The same for a container of this host, SOURCE/NAME: it lasts while none has the name, too.
 * BERTH_PATH_NOT_FOUND: there is no such container, and no such drain.
 */
int agent_drain_begin_container(struct agent *agent, const char *name, const char *reason,
	int64_t for_ms, struct err *err) ERR_REQUIRED(5);
int agent_drain_end_container(struct agent *agent, const char *name, struct err *err)
	ERR_REQUIRED(3);
/* Part of agent_reconsider(), after the bridge: notes whose records have gone. */
void agent_drain_proceed_containers(struct agent *agent);
/* SOURCE/NAME -> the drain, with "records" that are left, and "done". New reference. */
json_t *agent_drain_containers_json(const struct agent *agent);
/* A change is on its way to the disk: the answer to its order comes by api_drain_saved(). */
bool agent_drain_is_being_saved(const struct agent *agent);
/* The components changed: earlier confirmations of the registry no longer count. */
void agent_drain_confirm_again(struct agent *agent);

/*
 * Part of agent_reconsider(): asks the registry for confirmation once all components have
 * withdrawn.
 */
void agent_drain_proceed(struct agent *agent);
/*
 * The rest of drain_delay in a drain: all of it until the registry has confirmed, 0 or less after
 * it.
 */
double agent_drain_left_s(const struct agent *agent);
/* A component drained by itself is out, and drain_delay runs. */
bool agent_drain_component_waits(const struct agent *agent, struct component *component);
/* With "done": the registry has confirmed, and drain_delay has passed since. New reference. */
json_t *agent_drain_json(const struct agent *agent);
/* The same of a component; NULL while it is not drained by itself. */
json_t *agent_drain_component_json(const struct agent *agent, struct component *component);

#endif
