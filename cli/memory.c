#include "cli/memory.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#include "lib/base/buffer.h"

void *memory_must(void *memory)
{
	if (!memory) {
		fputs("berth: out of memory\n", stderr);
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
