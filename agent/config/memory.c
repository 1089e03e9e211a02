#include "agent/config/memory.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/log.h"

static void *must_have(void *memory)
{
	if (!memory) {
		log_error("config", "out of memory");
		abort();
	}
	return memory;
}

char *config_copy_bytes(const char *bytes, size_t len)
{
	char *copy = must_have(malloc(len + 1));
	memcpy(copy, bytes, len);
	copy[len] = '\0';
	return copy;
}

char *config_format(const char *format, ...)
{
	char *text = NULL;
	va_list arguments;
	va_start(arguments, format);
	if (vasprintf(&text, format, arguments) < 0) {
		text = NULL;
	}
	va_end(arguments);
	return must_have(text);
}

void *config_grow(void *items, size_t count, size_t size)
{
	/* Room doubles at powers of two, so that `count` alone tells how much there is. */
	if ((count & (count - 1)) == 0) {
		items = must_have(reallocarray(items, count ? count * 2 : 1, size));
	}
	memset((char *)items + count * size, 0, size);
	return items;
}
