/*
 * Lines on stderr: the agent puts them into its own log. They never wait for their reader.
 */
#ifndef XDS_LOG_H
#define XDS_LOG_H

/* `level`: "error", "warn", "info". */
void log_line(const char *level, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Before the cage, which lets no process be made. */
void log_start(void);
void log_finish(void);

#endif
