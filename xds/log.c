#include "xds/log.h"

#include <stdarg.h>
#include <stdio.h>

#include "lib/base/text.h"

enum { LINE_BYTES = 1024 };

void log_line(const char *level, const char *format, ...)
{
	char line[LINE_BYTES];
	va_list arguments;
	va_start(arguments, format);
	text_vprintf(line, sizeof(line), format, arguments);
	va_end(arguments);
	for (char *c = line; *c; c++) {
		*c = (unsigned char)*c < ' ' || *c == 0x7f ? '?' : *c;
	}
	fprintf(stderr, "berth-xds: %s: %s\n", level, line);
}
