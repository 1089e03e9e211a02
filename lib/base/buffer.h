/*
 * A growing byte buffer that always has a maximum.
 *
 * Appending beyond the maximum, or without memory, marks the buffer as failed: it keeps what it has
 * and every later append is refused, so that a caller can build a whole message and look once at
 * the end. `data` is always NUL-terminated behind `len` (when not NULL); buffer_text() never
 * returns NULL.
 */
#ifndef LIB_BASE_BUFFER_H
#define LIB_BASE_BUFFER_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

struct buffer {
	char *data;
	size_t len;
	size_t size; /* allocated, without the NUL */
	size_t max;
	bool failed;
};

/*
 * The function that takes the place of realloc() in all buffers of the process; free() has to take
 * its memory. For programs that end without memory: then no buffer fails for lack of it.
 */
void buffer_set_allocator(void *(*reallocate)(void *memory, size_t size));

/* The buffer is the caller's memory; nothing is allocated before the first append. */
void buffer_init(struct buffer *buffer, size_t max);

/* Frees the content; the buffer may be used again, with the same maximum. */
void buffer_finish(struct buffer *buffer);

/* All append functions return 0, or -1 when the buffer has failed. */
int buffer_append(struct buffer *buffer, const void *data, size_t len);
int buffer_append_text(struct buffer *buffer, const char *text);
int buffer_printf(struct buffer *buffer, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
int buffer_vprintf(struct buffer *buffer, const char *format, va_list arguments);

/*
 * Makes room for `len` bytes behind the content and returns their place, or NULL; commit with
 * buffer_added().
 */
char *buffer_reserve(struct buffer *buffer, size_t len);
void buffer_added(struct buffer *buffer, size_t len);

/* Removes the first `len` bytes. */
void buffer_consume(struct buffer *buffer, size_t len);
/* Empties the buffer, keeps its memory, forgets a failure. */
void buffer_clear(struct buffer *buffer);

/* The content as a C string; "" while empty. Borrowed until the next append. */
static inline const char *buffer_text(const struct buffer *buffer)
{
	return buffer->data ? buffer->data : "";
}
/*
 * Hands the content's memory (NUL-terminated, free()) to the caller and empties the buffer; NULL
 * when failed.
 */
char *buffer_take(struct buffer *buffer, size_t *ret_len);

#endif
