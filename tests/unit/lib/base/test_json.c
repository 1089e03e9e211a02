/* JSON: read, read though its numbers are wide, written, made visible. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/array.h"
#include "lib/base/json_read.h"
#include "lib/base/json_text.h"
#include "lib/base/json_visible.h"
#include "lib/base/json_wide.h"

static int calls;
static int failing;

static void *allocate(size_t size)
{
	return ++calls == failing ? NULL : malloc(size);
}

/* A document is read a second time only where its first reading may have lost something. */
static const struct {
	const char *text;
	int readings;
} documents[] = {
	{ "{}", 1 },
	{ "[]", 1 },
	{ "\"\"", 1 },
	{ "{\"a\":[1,-2.5e+7,true,null]}", 1 },
	{ "{\"a\\u0041\\u00e9\\u20ac\\ud83d\\ude00\\n\\\"\\\\\":\"\xc3\xa9\"}", 1 },
	{ "[\"\\u007f\",\"\\u0080\",\"\\u07ff\",\"\\u0800\",\"\\ud7ff\",\"\\ue000\"]", 1 },
	{ "[\"\\ud800\\udc00\",\"\\udbff\\udfff\",\"#/t\"]", 1 },
	{ "[[\"a\",{\"b\":\"c\"}],\"d\"]", 1 },
	{ " { \"a long key, longer than a token\" : \"and a long text, longer than it\" } ", 1 },
	{ "{\"a\":1,\"a\":2}", 2 },
	{ "[1234567890123]", 1 },
	{ "[-1.234567e+07]", 1 },
	{ "[12345678901234]", 2 },
	{ "[123456789012345678,1]", 2 },
};

Test(json_read, documents_are_read_as_jansson_reads_them)
{
	json_set_alloc_funcs(allocate, free);
	for (size_t i = 0; i < ARRAY_LEN(documents); i++) {
		const char *text = documents[i].text;
		calls = 0;
		json_t *wanted = json_loads(text, JSON_DECODE_ANY, NULL);
		int of_one = calls;
		json_t *found = json_read_text(text, JSON_DECODE_ANY);
		cr_assert_not_null(wanted);
		cr_expect(json_equal(wanted, found), "%s", text);
		cr_expect_eq(calls, of_one * (1 + documents[i].readings), "%s", text);
		json_decref(wanted);
		json_decref(found);
	}
}

Test(json_read, invalid_documents_are_refused_with_the_reason)
{
	json_error_t error;
	cr_expect_null(json_read_text("{\"a\":", 0));
	cr_expect_null(json_read_text("\"\\u12", JSON_DECODE_ANY));
	cr_expect_null(json_read("[1,]", 4, 0, &error));
	cr_expect_neq(error.text[0], '\0');
}

Test(json_read, an_escape_that_is_cut_off_is_not_read_beyond_its_end)
{
	static const char text[] = "\"\\u12";
	char *cut = malloc(strlen(text)); /* AddressSanitizer knows where it ends */
	json_error_t error;
	memcpy(cut, text, strlen(text));
	cr_expect_null(json_read(cut, strlen(text), JSON_DECODE_ANY, &error));
	free(cut);
}
#define LARGEST "1.7976931348623e308"

/* From memory that ends with the text, as AddressSanitizer knows. */
static json_t *read_text(const char *text, json_error_t *error)
{
	size_t len = strlen(text);
	char *exact = malloc(len);
	memcpy(exact, text, len);
	json_t *json = json_wide_loadb(exact, len, JSON_DECODE_ANY, error);
	free(exact);
	return json;
}

Test(json_wide, numbers_that_do_not_fit_become_the_nearest_that_do)
{
	static const struct {
		const char *text;
		const char *wanted;
	} rows[] = {
		{ "[1,-2.5e+7,\"1e309\"]", "[1,-2.5e+7,\"1e309\"]" },
		{ "[9223372036854775807]", "[9223372036854775807]" },
		{ "[9223372036854775808]", "[9223372036854775808.0]" },
		{ "[-9223372036854775809,0]", "[-9223372036854775809.0,0]" },
		{ "1e309", LARGEST },
		{ "[1e309,-1e309,9]", "[" LARGEST ",-" LARGEST ",9]" },
		{ "[1E309,1e+309,10.50e308,1e-9,1E-400]",
			"[" LARGEST "," LARGEST "," LARGEST ",1e-9,0.0]" },
		{ "{\"a\\\"-1e309\" : \"\\\\\", \"b\":1e309}",
			"{\"a\\\"-1e309\" : \"\\\\\", \"b\":" LARGEST "}" },
	};
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		json_t *wanted = json_loads(rows[i].wanted, JSON_DECODE_ANY, NULL);
		json_t *found = read_text(rows[i].text, NULL);
		cr_assert_not_null(wanted);
		cr_expect(json_equal(wanted, found), "%s", rows[i].text);
		json_decref(wanted);
		json_decref(found);
	}
}

Test(json_wide, a_number_of_any_length_has_room)
{
	char text[2000] = "[1";
	memset(text + 2, '0', 1000);
	strcpy(text + 1002, ",1e309,1e309,1e309]");
	json_t *found = read_text(text, NULL);
	cr_assert_eq(json_array_size(found), 4);
	cr_expect_eq(json_real_value(json_array_get(found, 0)), strtod(LARGEST, NULL));
	json_decref(found);
}

Test(json_wide, invalid_documents_stay_invalid)
{
	static const char *const texts[] = { "[", "[1e309", "[1e309,]", "[1e309,-]", "[1e309,1.]",
		"[1e309,01]", "[1e309,1e]", "[1e309,\"a", "[1e309,\"a\\", "[1e309.5]",
		"[1e309e1]" };
	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		json_error_t error;
		cr_expect_null(read_text(texts[i], &error), "%s", texts[i]);
		cr_expect_eq(json_error_code(&error) == json_error_numeric_overflow, false, "%s",
			texts[i]);
	}
}
Test(json_text, text_is_that_of_the_json)
{
	json_t *json = json_pack("{s:[i, s], s:{}}", "a", 1, "b\n", "c");
	char *text = json_text(json, JSON_COMPACT);
	cr_assert_str_eq(text, "{\"a\":[1,\"b\\n\"],\"c\":{}}");
	free(text);
	json_decref(json);
}

Test(json_text, json_that_cannot_be_written_has_no_text)
{
	cr_assert_null(json_text(NULL, JSON_COMPACT));
	cr_assert_null(json_text(json_true(), JSON_COMPACT)); /* without JSON_ENCODE_ANY */
}

Test(json_text, text_stands_behind_the_content_of_a_buffer)
{
	struct buffer out;
	buffer_init(&out, 100);
	buffer_append_text(&out, "x=");
	cr_assert_eq(json_text_append(&out, json_true(), JSON_ENCODE_ANY), 0);
	cr_assert_str_eq(buffer_text(&out), "x=true");
	buffer_finish(&out);
}

Test(json_text, text_that_does_not_fit_at_any_place_is_a_failure)
{
	json_t *json = json_pack("{s:s, s:{s:s}}", "first", "1", "second", "third", "4");
	char *whole = json_text(json, JSON_COMPACT | JSON_SORT_KEYS);
	size_t len = strlen(whole);
	for (size_t room = 0; room <= len; room++) {
		struct buffer out;
		buffer_init(&out, room);
		int code = json_text_append(&out, json, JSON_COMPACT | JSON_SORT_KEYS);
		cr_assert_eq(code, room == len ? 0 : -1);
		cr_assert_eq(out.failed, room < len);
		buffer_finish(&out);
	}
	free(whole);
	json_decref(json);
}
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
