/* How a tcp check judges an answer that has come as far as this. */
#include <criterion/criterion.h>
#include <string.h>

#include "agent/check/tcp.h"
#include "tests/support/check_support.h"

static bool judge(char *expect, const char *answer, bool complete, struct check_result *result)
{
	struct config_check config = check_support_config(CONFIG_CHECK_TCP);
	config.expect = expect;
	config.expect_len = strlen(expect);
	*result = (struct check_result){ .verdict = CHECK_COULD_NOT_RUN };
	const struct check_judge judge = check_tcp_exchange(&config).judge;
	bool enough = judge.take(judge.context, answer, strlen(answer), complete, result);
	judge.destroy(judge.context);
	return enough;
}

Test(check_tcp, one_byte_may_be_expected)
{
	char expect[] = "+";
	struct check_result result;
	cr_expect_not(judge(expect, "-ERR", false, &result));
	cr_expect(judge(expect, "-ERR", true, &result));
	cr_expect_eq(result.verdict, CHECK_FAILING);
	cr_expect(judge(expect, "+PONG", false, &result));
	cr_expect_eq(result.verdict, CHECK_PASSING);
}

Test(check_tcp, the_output_is_the_answer)
{
	char expect[] = "PONG";
	struct check_result result;
	cr_expect(judge(expect, "+PONG\r\n", false, &result));
	cr_expect_str_eq(result.output, "+PONG\r\n");
	cr_expect_not(result.output_cut);
}
