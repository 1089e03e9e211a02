#include "agent/base/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "lib/base/buffer.h"
#include "lib/base/json_visible.h"
#include "lib/base/text.h"
#include "lib/program/log_writer.h"

enum {
	MESSAGE_BYTES = 1024,
	/* Room for the other parts of a line: a text that needs it is cut. */
	FRAME_BYTES = 256,
};

static const char *const level_names[] = { "error", "warn", "info", "debug" };

static enum log_level threshold = LOG_LEVEL_INFO;
static bool as_json;

void log_set(enum log_level level, bool json)
{
	threshold = level;
	as_json = json;
}

bool log_enabled(enum log_level level)
{
	return level <= threshold;
}

static void append_time(struct buffer *line)
{
	struct timespec now;
	clock_gettime(CLOCK_REALTIME, &now);
	struct tm utc;
	gmtime_r(&now.tv_sec, &utc);
	char text[32];
	strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &utc);
	buffer_printf(line, "%s.%03ldZ", text, now.tv_nsec / 1000000);
}

static void append_member(struct buffer *line, const char *name, const char *value)
{
	buffer_printf(line, ",\"%s\":\"", name);
	text_append_visible(line, value, true, FRAME_BYTES);
	buffer_append_text(line, "\"");
}

static void append_json(struct buffer *line, enum log_level level, const char *subject,
	const struct log_field *fields, const char *message)
{
	buffer_append_text(line, "{\"time\":\"");
	append_time(line);
	buffer_append_text(line, "\"");
	append_member(line, "level", level_names[level]);
	append_member(line, "subject", subject);
	append_member(line, "message", message);
	for (; fields->name; fields++) {
		if (fields->value) {
			append_member(line, fields->name, fields->value);
		}
	}
	buffer_append_text(line, "}\n");
}

static void append_text(
	struct buffer *line, enum log_level level, const char *subject, const char *message)
{
	append_time(line);
	buffer_printf(line, " %-5s ", level_names[level]);
	text_append_visible(line, subject, false, FRAME_BYTES);
	buffer_append_text(line, ": ");
	text_append_visible(line, message, false, FRAME_BYTES);
	buffer_append_text(line, "\n");
}

static void append_line(struct buffer *line, enum log_level level, const char *subject,
	const struct log_field *fields, const char *message)
{
	if (as_json) {
		append_json(line, level, subject, fields, message);
	} else {
		append_text(line, level, subject, message);
	}
}

static void log_va(enum log_level level, const char *subject, const struct log_field *fields,
	const char *format, va_list arguments)
{
	if (!log_enabled(level)) {
		return;
	}
	int saved_errno = errno;
	char message[MESSAGE_BYTES];
	struct buffer line;
	text_vprintf(message, sizeof(message), format, arguments);
	buffer_init(&line, LOG_WRITER_LINE_BYTES);
	append_line(&line, level, subject, fields, message);
	if (line.data) {
		log_writer_write(line.data, line.len);
	}
	buffer_finish(&line);
	errno = saved_errno;
}

static const struct log_field no_fields[] = { { NULL, NULL } };

#define LOG_FUNCTION(name, level)                                                                  \
	void name(const char *subject, const char *format, ...)                                    \
	{                                                                                          \
		va_list arguments;                                                                 \
		va_start(arguments, format);                                                       \
		log_va(level, subject, no_fields, format, arguments);                              \
		va_end(arguments);                                                                 \
	}

LOG_FUNCTION(log_error, LOG_LEVEL_ERROR)
LOG_FUNCTION(log_warn, LOG_LEVEL_WARN)
LOG_FUNCTION(log_info, LOG_LEVEL_INFO)
LOG_FUNCTION(log_debug, LOG_LEVEL_DEBUG)

void log_at(enum log_level level, const char *subject, const char *format, ...)
{
	va_list arguments;
	va_start(arguments, format);
	log_va(level, subject, no_fields, format, arguments);
	va_end(arguments);
}

void log_limited(
	struct log_rate *rate, enum log_level level, const char *subject, const char *format, ...)
{
	char message[MESSAGE_BYTES];
	unsigned left_out;
	va_list arguments;
	if (!log_enabled(level) || !log_rate_allows(rate, &left_out)) {
		return;
	}
	va_start(arguments, format);
	text_vprintf(message, sizeof(message), format, arguments);
	va_end(arguments);
	if (left_out) {
		log_at(level, subject, "%s (%u lines before it are left out)", message, left_out);
	} else {
		log_at(level, subject, "%s", message);
	}
}

void log_event(enum log_level level, const char *subject, const struct log_field *fields,
	const char *format, ...)
{
	va_list arguments;
	va_start(arguments, format);
	log_va(level, subject, fields, format, arguments);
	va_end(arguments);
}

/* In the writer, which does not hear of a reload: the format of the line before counts. */
static void append_report(struct buffer *line, const char *previous, const char *message)
{
	as_json = previous[0] ? previous[0] == '{' : as_json;
	append_line(line, LOG_LEVEL_WARN, "log", no_fields, message);
}

void log_start(void)
{
	if (log_writer_start(append_report)) {
		log_warn("log",
			"no process for it (%s): the agent writes its lines itself, and drops "
			"those that stderr does not take at once",
			strerror(errno));
	}
}

void log_finish(void)
{
	log_writer_finish();
}

uint64_t log_lost(void)
{
	return log_writer_lost();
}
