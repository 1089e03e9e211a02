/*
 * The agent's registry: its connection, its session, and the nodes that a predecessor abandoned.
 *
 * The session is saved in the state directory together with all our paths. A successor resumes it,
 * and removes each node of the session at a path that its own configuration no longer names.
 */
#ifndef AGENT_REGISTRATION_REGISTRY_H
#define AGENT_REGISTRATION_REGISTRY_H

#include <jansson.h>

#include "lib/base/err.h"
#include "lib/registry/registry.h"

struct agent;

/* `left`: the predecessor's agent_registry_leave(), or NULL to read the state directory. */
int agent_registry_open(struct agent *agent, const json_t *left, struct err *err)
	__attribute__((warn_unused_result)) ERR_REQUIRED(3);
/* Mounts the imports of the configuration, in place of those before. */
void agent_registry_apply_options(struct agent *agent);
/* Mounts those of the configuration's imports that are at `at` or below; "": not below /net. */
int agent_registry_set_imports(const struct agent *agent, struct registry *registry, const char *at,
	struct err *err) __attribute__((warn_unused_result)) ERR_REQUIRED(4);
/* For the options of a registry: a message, and an answer, of [registry NAME]; "": [registry]. */
void agent_registry_log(enum registry_log_level level, const char *name, const char *message);
void agent_registry_count(const struct agent *agent, const char *name, int code, double duration_s);
/* For GET /v1/agent: [{name, type, from, as}]; new reference. */
json_t *agent_registry_imports_json(const struct agent *agent);
/* Uses what the auth_file holds now, and tries refused credentials again. */
void agent_registry_reauthenticate(struct agent *agent);
/*
 * Ends the session, or leaves it when agent->leave_session says so. Accepts a registry that was
 * never opened.
 */
void agent_registry_close(struct agent *agent);
/* All paths at which a node of ours may be. New reference. */
json_t *agent_registry_paths(const struct agent *agent);
/*
 * Detaches from the session, by registry_detach() or registry_leave(). Returns what a successor
 * needs to resume it (new reference), or NULL.
 */
json_t *agent_registry_leave(
	struct agent *agent, json_t *paths_take, json_t *(*leave)(struct registry *registry));
/* Saves session and paths for a successor. */
void agent_registry_save_session(struct agent *agent);

#endif
