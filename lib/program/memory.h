/*
 * Memory for the programs that serve or print and keep nothing, `berth` and `berth-xds`: without it
 * the program says so and ends with EXIT_FAILURE. So none of their functions has a branch for it,
 * and no output is shorter than it should be. The agent starts berth-xds again, whose clients keep
 * what they have. libberth reports a failed allocation of its own to its caller.
 */
#ifndef LIB_PROGRAM_MEMORY_H
#define LIB_PROGRAM_MEMORY_H

#include <stddef.h>

/* Lets JSON and buffers end the program too. Before any of them is made. */
void memory_init(void);

/* `memory` itself: for the result of a function that is NULL only without memory. */
void *memory_must(void *memory);

/* Zeroed. */
void *memory_zeroed(size_t count, size_t size);
char *memory_text(const char *text, size_t len);

/*
 * Room for one more item of `size` bytes behind `count` items; `items` may be NULL for none. The
 * array must have grown by this function alone.
 */
void *memory_grow(void *items, size_t count, size_t size);

/* Gives the pages that a burst has left back to the kernel, where the C library keeps them. */
void memory_trim(void);

#endif
