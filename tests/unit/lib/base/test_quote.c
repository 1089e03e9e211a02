#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <string.h>

#include "lib/base/array.h"
#include "lib/base/quote.h"

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
