/* The words for how true an answer is, over HTTP, on a registry that acts when a test says so. */

#include "lib/base/array.h"
#include "lib/base/limits.h"
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
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
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

/* ---- what an answer says of itself ---- */

Test(api_lookup, an_answer_says_how_it_came_and_how_old_it_is)
{
	static const char *const targets[] = { "/v1/resolve/d/a", "/v1/list/d", "/v1/records/d",
		"/v1/endpoints/d", "/v1/targets/d", "/v1/stat/d/a", "/v1/resolve/none" };
	memory_put(stage.registry, "/d", "");
	memory_put(stage.registry, "/d/a", cache_stage_record("one"));
	for (size_t i = 0; i < ARRAY_LEN(targets); i++) {
		for (int again = 0; again < 2; again++) {
			const char *answer = get(stage.client, targets[i],
				again ? "" : "Cache-Control: no-cache\r\n");
			bool found = i + 1 < ARRAY_LEN(targets);
			cr_expect(has_status(answer, found ? 200 : 404), "%s", answer);
			cr_expect(
				says(answer, again ? "HIT" : "MISS"), "%s: %s", targets[i], answer);
			cr_expect(has(answer, "\r\nAge: 0\r\n"), "%s", answer);
			cr_expect(has(answer, "\r\nETag: \""), "%s", answer);
			cr_expect(has(answer, "\r\nCache-Control: no-cache\r\n"), "%s", answer);
			cr_expect(has(answer, "\r\nVary: Accept\r\n"), "%s", answer);
			cr_expect(has(answer,
					  found ? "Type: application/json\r\n"
						: "Type: application/problem+json\r\n"),
				"%s", answer);
		}
	}
}

static bool is_old(const char *answer, int seconds)
{
	char exactly[32];
	char rounded_up[32];
	snprintf(exactly, sizeof(exactly), "\r\nAge: %d\r\n", seconds);
	snprintf(rounded_up, sizeof(rounded_up), "\r\nAge: %d\r\n", seconds + 1);
	return has(answer, exactly) || has(answer, rounded_up);
}

Test(api_lookup, a_stale_answer_grows_older)
{
	memory_put(stage.registry, "/a", cache_stage_record("one"));
	cr_assert(says(ask("/v1/resolve/a"), "MISS"));
	set_state(REGISTRY_AWAY);
	http_stage_pass(4);
	for (int i = 0; i < 3; i++) {
		const char *answer = ask("/v1/resolve/a");
		cr_expect(says(answer, "STALE") && is_old(answer, 4 + 10 * i), "%d: %s", i, answer);
		answer = ask("/v1/resolve/a");
		cr_expect(says(answer, "STALE") && is_old(answer, 4 + 10 * i), "%d: %s", i, answer);
		http_stage_pass(10);
	}
	http_stage_pass(4966);
	connect_again();
	const char *answer = ask("/v1/resolve/a");
	cr_expect(says(answer, "STALE") && is_old(answer, 5000), "%s", answer);
	answer = ask("/v1/resolve/b");
	cr_expect(has_status(answer, 503) && has(answer, "RegistryUnavailable"), "%s", answer);
	set_state(REGISTRY_CONNECTED);
	http_stage_pass(2);
	turn();
	answer = ask("/v1/resolve/a");
	cr_expect(!says(answer, "STALE") && is_old(answer, 0), "%s", answer);
}

static bool counts(const char *result, int count)
{
	char line[80];
	snprintf(line, sizeof(line), "\nberth_lookups_total{result=\"%s\"} %d\n", result, count);
	return has(ask("/metrics"), line);
}

Test(api_lookup, every_lookup_is_counted_by_its_result)
{
	memory_put(stage.registry, "/a", cache_stage_record("one"));
	for (int i = 0; i < 3; i++) {
		(void)ask("/v1/resolve/a");
	}
	cr_expect(counts("miss", 1) && counts("hit", 2) && counts("stale", 0));
	cr_assert(has_status(ask("/v1/resolve/a//"), 400));
	cr_expect(counts("error", 1));
	memory_set_answering(stage.registry, false);
	cr_assert_str_eq(ask("/v1/resolve/b"), "");
	http_stage_pass(TIMEOUT_S + 1);
	const char *answer = more(stage.client);
	cr_assert(has_status(answer, 504) && has(answer, "within 5000 ms"), "%s", answer);
	cr_expect(counts("error", 2));
	memory_set_answering(stage.registry, true);
	turn();
	set_state(REGISTRY_AWAY);
	(void)ask("/v1/resolve/a");
	cr_expect(counts("stale", 1) && counts("miss", 1) && counts("hit", 2));
	cr_expect(has(ask("/metrics"), "\nberth_lookup_duration_seconds_count 4\n"));
}

Test(api_lookup, a_tighter_bound_than_confirm_is_kept)
{
	memory_put(stage.registry, "/a", cache_stage_record("one"));
	(void)ask("/v1/resolve/a");
	hear_now();
	http_stage_pass(1);
	cr_expect(says(ask("/v1/resolve/a"), "HIT"));
	memory_set_answering(stage.registry, false);
	cr_assert_str_eq(get(stage.client, "/v1/resolve/a", "Cache-Control: max-age=0\r\n"), "");
	hear_now();
	memory_set_answering(stage.registry, true);
	const char *answer = more(stage.client);
	cr_expect(has_status(answer, 200) && says(answer, "HIT"), "%s", answer);
}

/* ---- searches ---- */

Test(api_lookup, a_search_by_every_field)
{
	static const char *const queries[] = { "", "?under=/", "?under=/d", "?under=", "?api=sql",
		"?protocol=TCP", "?type=JSONServiceRecord",
		"?id=", "?persistence=", "?under=/d&api=sql&protocol=tcp" };
	static const char *const others[] = { "?under=/e", "?api=other", "?protocol=udp",
		"?type=Other", "?id=x", "?persistence=permanent" };
	memory_put(stage.registry, "/d", "");
	memory_put(stage.registry, "/e", "");
	memory_put(stage.registry, "/d/a",
		"{\"type\":\"JSONServiceRecord\",\"external\":[{\"api\":\"sql\",\"addressType\":"
		"\"host/port\",\"protocolType\":\"tcp\",\"addresses\":[{\"host\":\"10.1.2.3\","
		"\"port\":\"5432\"}]}],\"internal\":[]}");
	for (size_t i = 0; i < ARRAY_LEN(queries); i++) {
		char target[100];
		snprintf(target, sizeof(target), "/v1/find%s", queries[i]);
		const char *answer = ask(target);
		cr_expect(has_status(answer, 200) && has(answer, "\"/d/a\":"), "%s: %s", target,
			answer);
	}
	for (size_t i = 0; i < ARRAY_LEN(others); i++) {
		char target[100];
		snprintf(target, sizeof(target), "/v1/find%s", others[i]);
		const char *answer = ask(target);
		cr_expect(has_status(answer, 200) && has(answer, "\r\n\r\n{}"), "%s: %s", target,
			answer);
	}
	cr_expect(has_status(get(stage.client, "/v1/find", "Accept: image/png\r\n"), 406));
	cr_expect(has_status(ask("/v1/find?under=/d//"), 400));
}
