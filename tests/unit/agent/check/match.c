/* A pattern against output that comes in pieces. */
#include <criterion/criterion.h>
#include <string.h>

#include "agent/check/match.h"
#include "lib/base/array.h"

static bool matches(const char *pattern, bool ignore_case, const char *text, size_t piece)
{
	struct check_match *match = check_match_create(pattern, ignore_case);
	for (size_t at = 0, len = strlen(text); at < len; at += piece) {
		check_match_add(match, text + at, at + piece < len ? piece : len - at);
	}
	bool found = check_match_finish(match);
	check_match_destroy(match);
	return found;
}

Test(check_match, looks_at_each_line_however_it_is_cut)
{
	static const struct {
		const char *pattern;
		const char *text;
		bool found;
	} rows[] = {
		{ "^OK$", "one\nOK\nthree\n", true },
		{ "^OK$", "OK", true },
		{ "^OK$", "NOK\nOKAY\n", false },
		{ "^(a+|b)$", "x\naaa\n", true },
		{ "^(a+|b)$", "a+|b\n", false },
		{ "ok", "OK\n", false },
		{ "one.two", "one\ntwo\n", false },
		{ "^$", "one\n", false },
		{ "^$", "one\n\n", true },
		{ "^$", "\n", true },
		{ "^$", "", true },
		{ "^$", "one", false },
		{ "^OK$", "OK\xc3", false },
	};
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		for (size_t piece = 1; piece < 20; piece++) {
			cr_expect_eq(matches(rows[i].pattern, false, rows[i].text, piece),
				rows[i].found, "%zu in pieces of %zu", i, piece);
		}
	}
	cr_expect(matches("ok", true, "OK\n", 1));
}

/* The match sees the beginning of a line that is too long, and the whole of the next line. */
Test(check_match, judges_the_first_bytes_of_a_long_line)
{
	static char text[3 * CHECK_MATCH_LINE_BYTES];
	memset(text, 'x', sizeof(text) - 1);
	memcpy(text, "begin", 5);
	memcpy(text + CHECK_MATCH_LINE_BYTES - 4, "last", 4);
	memcpy(text + CHECK_MATCH_LINE_BYTES, "rest", 4);
	memcpy(text + 2 * CHECK_MATCH_LINE_BYTES, "\nnext\n", 6);
	static const size_t pieces[] = { 1, 1000, CHECK_MATCH_LINE_BYTES, sizeof(text) };
	for (size_t i = 0; i < ARRAY_LEN(pieces); i++) {
		cr_expect(matches("^begin", false, text, pieces[i]));
		cr_expect(matches("last$", false, text, pieces[i]));
		cr_expect_not(matches("rest", false, text, pieces[i]));
		cr_expect(matches("^next$", false, text, pieces[i]));
		cr_expect_not(matches("^x?$", false, text, pieces[i]), "there is no short line");
	}
	check_match_destroy(NULL);
}
