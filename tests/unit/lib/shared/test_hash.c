/*
 * Key 00 01 … 0f, data 00 01 … of the length. The values are those of docs/examples/shared.py. It
 * agrees with CPython, whose hash of bytes under PYTHONHASHSEED=0 is SipHash-1-3 with a key of 0.
 */
#include "lib/base/array.h"
#include "lib/shared/hash.h"

#include <criterion/criterion.h>

Test(shared_hash, is_siphash_1_3)
{
	static const uint64_t key[2] = { UINT64_C(0x0706050403020100),
		UINT64_C(0x0f0e0d0c0b0a0908) };
	static const struct {
		size_t len;
		uint64_t hash;
	} vectors[] = {
		{ 0, UINT64_C(0xabac0158050fc4dc) },
		{ 1, UINT64_C(0xc9f49bf37d57ca93) },
		{ 7, UINT64_C(0xd3927d989bb11140) },
		{ 8, UINT64_C(0x369095118d299a8e) },
		{ 15, UINT64_C(0xd320d86d2a519956) },
	};
	unsigned char data[64];
	for (size_t i = 0; i < sizeof(data); i++) {
		data[i] = (unsigned char)i;
	}
	for (size_t i = 0; i < ARRAY_LEN(vectors); i++) {
		cr_expect_eq(shared_hash(key, data, vectors[i].len), vectors[i].hash, "%zu: %llx",
			vectors[i].len, (unsigned long long)shared_hash(key, data, vectors[i].len));
	}
}
