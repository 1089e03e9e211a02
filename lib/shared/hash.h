/*
 * SipHash-1-3 (Aumasson, Bernstein: "SipHash: a fast short-input PRF"), by which a key finds its
 * slot in a shared map.
 */
#ifndef LIB_SHARED_HASH_H
#define LIB_SHARED_HASH_H

#include <stddef.h>
#include <stdint.h>

/* Never 0, which a slot without a key has. */
uint64_t shared_hash(const uint64_t key[2], const void *data, size_t len);

#endif
