#include "lib/base/quote.h"

#include <stdio.h>
#include <string.h>

#include "lib/base/json_visible.h"
#include "lib/base/utf8.h"

/* The closing quote, the ellipsis and the NUL. */
enum { TAIL_BYTES = 5, LONGEST_ESCAPE_BYTES = 5 };

/* Writes the next character of `data`, escaped, and returns how many bytes of `data` it was. */
static size_t escape(char out[LONGEST_ESCAPE_BYTES], const char *data, size_t len)
{
	unsigned char byte = (unsigned char)data[0];
	size_t character_len = utf8_character_len(data, len);
	if (character_len == 0 || character_len > len || text_has_hidden(data, character_len)) {
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
