#include <string.h>

#include "lib/base/nearest.h"
#include "tests/support/test.h"

static size_t distance(const char *word, const char *known)
{
	return nearest_distance(word, strlen(word), known);
}

Test(nearest, counts_the_changes_between_two_words)
{
	cr_assert_eq(distance("address", "address"), 0);
	cr_assert_eq(distance("ADDRESS", "address"), 0, "letter case costs nothing");
	cr_assert_eq(distance("adrress", "address"), 2, "a replacement");
	cr_assert_eq(distance("adderss", "address"), 2, "two neighbours swapped");
	cr_assert_eq(distance("adress", "address"), 3, "a letter lost");
	cr_assert_eq(distance("addressx", "address"), 3, "a letter too many");
	cr_assert_eq(distance("", "abc"), 7);
}

Test(nearest, looks_at_no_more_than_the_length_that_is_given)
{
	cr_assert_eq(nearest_distance("address.2", 7, "address"), 0);
}

Test(nearest, looks_at_the_beginning_of_endless_words_only)
{
	char word[1000];
	memset(word, 'a', sizeof(word) - 1);
	word[sizeof(word) - 1] = '\0';
	cr_assert_eq(distance(word, word), 0);
	cr_assert_gt(distance(word, "b"), 100);
}

Test(nearest, a_word_is_close_when_about_half_of_it_is_right)
{
	cr_assert(nearest_is_close(distance("statsu", "status"), 6));
	cr_assert_not(nearest_is_close(distance("version", "drain"), 7));
	cr_assert_not(nearest_is_close(distance("xyz", "status"), 3));
}
