/*
 * The functions that glibc's headers call in place of plain ones under _FORTIFY_SOURCE. Programs
 * that are linked with musl and with archives built for glibc need them. They check nothing: the
 * archives are not under test.
 */

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* The archives call them; no header declares them. */
int __vsnprintf_chk(
	char *text, size_t max, int flag, size_t size, const char *format, va_list list);
int __snprintf_chk(char *text, size_t max, int flag, size_t size, const char *format, ...);
int __fprintf_chk(FILE *stream, int flag, const char *format, ...);
int __printf_chk(int flag, const char *format, ...);
void *__memcpy_chk(void *to, const void *from, size_t len, size_t size);
void *__memmove_chk(void *to, const void *from, size_t len, size_t size);
char *__strncpy_chk(char *to, const char *from, size_t len, size_t size);

int __vsnprintf_chk(char *text, size_t max, int flag, size_t size, const char *format, va_list list)
{
	(void)flag, (void)size;
	return vsnprintf(text, max, format, list);
}

int __snprintf_chk(char *text, size_t max, int flag, size_t size, const char *format, ...)
{
	va_list list;
	va_start(list, format);
	int len = __vsnprintf_chk(text, max, flag, size, format, list);
	va_end(list);
	return len;
}

int __fprintf_chk(FILE *stream, int flag, const char *format, ...)
{
	(void)flag;
	va_list list;
	va_start(list, format);
	int len = vfprintf(stream, format, list);
	va_end(list);
	return len;
}

int __printf_chk(int flag, const char *format, ...)
{
	(void)flag;
	va_list list;
	va_start(list, format);
	int len = vprintf(format, list);
	va_end(list);
	return len;
}

void *__memcpy_chk(void *to, const void *from, size_t len, size_t size)
{
	(void)size;
	return memcpy(to, from, len);
}

void *__memmove_chk(void *to, const void *from, size_t len, size_t size)
{
	(void)size;
	return memmove(to, from, len);
}

char *__strncpy_chk(char *to, const char *from, size_t len, size_t size)
{
	(void)size;
	return strncpy(to, from, len);
}
