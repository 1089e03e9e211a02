/*
 * A component's on_change: a command that learns each lasting state of the component.
 *
 *   IDLE --another state--> RUNNING --exit status 0--> IDLE, or RUNNING for a state that came since
 *                              |  ^
 *                              v  | the pause is over, or another state
 *                            PAUSED   (it failed, or was killed after [agent] hook_timeout)
 *
 * One run at a time. States that come and go while it runs are skipped; the last one is delivered,
 * with growing pauses between failures. The states on the way, writing and withdrawing, are not
 * told, and outdated counts as registered. Nothing waits for the command but the end of the agent,
 * after the deregistration. Loop thread only.
 */
#ifndef AGENT_COMPONENT_HOOK_H
#define AGENT_COMPONENT_HOOK_H

#include <ev.h>
#include <jansson.h>
#include <stdbool.h>

#include "agent/component/announce.h"
#include "agent/config/config.h"

struct component_hook;

struct component_hook_options {
	struct ev_loop *loop;
	const struct config_component
		*config;     /* borrowed: as long as the hook, or until a reload */
	const json_t *saved; /* component_hook_save() of a predecessor, or NULL */
	/* After each run. */
	void (*on_run)(void *context, bool succeeded);
	void *context;
};

/* A state that a predecessor did not deliver is delivered now. */
struct component_hook *component_hook_create(const struct component_hook_options *options);
/* A command that runs is killed. Accepts NULL. */
void component_hook_destroy(struct component_hook *hook);

/* Another command or none, for the same component. */
void component_hook_reload(struct component_hook *hook, const struct config_component *config);

/* The component has entered a state, for this reason. */
void component_hook_tell(struct component_hook *hook, enum announce_state state, const char *why);

/* A state is not delivered yet. */
bool component_hook_pending(const struct component_hook *hook);
/* Its last run has failed, and no other one has followed. */
bool component_hook_failed(const struct component_hook *hook);

/*
 * For GET /v1/agent: {"state": "idle", "running" or "failed", "why", "delivered", "runs",
 * "failures"}; JSON's null without a command. New reference.
 */
json_t *component_hook_json(const struct component_hook *hook);
/* The state delivered last, and one that is not. New reference. */
json_t *component_hook_save(const struct component_hook *hook);

#endif
