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
	struct memory *owner; /* NULL: the simulation's, from libc's heap */
	size_t size;
	struct memory_block *next; /* once it is freed */
	size_t class;
};
_Static_assert(sizeof(struct memory_block) % 16 == 0, "what follows is aligned");

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

/* ---- blocks of a process ---- */

enum { STEP = 16, SMALL = 512, SMALL_CLASSES = SMALL / STEP };

/* Sixteen bytes apart at first, then four sizes between two powers of two. */
static unsigned class_of(size_t size)
{
	if (size <= SMALL) {
		return (unsigned)((size + STEP - 1) / STEP);
	}
	unsigned power = 63 - (unsigned)__builtin_clzll(size - 1);
	unsigned quarter = (unsigned)((size - 1) >> (power - 2)) & 3;
	return SMALL_CLASSES + 1 + 4 * (power - 9) + quarter;
}

static size_t class_bytes(unsigned class)
{
	if (class <= SMALL_CLASSES) {
		return (size_t) class * STEP;
	}
	unsigned above = class - SMALL_CLASSES - 1;
	return ((size_t)5 + above % 4) << (above / 4 + 7);
}

static struct memory_block *take(struct memory *owner, size_t size)
{
	unsigned class = class_of(size);
	struct memory_block *block = class < MEMORY_CLASSES ? owner->freed[class] : NULL;
	if (block) {
		owner->freed[class] = block->next;
	} else {
		size_t bytes = sizeof(*block) + class_bytes(class);
		if (bytes > MEMORY_BYTES - owner->used) {
			return NULL;
		}
		block = (struct memory_block *)(owner->heap + owner->used);
		owner->used += bytes;
		block->class = class;
	}
	owner->count++;
	return block;
}

static void give_back(struct memory_block *block)
{
	struct memory *owner = block->owner;
	owner->count--;
	owner->bytes -= block->size;
	block->next = owner->freed[block->class];
	owner->freed[block->class] = block;
}

void memory_free_all(struct memory *memory)
{
	memory->used = 0;
	memory->count = 0;
	memory->bytes = 0;
	memset(memory->freed, 0, sizeof(memory->freed));
}

/* ---- what libc has ---- */

static bool fails(struct memory *owner)
{
	if (!owner || owner->fail_in == 0 || --owner->fail_in > 0) {
		return false;
	}
	owner->failed = true;
	errno = ENOMEM;
	return true;
}

static void *allocate(size_t size, const void *caller)
{
	struct memory *owner = current && !is_ours(caller) ? current : NULL;
	struct memory_block *block = NULL;
	if (size <= MEMORY_BYTES && !fails(owner)) {
		block = owner ? take(owner, size) : __libc_malloc(sizeof(*block) + size);
	}
	if (!block) {
		errno = ENOMEM;
		return NULL;
	}
	block->owner = owner;
	block->size = size;
	if (owner) {
		owner->bytes += size;
	}
	return block + 1;
}

static struct memory_block *block_of(void *data)
{
	return (struct memory_block *)data - 1;
}

void *malloc(size_t size)
{
	return allocate(size, __builtin_return_address(0));
}

void *calloc(size_t count, size_t size)
{
	size_t bytes;
	if (__builtin_mul_overflow(count, size, &bytes)) {
		errno = ENOMEM;
		return NULL;
	}
	void *data = allocate(bytes, __builtin_return_address(0));
	return data ? memset(data, 0, bytes) : NULL;
}

void free(void *data)
{
	if (!data) {
		return;
	}
	struct memory_block *block = block_of(data);
	if (block->owner) {
		give_back(block);
	} else {
		__libc_free(block);
	}
}

static void *resize(void *before, size_t size, const void *caller)
{
	void *data = allocate(size, caller);
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

/* Nobody here needs more than what every block has. */
static void *allocate_aligned(size_t alignment, size_t size, const void *caller)
{
	if (alignment > STEP) {
		errno = ENOMEM;
		return NULL;
	}
	return allocate(size, caller);
}

int posix_memalign(void **ret_data, size_t alignment, size_t size)
{
	*ret_data = allocate_aligned(alignment, size, __builtin_return_address(0));
	return *ret_data ? 0 : ENOMEM;
}

void *aligned_alloc(size_t alignment, size_t size)
{
	return allocate_aligned(alignment, size, __builtin_return_address(0));
}

void *memalign(size_t alignment, size_t size);
void *memalign(size_t alignment, size_t size)
{
	return allocate_aligned(alignment, size, __builtin_return_address(0));
}

size_t malloc_usable_size(void *data);
size_t malloc_usable_size(void *data)
{
	return data ? block_of(data)->size : 0;
}

#endif
