#include "lib/base/sha256.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { BLOCK_BYTES = 64, LENGTH_BYTES = 8, WORDS = 8, ROUNDS = 64 };

/* The first bits of the cube roots of the first primes. */
static const uint32_t constants[ROUNDS] = { 0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5,
	0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be,
	0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786,
	0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da, 0x983e5152,
	0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
	0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e,
	0x92722c85, 0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624,
	0xf40e3585, 0x106aa070, 0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3,
	0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208,
	0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2 };

static uint32_t turn(uint32_t word, int bits)
{
	return word >> bits | word << (32 - bits);
}

static void schedule(uint32_t words[ROUNDS], const unsigned char block[BLOCK_BYTES])
{
	for (int i = 0; i < BLOCK_BYTES / 4; i++) {
		words[i] = (uint32_t)block[4 * i] << 24 | (uint32_t)block[4 * i + 1] << 16 |
			(uint32_t)block[4 * i + 2] << 8 | block[4 * i + 3];
	}
	for (int i = BLOCK_BYTES / 4; i < ROUNDS; i++) {
		uint32_t near = words[i - 2];
		uint32_t far = words[i - 15];
		words[i] = words[i - 16] + (turn(far, 7) ^ turn(far, 18) ^ far >> 3) +
			words[i - 7] + (turn(near, 17) ^ turn(near, 19) ^ near >> 10);
	}
}

static void add_block(uint32_t state[WORDS], const unsigned char block[BLOCK_BYTES])
{
	uint32_t words[ROUNDS];
	uint32_t at[WORDS];
	schedule(words, block);
	memcpy(at, state, sizeof(at));
	for (int i = 0; i < ROUNDS; i++) {
		uint32_t choice = (at[4] & at[5]) ^ (~at[4] & at[6]);
		uint32_t majority = (at[0] & at[1]) ^ (at[0] & at[2]) ^ (at[1] & at[2]);
		uint32_t first = at[7] + (turn(at[4], 6) ^ turn(at[4], 11) ^ turn(at[4], 25)) +
			choice + constants[i] + words[i];
		uint32_t second = (turn(at[0], 2) ^ turn(at[0], 13) ^ turn(at[0], 22)) + majority;
		memmove(at + 1, at, (WORDS - 1) * sizeof(at[0]));
		at[4] += first;
		at[0] = first + second;
	}
	for (int i = 0; i < WORDS; i++) {
		state[i] += at[i];
	}
}

void sha256(unsigned char out[SHA256_BYTES], const void *data, size_t len)
{
	/* Of the square roots of the first primes. */
	uint32_t state[WORDS] = { 0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f,
		0x9b05688c, 0x1f83d9ab, 0x5be0cd19 };
	const unsigned char *at = data;
	size_t left = len;
	for (; left >= BLOCK_BYTES; left -= BLOCK_BYTES, at += BLOCK_BYTES) {
		add_block(state, at);
	}
	unsigned char block[BLOCK_BYTES] = { 0 };
	if (left > 0) {
		memcpy(block, at, left);
	}
	block[left] = 0x80;
	if (left >= BLOCK_BYTES - LENGTH_BYTES) {
		add_block(state, block);
		memset(block, 0, sizeof(block));
	}
	uint64_t bits = (uint64_t)len * 8;
	for (int i = 0; i < LENGTH_BYTES; i++) {
		block[BLOCK_BYTES - 1 - i] = (unsigned char)(bits >> 8 * i);
	}
	add_block(state, block);
	for (int i = 0; i < SHA256_BYTES; i++) {
		out[i] = (unsigned char)(state[i / 4] >> (24 - 8 * (i % 4)));
	}
}

void sha256_hex(char out[SHA256_HEX_SIZE], const void *data, size_t len)
{
	unsigned char hash[SHA256_BYTES];
	sha256(hash, data, len);
	for (int i = 0; i < SHA256_BYTES; i++) {
		snprintf(out + 2 * i, 3, "%02x", hash[i]);
	}
}
