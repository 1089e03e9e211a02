#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <string.h>

#include "lib/base/nearest.h"

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
