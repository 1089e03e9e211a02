/* The order of an answer by nearness, and the priorities that go with it. */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "agent/names/names.h"

TestSuite(nearness);

#define TEXT(text) (char *)(uintptr_t)text

enum { COUNT = 6 };

static struct names_origin origins[COUNT] = {
	{ 0, TEXT("us/a"), 1 },
	{ 0, TEXT("eu/b"), 1 },
	{ 1, TEXT("eu/a"), 1 },
	{ 0, TEXT("eu/a"), 1 },
	{ 0, TEXT(""), 1 },
	{ 1, TEXT("us/a"), 1 },
};
static struct names_target targets[COUNT] = {
	{ .priority = 0, .from = 0 },
	{ .priority = 7, .from = 1 },
	{ .priority = 0, .from = 2 },
	{ .priority = 9, .from = 3 },
	{ .priority = 0, .from = 4 },
	{ .priority = 2, .from = 5 },
};
static struct names_address addresses[] = { { .from = 4 }, { .from = 2 }, { .from = 3 } };
static const struct names_answer answer = { .targets = targets,
	.target_count = COUNT,
	.addresses = addresses,
	.address_count = 3,
	.origins = origins,
	.path_count = COUNT };

static void expect_order_take(size_t *order, const size_t *expected, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		cr_expect_eq(order[i], expected[i], "%zu: %zu", i, order[i]);
	}
	free(order);
}

static void expect_priorities(const char *zone, const uint16_t *expected)
{
	uint16_t *priorities = names_priorities(&answer, zone);
	for (size_t i = 0; i < COUNT; i++) {
		cr_expect_eq(priorities[i], expected[i], "%zu: %u", i, priorities[i]);
	}
	free(priorities);
}

Test(nearness, a_record_of_a_further_path_is_farther_than_any_before)
{
	static const unsigned tiers[COUNT] = { 2, 1, 3, 0, 2, 5 };
	for (size_t i = 0; i < COUNT; i++) {
		cr_expect_eq(names_tier(&answer, i, "eu/a"), tiers[i], "%zu", i);
		cr_expect_eq(names_tier(&answer, i, ""), origins[i].rank, "%zu", i);
	}
}

Test(nearness, targets_come_by_tier_then_by_priority_then_as_they_were)
{
	static const size_t near[COUNT] = { 3, 1, 0, 4, 2, 5 };
	static const size_t by_path[COUNT] = { 0, 4, 1, 3, 2, 5 };
	static const size_t as_they_are[COUNT] = { 0, 1, 2, 3, 4, 5 };
	expect_order_take(names_order_targets(&answer, "eu/a"), near, COUNT);
	expect_order_take(names_order_targets(&answer, ""), by_path, COUNT);
	expect_order_take(names_order_targets(&answer, NULL), as_they_are, COUNT);
}

Test(nearness, addresses_come_by_tier)
{
	static const size_t near[] = { 2, 0, 1 };
	static const size_t as_they_are[] = { 0, 1, 2 };
	expect_order_take(names_order_addresses(&answer, "eu/a"), near, 3);
	expect_order_take(names_order_addresses(&answer, NULL), as_they_are, 3);
}

Test(nearness, priorities_have_no_gaps_and_are_equal_where_nothing_tells_targets_apart)
{
	static const uint16_t near[COUNT] = { 2, 1, 3, 0, 2, 4 };
	static const uint16_t by_path[COUNT] = { 0, 1, 3, 2, 0, 4 };
	static const uint16_t none[COUNT] = { 0 };
	expect_priorities("eu/a", near);
	expect_priorities("", by_path);
	expect_priorities(NULL, none);
}
