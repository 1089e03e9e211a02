/* SHA-1 after FIPS 180-4 section 6.1, base64 after RFC 4648 section 4. */
#include "lib/registry/digest.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK_BYTES = 64, HASH_BYTES = 20 };

static uint32_t rotate(uint32_t value, unsigned bits)
{
	return value << bits | value >> (32 - bits);
}

static void add_block(uint32_t hash[5], const unsigned char block[BLOCK_BYTES])
{
	uint32_t w[80];
	for (size_t t = 0; t < 16; t++) {
		const unsigned char *word = block + 4 * t;
		w[t] = (uint32_t)word[0] << 24 | (uint32_t)word[1] << 16 | (uint32_t)word[2] << 8 |
			word[3];
	}
	for (size_t t = 16; t < 80; t++) {
		w[t] = rotate(w[t - 3] ^ w[t - 8] ^ w[t - 14] ^ w[t - 16], 1);
	}
	uint32_t a = hash[0];
	uint32_t b = hash[1];
	uint32_t c = hash[2];
	uint32_t d = hash[3];
	uint32_t e = hash[4];
	for (size_t t = 0; t < 80; t++) {
		uint32_t f = t < 20 ? ((b & c) ^ (~b & d))
			: t < 40    ? (b ^ c ^ d)
			: t < 60    ? ((b & c) ^ (b & d) ^ (c & d))
				    : (b ^ c ^ d);
		static const uint32_t k[] = { 0x5a827999, 0x6ed9eba1, 0x8f1bbcdc, 0xca62c1d6 };
		uint32_t next = rotate(a, 5) + f + e + k[t / 20] + w[t];
		e = d;
		d = c;
		c = rotate(b, 30);
		b = a;
		a = next;
	}
	hash[0] += a;
	hash[1] += b;
	hash[2] += c;
	hash[3] += d;
	hash[4] += e;
}

static void sha1(unsigned char out[HASH_BYTES], const unsigned char *data, size_t len)
{
	uint32_t hash[5] = { 0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0 };
	size_t whole = len - len % BLOCK_BYTES;
	for (size_t at = 0; at < whole; at += BLOCK_BYTES) {
		add_block(hash, data + at);
	}
	unsigned char last[2 * BLOCK_BYTES] = { 0 };
	size_t rest = len - whole;
	memcpy(last, data + whole, rest);
	last[rest] = 0x80;
	size_t last_len = rest + 1 + 8 <= BLOCK_BYTES ? BLOCK_BYTES : 2 * BLOCK_BYTES;
	for (size_t i = 0; i < 8; i++) {
		last[last_len - 1 - i] = (unsigned char)((uint64_t)len * 8 >> 8 * i);
	}
	for (size_t at = 0; at < last_len; at += BLOCK_BYTES) {
		add_block(hash, last + at);
	}
	for (size_t i = 0; i < HASH_BYTES; i++) {
		out[i] = (unsigned char)(hash[i / 4] >> (24 - 8 * (i % 4)));
	}
	explicit_bzero(last, sizeof(last));
}

/* 20 bytes are six groups of three and one of two. */
static void base64(char out[REGISTRY_DIGEST_SIZE], const unsigned char hash[HASH_BYTES])
{
	static const char digits[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	for (size_t i = 0; i < HASH_BYTES; i += 3) {
		uint32_t group = (uint32_t)hash[i] << 16 | (uint32_t)hash[i + 1] << 8;
		if (i + 2 < HASH_BYTES) {
			group |= hash[i + 2];
		}
		for (unsigned n = 0; n < 4; n++) {
			*out++ = digits[group >> (18 - 6 * n) & 63];
		}
	}
	out[-1] = '=';
	*out = '\0';
}

int registry_digest(char out[REGISTRY_DIGEST_SIZE], const char *user, const char *password)
{
	char *text = NULL;
	int len = asprintf(&text, "%s:%s", user, password);
	if (len < 0) {
		return -1;
	}
	unsigned char hash[HASH_BYTES];
	sha1(hash, (const unsigned char *)text, (size_t)len);
	base64(out, hash);
	explicit_bzero(text, (size_t)len);
	free(text);
	return 0;
}
