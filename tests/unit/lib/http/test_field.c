#include <criterion/criterion.h>

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
	for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
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
		{ "\"a\"b", false, false },
		{ "\"*\"", false, false },
		{ "a", false, false },
		{ "\"b\" , W/\"a\"", true, false },
	};
	for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
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
