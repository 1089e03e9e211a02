#include <criterion/criterion.h>

#include <stdlib.h>
#include <string.h>

#include "lib/base/json_visible.h"

static void check(const char *json, const char *wanted)
{
	struct buffer out;
	buffer_init(&out, 1000);
	json_append_visible(&out, json, strlen(json));
	cr_assert_str_eq(buffer_text(&out), wanted);
	cr_assert_eq(out.len, strlen(wanted));
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
	check("a\x7f"
	      "bc\x7f"
	      "def",
		"a\\u007f"
		"bc\\u007f"
		"def");
	check("\"\u2028\u202e\u202f\"", "\"\\u2028\\u202e\u202f\"");
	check("\"\u2065\u2066\u2069\u206a\"", "\"\u2065\\u2066\\u2069\u206a\"");
}

Test(json_visible, bytes_cut_off_at_the_end_are_left_alone)
{
	check("\xc2", "\xc2");
	check("\xe2\x80", "\xe2\x80");
}

Test(json_visible, the_end_of_a_buffer_is_made_visible_in_place)
{
	struct buffer buffer;
	buffer_init(&buffer, 35);
	buffer_append_text(&buffer, "\"\x7f\",");
	size_t start = buffer.len;
	buffer_append_text(&buffer, "\"a\"");
	json_make_visible(&buffer, start);
	cr_assert_str_eq(buffer_text(&buffer), "\"\x7f\",\"a\"");
	buffer_append_text(&buffer, "\"\u2028\"");
	json_make_visible(&buffer, start);
	cr_assert_str_eq(buffer_text(&buffer), "\"\x7f\",\"a\"\"\\u2028\"");
	buffer_append_text(&buffer, "\u2028\u2028\u2028\u2028");
	json_make_visible(&buffer, start);
	cr_assert(buffer.failed, "the escapes have no room");
	buffer_finish(&buffer);
}

Test(json_visible, bytes_beyond_the_end_are_left_alone)
{
	char exact[] = { 'a', 'b' };
	struct buffer buffer;
	char *end = memcpy(malloc(2), exact, 2);
	cr_assert_not(json_has_hidden(end, 2));
	free(end);
	cr_assert_not(json_has_hidden("a\u2028", 3));
	buffer_init(&buffer, 1000);
	buffer_printf(&buffer, "%0250d", 0);
	json_make_visible(&buffer, 200);
	cr_assert_eq(buffer.len, 250);
	buffer_finish(&buffer);
}

static void check_harmless(const char *json, const char *wanted)
{
	struct buffer out;
	buffer_init(&out, 1000);
	json_append_harmless(&out, json, strlen(json));
	cr_assert_str_eq(buffer_text(&out), wanted);
	cr_assert_eq(out.len, strlen(wanted));
	buffer_finish(&out);
}

Test(json_visible, values_that_programs_print_into_lines_have_replacement_characters)
{
	check_harmless("", "");
	check_harmless("\"\u00e9 \\\"x\\\\n\"", "\"\u00e9 \\\"x\\\\n\"");
	check_harmless("\"a\\nb\\r\\t\\f\\b\\u001b[\"",
		"\"a\\ufffdb\\ufffd\\ufffd\\ufffd\\ufffd\\ufffd[\"");
	check_harmless("\"\x7f\u202e\xc2\x9b.\"", "\"\\ufffd\\ufffd\\ufffd.\"");
	check_harmless("\"\\\\\\n\"", "\"\\\\\\ufffd\"");
	check_harmless("\\", "\\");
	check_harmless("\\n", "\\ufffd");
	struct buffer out;
	buffer_init(&out, 1000);
	json_append_harmless(&out, "a\u202e", 3); /* its last byte is beyond the end */
	json_append_harmless(&out, "a\\n", 2);
	cr_assert_str_eq(buffer_text(&out),
		"a\xe2\x80"
		"a\\");
	buffer_finish(&out);
}

Test(json_visible, text_hides_controls_too)
{
	cr_assert_not(text_has_hidden("a \u00e9", 4));
	cr_assert(text_has_hidden("a\n", 2));
	cr_assert_not(text_has_hidden("a\n", 1));
	cr_assert(text_has_hidden("\x1f", 1));
	cr_assert(text_has_hidden("\u202e", 3));
}
