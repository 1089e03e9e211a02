/* Calls on an agent alone: what they refuse, and what they say when something is missing. */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "lib/base/array.h"
#include "lib/berth.h"
#include "tests/support/failing.h"
#include "tests/support/scripted_agent.h"

TestSuite(control, .timeout = 120);

#define DONE "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
#define DENIED                                                                                     \
	"HTTP/1.1 403 Forbidden\r\nContent-Type: application/problem+json\r\n"                     \
	"Content-Length: 58\r\n\r\n"                                                               \
	"{\"title\":\"NoPathPermissions\",\"detail\":\"not for this user\"}"
#define NOT_READY "HTTP/1.1 503 x\r\nContent-Length: 17\r\n\r\n{\"detail\":\"wait\"}"

static void let_it_answer(const char *answer)
{
	scripted_agent_set((const uint8_t *)answer, strlen(answer));
}

/* ---- the calls ---- */

static int finish(int code, struct berth_answer *answer)
{
	if (code == 0) {
		code = strcmp(answer->json, "{}") == 0 && answer->len == 2 ? 0 : FAILING_WRONG;
		berth_answer_finish(answer);
	}
	return code;
}

static int call_status(struct berth *berth, struct berth_failure *failure)
{
	struct berth_answer answer;
	return finish(berth_status(berth, &answer, failure), &answer);
}

static int call_checks(struct berth *berth, struct berth_failure *failure)
{
	struct berth_answer answer;
	return finish(berth_checks(berth, &answer, failure), &answer);
}

static int call_history(struct berth *berth, struct berth_failure *failure)
{
	struct berth_answer answer;
	return finish(berth_history(berth, &answer, failure), &answer);
}

static int call_name(struct berth *berth, struct berth_failure *failure)
{
	struct berth_answer answer;
	return finish(berth_name(berth, "a.berth", NULL, &answer, failure), &answer);
}

static int call_run_check(struct berth *berth, struct berth_failure *failure)
{
	struct berth_answer answer;
	return finish(berth_run_check(berth, "web", &answer, failure), &answer);
}

static int call_reload(struct berth *berth, struct berth_failure *failure)
{
	struct berth_answer answer;
	int code = berth_reload(berth, &answer, failure);
	berth_answer_finish(&answer);
	return code;
}

static int call_reload_alone(struct berth *berth, struct berth_failure *failure)
{
	return berth_reload(berth, NULL, failure);
}

static int call_try_reload(struct berth *berth, struct berth_failure *failure)
{
	return berth_try_reload(berth, NULL, failure);
}

static int call_drain(struct berth *berth, struct berth_failure *failure)
{
	return berth_drain(berth, "a reason", 60, failure);
}

static int call_undrain(struct berth *berth, struct berth_failure *failure)
{
	return berth_undrain(berth, failure);
}

static int call_drain_component(struct berth *berth, struct berth_failure *failure)
{
	return berth_drain_component(berth, "web", NULL, 0, failure);
}

static int call_undrain_component(struct berth *berth, struct berth_failure *failure)
{
	return berth_undrain_component(berth, "web", failure);
}

static int call_undamp(struct berth *berth, struct berth_failure *failure)
{
	return berth_undamp(berth, "web", failure);
}

static int call_report(struct berth *berth, struct berth_failure *failure)
{
	return berth_report(berth, "web", BERTH_WARNING, "slow", failure);
}

static int call_supply(struct berth *berth, struct berth_failure *failure)
{
	static const char *const addresses[] = { "http://127.0.0.1:80/", "http://[::1]:80/" };
	return berth_supply(berth, "web", addresses, 2, failure);
}

static int call_withdraw(struct berth *berth, struct berth_failure *failure)
{
	return berth_withdraw(berth, "web", failure);
}

struct call {
	const char *name;
	int (*make)(struct berth *berth, struct berth_failure *failure);
	int expected; /* the code when nothing is missing */
};

static struct call calls[] = {
	{ "status", call_status, 0 },
	{ "checks", call_checks, 0 },
	{ "history", call_history, 0 },
	{ "name", call_name, 0 },
	{ "run-check", call_run_check, 0 },
	{ "reload", call_reload, 0 },
	{ "reload alone", call_reload_alone, 0 },
	{ "try reload", call_try_reload, 0 },
	{ "drain", call_drain, 0 },
	{ "undrain", call_undrain, 0 },
	{ "drain of a component", call_drain_component, 0 },
	{ "undrain of a component", call_undrain_component, 0 },
	{ "undamp", call_undamp, 0 },
	{ "report", call_report, 0 },
	{ "supply", call_supply, 0 },
	{ "withdraw", call_withdraw, 0 },
};

enum { CALLS = ARRAY_LEN(calls) };

static int make_call(void *context)
{
	const struct call *call = context;
	struct berth_failure failure = { 0 };
	struct berth *berth = NULL;
	int code = berth_open(&berth, scripted_agent_path(), NULL, &failure);
	if (code) {
		return code;
	}
	code = call->make(berth, &failure);
	bool told = code >= 0 || (failure.code == code && *failure.message);
	berth_close(berth);
	return !told ? FAILING_WRONG : code == call->expected ? 0 : code;
}

/* ---- what is missing ---- */

Test(control, without_memory_or_a_socket_each_call_says_so)
{
	let_it_answer(DONE);
	for (size_t i = 0; i < CALLS; i++) {
		failing_check_memory(calls[i].name, make_call, &calls[i]);
		failing_check(calls[i].name, "socket", EMFILE, make_call, &calls[i]);
		failing_check(calls[i].name, "connect", ECONNREFUSED, make_call, &calls[i]);
	}
}

static int call_for_nothing(struct berth *berth, struct berth_failure *failure)
{
	struct berth_answer answer;
	int code = berth_run_check(berth, "web", &answer, failure);
	if (code == 0) {
		code = answer.len == 0 && strcmp(answer.json, "") == 0 ? 0 : FAILING_WRONG;
		berth_answer_finish(&answer);
	}
	return code;
}

Test(control, an_empty_answer_is_one)
{
	static struct call call = { "run-check", call_for_nothing, 0 };
	let_it_answer("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
	failing_check_memory(call.name, make_call, &call);
}

Test(control, a_refusal_has_the_agents_name_also_without_memory)
{
	let_it_answer(DENIED);
	for (size_t i = 0; i < CALLS; i++) {
		calls[i].expected = BERTH_NO_PATH_PERMISSIONS;
		failing_check_memory(calls[i].name, make_call, &calls[i]);
	}
}

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

Test(control, a_registry_has_no_agent_to_call)
{
	struct berth_failure failure;
	struct berth *berth = NULL;
	cr_assert_eq(berth_open(&berth, "dir:/tmp", NULL, &failure), 0, "%s", failure.message);
	for (size_t i = 0; i < CALLS; i++) {
		failure = (struct berth_failure){ 0 };
		cr_expect_lt(calls[i].make(berth, &failure), 0, "%s", calls[i].name);
		cr_expect(
			strstr(failure.message, "agent"), "%s: %s", calls[i].name, failure.message);
	}
	cr_expect_lt(berth_ready(berth, false, &failure), 0);
	berth_close(berth);
}
