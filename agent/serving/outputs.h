/* Outputs: files and proxies that follow the registry, from the cache. */
#ifndef AGENT_SERVING_OUTPUTS_H
#define AGENT_SERVING_OUTPUTS_H

#include <jansson.h>

struct agent;

/* After the cache. */
void agent_outputs_open(struct agent *agent);
/* Before the cache. Kills what runs for an output. */
void agent_outputs_close(struct agent *agent);
/* After a reload: an output whose options are the same goes on untouched. */
void agent_outputs_reload(struct agent *agent);
/* Brings the metrics of outputs up to date. */
void agent_outputs_update_metrics(struct agent *agent);
/* [{"name","path","state",…}], new reference. */
json_t *agent_outputs_json(const struct agent *agent);

#endif
