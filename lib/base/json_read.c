#include "lib/base/json_read.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* Jansson has room for a token of this length from the beginning. */
enum { SURE_BYTES = 14 };

/* ---- the bytes of the document ---- */

struct amount {
	size_t bytes;     /* of all keys and texts */
	bool long_number; /* one may have lost a digit */
};

static unsigned hex4(const char *digits, size_t len)
{
	char text[5] = "";
	memcpy(text, digits, len < 4 ? len : 4);
	return (unsigned)strtoul(text, NULL, 16);
}

/* The second half of a pair counts with the first one. */
static size_t utf8_bytes(unsigned code)
{
	bool first_half = code >= 0xd800 && code < 0xdc00;
	bool second_half = code >= 0xdc00 && code < 0xe000;
	return code < 0x80 ? 1 : code < 0x800 ? 2 : first_half ? 4 : second_half ? 0 : 3;
}

/* Adds the text behind a quote; returns how much of the data it takes with the closing quote. */
static size_t add_text(struct amount *amount, const char *data, size_t len)
{
	size_t at = 0;
	while (at < len && data[at] != '"') {
		if (data[at] != '\\' || at + 1 >= len) {
			amount->bytes++;
			at++;
		} else if (data[at + 1] == 'u') {
			amount->bytes += utf8_bytes(hex4(data + at + 2, len - at - 2));
			at += 6;
		} else {
			amount->bytes++;
			at += 2;
		}
	}
	return at < len ? at + 1 : len;
}

static struct amount written(const char *data, size_t len)
{
	struct amount amount = { 0, false };
	for (size_t at = 0; at < len;) {
		size_t step = 1;
		if (data[at] == '"') {
			step += add_text(&amount, data + at + 1, len - at - 1);
		} else {
			while (at + step < len && strchr("+-.eE0123456789", data[at + step]) &&
				data[at + step]) {
				step++;
			}
			amount.long_number = amount.long_number || step > SURE_BYTES;
		}
		at += step;
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
		if (error && again) {
			error->text[0] = '\0';
		}
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
