/* The host: backend on a server that obeys the test: its states, its questions, its events. */

#include "lib/base/array.h"
#include "tests/unit/lib/registry/host/host_stage.h"

Test(registry_host, a_node_is_asked_for_and_answered)
{
	struct answer answer = { 0 };
	begin();
	registry_get(stage.registry, "/a/b", answer_take, &answer);
	cr_assert_eq(registry_deadline_ms(stage.registry), 0, "it is to be asked now");
	take_question();
	cr_assert(asks("\"reads\":[{\"id\":2,\"path\":\"/a/b\",\"list\":false,\"watch\":false}]"),
		"%s", stage.asked);
	cr_assert_eq(answer.calls, 0);
	tell("{\"type\":\"READ\",\"id\":2,\"node\":{" STAT ",\"ephemeral\":true,\"data\":\"" RECORD
	     "\"}}");
	cr_assert_eq(answer.calls, 1);
	cr_assert_eq(answer.err.code, 0);
	cr_assert_str_eq(answer.data, "{\"type\":\"JSONServiceRecord\"}");
	cr_assert_eq(answer.stat.created_ms, 7);
	cr_assert_eq(answer.stat.node_id, 9);
	cr_assert_eq(answer.stat.version, 3);
	cr_assert(answer.stat.ephemeral && !answer.stat.own);
	answer_clear(&answer);
	close_stage();
}

Test(registry_host, a_change_is_read)
{
	struct answer answer = { 0 };
	begin();
	struct registry_watch *watch = registry_watch(
		stage.registry, "/a", REGISTRY_WATCH_DATA, answer_take, &answer);
	take_question();
	cr_assert(asks("\"path\":\"/a\",\"list\":false,\"watch\":true"), "%s", stage.asked);
	tell("{\"type\":\"READ\",\"id\":2,\"node\":null}");
	dispatch();
	cr_assert_eq(answer.err.code, BERTH_PATH_NOT_FOUND);
	tell("{\"type\":\"CHANGED\",\"path\":\"/a\",\"list\":false}");
	take_question();
	tell("{\"type\":\"READ\",\"id\":3,\"node\":{" STAT ",\"data\":\"" RECORD "\"}}");
	dispatch();
	cr_assert_eq(answer.err.code, 0);
	cr_assert_gt(registry_deadline_ms(stage.registry), 0);
	registry_unwatch(watch);
	cr_assert_eq(registry_deadline_ms(stage.registry), 0, "it is to be asked now");
	take_question();
	cr_assert(asks("\"drops\":[{\"path\":\"/a\",\"list\":false}]"), "%s", stage.asked);
	cr_assert_gt(registry_deadline_ms(stage.registry), 0);
	answer_clear(&answer);
	close_stage();
}

Test(registry_host, an_age_counts_from_the_question_on)
{
	struct answer answer = { 0 };
	begin();
	cr_assert_eq(registry_heard_ms(stage.registry, clock_monotonic_ms()), INT64_MIN);
	int64_t before_ms = clock_monotonic_ms();
	registry_confirm(stage.registry, before_ms - 700, answer_take, &answer);
	take_question();
	int64_t asked_ms = clock_monotonic_ms();
	cr_assert(asks("\"confirms\":[{\"id\":2,\"max_age_ms\":7"), "%s", stage.asked);
	usleep(20000); /* an answer that took its time */
	tell("{\"type\":\"CONFIRMED\",\"id\":2,\"heard_ms\":500}");
	cr_assert_eq(answer.err.code, 0);
	int64_t heard_ms = registry_heard_ms(stage.registry, clock_monotonic_ms());
	cr_assert_geq(heard_ms, before_ms - 500);
	cr_assert_leq(heard_ms, asked_ms - 500);
	tell("{\"type\":\"CONFIRMED\",\"id\":2,\"heard_ms\":0}"); /* nobody asked */
	cr_assert_eq(registry_heard_ms(stage.registry, clock_monotonic_ms()), heard_ms);
	answer_clear(&answer);
	close_stage();
}

Test(registry_host, a_confirmation_without_an_age_confirms_nothing)
{
	struct answer answer = { 0 };
	begin();
	registry_confirm(stage.registry, 0, answer_take, &answer);
	take_question();
	tell("{\"type\":\"CONFIRMED\",\"id\":2}");
	cr_assert_eq(answer.err.code, BERTH_REGISTRY_UNAVAILABLE);
	cr_assert_eq(registry_heard_ms(stage.registry, clock_monotonic_ms()), INT64_MIN);
	answer_clear(&answer);
	close_stage();
}

Test(registry_host, the_hosts_registry_goes_and_comes)
{
	struct answer answer = { 0 };
	begin();
	registry_get(stage.registry, "/a", answer_take, &answer);
	take_question();
	tell("{\"type\":\"STALE\",\"why\":\"it is away\"}");
	cr_assert_eq(stage.state, REGISTRY_AWAY);
	int states = stage.states;
	tell("{\"type\":\"STALE\"}");
	cr_assert_eq(stage.states, states, "that is not news");
	cr_assert(eq(str, stage.why, "it is away"));
	cr_assert_eq(answer.err.code, BERTH_REGISTRY_UNAVAILABLE);
	tell("{\"type\":\"FRESH\",\"heard_ms\":0}");
	cr_assert_eq(stage.state, REGISTRY_CONNECTED);
	answer_clear(&answer);
	close_stage();
}

#define BEGINS                                                                                     \
	"{\"type\":\"SUBSCRIBED\",\"stream_id\":\"a1\",\"session_timeout_ms\":9000,\"container\":{}"

/* When the registry was heard, by what a stream begins with and what follows; before any answer. */
static int64_t heard_at_first(const char *event, const char *next)
{
	open_stage();
	subscribe_as(event);
	if (next) {
		tell(next);
	}
	int64_t heard_ms = registry_heard_ms(stage.registry, clock_monotonic_ms());
	close_stage();
	return heard_ms;
}

/* A silent registry confirms nothing, and its last state is read all the same. */
Test(registry_host, a_first_answer_has_an_age)
{
	int64_t before_ms = clock_monotonic_ms();
	int64_t heard_ms = heard_at_first(BEGINS ",\"connected\":true,\"heard_ms\":7000}", NULL);
	cr_assert_geq(heard_ms, before_ms - 7000);
	cr_assert_leq(heard_ms, clock_monotonic_ms() - 7000);
	before_ms = clock_monotonic_ms();
	heard_ms = heard_at_first(BEGINS ",\"connected\":false}", "{\"type\":\"FRESH\"}");
	cr_assert_geq(heard_ms, before_ms);
	heard_ms = heard_at_first(BEGINS ",\"connected\":true,\"heard_ms\":0}", NULL);
	cr_assert_geq(heard_ms, before_ms);
	heard_ms = heard_at_first(
		BEGINS ",\"connected\":false,\"heard_ms\":7000}", "{\"type\":\"FRESH\"}");
	cr_assert_leq(heard_ms, clock_monotonic_ms() - 7000);
	cr_assert_geq(heard_ms, before_ms - 7000);
}

Test(registry_host, a_first_age_that_is_none_says_nothing)
{
	static const char *const events[] = {
		BEGINS ",\"connected\":true}",
		BEGINS ",\"connected\":true,\"heard_ms\":-1}",
		BEGINS ",\"connected\":true,\"heard_ms\":9000000000000000000}",
		BEGINS ",\"connected\":true,\"heard_ms\":\"0\"}",
		BEGINS ",\"connected\":false}",
	};
	for (size_t i = 0; i < ARRAY_LEN(events); i++) {
		cr_assert_eq(heard_at_first(events[i], NULL), INT64_MIN, "%s", events[i]);
	}
}

Test(registry_host, the_hosts_agent_goes)
{
	struct answer answer = { 0 };
	begin();
	cr_assert(eq(str, stage.container, "{\"name\":\"web-1\"}"));
	cr_assert(eq(str, (char *)registry_session_name(stage.registry), "container web-1"));
	cr_assert_eq(registry_session_timeout_ms(stage.registry), 9000);
	registry_get(stage.registry, "/a", answer_take, &answer);
	take_question();
	close(stage.stream);
	stage.stream = -1;
	dispatch();
	cr_assert_eq(stage.state, REGISTRY_AWAY);
	cr_assert_eq(answer.err.code, BERTH_REGISTRY_UNAVAILABLE);
	cr_assert(eq(str, stage.container, "-"));
	answer_clear(&answer);
	close_stage();
}

Test(registry_host, a_host_without_an_agent)
{
	open_stage();
	close(stage.listener);
	stage.listener = -1;
	dispatch();
	cr_assert_eq(stage.state, REGISTRY_AWAY);
	cr_assert(strstr(stage.why, "berth.sock cannot be reached") != NULL, "%s", stage.why);
	close_stage();
}

Test(registry_host, the_state_of_the_records_is_handed_on)
{
	begin();
	tell("{\"type\":\"CONTAINER\",\"container\":{\"name\":\"web-1\",\"records\":[]}}");
	cr_assert(eq(str, stage.container, "{\"name\":\"web-1\",\"records\":[]}"));
	tell("{\"type\":\"CONTAINER\",\"container\":null}");
	cr_assert(eq(str, stage.container, "-"));
	close_stage();
}

Test(registry_host, a_stream_whose_name_is_none_is_asked_nothing)
{
	open_stage();
	subscribe_as("{\"type\":\"SUBSCRIBED\",\"stream_id\":\"a1 HTTP/1.1\\r\\nX: \","
		     "\"connected\":true}");
	for (int i = 0; i < 3; i++) {
		dispatch();
	}
	struct pollfd readable = { .fd = stage.listener, .events = POLLIN };
	cr_assert_eq(poll(&readable, 1, 0), 0);
	close_stage();
}

Test(registry_host, nothing_is_written_here)
{
	struct answer answer = { 0 };
	begin();
	const struct registry_bind bind = { .data = "{}", .len = 2, .mode = REGISTRY_BIND_CREATE };
	registry_bind(stage.registry, "/a", &bind, answer_take, &answer);
	dispatch();
	dispatch();
	cr_assert_eq(answer.err.code, BERTH_NO_PATH_PERMISSIONS);
	answer_clear(&answer);
	close_stage();
}

Test(registry_host, options_that_a_container_has_not)
{
	const char *option = NULL;
	struct err err = ERR_INIT;
	struct registry_options options = { .url = "host:/run/berth/host",
		.secure = true,
		.system_accounts = REGISTRY_SYSTEM_ACCOUNTS };
	cr_assert_neq(registry_options_check(&options, &option, &err), 0);
	cr_assert(eq(str, (char *)option, "secure"));
	options.secure = false;
	err_clear(&err);
	cr_assert_eq(registry_options_check(&options, &option, &err), 0, "%s", err.msg);
	options.url = "host:run";
	cr_assert_neq(registry_options_check(&options, &option, &err), 0);
	cr_assert(strstr(err.msg, "allowed is host:/path") != NULL, "%s", err.msg);
	char url[128] = "host:/";
	const size_t longest = 107 - strlen("/berth.sock") + strlen("host:");
	memset(url + strlen(url), 'x', longest - strlen(url));
	options.url = url;
	err_clear(&err);
	cr_assert_eq(registry_options_check(&options, &option, &err), 0, "%s", err.msg);
	url[longest] = 'x';
	cr_assert_neq(registry_options_check(&options, &option, &err), 0);
	cr_assert(
		strstr(err.msg, "too long for a socket: at most 107 bytes") != NULL, "%s", err.msg);
	cr_assert(eq(str, (char *)option, "url"));
}

#define BEGAN(timeout_ms)                                                                          \
	"{\"type\":\"SUBSCRIBED\",\"stream_id\":\"a1\",\"connected\":true,"                        \
	"\"session_timeout_ms\":" timeout_ms "}"

Test(registry_host, a_session_lasts_as_long_as_the_hosts_agent_says_if_that_can_be)
{
	static const struct {
		const char *event;
		int timeout_ms;
	} rows[] = {
		{ BEGAN("0"), 0 },
		{ BEGAN("1"), 1 },
		{ BEGAN("2147483647"), 2147483647 },
		{ BEGAN("2147483648"), 30000 },
		{ BEGAN("-1"), 30000 },
	};
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		open_stage();
		subscribe_as(rows[i].event);
		cr_expect_eq(registry_session_timeout_ms(stage.registry), rows[i].timeout_ms, "%s",
			rows[i].event);
		close_stage();
	}
}

Test(registry_host, a_stream_that_comes_again_is_asked_everything_again)
{
	struct answer answer = { 0 };
	begin();
	registry_watch(stage.registry, "/a", REGISTRY_WATCH_DATA, answer_take, &answer);
	struct registry_watch *watch = registry_watch(
		stage.registry, "/ended", REGISTRY_WATCH_DATA, answer_take, &answer);
	take_question();
	tell("{\"type\":\"READ\",\"id\":2,\"node\":null}");
	tell("{\"type\":\"READ\",\"id\":3,\"node\":null}");
	registry_confirm(stage.registry, clock_monotonic_ms(), answer_take, &answer);
	take_question();
	cr_assert(asks("\"confirms\":[{\"id\":4"), "%s", stage.asked);
	registry_get(stage.registry, "/b", answer_take, &answer);
	read_question();
	answer_question("HTTP/1.1 200 OK\r\nContent-Le"); /* and no more */
	registry_unwatch(watch);
	close(stage.stream);
	close(stage.post);
	stage.post = -1;
	dispatch();
	cr_assert_eq(stage.state, REGISTRY_AWAY);
	int64_t due_ms = registry_deadline_ms(stage.registry);
	cr_assert_leq(due_ms, clock_monotonic_ms() + 15000);
	registry_dispatch(stage.registry, due_ms);
	accept_stream(SUBSCRIBED);
	cr_assert_eq(stage.state, REGISTRY_CONNECTED);
	take_question();
	cr_expect(asks("\"path\":\"/a\",\"list\":false,\"watch\":true"), "%s", stage.asked);
	cr_expect(asks("\"confirms\":[{\"id\":"), "%s", stage.asked);
	cr_expect_not(asks("/ended"), "%s", stage.asked);
	cr_expect_eq(stage.state, REGISTRY_CONNECTED, "%s", stage.why);
	answer_clear(&answer);
	close_stage();
}

Test(registry_host, a_read_has_until_its_deadline_and_not_longer)
{
	struct answer answer = { 0 };
	stage.request_timeout_ms = 5000;
	begin();
	int64_t before_ms = clock_monotonic_ms();
	registry_get(stage.registry, "/a", answer_take, &answer);
	take_question();
	int64_t due_ms = registry_deadline_ms(stage.registry);
	cr_assert_geq(due_ms, before_ms + 5000);
	cr_assert_leq(due_ms, clock_monotonic_ms() + 5000);
	registry_dispatch(stage.registry, due_ms - 1);
	cr_assert_eq(answer.calls, 0);
	registry_dispatch(stage.registry, due_ms);
	cr_assert_eq(answer.calls, 1);
	cr_assert_eq(answer.err.code, BERTH_TIMEOUT);
	cr_assert(strstr(answer.err.msg, "/a") != NULL, "%s", answer.err.msg);
	cr_assert_eq(stage.state, REGISTRY_CONNECTED);
	answer_clear(&answer);
	close_stage();
}

/* The stream has no name that a question could be for. */
Test(registry_host, a_read_that_was_never_asked_did_not_reach_the_hosts_agent)
{
	struct answer answer = { 0 };
	stage.request_timeout_ms = 5000;
	open_stage();
	subscribe_as("{\"type\":\"SUBSCRIBED\",\"stream_id\":\"X\",\"connected\":true}");
	registry_get(stage.registry, "/a", answer_take, &answer);
	registry_dispatch(stage.registry, clock_monotonic_ms() + 5000);
	cr_assert_eq(answer.calls, 1);
	cr_assert_eq(answer.err.code, BERTH_REGISTRY_UNAVAILABLE);
	answer_clear(&answer);
	close_stage();
}

Test(registry_host, a_request_that_is_cancelled_is_answered_to_nobody)
{
	struct answer answer = { 0 };
	struct answer other = { 0 };
	begin();
	struct registry_request *request = registry_get(stage.registry, "/a", answer_take, &answer);
	registry_get(stage.registry, "/b", answer_take, &other);
	take_question();
	registry_cancel(stage.registry, request);
	tell("{\"type\":\"READ\",\"id\":2,\"node\":null}");
	tell("{\"type\":\"READ\",\"id\":3,\"node\":null}");
	cr_assert_eq(answer.calls, 0);
	cr_assert_eq(other.calls, 1);
	answer_clear(&other);
	close_stage();
}

/* One confirmation at a time; what waits meanwhile is asked together, by the tightest bound. */
Test(registry_host, confirmations_that_wait_are_one_question)
{
	struct answer answers[4] = { { 0 } };
	begin();
	int64_t now_ms = clock_monotonic_ms();
	registry_confirm(stage.registry, now_ms - 9000, answer_take, &answers[0]);
	take_question();
	registry_confirm(stage.registry, now_ms - 100000, answer_take, &answers[1]);
	registry_confirm(stage.registry, now_ms + 100000, answer_take, &answers[2]);
	dispatch();
	cr_assert_gt(registry_deadline_ms(stage.registry), now_ms, "it has to wait");
	registry_get(stage.registry, "/a", answer_take, &answers[3]);
	take_question();
	cr_assert_not(asks("confirms"), "%s", stage.asked);
	tell("{\"type\":\"CONFIRMED\",\"id\":2,\"heard_ms\":0}");
	cr_assert_eq(answers[0].calls, 1);
	cr_assert_eq(answers[1].calls + answers[2].calls, 0);
	take_question();
	cr_assert(asks("\"confirms\":[{\"id\":4,\"max_age_ms\":0}]"), "%s", stage.asked);
	tell("{\"type\":\"CONFIRMED\",\"id\":4,\"heard_ms\":0}");
	for (size_t i = 0; i < 3; i++) {
		cr_expect_eq(answers[i].calls, 1);
		cr_expect_eq(answers[i].err.code, 0);
		answer_clear(&answers[i]);
	}
	close_stage();
}
