#include <criterion/criterion.h>

#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/allocate.h"
#include "lib/base/err.h"

Test(allocate, copies_and_formats)
{
	char *text = allocate_text("abc");
	char *bytes = allocate_bytes("abcdef", 3);
	char *formatted = allocate_format("%s-%d", text, 7);
	cr_expect_str_eq(text, "abc");
	cr_expect_str_eq(bytes, "abc");
	cr_expect_str_eq(formatted, "abc-7");
	free(text);
	free(bytes);
	free(formatted);
}

Test(allocate, no_items_are_memory_all_the_same)
{
	void *none = allocate_zeroed(0, 8);
	cr_expect_not_null(none);
	free(none);
}

/* Counts go down too: earlier items stay, and every new item is zeroed. */
Test(allocate, an_array_grows_item_by_item)
{
	int *items = NULL;
	size_t count = 0;
	for (int round = 0; round < 5; round++) {
		while (count < 100) {
			items = allocate_grow(items, count, sizeof(*items));
			cr_assert_eq(items[count], 0);
			items[count] = (int)count;
			count++;
		}
		for (size_t i = 0; i < count; i++) {
			cr_assert_eq(items[i], (int)i);
		}
		count -= (size_t)(19 * (round + 1));
	}
	free(items);
}

Test(allocate, without_memory_the_program_aborts, .signal = SIGABRT)
{
	allocated(NULL);
}

Test(allocate, a_code_of_the_library_passes)
{
	cr_expect_eq(allocated_code(0), 0);
	cr_expect_eq(allocated_code(BERTH_INVALID_RECORD), BERTH_INVALID_RECORD);
}

Test(allocate, a_code_that_means_no_memory_aborts, .signal = SIGABRT)
{
	(void)allocated_code(BERTH_FAILED);
}

Test(allocate, a_text_may_be_empty)
{
	char *text = allocate_format("%s", "");
	cr_expect_str_eq(text, "");
	free(text);
}
