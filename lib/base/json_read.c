#include "lib/base/json_read.h"

#include <stdbool.h>
#include <string.h>

#include "lib/base/hex.h"

/* Jansson has room for a token of this length from the beginning. */
enum { SURE_BYTES = 14 };

/* ---- the bytes of a document that jansson has read, so that it is valid ---- */

struct amount {
	size_t bytes;     /* of all keys and texts */
	bool long_number; /* one may have lost a digit */
};

/* The second half of a pair counts with the first one. */
static size_t utf8_bytes(unsigned code)
{
	bool first_half = code >= 0xd800 && code < 0xdc00;
	bool second_half = code >= 0xdc00 && code < 0xe000;
	return code < 0x80 ? 1 : code < 0x800 ? 2 : first_half ? 4 : second_half ? 0 : 3;
}

/* Adds the text behind a quote; returns what is behind the closing one. */
static const char *add_text(struct amount *amount, const char *at)
{
	while (*at != '"') {
		if (*at != '\\') {
			amount->bytes++;
			at++;
		} else if (at[1] == 'u') {
			unsigned code = (unsigned)(hex_byte(at + 2) << 8 | hex_byte(at + 4));
			amount->bytes += utf8_bytes(code);
			at += 6;
		} else {
			amount->bytes++;
			at += 2;
		}
	}
	return at + 1;
}

static struct amount written(const char *data, size_t len)
{
	struct amount amount = { 0, false };
	const char *end = data + len;
	for (const char *at = data; at < end;) {
		const char *begin = at++;
		if (*begin == '"') {
			at = add_text(&amount, at);
			continue;
		}
		while (at < end && strchr("+-.eE0123456789", *at)) {
			at++;
		}
		amount.long_number = amount.long_number || at - begin > SURE_BYTES;
	}
	return amount;
}

/* As deep as the document is. */
static size_t bytes_of(const json_t *json)
{
	size_t bytes = json_string_length(json);
	const char *key;
	json_t *value;
	size_t index;
	json_object_foreach ((json_t *)json, key, value) {
		bytes += strlen(key) + bytes_of(value);
	}
	json_array_foreach (json, index, value) {
		bytes += bytes_of(value);
	}
	return bytes;
}

/* ---- reading ---- */

/* False for a document with a key that is there twice, too, although it is whole. */
static bool is_surely_whole(const json_t *json, const char *data, size_t len)
{
	struct amount amount = written(data, len);
	return !amount.long_number && amount.bytes == bytes_of(json);
}

json_t *json_read(const char *data, size_t len, size_t flags, json_error_t *error)
{
	json_t *json = json_loadb(data, len, flags, error);
	if (!json || is_surely_whole(json, data, len)) {
		return json;
	}
	json_t *again = json_loadb(data, len, flags, error);
	if (!json_equal(json, again)) {
		json_decref(json);
		json = NULL;
	}
	json_decref(again);
	return json;
}

json_t *json_read_text(const char *text, size_t flags)
{
	return json_read(text, strlen(text), flags, NULL);
}
