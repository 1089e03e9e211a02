/* Filters: whether two are the same, and copies. */

#include <criterion/criterion.h>

#include <stdlib.h>
#include <string.h>

#include "agent/cache/filter.h"
#include "lib/base/array.h"

static const struct cache_filter whole = { .text = true,
	.scope = "internal",
	.protocol = "http",
	.api = "classpath:a",
	.type = "t",
	.id = "i",
	.persistence = "container",
	.near = "eu" };

Test(cache_filter, is_the_same_as_its_copy_which_has_texts_of_its_own)
{
	char api[] = "classpath:a";
	struct cache_filter filter = whole;
	filter.api = api;
	struct cache_filter *copy = cache_filter_copy(&filter);
	cr_expect(cache_filter_same(copy, &whole));
	memset(api, '-', 1);
	cr_expect(cache_filter_same(copy, &whole));
	cr_expect_not(cache_filter_same(&filter, &whole));
	cr_expect_null(cache_filter_copy(NULL));
	free(copy);
}

Test(cache_filter, is_another_with_another_text)
{
	struct cache_filter others[] = { whole, whole, whole, whole, whole, whole, whole, whole,
		whole };
	others[0].text = false;
	others[1].scope = "external";
	others[2].protocol = "https";
	others[3].api = NULL;
	others[4].type = "i";
	others[5].id = "";
	others[6].persistence = "contain";
	others[7].near = "";
	others[8].outside = true;
	for (size_t i = 0; i < ARRAY_LEN(others); i++) {
		cr_expect_not(cache_filter_same(&whole, &others[i]), "%zu", i);
		cr_expect_not(cache_filter_same(&others[i], &whole), "%zu", i);
		struct cache_filter *copy = cache_filter_copy(&others[i]);
		cr_expect(cache_filter_same(copy, &others[i]), "%zu", i);
		free(copy);
	}
}

Test(cache_filter, without_any_text_is_the_same_as_none)
{
	const struct cache_filter any = { .text = false };
	const struct cache_filter text = { .text = true };
	const struct cache_filter id = { .id = "i" };
	cr_expect(cache_filter_same(NULL, &any));
	cr_expect(cache_filter_same(&any, NULL));
	cr_expect(cache_filter_same(NULL, NULL));
	cr_expect_not(cache_filter_same(NULL, &text));
	cr_expect_not(cache_filter_same(&id, NULL));
}

Test(cache_filter, counts_its_texts_with_their_ends)
{
	const struct cache_filter two = { .id = "i", .api = "rest" };
	cr_expect_eq(cache_filter_bytes(NULL), 0);
	cr_expect_eq(cache_filter_bytes(&two), sizeof(two) + 2 + 5);
}
