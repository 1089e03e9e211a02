/*
 * Memory that is read next, so that its lines come together and not one after the other.
 */
#ifndef LIB_BASE_FETCH_AHEAD_H
#define LIB_BASE_FETCH_AHEAD_H

#include <stddef.h>
#include <stdint.h>

/* A hint for the processor: the first KiB of these bytes, which need not be valid. */
static inline void fetch_ahead(const volatile void *bytes, size_t len)
{
	enum { LINE_BYTES = 64, MOST_BYTES = 1024 };
	for (size_t at = 0; at < len && at < MOST_BYTES; at += LINE_BYTES) {
		__builtin_prefetch((const void *)((uintptr_t)bytes + at));
	}
}

#endif
