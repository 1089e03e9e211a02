#include "lib/program/memory.h"

#include <errno.h>
#include <jansson.h>
#include <malloc.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/buffer.h"

void *memory_must(void *memory)
{
	if (!memory) {
		fprintf(stderr, "%s: out of memory\n", program_invocation_short_name);
		exit(EXIT_FAILURE);
	}
	return memory;
}

static void *allocate_for_json(size_t size)
{
	return memory_must(malloc(size));
}

static void *allocate_for_buffer(void *memory, size_t size)
{
	return memory_must(realloc(memory, size));
}

void memory_init(void)
{
	buffer_set_allocator(allocate_for_buffer);
	json_set_alloc_funcs(allocate_for_json, free);
}

void *memory_zeroed(size_t count, size_t size)
{
	return memory_must(calloc(count ? count : 1, size));
}

char *memory_text(const char *text, size_t len)
{
	char *copy = memory_must(malloc(len + 1));
	memcpy(copy, text, len);
	copy[len] = '\0';
	return copy;
}

void *memory_grow(void *items, size_t count, size_t size)
{
	/* The room doubles whenever it is full, which it is at 1, 2, 4 … items. */
	bool full = (count & (count - 1)) == 0;
	return full ? memory_must(reallocarray(items, count ? 2 * count : 1, size)) : items;
}

void memory_trim(void)
{
#ifdef __GLIBC__
	(void)malloc_trim(0);
#endif
}
