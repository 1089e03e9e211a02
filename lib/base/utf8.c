#include "lib/base/utf8.h"

#include <string.h>

#include "lib/base/array.h"

/* RFC 3629, section 4. The range of the second byte leaves out overlong forms and surrogates. */
static const struct {
	unsigned char lead_first, lead_last;
	unsigned char second_first, second_last;
	size_t len;
} forms[] = {
	{ 0x00, 0x7f, 0x00, 0x00, 1 },
	{ 0xc2, 0xdf, 0x80, 0xbf, 2 },
	{ 0xe0, 0xe0, 0xa0, 0xbf, 3 },
	{ 0xe1, 0xec, 0x80, 0xbf, 3 },
	{ 0xed, 0xed, 0x80, 0x9f, 3 },
	{ 0xee, 0xef, 0x80, 0xbf, 3 },
	{ 0xf0, 0xf0, 0x90, 0xbf, 4 },
	{ 0xf1, 0xf3, 0x80, 0xbf, 4 },
	{ 0xf4, 0xf4, 0x80, 0x8f, 4 },
};

size_t utf8_character_len(const char *text, size_t len)
{
	const unsigned char *bytes = (const unsigned char *)text;
	size_t form = 0;
	while (form < ARRAY_LEN(forms) && bytes[0] > forms[form].lead_last) {
		form++;
	}
	if (form == ARRAY_LEN(forms) || bytes[0] < forms[form].lead_first) {
		return 0;
	}
	for (size_t at = 1; at < forms[form].len && at < len; at++) {
		unsigned char first = at == 1 ? forms[form].second_first : 0x80;
		unsigned char last = at == 1 ? forms[form].second_last : 0xbf;
		if (bytes[at] < first || bytes[at] > last) {
			return 0;
		}
	}
	return forms[form].len;
}

bool utf8_is_valid(const char *text, size_t len)
{
	while (len > 0) {
		size_t character_len = utf8_character_len(text, len);
		if (character_len == 0 || character_len > len) {
			return false;
		}
		text += character_len;
		len -= character_len;
	}
	return true;
}

void utf8_copy_valid(char *out, const char *text, size_t len, bool cut)
{
	size_t used = 0;
	while (used < len) {
		size_t character_len = utf8_character_len(text + used, len - used);
		if (character_len > len - used && cut) {
			break;
		}
		if (character_len == 0 || character_len > len - used || text[used] == '\0') {
			out[used++] = '?';
			continue;
		}
		memmove(out + used, text + used, character_len);
		used += character_len;
	}
	out[used] = '\0';
}

const char *utf8_skip_mark(const char *text)
{
	static const char mark[] = "\xef\xbb\xbf";
	return strncmp(text, mark, strlen(mark)) == 0 ? text + strlen(mark) : text;
}
