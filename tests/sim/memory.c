#include "tests/sim/memory.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#ifdef __SANITIZE_ADDRESS__

struct memory *memory_use(struct memory *memory)
{
	(void)memory;
	return NULL;
}

void memory_free_all(struct memory *memory)
{
	(void)memory;
}

#else

/* In front of every block. */
struct memory_block {
	struct memory_block *next;
	struct memory_block *before;
	struct memory *owner;
	size_t size;
	void *start; /* of what libc allocated */
	void *unused;
};

extern void *__libc_malloc(size_t size);
extern void __libc_free(void *data);
extern char __executable_start, etext;
extern char __start_agent_text, __stop_agent_text;

static struct memory *current;

struct memory *memory_use(struct memory *memory)
{
	struct memory *before = current;
	current = memory;
	return before;
}

/* The simulation's own code may be called by a process; what it allocates stays its own. */
static bool is_ours(const void *caller)
{
	const char *at = caller;
	bool is_program = at >= &__executable_start && at < &etext;
	bool is_agent = at >= &__start_agent_text && at < &__stop_agent_text;
	return is_program && !is_agent;
}

static void take_in(struct memory_block *block, struct memory *owner)
{
	block->owner = owner;
	if (!owner) {
		return;
	}
	block->before = NULL;
	block->next = owner->blocks;
	if (block->next) {
		block->next->before = block;
	}
	owner->blocks = block;
	owner->count++;
	owner->bytes += block->size;
}

static void take_out(struct memory_block *block)
{
	struct memory *owner = block->owner;
	if (!owner) {
		return;
	}
	if (block->before) {
		block->before->next = block->next;
	} else {
		owner->blocks = block->next;
	}
	if (block->next) {
		block->next->before = block->before;
	}
	owner->count--;
	owner->bytes -= block->size;
}

static bool fails(struct memory *owner)
{
	if (!owner || owner->fail_in == 0 || --owner->fail_in > 0) {
		return false;
	}
	owner->failed = true;
	errno = ENOMEM;
	return true;
}

static struct memory_block *block_of(void *data)
{
	return (struct memory_block *)data - 1;
}

static void *allocate(size_t size, size_t alignment, const void *caller)
{
	struct memory *owner = current && !is_ours(caller) ? current : NULL;
	if (size > PTRDIFF_MAX - 4096 || fails(owner)) {
		errno = ENOMEM;
		return NULL;
	}
	size_t room = alignment > 16 ? alignment : 0;
	char *start = __libc_malloc(sizeof(struct memory_block) + room + size);
	if (!start) {
		return NULL;
	}
	uintptr_t at = (uintptr_t)start + sizeof(struct memory_block);
	if (room) {
		at = (at + alignment - 1) & ~(uintptr_t)(alignment - 1);
	}
	void *data = start + (at - (uintptr_t)start);
	struct memory_block *block = block_of(data);
	block->size = size;
	block->start = start;
	take_in(block, owner);
	return data;
}

void *malloc(size_t size)
{
	return allocate(size, 0, __builtin_return_address(0));
}

void *calloc(size_t count, size_t size)
{
	size_t bytes;
	if (__builtin_mul_overflow(count, size, &bytes)) {
		errno = ENOMEM;
		return NULL;
	}
	void *data = allocate(bytes, 0, __builtin_return_address(0));
	return data ? memset(data, 0, bytes) : NULL;
}

void free(void *data)
{
	if (data) {
		take_out(block_of(data));
		__libc_free(block_of(data)->start);
	}
}

static void *resize(void *before, size_t size, const void *caller)
{
	void *data = allocate(size, 0, caller);
	if (data && before) {
		size_t kept = block_of(before)->size;
		memcpy(data, before, kept < size ? kept : size);
		free(before);
	}
	return data;
}

void *realloc(void *data, size_t size)
{
	return resize(data, size, __builtin_return_address(0));
}

void *reallocarray(void *data, size_t count, size_t size)
{
	size_t bytes;
	if (__builtin_mul_overflow(count, size, &bytes)) {
		errno = ENOMEM;
		return NULL;
	}
	return resize(data, bytes, __builtin_return_address(0));
}

int posix_memalign(void **ret_data, size_t alignment, size_t size)
{
	*ret_data = allocate(size, alignment, __builtin_return_address(0));
	return *ret_data ? 0 : ENOMEM;
}

void *aligned_alloc(size_t alignment, size_t size)
{
	return allocate(size, alignment, __builtin_return_address(0));
}

void *memalign(size_t alignment, size_t size);
void *memalign(size_t alignment, size_t size)
{
	return allocate(size, alignment, __builtin_return_address(0));
}

size_t malloc_usable_size(void *data);
size_t malloc_usable_size(void *data)
{
	return data ? block_of(data)->size : 0;
}

void memory_free_all(struct memory *memory)
{
	while (memory->blocks) {
		free(memory->blocks + 1);
	}
}

#endif
