#include "lib/base/quote.h"

#include <stdio.h>
#include <string.h>

/* The closing quote, the ellipsis and the NUL. */
enum { TAIL_BYTES = 5, LONGEST_ESCAPE_BYTES = 5 };

/* The length of the valid UTF-8 character at `data`, 0 when there is none. */
static size_t utf8_character_len(const unsigned char *data, size_t len)
{
	static const struct {
		unsigned char first, last; /* of the leading byte */
		size_t len;
		unsigned char second_first,
			second_last; /* leaves out overlong forms and surrogates */
	} forms[] = {
		{ 0x00, 0x7f, 1, 0, 0 },
		{ 0xc2, 0xdf, 2, 0x80, 0xbf },
		{ 0xe0, 0xe0, 3, 0xa0, 0xbf },
		{ 0xe1, 0xec, 3, 0x80, 0xbf },
		{ 0xed, 0xed, 3, 0x80, 0x9f },
		{ 0xee, 0xef, 3, 0x80, 0xbf },
		{ 0xf0, 0xf0, 4, 0x90, 0xbf },
		{ 0xf1, 0xf3, 4, 0x80, 0xbf },
		{ 0xf4, 0xf4, 4, 0x80, 0x8f },
	};
	for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
		if (data[0] < forms[i].first || data[0] > forms[i].last) {
			continue;
		}
		if (forms[i].len > len) {
			return 0;
		}
		if (forms[i].len > 1 &&
			(data[1] < forms[i].second_first || data[1] > forms[i].second_last)) {
			return 0;
		}
		for (size_t at = 2; at < forms[i].len; at++) {
			if (data[at] < 0x80 || data[at] > 0xbf) {
				return 0;
			}
		}
		return forms[i].len;
	}
	return 0;
}

/* Writes the next character of `data`, escaped, and returns how many bytes of `data` it was. */
static size_t escape(char out[LONGEST_ESCAPE_BYTES], const char *data, size_t len)
{
	unsigned char byte = (unsigned char)data[0];
	size_t character_len = utf8_character_len((const unsigned char *)data, len);
	if (character_len == 0 || byte < 0x20 || byte == 0x7f) {
		snprintf(out, LONGEST_ESCAPE_BYTES, "\\x%02x", byte);
		return 1;
	}
	/* U+0080 to U+009F: control characters too, and some terminals obey them. */
	if (byte == 0xc2 && (unsigned char)data[1] < 0xa0) {
		snprintf(out, LONGEST_ESCAPE_BYTES, "\\x%02x", byte);
		return 1;
	}
	size_t used = 0;
	if (byte == '"' || byte == '\\') {
		out[used++] = '\\';
	}
	memcpy(out + used, data, character_len);
	out[used + character_len] = '\0';
	return character_len;
}

struct quoted quote(const char *data, size_t len)
{
	struct quoted quoted;
	size_t used = 0;
	size_t at = 0;
	quoted.text[used++] = '"';
	while (at < len) {
		char escaped[LONGEST_ESCAPE_BYTES];
		size_t character_len = escape(escaped, data + at, len - at);
		size_t escaped_len = strlen(escaped);
		if (used + escaped_len + TAIL_BYTES > sizeof(quoted.text)) {
			break;
		}
		memcpy(quoted.text + used, escaped, escaped_len);
		used += escaped_len;
		at += character_len;
	}
	snprintf(quoted.text + used, sizeof(quoted.text) - used, at < len ? "\"…" : "\"");
	return quoted;
}

struct quoted quote_text(const char *text)
{
	return quote(text, strlen(text));
}
