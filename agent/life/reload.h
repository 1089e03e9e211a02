/*
 * Reload: reads the configuration again and puts it into force, or refuses it as a whole.
 */
#ifndef AGENT_LIFE_RELOAD_H
#define AGENT_LIFE_RELOAD_H

#include <jansson.h>

struct agent;

/* NULL when the new configuration is in force, else its problems (new reference). */
json_t *agent_reload(struct agent *agent);

/*
 * Reads the configuration and changes nothing: NULL and `ret_changes` (config_difference(), new
 * reference) when a reload would take it, else its problems.
 */
json_t *agent_try_reload(struct agent *agent, json_t **ret_changes);

#endif
