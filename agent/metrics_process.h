/*
 * The usual process_* metrics, read from /proc when they are asked for.
 */
#ifndef METRICS_PROCESS_H
#define METRICS_PROCESS_H

#include "buffer.h"

void metrics_write_process(struct buffer *out);

#endif
