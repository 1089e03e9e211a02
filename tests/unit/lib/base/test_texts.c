/* Texts: durations, words that are alike, quotes, lengths, UTF-8. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <criterion/parameterized.h>
#include <stdint.h>
#include <string.h>
#include <wchar.h>

#include "lib/base/array.h"
#include "lib/base/duration.h"
#include "lib/base/nearest.h"
#include "lib/base/quote.h"
#include "lib/base/text.h"
#include "lib/base/utf8.h"
struct row {
	char text[32];
	int64_t ms; /* -1: refused */
};

ParameterizedTestParameters(duration, is_a_whole_number_and_its_unit)
{
	static struct row rows[] = { { "0s", 0 }, { "0ms", 0 }, { "1ms", 1 }, { "500ms", 500 },
		{ "30s", 30000 }, { "2m", 120000 }, { "1h", 3600000 }, { "7d", 604800000 },
		{ "007s", 7000 }, { "9223372036854775807ms", INT64_MAX }, { "", -1 }, { "30", -1 },
		{ "s", -1 }, { "1.5h", -1 }, { "-1s", -1 }, { "+1s", -1 }, { " 1s", -1 },
		{ "1 s", -1 }, { "1s ", -1 }, { "1S", -1 }, { "1w", -1 }, { "1h30m", -1 },
		{ "0x10s", -1 }, { "9223372036854775808ms", -1 }, { "9223372036854775807d", -1 },
		{ "99999999999999999999s", -1 } };
	return cr_make_param_array(struct row, rows, ARRAY_LEN(rows));
}

ParameterizedTest(struct row *row, duration, is_a_whole_number_and_its_unit)
{
	int64_t ms = -1;
	bool good = duration_parse(row->text, &ms);
	cr_assert(eq(int, good, row->ms >= 0), "%s", row->text);
	cr_assert(eq(i64, ms, row->ms), "%s", row->text);
}

ParameterizedTestParameters(duration, is_written_in_the_largest_unit_without_a_fraction)
{
	static struct row rows[] = { { "0s", 0 }, { "1ms", 1 }, { "1500ms", 1500 },
		{ "90s", 90000 }, { "36h", 129600000 }, { "2d", 172800000 },
		{ "9223372036854775807ms", INT64_MAX } };
	return cr_make_param_array(struct row, rows, ARRAY_LEN(rows));
}

ParameterizedTest(struct row *row, duration, is_written_in_the_largest_unit_without_a_fraction)
{
	char text[DURATION_TEXT_BYTES];
	duration_format(text, row->ms);
	cr_assert(eq(str, text, row->text));
}
static size_t distance(const char *word, const char *known)
{
	return nearest_distance(word, strlen(word), known);
}

Test(nearest, counts_the_changes_between_two_words)
{
	cr_assert(eq(sz, distance("address", "address"), 0));
	cr_assert(eq(sz, distance("ADDRESS", "address"), 0), "letter case costs nothing");
	cr_assert(eq(sz, distance("adrress", "address"), 2), "a replacement");
	cr_assert(eq(sz, distance("adderss", "address"), 2), "two neighbours swapped");
	cr_assert(eq(sz, distance("adress", "address"), 3), "a letter lost");
	cr_assert(eq(sz, distance("addressx", "address"), 3), "a letter too many");
	cr_assert(eq(sz, distance("", "abc"), 7));
}

Test(nearest, looks_at_no_more_than_the_length_that_is_given)
{
	cr_assert(eq(sz, nearest_distance("address.2", 7, "address"), 0));
}

Test(nearest, looks_at_the_beginning_of_endless_words_only)
{
	char word[1000];
	memset(word, 'a', sizeof(word) - 1);
	word[sizeof(word) - 1] = '\0';
	cr_assert(eq(sz, distance(word, word), 0));
	cr_assert_gt(distance(word, "b"), 100);
}

Test(nearest, a_word_is_close_when_about_half_of_it_is_right)
{
	cr_assert(nearest_is_close(distance("statsu", "status"), 6));
	cr_assert(not(nearest_is_close(distance("version", "drain"), 7)));
	cr_assert(not(nearest_is_close(distance("xyz", "status"), 3)));
}
TestSuite(quote);

struct example {
	char bytes[16];
	size_t len;
	char quoted[48];
};

ParameterizedTestParameters(quote, escapes)
{
	static struct example examples[] = {
		{ "", 0, "\"\"" }, { "plain text", 10, "\"plain text\"" },
		{ "a\"b\\c", 5, "\"a\\\"b\\\\c\"" }, { "a\nb\tc\x7f", 6, "\"a\\x0ab\\x09c\\x7f\"" },
		{ "a\0b", 3, "\"a\\x00b\"" }, { "\xe2\x82\xac", 3, "\"\xe2\x82\xac\"" },
		{ "\xf0\x9f\x9a\xa2", 4, "\"\xf0\x9f\x9a\xa2\"" },
		{ "\xe2\x82", 2, "\"\\xe2\\x82\"" }, /* cut off */
		{ "a\u20ac", 3, "\"a\\xe2\\x82\"" },
		{ "\xc0\xaf", 2, "\"\\xc0\\xaf\"" }, /* overlong / */
		{ "\xe0\x80\xaf", 3, "\"\\xe0\\x80\\xaf\"" },
		{ "\xed\xa0\x80", 3, "\"\\xed\\xa0\\x80\"" },          /* a surrogate */
		{ "\xf4\x90\x80\x80", 4, "\"\\xf4\\x90\\x80\\x80\"" }, /* beyond Unicode */
		{ "\xe2\x28\xa1", 3, "\"\\xe2(\\xa1\"" },
		{ "\xc2\x9b"
		  "31m",
			5, "\"\\xc2\\x9b31m\"" },       /* a terminal's control sequence */
		{ "\u202e", 3, "\"\\xe2\\x80\\xae\"" }, /* text runs backwards */
	};
	return cr_make_param_array(struct example, examples, ARRAY_LEN(examples));
}

ParameterizedTest(struct example *example, quote, escapes)
{
	cr_assert_str_eq(quote(example->bytes, example->len).text, example->quoted);
}

Test(quote, cuts_long_text_between_characters_and_says_so)
{
	char text[3 * 200 + 1] = "";
	for (int i = 0; i < 200; i++) {
		strcat(text, "\xe2\x82\xac");
	}
	struct quoted quoted = quote_text(text);
	size_t len = strlen(quoted.text);
	cr_assert_lt(len, sizeof(quoted.text));
	const char *tail = "\xe2\x82\xac\"\xe2\x80\xa6";
	cr_assert_str_eq(quoted.text + len - strlen(tail), tail);
}

Test(quote, keeps_text_that_just_fits)
{
	/* The quotes, an ellipsis and the NUL. */
	const size_t most = sizeof(struct quoted) - 6;
	for (size_t len = 140; len < sizeof(struct quoted) + 10; len++) {
		char text[sizeof(struct quoted) + 10];
		memset(text, 'x', len);
		struct quoted quoted = quote(text, len);
		bool is_whole = len <= most;
		cr_assert_eq(strlen(quoted.text), is_whole ? len + 2 : most + 5);
		cr_assert_eq(!strstr(quoted.text, "\xe2\x80\xa6"), is_whole);
	}
}
Test(text, text_that_fits_is_unchanged)
{
	char out[16];
	text_printf(out, sizeof(out), "%s %d", "héllo", 1);
	cr_assert(eq(str, out, "héllo 1"));
	text_printf(out, sizeof(out), "a\xc3");
	cr_assert(eq(str, out, "a\xc3"), "also where it was cut before");
}

/* Every cut of a text with characters of one to four bytes ends at the end of a character. */
Test(text, text_that_does_not_fit_is_cut_between_characters)
{
	static const char text[] = "aé€😀z";
	static const size_t ends[] = { 0, 1, 1, 3, 3, 3, 6, 6, 6, 6, 10, 11 };
	for (size_t room = 1; room <= strlen(text) + 1; room++) {
		char out[sizeof(text)];
		text_printf(out, room, "%s", text);
		cr_assert(eq(sz, strlen(out), ends[room - 1]), "room for %zu", room);
		cr_assert(eq(int, strncmp(out, text, strlen(out)), 0));
	}
}

Test(text, text_that_cannot_be_printed_is_empty)
{
	char out[] = "before";
	text_printf(out, sizeof(out), "ab%lc",
		(wint_t)0x20ac); /* the locale "C" has no such character */
	cr_assert(eq(str, out, ""));
}

/*
 * ---- utf8: writes the code point as UTF-8 would, in `len` bytes, and returns whether that is
 * its right form.
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
