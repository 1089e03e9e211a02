/*
 * Lines on stderr: the agent puts them into its own log. They never wait for their reader.
 */
#ifndef XDS_LOG_H
#define XDS_LOG_H

#include "lib/program/log_rate.h"

/* `level`: "error", "warn", "info". */
void log_line(const char *level, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* For lines that a client, or somebody who writes records, can cause. */
void log_limited(struct log_rate *rate, const char *level, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* Before the cage, which lets no process be made. */
void log_start(void);
void log_finish(void);

#endif
