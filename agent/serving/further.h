/*
 * Further registries, [registry NAME]: each has a connection, a state and a cache of its own, which
 * is attached to the agent's at /net/NAME. /net itself is a registry in memory, whose nodes are the
 * names. Nothing of the agent's own waits for any of them.
 *
 *   reload: added, changed --> opened and attached
 *           changed, removed --> detached, RETIRED --all users have turned to others--> closed
 */
#ifndef AGENT_SERVING_FURTHER_H
#define AGENT_SERVING_FURTHER_H

#include <jansson.h>

#include "agent/cache/cache.h"
#include "lib/base/err.h"

struct agent;

/* After the cache, before the names. `changes`: agent_further_changes() of the predecessor. */
int agent_further_open(struct agent *agent, const json_t *changes, struct err *err)
	__attribute__((warn_unused_result)) ERR_REQUIRED(3);
/* After all that uses the cache, before the cache. */
void agent_further_close(struct agent *agent);
/* Before exec(): the connections end, and nothing of what was cached is freed. */
void agent_further_leave(struct agent *agent);
/* agent_cache_save() of their caches. */
void agent_further_save(struct agent *agent);
bool agent_further_is_saving(const struct agent *agent);
bool agent_further_any(const struct agent *agent, bool (*is)(const struct cache *cache));
/* cache_changes() by name; new reference. */
json_t *agent_further_changes(const struct agent *agent);
/*
 * Makes them those of the configuration in force. Those that go have no path any more, but are
 * there until agent_further_retire(): outputs turn to others meanwhile.
 */
void agent_further_reload(struct agent *agent);
void agent_further_retire(struct agent *agent);
/* For GET /v1/agent; new reference. */
json_t *agent_further_json(const struct agent *agent);
void agent_further_update_metrics(struct agent *agent);

#endif
