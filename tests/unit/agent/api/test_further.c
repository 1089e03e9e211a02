/* Look-ups with near= where failover is set: the nearest path, and further ones in its place. */
#include "lib/base/array.h"
#include "tests/unit/agent/api/api_stage.h"

enum { HOLD_S = 30, TTL_S = 5 };

static char far[] = "/far";
static char farther[] = "/net/farther";
static char *const failover[] = { far, farther };

static const struct api_options options = { .version = "0",
	.max_watchers = MAX_WATCHERS,
	.zone = "eu",
	.failover = failover,
	.failover_count = 2,
	.failover_hold_ms = HOLD_S * 1000 };

static void begin(void)
{
	open_api();
	api_set_options(stage.api, &options);
	memory_put(stage.registry, "/far", "");
	memory_put(stage.registry, "/net", "");
	memory_put(stage.registry, "/net/farther", "");
	memory_put(stage.registry, "/web", "");
	memory_put(stage.registry, "/far/web", "");
	memory_put(stage.registry, "/net/farther/web", "");
}

TestSuite(api_further, .init = begin, .fini = close_api);

static const char *ask(const char *target)
{
	return get(stage.client, target, "");
}

static const char *look(void)
{
	return ask("/v1/endpoints/web?near=self");
}

static void put(const char *path, const char *name)
{
	memory_put(stage.registry, path, cache_stage_record(name));
	turn();
}

/* The answer has these, in this order, and no other. */
static void expect_names(const char *answer, const char *first, const char *second)
{
	static const char *const all[] = { "//near", "//far", "//farther", "//other" };
	size_t found = 0;
	cr_expect(has_status(answer, 200), "%s", answer);
	for (size_t i = 0; i < ARRAY_LEN(all); i++) {
		char quoted[32];
		snprintf(quoted, sizeof(quoted), "%s\"", all[i]);
		found += has(answer, quoted);
	}
	cr_expect_eq(found, (size_t)(first != NULL) + (second != NULL), "%s", answer);
	const char *at = first ? strstr(answer, first) : answer;
	cr_expect(at && (!second || strstr(at, second)), "%s", answer);
}

static bool counts(const char *metric)
{
	char line[128];
	snprintf(line, sizeof(line), "\nberth_%s\n", metric);
	return has(ask("/metrics"), line);
}

/* ---- which paths ---- */

Test(api_further, instances_of_the_nearest_path_are_all_of_the_answer)
{
	put("/web/a", "near");
	put("/far/web/a", "far");
	const char *answer = look();
	expect_names(answer, "//near\"", NULL);
	cr_expect(has(answer, "Content-Type: application/json\r\n"), "%s", answer);
	cr_expect(has(answer, "\r\nCache-Control: no-cache\r\n"), "%s", answer);
	cr_expect(has(answer, "\r\nVary: Accept\r\n"), "%s", answer);
	cr_expect(has(answer, "\r\nETag: \"f-"), "%s", answer);
	cr_expect(has(answer, "\r\nX-Cache: MISS\r\n") && has(answer, "\r\nAge: 0\r\n"), "%s",
		answer);
	answer = look();
	cr_expect(
		has(answer, "\r\nX-Cache: HIT\r\n") && has(answer, "\r\nAge: 0\r\n"), "%s", answer);
	cr_expect(counts("lookups_total{result=\"miss\"} 1"));
	cr_expect(counts("lookups_total{result=\"hit\"} 1"));
	cr_expect(counts("lookups_total{result=\"error\"} 0"));
	cr_expect(counts("lookup_duration_seconds_count 2"));
}

Test(api_further, an_empty_path_is_answered_by_the_next_one_that_is_not)
{
	expect_names(look(), NULL, NULL);
	put("/net/farther/web/a", "farther");
	expect_names(look(), "//farther\"", NULL);
	put("/far/web/a", "far");
	expect_names(look(), "//far\"", "//farther\"");
	http_stage_pass(HOLD_S);
	expect_names(look(), "//far\"", NULL);
	expect_names(ask("/v1/endpoints/web"), NULL, NULL);
}

Test(api_further, the_further_path_stays_for_a_while_behind_the_nearer_one)
{
	put("/far/web/a", "far");
	expect_names(look(), "//far\"", NULL);
	put("/web/a", "near");
	expect_names(look(), "//near\"", "//far\"");
	http_stage_pass(HOLD_S - 2);
	const char *answer = look();
	expect_names(answer, "//near\"", "//far\"");
	cr_expect(has(answer, "},{"), "%s", answer);
	const char *body = strstr(answer, "\r\n\r\n[{");
	cr_expect(body && strcmp(answer + strlen(answer) - 3, "}]\n") == 0, "%s", answer);
	http_stage_pass(3);
	expect_names(look(), "//near\"", NULL);
	put("/far/web/a", "other");
	expect_names(look(), "//near\"", NULL);
}

Test(api_further, each_question_has_a_time_of_its_own_for_that)
{
	static const char *const others[] = { "/v1/endpoints/web?near=self&api=urn:x",
		"/v1/endpoints/web?near=self&protocol=http",
		"/v1/endpoints/web?near=self&scope=external", "/v1/targets/wet?near=self" };
	memory_put(stage.registry, "/wet", "");
	memory_put(stage.registry, "/wet/a", cache_stage_record("near"));
	put("/far/web/a", "far");
	expect_names(look(), "//far\"", NULL);
	put("/web/a", "near");
	expect_names(look(), "//near\"", "//far\"");
	for (size_t i = 0; i < ARRAY_LEN(others); i++) {
		const char *answer = ask(others[i]);
		cr_expect(has_status(answer, 200) && !has(answer, "//far"), "%s: %s", others[i],
			answer);
	}
}

Test(api_further, tiers_of_a_further_path_are_higher_than_all_before)
{
	put("/far/web/a", "far");
	(void)look();
	put("/web/a", "near");
	const char *answer = look();
	const char *near = strstr(answer, "\"tier\":");
	const char *further = near ? strstr(near + 1, "\"tier\":") : NULL;
	int tiers[2] = { 0, 0 };
	cr_assert(near && further, "%s", answer);
	cr_assert_eq(sscanf(near, "\"tier\":%d", &tiers[0]), 1);
	cr_assert_eq(sscanf(further, "\"tier\":%d", &tiers[1]), 1);
	cr_expect_lt(tiers[0], tiers[1], "%s", answer);
}

Test(api_further, lines_of_text_follow_each_other)
{
	put("/far/web/a", "far");
	const char *answer = get(
		stage.client, "/v1/endpoints/web?near=self", "Accept: text/plain\r\n");
	cr_expect(has(answer, "Content-Type: text/plain; charset=utf-8\r\n"), "%s", answer);
	cr_expect(has(answer, "\r\n\r\nhttp://far"), "%s", answer);
	put("/web/a", "near");
	answer = get(stage.client, "/v1/endpoints/web?near=self", "Accept: text/plain\r\n");
	const char *body = strstr(answer, "\r\n\r\nhttp://near");
	cr_expect(body && has(body, "\nhttp://far") && !has(body, "[") && !has(body, ","), "%s",
		answer);
	memory_remove(stage.registry, "/web/a");
	memory_remove(stage.registry, "/far/web/a");
	turn();
	answer = get(stage.client, "/v1/endpoints/web?near=self", "Accept: text/plain\r\n");
	cr_expect(has_status(answer, 200) && has(answer, "Content-Length: 0\r\n"), "%s", answer);
}

Test(api_further, at_the_root_it_is_the_further_root)
{
	put("/far/a", "far");
	expect_names(ask("/v1/endpoints/?near=self"), "//far\"", NULL);
}

Test(api_further, targets_are_answered_likewise)
{
	memory_put(stage.registry, "/far/web/a",
		"{\"type\":\"JSONServiceRecord\",\"external\":[{\"api\":\"sql\",\"addressType\":"
		"\"host/port\",\"protocolType\":\"tcp\",\"addresses\":[{\"host\":\"10.1.2.3\","
		"\"port\":\"5432\"}]}],\"internal\":[]}");
	turn();
	const char *answer = ask("/v1/targets/web?near=self");
	cr_expect(has_status(answer, 200) && has(answer, "\"10.1.2.3:5432\""), "%s", answer);
	answer = ask("/v1/targets/none?near=self");
	cr_expect(has_status(answer, 200) && has(answer, "\r\n\r\n[]\n"), "%s", answer);
}

/* ---- paths that are not there, or not known ---- */

Test(api_further, a_path_that_is_nowhere_is_not_found)
{
	const char *answer = ask("/v1/endpoints/none?near=self");
	cr_expect(has_status(answer, 404) && has(answer, "\"detail\":"), "%s", answer);
	cr_expect(has(answer, "/none") && !has(answer, "/far"), "%s", answer);
	cr_expect(counts("lookups_total{result=\"error\"} 1"));
	put("/far/none", "far");
	expect_names(ask("/v1/endpoints/none?near=self"), "//far\"", NULL);
}

Test(api_further, a_path_of_a_wrong_form_is_refused)
{
	const char *answer = ask("/v1/endpoints/web/?near=self");
	cr_expect(has_status(answer, 400) && has(answer, "InvalidPathname"), "%s", answer);
	cr_expect(counts("lookups_total{result=\"error\"} 1"));
}

/* A path of so many bytes. */
static void write_path(char *path, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		path[i] = i % 60 == 0 ? '/' : 'a';
	}
	path[len] = '\0';
}

Test(api_further, a_path_that_is_too_long_below_a_further_root_is_left_out)
{
	enum { LONGEST = 1024 };
	char path[LONGEST + 1];
	char below[LONGEST + 1];
	char target[LONGEST + 100];
	write_path(path, LONGEST);
	snprintf(target, sizeof(target), "/v1/endpoints%s?near=self", path);
	cr_expect(has_status(ask(target), 404));
	put(path, "near");
	expect_names(ask(target), "//near\"", NULL);
	/* Below the first further root it fits, below the second it does not. */
	write_path(path, LONGEST - strlen(far));
	snprintf(target, sizeof(target), "/v1/endpoints%s?near=self", path);
	snprintf(below, sizeof(below), "%s%s", far, path);
	cr_expect(has_status(ask(target), 404));
	put(below, "far");
	expect_names(ask(target), "//far\"", NULL);
}

Test(api_further, a_nearest_path_that_does_not_answer_decides_alone)
{
	put("/far/web/a", "far");
	(void)ask("/v1/endpoints/far/web");
	memory_be_late(stage.registry, "/web");
	cr_assert_str_eq(look(), "");
	http_stage_pass(TIMEOUT_S - 1);
	cr_assert_str_eq(more(stage.client), "");
	http_stage_pass(2);
	const char *answer = more(stage.client);
	cr_expect(has_status(answer, 504) && has(answer, "within 5000 ms"), "%s", answer);
	cr_expect(counts("lookups_total{result=\"error\"} 1"));
	memory_answer_late(stage.registry);
	turn();
	expect_names(look(), "//far\"", NULL);
}

Test(api_further, a_late_answer_of_one_path_is_not_that_of_another)
{
	put("/web/a", "near");
	expect_names(look(), "//near\"", NULL);
	memory_remove(stage.registry, "/web/a");
	turn();
	expect_names(look(), NULL, NULL);
	put("/far/web/a", "far");
	http_stage_pass(HOLD_S + 1);
	memory_be_late(stage.registry, "/web");
	cr_assert_str_eq(
		get(stage.client, "/v1/endpoints/web?near=self", "Cache-Control: no-cache\r\n"),
		"");
	http_stage_pass(TIMEOUT_S + 1);
	memory_answer_late(stage.registry);
	const char *answer = more(stage.client);
	cr_expect(has_status(answer, 200), "%s", answer);
	expect_names(look(), "//far\"", NULL);
	expect_names(ask("/v1/endpoints/web"), NULL, NULL);
}

Test(api_further, a_nearest_path_that_is_stale_decides_alone)
{
	put("/far/web/a", "far");
	expect_names(look(), "//far\"", NULL);
	put("/web/a", "near");
	memory_remove(stage.registry, "/far/web/a");
	turn();
	http_stage_pass(HOLD_S);
	expect_names(look(), "//near\"", NULL);
	http_stage_pass(HOLD_S + 1);
	expect_names(look(), "//near\"", NULL);
	hear_now();
	memory_set_answering(stage.registry, false);
	http_stage_pass(CONFIRM_S + 1);
	cr_assert_str_eq(look(), "");
	http_stage_pass(TIMEOUT_S + 1);
	const char *answer = more(stage.client);
	expect_names(answer, "//near\"", NULL);
	cr_expect(has(answer, "\r\nX-Cache: STALE\r\n"), "%s", answer);
	cr_expect(!has(answer, "\r\nAge: 0\r\n"), "%s", answer);
	memory_set_answering(stage.registry, true);
	turn();
	cr_expect(counts("lookups_total{result=\"stale\"} 1"));
}

Test(api_further, while_the_registry_is_away_all_is_stale_and_as_it_was)
{
	put("/far/web/a", "far");
	expect_names(look(), "//far\"", NULL);
	set_state(REGISTRY_AWAY);
	http_stage_pass(3);
	const char *answer = look();
	cr_expect(has(answer, "\r\nX-Cache: STALE\r\n"), "%s", answer);
	cr_expect(has(answer, "\r\nAge: 3\r\n") || has(answer, "\r\nAge: 4\r\n"), "%s", answer);
	answer = ask("/v1/endpoints/unknown?near=self");
	cr_expect(has_status(answer, 503), "%s", answer);
	http_stage_pass(4997);
	connect_again();
	answer = look();
	cr_expect(
		has(answer, "\r\nAge: 5000\r\n") || has(answer, "\r\nAge: 5001\r\n"), "%s", answer);
}

Test(api_further, a_further_path_that_does_not_answer_is_left_out_after_a_second)
{
	put("/net/farther/web/a", "farther");
	memory_be_late(stage.registry, "/far/web");
	cr_assert_str_eq(look(), "");
	cr_assert_str_eq(more(stage.client), "");
	http_stage_pass(2);
	expect_names(more(stage.client), NULL, NULL);
	memory_answer_late(stage.registry);
	turn();
	expect_names(look(), "//farther\"", NULL);
}

Test(api_further, all_further_paths_together_have_a_second)
{
	expect_names(look(), NULL, NULL);
	memory_put(stage.registry, "/new", "");
	cr_assert(has_status(ask("/v1/endpoints/new"), 200));
	memory_set_answering(stage.registry, false);
	cr_assert_str_eq(ask("/v1/endpoints/new?near=self&api=x"), "");
	http_stage_pass(2);
	expect_names(more(stage.client), NULL, NULL);
	memory_set_answering(stage.registry, true);
	turn();
}

static const char *failing; /* the path that cannot be read */

static void on_task(void *context, const struct registry_task *task, struct err *err)
{
	(void)context;
	if (strcmp(task->path, failing) == 0) {
		err_set(err, BERTH_NO_PATH_PERMISSIONS, "that is secret");
	}
}

Test(api_further, a_further_path_that_cannot_be_read_is_not_taken_for_empty)
{
	failing = "/far/web";
	memory_on_task(stage.registry, on_task, NULL);
	put("/net/farther/web/a", "farther");
	expect_names(look(), NULL, NULL);
	failing = "/net/farther/web";
	expect_names(ask("/v1/endpoints/web?near=us"), NULL, NULL);
}

Test(api_further, a_nearest_path_that_cannot_be_read_is_the_answer)
{
	failing = "/web";
	memory_on_task(stage.registry, on_task, NULL);
	put("/far/web/a", "far");
	const char *answer = look();
	cr_expect(has_status(answer, 403) && has(answer, "NoPathPermissions"), "%s", answer);
	cr_expect(counts("lookups_total{result=\"error\"} 1"));
}

Test(api_further, a_client_that_leaves_is_forgotten)
{
	int other = http_stage_connect();
	put("/far/web/a", "far");
	memory_be_late(stage.registry, "/web");
	cr_assert_str_eq(get(other, "/v1/endpoints/web?near=self", ""), "");
	close(other);
	turn();
	memory_answer_late(stage.registry);
	turn();
	http_stage_pass(TIMEOUT_S + 1);
	expect_names(look(), "//far\"", NULL);
}

/* ---- which look-ups ---- */

Test(api_further, only_with_near_and_only_where_failover_is_set)
{
	static const struct api_options none = {
		.version = "0", .max_watchers = MAX_WATCHERS, .zone = "eu"
	};
	put("/far/web/a", "far");
	expect_names(ask("/v1/endpoints/web"), NULL, NULL);
	expect_names(ask("/v1/endpoints/web?near="), NULL, NULL);
	expect_names(ask("/v1/endpoints/web?near=us"), "//far\"", NULL);
	api_set_options(stage.api, &none);
	expect_names(look(), NULL, NULL);
	api_set_options(stage.api, &options);
	expect_names(look(), "//far\"", NULL);
}

Test(api_further, a_zone_of_a_wrong_form_is_refused)
{
	static const char *const targets[] = { "/v1/endpoints/web?near=%20",
		"/v1/targets/web?near=%20", "/v1/names/web.berth?near=%20" };
	for (size_t i = 0; i < ARRAY_LEN(targets); i++) {
		const char *answer = ask(targets[i]);
		cr_expect(has_status(answer, 400) && has(answer, "query parameter near"), "%s: %s",
			targets[i], answer);
	}
}
