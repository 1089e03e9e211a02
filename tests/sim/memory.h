/*
 * The heap, by process. These definitions take the place of libc's, so that the memory of a killed
 * process can be freed, that of a living one counted, and an allocation made to fail. Each process
 * has a piece of address space of its own, so that all of its memory is freed at once. A build with
 * sanitizers keeps their allocator: a killed process leaves its memory behind there, and no
 * allocation fails.
 */
#ifndef TESTS_SIM_MEMORY_H
#define TESTS_SIM_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MEMORY_BYTES = 64 << 20, MEMORY_CLASSES = 128 };

struct memory_block;

struct memory {
	char *heap;  /* MEMORY_BYTES of them */
	size_t used; /* from its beginning; nothing behind was ever allocated */
	struct memory_block *freed[MEMORY_CLASSES]; /* by size */
	size_t count;
	size_t bytes;
	unsigned fail_in;      /* the so-manieth allocation from now fails; 0: none */
	int64_t fail_until_ms; /* if it comes before */
	bool failed;
};

/* Whose the next blocks are; NULL: the simulation's. Returns the one before. */
struct memory *memory_use(struct memory *memory);
void memory_free_all(struct memory *memory);

#endif
