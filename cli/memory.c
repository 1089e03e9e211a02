#include "cli/memory.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

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

void memory_init(void)
{
	json_set_alloc_funcs(allocate_for_json, free);
}
