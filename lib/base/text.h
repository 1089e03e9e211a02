/*
 * Text in buffers of a fixed size: text that is too long is cut between characters, so that UTF-8
 * stays UTF-8, and JSON that contains it stays valid.
 */
#ifndef LIB_BASE_TEXT_H
#define LIB_BASE_TEXT_H

#include <stdarg.h>
#include <stddef.h>

/* As snprintf() and vsnprintf(), but for the cut, and without a result. `size` is at least 1. */
void text_printf(char *out, size_t size, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
void text_vprintf(char *out, size_t size, const char *format, va_list arguments);

#endif
