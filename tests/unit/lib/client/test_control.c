/* Calls on an agent alone: what they refuse, and what they say when something is missing. */
#include <criterion/criterion.h>
#include <string.h>

#include "lib/base/array.h"
#include "lib/berth.h"
#include "tests/support/scripted_agent.h"

TestSuite(control, .timeout = 120);

#define DONE "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
#define NOT_READY "HTTP/1.1 503 x\r\nContent-Length: 17\r\n\r\n{\"detail\":\"wait\"}"

static void let_it_answer(const char *answer)
{
	scripted_agent_set((const uint8_t *)answer, strlen(answer));
}

/* ---- what is missing ---- */

Test(control, an_agent_that_is_not_ready_answers_and_one_that_is_not_there_does_not)
{
	struct berth_failure failure;
	struct berth *berth = NULL;
	let_it_answer(NOT_READY);
	cr_assert_eq(berth_open(&berth, scripted_agent_path(), NULL, &failure), 0);
	cr_assert_eq(berth_ready(berth, false, &failure), BERTH_FAILED);
	cr_assert_eq(berth_ready(berth, true, &failure), BERTH_FAILED);
	cr_assert_eq(berth_live(berth, &failure), BERTH_FAILED);
	/* The client does not send an order twice: a reload needs a connection that stays. */
	berth_close(berth);
	cr_assert_eq(berth_open(&berth, scripted_agent_path(), NULL, &failure), 0);
	struct berth_answer answer;
	cr_assert_lt(berth_reload(berth, &answer, &failure), 0);
	cr_expect_str_eq(answer.json, "{\"detail\":\"wait\"}");
	berth_answer_finish(&answer);
	let_it_answer(DONE);
	cr_assert_eq(berth_ready(berth, false, &failure), 0, "%s", failure.message);
	cr_assert_eq(berth_live(berth, NULL), 0);
	berth_close(berth);
	cr_assert_eq(berth_open(&berth, "/nowhere/at/all", NULL, &failure), 0);
	cr_assert_eq(berth_ready(berth, false, &failure), BERTH_AGENT_UNAVAILABLE);
	berth_close(berth);
}

/* ---- what is not sent ---- */

Test(control, a_name_that_no_configuration_could_give_is_not_sent)
{
	static char too_long[2000];
	static const char *const names[] = { "", "a/b", "a b", "a?b", "\xc3\xa4", too_long };
	struct berth_failure failure;
	struct berth_answer answer;
	struct berth *berth = NULL;
	memset(too_long, 'a', 1024 - strlen("/v1/agent/components//undamp"));
	cr_assert_eq(berth_open(&berth, "/nowhere/at/all", NULL, &failure), 0);
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		const char *name = names[i];
		cr_expect_eq(berth_undamp(berth, name, &failure), BERTH_PATH_NOT_FOUND);
		cr_expect_not_null(strstr(failure.message, "no component named"));
		if (name != too_long) {
			cr_expect_eq(
				berth_run_check(berth, name, &answer, NULL), BERTH_PATH_NOT_FOUND);
		}
		cr_expect_eq(berth_name(berth, name, NULL, &answer, NULL), BERTH_PATH_NOT_FOUND);
		cr_expect_eq(berth_name(berth, "a", name, &answer, &failure), BERTH_PATH_NOT_FOUND);
	}
	/* A DNS name has 253 bytes, and may have a final dot. */
	too_long[255] = '\0';
	cr_expect_eq(berth_name(berth, too_long, NULL, &answer, NULL), BERTH_PATH_NOT_FOUND);
	too_long[254] = '\0';
	cr_expect_eq(berth_name(berth, too_long, "A", &answer, NULL), BERTH_AGENT_UNAVAILABLE);
	static const char *const addresses[] = { "\xff" };
	cr_expect_eq(berth_supply(berth, "web", addresses, 1, NULL), BERTH_FAILED);
	berth_close(berth);
}
