#include "lib/base/json_visible.h"

#include <string.h>

#include "lib/base/utf8.h"

/*
 * The hidden character at this place and the number of its bytes; 0 bytes: the character is
 * visible.
 */
static size_t hidden_at(const unsigned char *at, size_t left, unsigned *ret_character)
{
	if (at[0] == 0x7f) {
		*ret_character = 0x7f;
		return 1;
	}
	if (left >= 2 && (at[0] == 0xc2 || at[0] == 0xd8)) {
		*ret_character = (at[0] & 0x1fu) << 6 | (at[1] & 0x3fu);
		return (*ret_character >= 0x80 && *ret_character <= 0x9f) || *ret_character == 0x61c
			? 2
			: 0;
	}
	if (left >= 3 && at[0] == 0xe2) {
		*ret_character = 0x2000 | (at[1] & 0x3fu) << 6 | (at[2] & 0x3fu);
		bool marks = *ret_character == 0x200e || *ret_character == 0x200f;
		bool lines = *ret_character >= 0x2028 && *ret_character <= 0x202e;
		bool isolates = *ret_character >= 0x2066 && *ret_character <= 0x2069;
		return marks || lines || isolates ? 3 : 0;
	}
	return 0;
}

/* All of them begin with one of these bytes. */
static bool is_candidate(unsigned char byte)
{
	return byte == 0x7f || byte == 0xc2 || byte == 0xd8 || byte == 0xe2;
}

/* The first hidden character from `at` on, or `len`. */
static size_t next_hidden(
	const char *json, size_t at, size_t len, size_t *ret_bytes, unsigned *ret_character)
{
	const unsigned char *bytes = (const unsigned char *)json;
	for (; at < len; at++) {
		if (is_candidate(bytes[at]) &&
			(*ret_bytes = hidden_at(bytes + at, len - at, ret_character)) > 0) {
			break;
		}
	}
	return at;
}

bool json_has_hidden(const char *json, size_t len)
{
	size_t bytes;
	unsigned character;
	return next_hidden(json, 0, len, &bytes, &character) < len;
}

void json_append_visible(struct buffer *out, const char *json, size_t len)
{
	size_t at = 0;
	size_t bytes;
	unsigned character;
	for (size_t end; (end = next_hidden(json, at, len, &bytes, &character)) < len;
		at = end + bytes) {
		buffer_append(out, json + at, end - at);
		buffer_printf(out, "\\u%04x", character);
	}
	buffer_append(out, json + at, len - at);
}

void json_make_visible(struct buffer *buffer, size_t start)
{
	const char *json = buffer_text(buffer) + start;
	if (buffer->failed || !json_has_hidden(json, buffer->len - start)) {
		return;
	}
	struct buffer visible;
	buffer_init(&visible, buffer->max);
	json_append_visible(&visible, json, buffer->len - start);
	buffer->len = start;
	buffer_append(buffer, buffer_text(&visible), visible.len);
	buffer->failed = buffer->failed || visible.failed;
	buffer_finish(&visible);
}

/* The length of an escape of a C0 control; 0 for another text. */
static size_t control_escape_len(const char *at, size_t left)
{
	if (left < 2 || at[0] != '\\') {
		return 0;
	}
	return strchr("bfnrt", at[1]) ? 2 : at[1] == 'u' ? 6 : 0;
}

void json_append_harmless(struct buffer *out, const char *json, size_t len)
{
	static const char replacement[] = "\\ufffd";
	size_t bytes;
	unsigned character;
	for (size_t at = 0; at < len; at += bytes) {
		bytes = control_escape_len(json + at, len - at);
		if (bytes == 0) {
			bytes = hidden_at((const unsigned char *)json + at, len - at, &character);
		}
		if (bytes > 0) {
			buffer_append_text(out, replacement);
			continue;
		}
		bytes = json[at] == '\\' && len - at > 1 ? 2 : 1;
		buffer_append(out, json + at, bytes);
	}
}

static void append_byte(struct buffer *out, unsigned char byte, bool quotes)
{
	if (quotes && (byte == '"' || byte == '\\')) {
		buffer_printf(out, "\\%c", byte);
	} else if (byte == '\n') {
		buffer_append_text(out, "\\n");
	} else if (byte == '\t') {
		buffer_append_text(out, "\\t");
	} else if (byte < 0x20 || byte == 0x7f) {
		buffer_printf(out, "\\u%04x", byte);
	} else {
		buffer_append(out, &byte, 1);
	}
}

void text_append_visible(struct buffer *out, const char *text, bool quotes, size_t spare)
{
	size_t left = strlen(text);
	while (left > 0 && out->len + spare < out->max) {
		size_t len = utf8_character_len(text, left);
		if (len == 0 || len > left) {
			buffer_append_text(out, "?");
			len = 1;
		} else if (len == 1) {
			append_byte(out, (unsigned char)*text, quotes);
		} else {
			json_append_visible(out, text, len);
		}
		text += len;
		left -= len;
	}
}

bool text_has_hidden(const char *text, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		if ((unsigned char)text[i] < ' ') {
			return true;
		}
	}
	return json_has_hidden(text, len);
}
