#include "agent/base/holder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/allocate.h"
#include "lib/base/random_bytes.h"
#include "lib/base/sha256.h"

static bool is_hexadecimal(const char *text, size_t len)
{
	return strlen(text) == len && strspn(text, "0123456789abcdef") == len;
}

void holder_init(struct holder *holder)
{
	unsigned char bytes[SHA256_BYTES];
	holder->secret[0] = '\0';
	if (random_bytes(bytes, sizeof(bytes))) {
		sha256_hex(holder->secret, bytes, sizeof(bytes));
	}
}

bool holder_take(struct holder *holder, const char *secret)
{
	bool good = is_hexadecimal(secret, HOLDER_SECRET_SIZE - 1);
	if (good) {
		memcpy(holder->secret, secret, HOLDER_SECRET_SIZE);
	}
	return good;
}

void holder_key(const struct holder *holder, const char *path, char key[HOLDER_KEY_SIZE])
{
	key[0] = '\0';
	if (holder && *holder->secret) {
		char *text = allocate_format("berth key %s %s", holder->secret, path);
		sha256_hex(key, text, strlen(text));
		free(text);
	}
}

void holder_mark(const char *key, char mark[HOLDER_MARK_SIZE])
{
	char hash[SHA256_HEX_SIZE] = "";
	if (is_hexadecimal(key, HOLDER_KEY_SIZE - 1)) {
		sha256_hex(hash, key, strlen(key));
	}
	snprintf(mark, HOLDER_MARK_SIZE, "%.*s", HOLDER_MARK_SIZE - 1, hash);
}

void holder_attribute_make(struct holder_attribute *attribute, const struct holder *holder,
	const char *path, enum holder_use use)
{
	char key[HOLDER_KEY_SIZE];
	holder_key(holder, path, key);
	attribute->name = NULL;
	if (!*key || use == HOLDER_UNUSED) {
		return;
	}
	if (use == HOLDER_FOR_ALL) {
		attribute->name = HOLDER_MARK;
		holder_mark(key, attribute->value);
	} else {
		attribute->name = HOLDER_KEY;
		memcpy(attribute->value, key, sizeof(key));
	}
}
