/*
 * The usual process_* metrics, read from /proc when they are asked for.
 */
#ifndef AGENT_BASE_METRICS_PROCESS_H
#define AGENT_BASE_METRICS_PROCESS_H

#include "agent/base/metrics.h"

void metrics_write_process(enum metrics_format format, struct buffer *out);
/* The lines before the samples of a family; OpenMetrics names a counter without its _total. */
void metrics_write_head(enum metrics_format format, const char *name, const char *kind,
	const char *help, struct buffer *out);

#endif
