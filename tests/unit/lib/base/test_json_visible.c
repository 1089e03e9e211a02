#include <criterion/criterion.h>

#include <string.h>

#include "lib/base/json_visible.h"

static void check(const char *json, const char *wanted)
{
	struct buffer out;
	buffer_init(&out, 1000);
	json_append_visible(&out, json, strlen(json));
	cr_assert_str_eq(buffer_text(&out), wanted);
	cr_assert_eq(json_has_hidden(json, strlen(json)), strcmp(json, wanted) != 0);
	buffer_finish(&out);
}

Test(json_visible, text_without_such_characters_is_as_it_was)
{
	check("", "");
	check("{\"a\": \"\u00e9 \u20ac \u0661 \U0001f600\\n\"}",
		"{\"a\": \"\u00e9 \u20ac \u0661 \U0001f600\\n\"}");
}

Test(json_visible, controls_and_marks_become_escapes)
{
	check("\"\x7f\"", "\"\\u007f\"");
	check("\"\xc2\x80\xc2\x9f\xc2\xa0\"", "\"\\u0080\\u009f\xc2\xa0\"");
	check("\"\u061c\u200e\u200f\u2010\"", "\"\\u061c\\u200e\\u200f\u2010\"");
	check("\"\u2028\u202e\u202f\"", "\"\\u2028\\u202e\u202f\"");
	check("\"\u2065\u2066\u2069\u206a\"", "\"\u2065\\u2066\\u2069\u206a\"");
}

Test(json_visible, bytes_cut_off_at_the_end_are_left_alone)
{
	check("\xc2", "\xc2");
	check("\xe2\x80", "\xe2\x80");
}
