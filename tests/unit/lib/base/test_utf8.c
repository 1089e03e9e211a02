#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <criterion/parameterized.h>
#include <stdint.h>
#include <string.h>

#include "lib/base/array.h"
#include "lib/base/utf8.h"

/*
 * Writes the code point as UTF-8 would, in `len` bytes, and returns whether that is its right form.
 */
static bool encode(char *out, uint32_t code, size_t len)
{
	static const unsigned char leads[] = { 0, 0, 0xc0, 0xe0, 0xf0 };
	static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
	for (size_t i = len - 1; i > 0; i--) {
		out[i] = (char)(0x80 | (code & 0x3f));
		code >>= 6;
	}
	out[0] = (char)(leads[len] | code);
	uint32_t whole = code;
	for (size_t i = 1; i < len; i++) {
		whole = whole << 6 | ((unsigned char)out[i] & 0x3f);
	}
	return whole >= least[len] && !(whole >= 0xd800 && whole <= 0xdfff) && whole <= 0x10ffff;
}

Test(utf8, each_code_point_has_one_form_and_surrogates_have_none)
{
	static const uint32_t ends[] = { 0, 0x80, 0x800, 0x10000, 0x200000 };
	for (size_t len = 1; len <= 4; len++) {
		for (uint32_t code = 0; code < ends[len]; code++) {
			char text[4];
			size_t expected = encode(text, code, len) ? len : 0;
			cr_assert(eq(sz, utf8_character_len(text, len), expected),
				"U+%04X in %zu bytes", code, len);
		}
	}
}

Test(utf8, bytes_that_lead_no_character_are_none)
{
	for (int byte = 0x80; byte <= 0xff; byte++) {
		char text[5] = { (char)byte, 'a', 'a', 'a', 'a' };
		cr_assert(eq(sz, utf8_character_len(text, sizeof(text)), 0), "%02x", byte);
	}
}

Test(utf8, a_second_byte_that_goes_on_with_nothing_is_none)
{
	for (int lead = 0xc2; lead <= 0xf4; lead++) {
		for (int byte = 0x100; byte > 0xbf; byte--) {
			char text[4] = { (char)lead, (char)byte, (char)0x80, (char)0x80 };
			cr_assert(eq(sz, utf8_character_len(text, sizeof(text)), 0), "%02x %02x",
				lead, byte);
		}
	}
}

Test(utf8, a_character_that_the_data_ends_in_has_its_whole_length)
{
	static const char text[] = "€😀";
	cr_assert(eq(sz, utf8_character_len(text, 1), 3));
	cr_assert(eq(sz, utf8_character_len(text, 2), 3));
	cr_assert(eq(sz, utf8_character_len(text + 3, 3), 4));
	cr_assert(eq(sz, utf8_character_len("\xe2\x28", 2), 0),
		"but not a character that went wrong before");
	cr_assert(eq(sz, utf8_character_len("\xe2\x82\xc0", 3), 0));
	cr_assert(not(utf8_is_valid("\xff", 1)));
	cr_assert(not(utf8_is_valid(text, sizeof(text) - 2)));
	cr_assert(utf8_is_valid(text, sizeof(text) - 1));
}

struct copy {
	char text[16];
	size_t len;
	int cut;
	char copied[16];
};

ParameterizedTestParameters(utf8, a_copy_is_valid_whatever_is_copied)
{
	static struct copy rows[] = {
		{ "", 0, 0, "" },
		{ "aé€😀", 10, 0, "aé€😀" },
		{ "a\xff\x80z", 4, 0, "a??z" },
		{ "a\0b", 3, 0, "a?b" },
		{ "a\xe2\x82", 3, 0, "a??" },
		{ "a\xe2\x82", 3, 1, "a" },
		{ "a\xff\xe2", 3, 1, "a?" },
		{ "aé", 3, 1, "aé" },
		{ "\xed\xa0\x80", 3, 1, "???" },
	};
	return cr_make_param_array(struct copy, rows, ARRAY_LEN(rows));
}

ParameterizedTest(struct copy *row, utf8, a_copy_is_valid_whatever_is_copied)
{
	char out[17];
	utf8_copy_valid(out, row->text, row->len, row->cut);
	cr_assert(eq(str, out, row->copied));
	memcpy(out, row->text, row->len);
	utf8_copy_valid(out, out, row->len, row->cut);
	cr_assert(eq(str, out, row->copied), "in place");
}
