#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <string.h>
#include <wchar.h>

#include "lib/base/text.h"

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
