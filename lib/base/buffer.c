#include "lib/base/buffer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SMALLEST_SIZE = 256 };

static void *(*allocator)(void *memory, size_t size) = realloc;

void buffer_set_allocator(void *(*reallocate)(void *memory, size_t size))
{
	allocator = reallocate;
}

void buffer_init(struct buffer *buffer, size_t max)
{
	*buffer = (struct buffer){ .max = max };
}

void buffer_finish(struct buffer *buffer)
{
	free(buffer->data);
	buffer_init(buffer, buffer->max);
}

char *buffer_reserve(struct buffer *buffer, size_t len)
{
	if (buffer->failed || len > buffer->max - buffer->len) {
		buffer->failed = true;
		return NULL;
	}
	size_t need = buffer->len + len;
	if (need > buffer->size || !buffer->data) {
		size_t size = buffer->size ? buffer->size : SMALLEST_SIZE;
		while (size < need) {
			size *= 2;
		}
		if (size > buffer->max) {
			size = buffer->max;
		}
		char *data = allocator(buffer->data, size + 1);
		if (!data) {
			buffer->failed = true;
			return NULL;
		}
		buffer->data = data;
		buffer->size = size;
		buffer->data[buffer->len] = '\0';
	}
	return buffer->data + buffer->len;
}

void buffer_added(struct buffer *buffer, size_t len)
{
	buffer->len += len;
	buffer->data[buffer->len] = '\0';
}

int buffer_append(struct buffer *buffer, const void *data, size_t len)
{
	char *place = buffer_reserve(buffer, len);
	if (!place) {
		return -1;
	}
	if (len) {
		memcpy(place, data, len);
	}
	buffer_added(buffer, len);
	return 0;
}

int buffer_append_text(struct buffer *buffer, const char *text)
{
	return buffer_append(buffer, text, strlen(text));
}

int buffer_vprintf(struct buffer *buffer, const char *format, va_list arguments)
{
	va_list again;
	va_copy(again, arguments);
	int len = vsnprintf(NULL, 0, format, arguments);
	char *place = len < 0 ? NULL : buffer_reserve(buffer, (size_t)len);
	if (place) {
		vsnprintf(place, (size_t)len + 1, format, again);
		buffer_added(buffer, (size_t)len);
	}
	va_end(again);
	return place ? 0 : -1;
}

int buffer_printf(struct buffer *buffer, const char *format, ...)
{
	va_list arguments;
	va_start(arguments, format);
	int ret = buffer_vprintf(buffer, format, arguments);
	va_end(arguments);
	return ret;
}

void buffer_consume(struct buffer *buffer, size_t len)
{
	if (len == 0) {
		return;
	}
	buffer->len -= len;
	memmove(buffer->data, buffer->data + len, buffer->len + 1);
}

void buffer_clear(struct buffer *buffer)
{
	buffer->len = 0;
	buffer->failed = false;
	if (buffer->data) {
		buffer->data[0] = '\0';
	}
}

char *buffer_take(struct buffer *buffer, size_t *ret_len)
{
	if (buffer->failed || !buffer_reserve(buffer, 0)) {
		return NULL;
	}
	char *data = buffer->data;
	if (ret_len) {
		*ret_len = buffer->len;
	}
	buffer->data = NULL;
	buffer_finish(buffer);
	return data;
}
