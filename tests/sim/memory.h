/*
 * The heap, by process. These definitions take the place of libc's, so that the memory of a killed
 * process can be freed, that of a living one counted, and an allocation made to fail. A build with
 * sanitizers keeps their allocator: a killed process leaves its memory behind there, and no
 * allocation fails.
 */
#ifndef TESTS_SIM_MEMORY_H
#define TESTS_SIM_MEMORY_H

#include <stdbool.h>
#include <stddef.h>

struct memory_block;

struct memory {
	struct memory_block *blocks;
	size_t count;
	size_t bytes;
	unsigned fail_in; /* the so-manieth allocation from now fails; 0: none */
	bool failed;
};

/* Whose the next blocks are; NULL: the simulation's. Returns the one before. */
struct memory *memory_use(struct memory *memory);
void memory_free_all(struct memory *memory);

#endif
