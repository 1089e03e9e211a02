/* Metrics of checks and components that are read for each scrape, or dropped with their subject. */
#ifndef AGENT_SERVING_METRICS_H
#define AGENT_SERVING_METRICS_H

struct agent;

/*
 * Sets the gauges that are known only on demand, and makes the counters that have counted nothing
 * yet. `agent` is void for the hook of the API.
 */
void agent_metrics_update(struct agent *agent);
/* Drops the series of checks and components that are no longer configured. */
void agent_metrics_forget_removed(struct agent *agent);

#endif
