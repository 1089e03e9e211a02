/*
 * Memory for the program: without it the program says so and ends, and the agent starts it again.
 * Its clients keep what they have. So no function of this folder has a branch for it.
 */
#ifndef XDS_MEMORY_H
#define XDS_MEMORY_H

#include <stddef.h>

/* Lets JSON and buffers end the program too. Before any of them is made. */
void memory_init(void);

/* `memory` itself: for the result of a function that is NULL only without memory. */
void *memory_must(void *memory);

/* Zeroed. */
void *memory_zeroed(size_t count, size_t size);
char *memory_text(const char *text, size_t len);

/* Room for one more item of `size` bytes behind `count` items; `items` may be NULL for none. */
void *memory_grow(void *items, size_t count, size_t size);

#endif
