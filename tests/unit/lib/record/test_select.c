/* Which records a selection by attributes means. */
#include <criterion/criterion.h>
#include <string.h>

#include "lib/base/array.h"
#include "lib/record/select.h"

TestSuite(select);

static struct record *make(void)
{
	static const char text[] =
		"{\"type\":\"JSONServiceRecord\",\"track\":\"canary\",\"shard\":2,\"load\":0.1,"
		"\"on\":true,\"Data.Centre\":\"EU 1\",\"list\":[],\"eq\":\"a=b\"}";
	struct record *record;
	cr_assert_eq(record_decode(&record, text, strlen(text), NULL), 0);
	return record;
}

Test(select, all_lines_must_hold_and_values_are_compared_as_text)
{
	static const struct {
		const char *selection;
		bool takes;
	} rows[] = { { NULL, true }, { "", true }, { "track=canary\n", true },
		{ "track=Canary\n", false }, { "track=canar\n", false }, { "none=x\n", false },
		{ "shard=2\n", true }, { "shard=02\n", false }, { "load=0.1\n", true },
		{ "on=true\n", true }, { "on=1\n", false }, { "list=\n", false },
		{ "eq=a=b\n", true }, { "track=canary\nshard=2\n", true },
		{ "track=canary\nshard=3\n", false } };
	struct record *record = make();
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		cr_expect_eq(select_takes(rows[i].selection, record), rows[i].takes, "%s",
			rows[i].selection ? rows[i].selection : "NULL");
	}
	record_free(record);
}

Test(select, labels_know_no_case_and_have_hyphens)
{
	struct record *record = make();
	cr_expect(select_has_labels(record, "track", "canary"));
	cr_expect(select_has_labels(record, "data-centre", "eu-1"));
	cr_expect(select_has_labels(record, "shard", "2"));
	cr_expect(!select_has_labels(record, "shard", "3"));
	cr_expect(!select_has_labels(record, "track", "stable"));
	record_free(record);
}

Test(select, a_name_or_value_that_no_line_can_hold_is_refused)
{
	char out[SELECT_BYTES] = "";
	char longest[SELECT_VALUE_BYTES + 1];
	struct err err = ERR_INIT;
	memset(longest, 'a', SELECT_VALUE_BYTES);
	longest[SELECT_VALUE_BYTES] = '\0';
	cr_expect(select_add(out, "", "x", &err) && select_add(out, "a=b", "x", &err) &&
		select_add(out, "a\nb", "x", &err) && select_add(out, "a", "x\ny", &err) &&
		select_add(out, "a", longest, &err));
	cr_expect_str_eq(out, "");
	struct err none = ERR_INIT;
	for (int i = 0; i < SELECT_MOST; i++) {
		cr_expect_eq(select_add(out, "a", "x", &none), 0);
	}
	cr_expect(select_add(out, "a", "x", &none));
}
