/*
 * Allocation for the programs: there is nothing sensible that a sidecar without memory could do, so
 * it says so and aborts, and whoever supervises it starts it again. The library never uses this.
 */
#ifndef AGENT_BASE_ALLOCATE_H
#define AGENT_BASE_ALLOCATE_H

#include <stddef.h>

/* `count` zeroed items of `size` bytes; never NULL. Free with free(). */
void *allocate_zeroed(size_t count, size_t size);

/* `memory` (or NULL) with room for `count` items; never NULL. What is new is not zeroed. */
void *allocate_again(void *memory, size_t count, size_t size);

/* A copy of the text; never NULL. Free with free(). */
char *allocate_text(const char *text);

#endif
