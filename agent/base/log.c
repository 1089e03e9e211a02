#include "agent/base/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "lib/base/buffer.h"

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

/* Control bytes leave as \n, \t or \u00XX: a log line is one line whatever a child printed. Both formats share it. */
static void append_escaped(struct buffer *line, const char *text, bool quotes)
{
	for (const unsigned char *at = (const unsigned char *)text; *at; at++) {
		if (quotes && (*at == '"' || *at == '\\')) {
			buffer_printf(line, "\\%c", *at);
		} else if (*at == '\n') {
			buffer_append_text(line, "\\n");
		} else if (*at == '\t') {
			buffer_append_text(line, "\\t");
		} else if (*at < 0x20 || *at == 0x7f) {
			buffer_printf(line, "\\u%04x", *at);
		} else {
			buffer_append(line, at, 1);
		}
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

static void log_va(enum log_level level, const char *subject, const char *format, va_list arguments)
{
	if (!log_enabled(level)) {
		return;
	}
	int saved_errno = errno;
	char message[LINE_MAX_BYTES / 8];
	vsnprintf(message, sizeof(message), format, arguments);
	struct buffer line;
	buffer_init(&line, LINE_MAX_BYTES);
	if (as_json) {
		buffer_append_text(&line, "{\"time\":\"");
		append_time(&line);
		buffer_printf(&line, "\",\"level\":\"%s\",\"subject\":\"", level_names[level]);
		append_escaped(&line, subject, true);
		buffer_append_text(&line, "\",\"message\":\"");
		append_escaped(&line, message, true);
		buffer_append_text(&line, "\"}\n");
	} else {
		append_time(&line);
		buffer_printf(&line, " %-5s ", level_names[level]);
		append_escaped(&line, subject, false);
		buffer_append_text(&line, ": ");
		append_escaped(&line, message, false);
		buffer_append_text(&line, "\n");
	}
	if (line.data) {
		write_line(&line);
	}
	buffer_finish(&line);
	errno = saved_errno;
}

#define LOG_FUNCTION(name, level)                                                                  \
	void name(const char *subject, const char *format, ...)                                    \
	{                                                                                          \
		va_list arguments;                                                                 \
		va_start(arguments, format);                                                       \
		log_va(level, subject, format, arguments);                                         \
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
	log_va(level, subject, format, arguments);
	va_end(arguments);
}
