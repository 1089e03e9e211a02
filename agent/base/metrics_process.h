/*
 * The usual process_* metrics, read from /proc when they are asked for.
 */
#ifndef AGENT_BASE_METRICS_PROCESS_H
#define AGENT_BASE_METRICS_PROCESS_H

#include "lib/base/buffer.h"

void metrics_write_process(struct buffer *out);

#endif
