/*
 * Lines for whoever started the program, on standard error: the agent puts them into its own log.
 */
#ifndef XDS_LOG_H
#define XDS_LOG_H

/* `level`: "error", "warn", "info". */
void log_line(const char *level, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
