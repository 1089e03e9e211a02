#include "agent/base/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "lib/base/buffer.h"
#include "lib/base/text.h"
#include "lib/base/utf8.h"

enum { LINE_MAX_BYTES = 8192 };

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

static void append_byte(struct buffer *line, unsigned char byte, bool quotes)
{
	if (quotes && (byte == '"' || byte == '\\')) {
		buffer_printf(line, "\\%c", byte);
	} else if (byte == '\n') {
		buffer_append_text(line, "\\n");
	} else if (byte == '\t') {
		buffer_append_text(line, "\\t");
	} else if (byte < 0x20 || byte == 0x7f) {
		buffer_printf(line, "\\u%04x", byte);
	} else {
		buffer_append(line, &byte, 1);
	}
}

/*
 * Control characters leave as \n, \t or \u00XX, and invalid UTF-8 as '?': a log line is
 * one line of valid text for any output of a child process. Both formats use it.
 */
static void append_escaped(struct buffer *line, const char *text, bool quotes)
{
	size_t left = strlen(text);
	while (left > 0) {
		size_t len = utf8_character_len(text, left);
		bool control = len == 2 && (unsigned char)text[0] == 0xc2 &&
			(unsigned char)text[1] < 0xa0;
		if (len == 0 || len > left) {
			buffer_append_text(line, "?");
			len = 1;
		} else if (control) { /* U+0080 to U+009F: some terminals obey them */
			buffer_printf(line, "\\u%04x", (unsigned char)text[1]);
		} else if (len == 1) {
			append_byte(line, (unsigned char)*text, quotes);
		} else {
			buffer_append(line, text, len);
		}
		text += len;
		left -= len;
	}
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

static void write_line(const struct buffer *line)
{
	ssize_t written;
	do {
		written = write(STDERR_FILENO, line->data, line->len);
	} while (written < 0 && errno == EINTR);
}

static void append_member(struct buffer *line, const char *name, const char *value)
{
	buffer_printf(line, ",\"%s\":\"", name);
	append_escaped(line, value, true);
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
	append_escaped(line, subject, false);
	buffer_append_text(line, ": ");
	append_escaped(line, message, false);
	buffer_append_text(line, "\n");
}

static void log_va(enum log_level level, const char *subject, const struct log_field *fields,
	const char *format, va_list arguments)
{
	if (!log_enabled(level)) {
		return;
	}
	int saved_errno = errno;
	char message[LINE_MAX_BYTES / 8];
	struct buffer line;
	text_vprintf(message, sizeof(message), format, arguments);
	buffer_init(&line, LINE_MAX_BYTES);
	if (as_json) {
		append_json(&line, level, subject, fields, message);
	} else {
		append_text(&line, level, subject, message);
	}
	if (line.data) {
		write_line(&line);
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

void log_event(enum log_level level, const char *subject, const struct log_field *fields,
	const char *format, ...)
{
	va_list arguments;
	va_start(arguments, format);
	log_va(level, subject, fields, format, arguments);
	va_end(arguments);
}
