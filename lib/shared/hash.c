#include "lib/shared/hash.h"

#include <string.h>

static inline uint64_t rotate(uint64_t word, unsigned bits)
{
	return word << bits | word >> (64 - bits);
}

struct sip {
	uint64_t v[4];
};

static inline void step(struct sip *sip)
{
	uint64_t *v = sip->v;
	v[0] += v[1];
	v[2] += v[3];
	v[1] = rotate(v[1], 13) ^ v[0];
	v[3] = rotate(v[3], 16) ^ v[2];
	v[0] = rotate(v[0], 32) + v[3];
	v[2] += v[1];
	v[3] = rotate(v[3], 21) ^ v[0];
	v[1] = rotate(v[1], 17) ^ v[2];
	v[2] = rotate(v[2], 32);
}

static inline void take(struct sip *sip, uint64_t word)
{
	sip->v[3] ^= word;
	step(sip);
	sip->v[0] ^= word;
}

/* Up to 8 bytes, the first one lowest. */
static inline uint64_t little_endian(const unsigned char *bytes, size_t len)
{
	uint64_t word = 0;
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
	memcpy(&word, bytes, len);
#else
	for (size_t i = 0; i < len; i++) {
		word |= (uint64_t)bytes[i] << (8 * i);
	}
#endif
	return word;
}

uint64_t shared_hash(const uint64_t key[2], const void *data, size_t len)
{
	const unsigned char *at = data;
	const uint64_t length_byte = (uint64_t)len << 56;
	struct sip sip = { { key[0] ^ UINT64_C(0x736f6d6570736575),
		key[1] ^ UINT64_C(0x646f72616e646f6d), key[0] ^ UINT64_C(0x6c7967656e657261),
		key[1] ^ UINT64_C(0x7465646279746573) } };
	for (; len >= 8; len -= 8, at += 8) {
		take(&sip, little_endian(at, 8));
	}
	take(&sip, length_byte | little_endian(at, len));
	sip.v[2] ^= 0xff;
	for (int i = 0; i < 3; i++) {
		step(&sip);
	}
	uint64_t hash = sip.v[0] ^ sip.v[1] ^ sip.v[2] ^ sip.v[3];
	return hash ? hash : 1;
}
