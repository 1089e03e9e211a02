/*
 * The rule by which clients share what is bounded: a client may hold three times as much as is
 * free. So a client alone gets three quarters, and the next one always finds room.
 */
#ifndef LIB_BASE_SHARE_H
#define LIB_BASE_SHARE_H

#include <stdbool.h>
#include <stddef.h>

/* Whether a client that has `used`, all of them `total`, may have one more. */
static inline bool share_allows(size_t used, size_t total, size_t limit)
{
	return total < limit && used / 3 < limit - total;
}

#endif
