#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <criterion/parameterized.h>

#include "lib/base/array.h"
#include "lib/base/duration.h"

struct row {
	char text[32];
	int64_t ms; /* -1: refused */
};

ParameterizedTestParameters(duration, is_a_whole_number_and_its_unit)
{
	static struct row rows[] = { { "0s", 0 }, { "0ms", 0 }, { "1ms", 1 }, { "500ms", 500 },
		{ "30s", 30000 }, { "2m", 120000 }, { "1h", 3600000 }, { "7d", 604800000 },
		{ "007s", 7000 }, { "9223372036854775807ms", INT64_MAX }, { "", -1 }, { "30", -1 },
		{ "s", -1 }, { "1.5h", -1 }, { "-1s", -1 }, { "+1s", -1 }, { " 1s", -1 },
		{ "1 s", -1 }, { "1s ", -1 }, { "1S", -1 }, { "1w", -1 }, { "1h30m", -1 },
		{ "0x10s", -1 }, { "9223372036854775808ms", -1 }, { "9223372036854775807d", -1 },
		{ "99999999999999999999s", -1 } };
	return cr_make_param_array(struct row, rows, ARRAY_LEN(rows));
}

ParameterizedTest(struct row *row, duration, is_a_whole_number_and_its_unit)
{
	int64_t ms = -1;
	bool good = duration_parse(row->text, &ms);
	cr_assert(eq(int, good, row->ms >= 0), "%s", row->text);
	cr_assert(eq(i64, ms, row->ms), "%s", row->text);
}

ParameterizedTestParameters(duration, is_written_in_the_largest_unit_without_a_fraction)
{
	static struct row rows[] = { { "0s", 0 }, { "1ms", 1 }, { "1500ms", 1500 },
		{ "90s", 90000 }, { "36h", 129600000 }, { "2d", 172800000 },
		{ "9223372036854775807ms", INT64_MAX } };
	return cr_make_param_array(struct row, rows, ARRAY_LEN(rows));
}

ParameterizedTest(struct row *row, duration, is_written_in_the_largest_unit_without_a_fraction)
{
	char text[DURATION_TEXT_BYTES];
	duration_format(text, row->ms);
	cr_assert(eq(str, text, row->text));
}
