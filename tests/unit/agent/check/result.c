/* Results as texts: their last line, and as a successor reads them. */
#include <criterion/criterion.h>
#include <string.h>

#include "agent/check/result.h"
#include "lib/base/array.h"

Test(check_result, the_last_line_is_the_last_one_that_is_not_blank)
{
	static const struct {
		const char *output;
		const char *line;
	} rows[] = {
		{ "", "" },
		{ " \n\t\r\n", "" },
		{ "one", "one" },
		{ "one\n", "one" },
		{ "one\n two three \r\n\n", "two three" },
		{ "\n\nx", "x" },
		{ "\t x", "x" },
	};
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct check_result result = { .verdict = CHECK_PASSING };
		char line[64] = "before";
		check_result_set_output(&result, rows[i].output, strlen(rows[i].output), false);
		check_result_last_line(&result, line, sizeof(line));
		cr_expect_str_eq(line, rows[i].line, "%zu: %s", i, line);
	}
}

Test(check_result, every_verdict_comes_back_by_its_name)
{
	for (int i = 0; i < CHECK_VERDICT_COUNT; i++) {
		struct check_result result = { .verdict = (enum check_verdict)i,
			.started = 1000,
			.duration_s = 0.5,
			.output_cut = i % 2 };
		struct check_result back;
		check_result_set_detail(&result, "exit status %d", i);
		check_result_set_output(&result, "out", 3, i % 2);
		json_t *json = check_result_json(&result);
		cr_assert(check_result_from_json(&back, json));
		cr_expect_eq(back.verdict, result.verdict);
		cr_expect_str_eq(back.detail, result.detail);
		cr_expect_str_eq(back.output, "out");
		cr_expect_eq(back.output_cut, result.output_cut);
		cr_expect_eq(back.started, 1000);
		cr_expect_eq(back.duration_s, 0.5);
		json_decref(json);
		cr_expect_eq(check_verdict_from_name(check_verdict_name(result.verdict)), i);
		cr_expect_eq(check_verdict_good(result.verdict), i < 2);
	}
	cr_expect_eq(check_verdict_from_name("unknown"), -1);
}
