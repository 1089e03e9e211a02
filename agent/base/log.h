/*
 * The log: one line per event on stderr, as text or as a JSON object a line.
 *
 * Lines carry a time, a level, a subject (the component, check or part that the line is about) and
 * a message; as JSON also the fields of the event. Characters that a terminal obeys are escaped
 * (lib/base/json_visible.h). Main thread only; a line is one write(2), so lines of several
 * processes do not mix. From log_start() on no line waits for the reader of stderr:
 * lib/program/log_writer.h says how.
 */
#ifndef AGENT_BASE_LOG_H
#define AGENT_BASE_LOG_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/program/log_rate.h"

enum log_level { LOG_LEVEL_ERROR, LOG_LEVEL_WARN, LOG_LEVEL_INFO, LOG_LEVEL_DEBUG };

void log_set(enum log_level level, bool json);
bool log_enabled(enum log_level level);

/* Once the process has the user and the limits that it keeps. */
void log_start(void);
/* All is written, as far as stderr takes it within a second. */
void log_finish(void);
/* The lines that stderr did not take. */
uint64_t log_lost(void);

void log_error(const char *subject, const char *format, ...) __attribute__((format(printf, 2, 3)));
void log_warn(const char *subject, const char *format, ...) __attribute__((format(printf, 2, 3)));
void log_info(const char *subject, const char *format, ...) __attribute__((format(printf, 2, 3)));
void log_debug(const char *subject, const char *format, ...) __attribute__((format(printf, 2, 3)));
void log_at(enum log_level level, const char *subject, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/*
 * A line that a container or a client can cause as often as it likes: as many as its rate allows,
 * and the next one says how many were left out.
 */
void log_limited(struct log_rate *rate, enum log_level level, const char *subject,
	const char *format, ...) __attribute__((format(printf, 4, 5)));

/*
 * A member of a JSON line, besides time, level, subject and message; left out when the value is
 * NULL.
 */
struct log_field {
	const char *name;
	const char *value;
};

/* `fields` ends with one without a name; a line of text says it all in its message. */
void log_event(enum log_level level, const char *subject, const struct log_field *fields,
	const char *format, ...) __attribute__((format(printf, 4, 5)));

#endif
