/*
 * FNV-1a with 64 bits, for hash tables and ETags. It does not defend against a peer that chooses
 * its input to collide: a table that strangers fill starts from a random seed instead of HASH_INIT.
 */
#ifndef LIB_BASE_HASH_H
#define LIB_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

#define HASH_INIT UINT64_C(0xcbf29ce484222325)

/* Continues `hash` with the data. */
static inline uint64_t hash_bytes(uint64_t hash, const void *data, size_t len)
{
	const unsigned char *bytes = data;
	for (size_t i = 0; i < len; i++) {
		hash = (hash ^ bytes[i]) * UINT64_C(0x100000001b3);
	}
	return hash;
}

static inline uint64_t hash_text(uint64_t hash, const char *text)
{
	for (; *text; text++) {
		hash = (hash ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
	}
	return hash;
}

#endif
