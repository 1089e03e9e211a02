#include "lib/base/text.h"

#include <stdio.h>
#include <string.h>

#include "lib/base/utf8.h"

/* Drops the last character unless it is whole. */
static void trim(char *text)
{
	size_t len = strlen(text);
	size_t start = len;
	while (start > 0 && ((unsigned char)text[start - 1] & 0xc0) == 0x80) {
		start--;
	}
	if (start > 0 &&
		utf8_character_len(text + start - 1, len - (start - 1)) > len - (start - 1)) {
		text[start - 1] = '\0';
	}
}

void text_vprintf(char *out, size_t size, const char *format, va_list arguments)
{
	int len = vsnprintf(out, size, format, arguments);
	if (len < 0) {
		*out = '\0';
	} else if ((size_t)len >= size) {
		trim(out);
	}
}

void text_printf(char *out, size_t size, const char *format, ...)
{
	va_list arguments;
	va_start(arguments, format);
	text_vprintf(out, size, format, arguments);
	va_end(arguments);
}
