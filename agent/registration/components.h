/*
 * The agent's components: made from the configuration, gated by the agent's own state (running,
 * drained, stopping, waiting for the main process), and kept after a reload until they have
 * withdrawn.
 */
#ifndef AGENT_REGISTRATION_COMPONENTS_H
#define AGENT_REGISTRATION_COMPONENTS_H

#include <jansson.h>
#include <stdbool.h>

#include "agent/component/component.h"
#include "lib/base/err.h"

struct agent;

/* `saved`: agent_components_save() of a predecessor, or NULL. */
void agent_components_create(struct agent *agent, const json_t *saved);
/* Frees all components, retired ones too; their records stay. */
void agent_components_destroy(struct agent *agent);
/* {label: component_save()}; new reference. */
json_t *agent_components_save(const struct agent *agent);

/*
 * Replaces the agent's configuration (taken). The component at a path stays the component at this
 * path; the component of a path that is no longer configured withdraws its record and is then
 * freed.
 */
void agent_components_reload(struct agent *agent, struct config *next_take);
/* The same for a configuration that differs by addresses of this machine: every check goes on. */
void agent_components_follow(struct agent *agent, struct config *next_take);
/* Frees retired components that have withdrawn; true if there were any. */
bool agent_components_free_withdrawn(struct agent *agent);

/* Tells every component the agent's new state. */
void agent_components_update_gates(struct agent *agent);
/* Makes the writes that waited for the disk; a retired component writes none. */
void agent_components_go_on(struct agent *agent);
void agent_components_on_registry_state(
	struct agent *agent, enum registry_state state, const char *why);

/* The host's agent reports on our records (an item of GET /v1/bridge); NULL: it is away. */
void agent_components_on_container(struct agent *agent, const json_t *container);

/*
 * Every component is registered; else ret_why names the first that is not. `away_ok`: a component
 * that was registered counts while the registry is away and its record has not been lost.
 */
bool agent_components_ready(const struct agent *agent, bool away_ok, struct err *ret_why);
/* The component with this label; NULL when there is none. */
struct component *agent_components_find(const struct agent *agent, const char *label);
/* True when every component, retired or not, has completed its changes in the registry. */
bool agent_components_settled(const struct agent *agent);
/* True while some component's on_change has not taken its state. */
bool agent_components_untold(const struct agent *agent);
/*
 * Warns of each record that may be left behind although it should be removed, and says when it will
 * disappear.
 */
void agent_components_log_left(const struct agent *agent);
/* A component, retired or not, has this path. */
bool agent_components_have_path(const struct agent *agent, const char *path);
/* Appends the paths of all components, retired or not, to an array. */
void agent_components_add_paths(const struct agent *agent, json_t *paths);

#endif
