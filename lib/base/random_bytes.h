/*
 * Bytes that nobody can guess, for seeds of hash tables, names of sessions and jitter.
 */
#ifndef LIB_BASE_RANDOM_BYTES_H
#define LIB_BASE_RANDOM_BYTES_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Fills `out`, and never waits. True when the kernel made the bytes, by getrandom() (Linux 3.17) or
 * /dev/urandom; without both they come from clocks and addresses: different, but no secret.
 */
bool random_bytes(void *out, size_t len);

#endif
