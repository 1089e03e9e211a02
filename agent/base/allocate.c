#include "agent/base/allocate.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/log.h"
#include "lib/base/err.h"

void *allocated(void *memory)
{
	if (!memory) {
		log_error("agent", "out of memory");
		log_finish();
		abort();
	}
	return memory;
}

void *allocate_zeroed(size_t count, size_t size)
{
	return allocated(calloc(count ? count : 1, size));
}

void *allocate_grow(void *items, size_t count, size_t size)
{
	/* The capacity doubles at powers of two, so it follows from `count` alone. */
	if ((count & (count - 1)) == 0) {
		items = allocated(reallocarray(items, count ? count * 2 : 1, size));
	}
	memset((char *)items + count * size, 0, size);
	return items;
}

char *allocate_text(const char *text)
{
	return allocated(strdup(text));
}

char *allocate_bytes(const char *bytes, size_t len)
{
	char *copy = allocated(malloc(len + 1));
	memcpy(copy, bytes, len);
	copy[len] = '\0';
	return copy;
}

void allocate_kept(char **kept, const char *text)
{
	char *copy = *text ? allocate_text(text) : NULL;
	free(*kept);
	*kept = copy;
}

char *allocate_format(const char *format, ...)
{
	char *text = NULL;
	va_list arguments;
	va_start(arguments, format);
	int len = vasprintf(&text, format, arguments);
	va_end(arguments);
	return allocated(len < 0 ? NULL : text);
}

int allocated_code(int code)
{
	if (code == BERTH_FAILED) {
		allocated(NULL);
	}
	return code;
}
