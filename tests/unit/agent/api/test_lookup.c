/* The words for how true an answer is, over HTTP, on a registry that acts when a test says so. */

#include "tests/unit/agent/api/api_stage.h"

static const char *silent_after; /* the registry reads this path, and then it falls silent */

static void on_task(void *context, const struct registry_task *task, struct err *err)
{
	(void)context;
	(void)err;
	if (silent_after && task->operation == REGISTRY_OP_CHILDREN &&
		strcmp(task->path, silent_after) == 0) {
		memory_set_answering(stage.registry, false);
	}
}

static void begin(void)
{
	open_api();
	memory_on_task(stage.registry, on_task, NULL);
}

TestSuite(api_lookup, .init = begin, .fini = close_api);

static const char *ask(const char *target)
{
	return get(stage.client, target, "");
}

static bool says(const char *answer, const char *word)
{
	char header[32];
	snprintf(header, sizeof(header), "X-Cache: %s\r\n", word);
	return strstr(answer, header) != NULL;
}

/* The records of /d are known, the server is silent for longer than a HIT may be old, and asked. */
static void wait_for_confirmation(void)
{
	memory_put(stage.registry, "/d", "");
	memory_put(stage.registry, "/d/a", cache_stage_record("one"));
	cr_assert(says(ask("/v1/records/d"), "MISS"));
	cr_assert(says(ask("/v1/records/d"), "HIT"));
	hear_now();
	memory_set_answering(stage.registry, false);
	http_stage_pass(CONFIRM_S + 1);
	cr_assert_str_eq(ask("/v1/records/d"), "", "the look-up waits for a sign of life");
}

/*
 * Another client wants the records read: the server answers what was asked before, and takes its
 * time for a record. So the first look-up waits for it, too.
 */
static void wait_for_a_read(int other, int seconds)
{
	cr_assert_str_eq(get(other, "/v1/records/d", "Cache-Control: no-cache\r\n"), "");
	silent_after = "/d";
	memory_set_answering(stage.registry, true);
	hear_now();
	turn();
	cr_assert_str_eq(http_stage_receive(stage.client), "");
	http_stage_pass(seconds);
	silent_after = NULL;
	memory_set_answering(stage.registry, true);
	turn();
}

Test(api_lookup, a_confirmed_answer_is_a_hit)
{
	wait_for_confirmation();
	memory_set_answering(stage.registry, true);
	hear_now();
	turn();
	cr_assert(says(http_stage_receive(stage.client), "HIT"));
}

Test(api_lookup, an_answer_that_a_read_has_delayed_beyond_confirm_is_no_hit)
{
	int other = http_stage_connect();
	wait_for_confirmation();
	wait_for_a_read(other, CONFIRM_S + 1);
	cr_assert(says(http_stage_receive(stage.client), "MISS"));
	cr_assert(says(http_stage_receive(other), "MISS"));
	close(other);
}

Test(api_lookup, an_answer_that_a_read_has_delayed_by_less_is_a_hit)
{
	int other = http_stage_connect();
	wait_for_confirmation();
	wait_for_a_read(other, CONFIRM_S - 1);
	cr_assert(says(http_stage_receive(stage.client), "HIT"));
	cr_assert(says(http_stage_receive(other), "MISS"));
	close(other);
}

/* ---- reads that take too long ---- */

Test(api_lookup, a_known_path_is_stale_when_the_read_for_a_lookup_takes_too_long)
{
	int other = http_stage_connect();
	wait_for_confirmation();
	cr_assert_str_eq(get(other, "/v1/records/d", "Cache-Control: no-cache\r\n"), "");
	http_stage_pass(TIMEOUT_S + 1);
	const char *answer = http_stage_receive(other);
	cr_assert(says(answer, "STALE"), "%s", answer);
	cr_assert(strstr(answer, "/d/a"), "%s", answer);
	answer = http_stage_receive(stage.client);
	cr_assert(says(answer, "STALE"), "%s", answer);
	close(other);
}

Test(api_lookup, the_read_goes_on_and_tells_the_next_lookup)
{
	wait_for_confirmation();
	memory_put(stage.registry, "/d/a", cache_stage_record("two"));
	int other = http_stage_connect();
	cr_assert_str_eq(get(other, "/v1/resolve/d/a", "Cache-Control: no-cache\r\n"), "");
	http_stage_pass(TIMEOUT_S + 1);
	cr_assert(strstr(http_stage_receive(other), "one"));
	memory_set_answering(stage.registry, true);
	hear_now();
	turn();
	const char *answer = get(other, "/v1/resolve/d/a", "");
	cr_assert(says(answer, "HIT") && strstr(answer, "two"), "%s", answer);
	close(other);
}

Test(api_lookup, a_path_that_is_not_known_gets_a_failure)
{
	memory_set_answering(stage.registry, false);
	cr_assert_str_eq(ask("/v1/resolve/unknown"), "");
	http_stage_pass(TIMEOUT_S + 1);
	const char *answer = http_stage_receive(stage.client);
	cr_assert(strstr(answer, "HTTP/1.1 504 "), "%s", answer);
}

/* ---- filters ---- */

Test(api_lookup, endpoints_are_chosen_by_scope_api_and_protocol)
{
	static const struct {
		const char *query;
		bool in, out; /* which endpoint is shown */
	} cases[] = {
		{ "", true, true },
		{ "?scope=internal", true, false },
		{ "?scope=external", false, true },
		{ "?scope=internal&api=inner", true, false },
		{ "?api=outer", false, true },
		{ "?protocol=q", false, true },
		{ "?protocol=none", false, false },
	};
	memory_put(stage.registry, "/a",
		"{\"type\":\"JSONServiceRecord\",\"external\":[{\"api\":\"outer\","
		"\"addressType\":\"uri\",\"protocolType\":\"q\",\"addresses\":[{\"uri\":"
		"\"http://out:1\"}]}],\"internal\":[{\"api\":\"inner\",\"addressType\":"
		"\"uri\",\"protocolType\":\"p\",\"addresses\":[{\"uri\":\"http://in:2\"}]}]}");
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		static const char *const kinds[] = { "endpoints", "targets" };
		for (size_t j = 0; j < 2; j++) {
			char target[100];
			snprintf(target, sizeof(target), "/v1/%s/a%s", kinds[j], cases[i].query);
			const char *answer = ask(target);
			cr_expect_eq(strstr(answer, "in:2") != NULL, cases[i].in, "%s: %s", target,
				answer);
			cr_expect_eq(strstr(answer, "out:1") != NULL, cases[i].out, "%s: %s",
				target, answer);
		}
	}
	cr_expect(has_status(ask("/v1/endpoints/a?scope=all"), 400));
	cr_expect(has_status(ask("/v1/targets/a?scope="), 200), "an empty one is none");
	cr_expect(has_status(get(stage.client, "/v1/targets/a", "Accept: image/png\r\n"), 406));
	cr_expect(has_status(get(stage.client, "/v1/resolve/a", "Accept: image/png\r\n"), 406));
}
