/*
 * The drain (maintenance) of the whole agent: begun and ended by request, saved across restarts, ended
 * by its time, done when the registry has confirmed that no node of ours is left.
 */
#ifndef AGENT_AGENT_DRAIN_H
#define AGENT_AGENT_DRAIN_H

#include <jansson.h>
#include <stdint.h>

struct agent;

/* `passed`: the predecessor's drain in an upgrade, or NULL to read the state directory. */
void agent_drain_load(struct agent *agent, const json_t *passed);
void agent_drain_begin(struct agent *agent, const char *reason, int64_t for_ms);
void agent_drain_end(struct agent *agent);
/* The components changed: what the registry confirmed before no longer counts. */
void agent_drain_confirm_again(struct agent *agent);

/* Part of agent_reconsider(): asks the registry for confirmation once all components have withdrawn. */
void agent_drain_proceed(struct agent *agent);
/* The rest of drain_delay in a drain: all of it until the registry has confirmed, 0 or less after it. */
double agent_drain_left_s(const struct agent *agent);
/* With "done": the registry has confirmed, and drain_delay has passed since. New reference. */
json_t *agent_drain_json(const struct agent *agent);

#endif
