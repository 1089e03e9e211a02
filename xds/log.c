#include "xds/log.h"

#include <fcntl.h>
#include <stdarg.h>
#include <unistd.h>

#include "lib/base/buffer.h"
#include "lib/base/json_visible.h"
#include "lib/base/text.h"
#include "lib/program/log_writer.h"

enum { MESSAGE_BYTES = 1024 };

static void append_line(struct buffer *line, const char *level, const char *message)
{
	buffer_printf(line, "berth-xds: %s: ", level);
	text_append_visible(line, message, false, 1);
	buffer_append_text(line, "\n");
}

static void write_line(const char *level, const char *format, va_list arguments)
{
	char message[MESSAGE_BYTES];
	struct buffer line;
	text_vprintf(message, sizeof(message), format, arguments);
	buffer_init(&line, LOG_WRITER_LINE_BYTES);
	append_line(&line, level, message);
	log_writer_write(buffer_text(&line), line.len);
	buffer_finish(&line);
}

void log_line(const char *level, const char *format, ...)
{
	va_list arguments;
	va_start(arguments, format);
	write_line(level, format, arguments);
	va_end(arguments);
}

void log_limited(struct log_rate *rate, const char *level, const char *format, ...)
{
	unsigned left_out;
	va_list arguments;
	if (!log_rate_allows(rate, &left_out)) {
		return;
	}
	va_start(arguments, format);
	write_line(level, format, arguments);
	va_end(arguments);
	if (left_out) {
		log_line(level, "%u lines before it are left out", left_out);
	}
}

static void append_report(struct buffer *line, const char *previous, const char *message)
{
	(void)previous;
	append_line(line, "warn", message);
}

void log_start(void)
{
	/* The agent's pipe does not block, and the agent always reads it. */
	if ((fcntl(STDERR_FILENO, F_GETFL) & O_NONBLOCK) == 0) {
		(void)log_writer_start(append_report);
	}
}

void log_finish(void)
{
	log_writer_finish();
}
