#include <criterion/criterion.h>

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/array.h"
#include "lib/http/field.h"

Test(http_field, accept_chooses_a_media_type)
{
	static const struct {
		const char *field;
		bool exact, any;
	} fields[] = {
		{ NULL, false, true },
		{ "*/*", false, true },
		{ "text/*", false, true },
		{ "text/plain", true, true },
		{ "TEXT/PLAIN;q=0.5", true, true },
		{ "text/plain; q=0", false, false },
		{ "text/html, text/plain", true, true },
		{ "text/html;x=\", text/plain\"", false, false },
		{ "text/plainer", false, false },
		{ "", false, false },
	};
	for (size_t i = 0; i < ARRAY_LEN(fields); i++) {
		cr_expect_eq(http_accepts(fields[i].field, "text/plain", false), fields[i].exact,
			"%zu", i);
		cr_expect_eq(
			http_accepts(fields[i].field, "text/plain", true), fields[i].any, "%zu", i);
	}
}

Test(http_field, tags_compare_weakly_or_strongly)
{
	static const struct {
		const char *field;
		bool weak, strong;
	} fields[] = {
		{ NULL, false, false },
		{ "*", true, true },
		{ "\"a\"", true, true },
		{ "W/\"a\"", true, false },
		{ "\"x,y\", \"a\" ", true, true },
		{ "\"a\"\t", true, true },
		{ "\"a\"b", false, false },
		{ "\"*\"", false, false },
		{ "a", false, false },
		{ "\"b\" , W/\"a\"", true, false },
	};
	for (size_t i = 0; i < ARRAY_LEN(fields); i++) {
		cr_expect_eq(
			http_tag_matches(fields[i].field, "\"a\"", true), fields[i].weak, "%zu", i);
		cr_expect_eq(http_tag_matches(fields[i].field, "\"a\"", false), fields[i].strong,
			"%zu", i);
	}
}

Test(http_field, a_weak_tag_of_ours_matches_weakly_only)
{
	cr_expect(http_tag_matches("\"b\", W/\"a\"", "W/\"a\"", true));
	cr_expect(http_tag_matches("\"a\"", "W/\"a\"", true));
	cr_expect_not(http_tag_matches("W/\"a\"", "W/\"a\"", false));
	cr_expect_not(http_tag_matches("\"a\"", "W/\"a\"", false));
	cr_expect_not(http_tag_matches("a-b, a;b", "\"a\"", true));
	cr_expect(http_tag_matches("*", "W/\"a\"", false));
}

Test(http_field, words_of_lists)
{
	cr_expect(http_has_token("a, No-Cache", "no-cache"));
	cr_expect(http_has_token("no-cache=x", "no-cache"));
	cr_expect_not(http_has_token("x=\"no-cache, no-cache\"", "no-cache"));
	cr_expect_not(http_has_token("no-caches", "no-cache"));
	cr_expect_not(http_has_token(NULL, "no-cache"));
	cr_expect_eq(http_wait_seconds("foo; bar, wait = \"7\""), 7);
	cr_expect_eq(http_wait_seconds("wait=9999"), 600);
	cr_expect_eq(http_wait_seconds("wait=-1"), 0);
	cr_expect_eq(http_wait_seconds(NULL), 0);
}

/* RFC 9110, section 5.6.2. */
Test(http_field, a_token_is_made_of_these_bytes)
{
	for (int byte = 0; byte < 256; byte++) {
		char text[] = { 'a', (char)byte, 'b' };
		bool good = byte < 128 && byte > 0 &&
			(isalnum(byte) || strchr("!#$%&'*+-.^_`|~", byte));
		cr_expect_eq(http_token_len(text, 3), good ? 3 : 1, "%d", byte);
		cr_expect_eq(http_token_len(text, 1), 1);
	}
	cr_expect_eq(http_token_len("", 0), 0);
}

Test(http_field, a_text_holds_no_control_character_but_tabs)
{
	for (int byte = 0; byte < 256; byte++) {
		char text[] = { 'a', (char)byte };
		cr_expect_eq(http_is_field_text(text, 2),
			byte == '\t' || (byte >= ' ' && byte != 0x7f), "%d", byte);
	}
	cr_expect(http_is_field_text("", 0));
}

Test(http_field, blanks_around_a_value_are_trimmed)
{
	static const struct {
		const char *text;
		const char *trimmed;
	} rows[] = { { "", "" }, { " \t ", "" }, { "a", "a" }, { " a b\t", "a b" }, { "a ", "a" } };
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		const char *text = rows[i].text;
		size_t len = strlen(text);
		http_trim(&text, &len);
		cr_expect_eq(len, strlen(rows[i].trimmed), "%zu", i);
		cr_expect_eq(memcmp(text, rows[i].trimmed, len), 0, "%zu", i);
	}
}

Test(http_field, quoted_texts_hold_commas_and_escapes)
{
	cr_expect(http_has_token("a=\"x\\\", b\", c", "c"));
	cr_expect_not(http_has_token("a=\"x\\\", b, c\"", "b"));
	cr_expect_not(http_has_token("a=\"x\\", "b"));
	cr_expect(http_accepts("text/html;x=\"a\\\",\", text/plain", "text/plain", false));
	cr_expect(http_accepts("x/y, */*;q=0.1, z/y", "text/plain", true));
	cr_expect_not(http_accepts("*/**", "text/plain", true));
	cr_expect_not(http_accepts("x/y", "text/plain", true));
	cr_expect(http_accepts("text/plain;q=", "text/plain", true));
	cr_expect_not(http_accepts("text/*x", "text/plain", true));
	cr_expect_not(http_accepts("image/*", "text/plain", true));
	cr_expect_not(http_accepts("text/plain;Q=0.0", "text/plain", true));
	cr_expect(http_accepts("text/plain;xq=0", "text/plain", true));
}

/* In memory of their own, so that AddressSanitizer sees where they end. */
Test(http_field, lists_are_read_to_their_ends)
{
	static const char *const fields[] = { "", ",", "text/plain;a", "text/plain;q=0", "\"a\"",
		"W/", "x=\"\\", "wait", "wait=", "max-age=", "a, " };
	for (size_t i = 0; i < ARRAY_LEN(fields); i++) {
		char *field = strdup(fields[i]);
		cr_expect_eq(http_accepts(field, "text/plain", true), i == 2);
		cr_expect_eq(http_tag_matches(field, "\"a\"", true), i == 4);
		cr_expect_not(http_has_token(field, "b"));
		cr_expect_eq(http_wait_seconds(field), 0);
		cr_expect_eq(http_max_age_seconds(field), -1);
		free(field);
	}
}

Test(http_field, the_largest_age)
{
	cr_expect_eq(http_max_age_seconds("max-age=0"), 0);
	cr_expect_eq(http_max_age_seconds("no-cache, Max-Age = \"9\""), 9);
	cr_expect_eq(http_max_age_seconds("max-age=15, max-age=20"), 15);
	cr_expect_eq(http_max_age_seconds("max-age=x, max-age=20"), 20);
	cr_expect_eq(http_max_age_seconds("max-age=-1"), -1);
	cr_expect_eq(http_max_age_seconds("max-ages=1"), -1);
	cr_expect_eq(http_max_age_seconds(NULL), -1);
	int64_t most = http_max_age_seconds("max-age=99999999999999999");
	cr_expect(most > 24 * 3600 && most < 99999999999999999);
	cr_expect_eq(http_wait_seconds("wait=600"), 600);
	cr_expect_eq(http_wait_seconds("wait=601"), 600);
	cr_expect_eq(http_wait_seconds("x, wait"), 0);
}
