/* The key of an answer: a filter as text, and as a filter again. */

#include <criterion/criterion.h>

#include <string.h>

#include "agent/cache/internal.h"

Test(cache_filter, is_the_same_after_it_was_written_and_read)
{
	const struct cache_filter filter = { .text = true,
		.scope = "internal",
		.protocol = "http",
		.api = "classpath:a",
		.type = "t",
		.id = "i",
		.persistence = "container" };
	char variant[CACHE_VARIANT_BYTES];
	cache_write_variant(variant, &filter);
	struct cache_filter read = cache_read_variant(variant);
	cr_expect(read.text);
	cr_expect_str_eq(read.scope, "internal");
	cr_expect_str_eq(read.protocol, "http");
	cr_expect_str_eq(read.api, "classpath:a");
	cr_expect_str_eq(read.type, "t");
	cr_expect_str_eq(read.id, "i");
	cr_expect_str_eq(read.persistence, "container");
}

Test(cache_filter, absent_texts_stay_absent)
{
	char variant[CACHE_VARIANT_BYTES];
	cache_write_variant(variant, &(struct cache_filter){ .id = "i" });
	struct cache_filter read = cache_read_variant(variant);
	cr_expect_not(read.text);
	cr_expect_null(read.api);
	cr_expect_null(read.protocol);
	cr_expect_null(read.scope);
	cr_expect_null(read.type);
	cr_expect_str_eq(read.id, "i");
	cr_expect_null(read.persistence);
	cache_write_variant(variant, &(struct cache_filter){ .text = true });
	cr_expect(cache_read_variant(variant).text);
	cache_write_variant(variant, NULL);
	cr_expect_str_eq(variant, "");
	read = cache_read_variant(variant);
	cr_expect_not(read.text);
	cr_expect_null(read.api);
}

Test(cache_filter, texts_at_their_limit_are_whole_and_longer_ones_end_in_the_room)
{
	char text[2 * CACHE_FILTER_BYTES];
	struct {
		char variant[CACHE_VARIANT_BYTES];
		char behind[8];
	} room;
	memset(room.behind, '!', sizeof(room.behind));
	memset(text, 'a', sizeof(text));
	text[CACHE_FILTER_BYTES] = '\0';
	cache_write_variant(room.variant, &(struct cache_filter){ .persistence = text });
	cr_expect_str_eq(cache_read_variant(room.variant).persistence, text);
	text[CACHE_FILTER_BYTES] = 'a';
	text[sizeof(text) - 1] = '\0';
	cache_write_variant(room.variant, &(struct cache_filter){ .api = text, .id = "i" });
	cr_expect_lt(strlen(room.variant), sizeof(room.variant));
	cr_expect_eq(room.behind[0], '!');
}
