/*
 * SHA-256 (FIPS 180-4), for marks by which the owner of a secret knows his own, and that tell
 * nobody the secret.
 */
#ifndef LIB_BASE_SHA256_H
#define LIB_BASE_SHA256_H

#include <stddef.h>

enum { SHA256_BYTES = 32, SHA256_HEX_SIZE = 2 * SHA256_BYTES + 1 };

void sha256(unsigned char out[SHA256_BYTES], const void *data, size_t len);
/* The same as text: lower-case hexadecimal digits and a NUL. */
void sha256_hex(char out[SHA256_HEX_SIZE], const void *data, size_t len);

#endif
