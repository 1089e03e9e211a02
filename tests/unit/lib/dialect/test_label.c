/* Names of foreign nodes as elements of registry paths, and back. */
#include <criterion/criterion.h>
#include <string.h>

#include "lib/base/array.h"
#include "lib/base/path.h"
#include "lib/dialect/label.h"

TestSuite(label);

struct row {
	const char *name;
	const char *label;
};

static const struct row rows[] = {
	{ "web1", "web1" },
	{ "a-b", "a-b" },
	{ "member_0000000007", "member--0000000007" },
	{ "0a6e8d1c-5b1f-4a55-8f6e-1f4b0d1f6a11", "0a6e8d1c-5b1f-4a55-8f6e-1f4b0d1f6a11" },
	{ "10.0.0.1:80", "10---2e0---2e0---2e1---3a80" },
	{ "i-0abc_0000000001", "i-0abc--0000000001" },
	{ "Web1", "x---57eb1" },
	{ "weB", "we---42" },
	{ "_web", "x---5fweb" },
	{ "web_", "web---5f" },
	{ "-", "x---2d" },
	{ "a--b", "a---2d---2db" },
	{ "a__b", "a---5f---5fb" },
	{ "a_-b", "a---5f---2db" },
	{ "x", "x" },
	{ "xa", "xa" },
	{ "x_a", "x--a" },
	{ "x.", "x---78---2e" },
	{ ".", "x---2e" },
	{ "my app", "my---20app" },
	{ "caf\xc3\xa9", "caf---c3---a9" },
	{ "az`09{", "az---6009---7b" },
};

Test(label, every_name_has_one_and_comes_back)
{
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		char label[DIALECT_LABEL_SIZE];
		char name[DIALECT_LABEL_SIZE];
		dialect_label(label, rows[i].name);
		cr_assert_str_eq(label, rows[i].label, "%s: %s", rows[i].name, label);
		cr_assert(path_element_valid(label, strlen(label)), "%s", label);
		cr_assert(dialect_label_name(name, label), "%s", label);
		cr_assert_str_eq(name, rows[i].name);
	}
}

Test(label, no_two_names_of_odd_characters_share_one)
{
	static const char letters[] = "ax0_-.A";
	enum { LETTERS = sizeof(letters) - 1, NAMES = LETTERS * LETTERS * LETTERS * LETTERS };
	for (int i = 0; i < NAMES; i++) {
		const char name[] = { letters[i % LETTERS], letters[i / LETTERS % LETTERS],
			letters[i / LETTERS / LETTERS % LETTERS],
			letters[i / LETTERS / LETTERS / LETTERS], '\0' };
		char label[DIALECT_LABEL_SIZE];
		char back[DIALECT_LABEL_SIZE];
		dialect_label(label, name);
		cr_assert(path_element_valid(label, strlen(label)), "%s: %s", name, label);
		cr_assert(dialect_label_name(back, label), "%s: %s", name, label);
		cr_assert_str_eq(back, name, "%s", label);
	}
}

Test(label, a_long_name_has_a_hash_that_leads_nowhere_by_itself)
{
	char name[1001];
	char first[sizeof(name)];
	char second[DIALECT_LABEL_SIZE];
	memset(first, '#', sizeof(first));
	memset(name, 'a', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	dialect_label(first, name);
	cr_assert_eq(strncmp(first, "h----", 5), 0, "%s", first);
	cr_assert_eq(strlen(first), 37);
	cr_assert_eq(first[DIALECT_LABEL_SIZE], '#');
	cr_assert(path_element_valid(first, strlen(first)));
	cr_assert_not(dialect_label_name(second, first));
	name[999] = 'b';
	dialect_label(second, name);
	cr_assert_str_neq(first, second);
	name[64] = '\0';
	dialect_label(second, name);
	cr_assert_eq(strncmp(second, "h----", 5), 0, "%s", second);
	name[63] = '\0';
	dialect_label(first, name);
	cr_assert_str_eq(first, name);
}

Test(label, an_invalid_names_label_counts_as_none)
{
	static const char *const wrong[] = { "", "-a", "a-", "A", "a---2", "a---", "a---zz",
		"a---2D", "a---61", "a---2db---5fc-", "a----b", "x---61", "x---78a", "a---00",
		"a.b", "a---2d2---5fb-c---2d-d" };
	for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
		char name[DIALECT_LABEL_SIZE] = "untouched";
		cr_assert_not(dialect_label_name(name, wrong[i]), "%s: %s", wrong[i], name);
		cr_assert_str_eq(name, "untouched");
	}
}
