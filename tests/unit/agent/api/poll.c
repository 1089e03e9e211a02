/* Long polls: of lookups, of searches and of the agent's views. */

#include "lib/base/array.h"
#include "tests/unit/agent/api/api_stage.h"

enum { WAIT_S = 60 };

#define APPLIED "Preference-Applied: wait=60\r\n"

TestSuite(api_poll, .init = open_api, .fini = close_api);

static const char *const targets[] = { "/v1/resolve/a", "/v1/list/", "/v1/find?under=/",
	"/v1/agent", "/v1/agent/history" };

enum { TARGETS = ARRAY_LEN(targets) };

static void begin_all(int clients[TARGETS])
{
	memory_put(stage.registry, "/a", cache_stage_record("one"));
	for (size_t i = 0; i < TARGETS; i++) {
		clients[i] = http_stage_connect();
		cr_assert_str_eq(
			poll_from(clients[i], targets[i], "", WAIT_S), "", "%s", targets[i]);
	}
	cr_assert_eq(api_watchers(stage.api), TARGETS);
}

static void close_all(const int clients[TARGETS])
{
	for (size_t i = 0; i < TARGETS; i++) {
		close(clients[i]);
	}
}

/* A change of everything that they wait for. */
static void change(void)
{
	memory_put(stage.registry, "/a", cache_stage_record("two"));
	memory_put(stage.registry, "/b", cache_stage_record("three"));
	stage.state = "stopping";
	(void)history_add(stage.history, 1e9,
		&(struct transition){ .subject = "check alive", .from = "up", .to = "down" });
	api_agent_changed(stage.api);
	turn();
}

Test(api_poll, the_next_answer_ends_it)
{
	int clients[TARGETS];
	begin_all(clients);
	change();
	http_stage_pass(2); /* a search pauses between two walks */
	for (size_t i = 0; i < TARGETS; i++) {
		const char *answer = more(clients[i]);
		cr_expect(has_status(answer, 200) && has(answer, APPLIED), "%s: %s", targets[i],
			answer);
	}
	cr_expect_eq(api_watchers(stage.api), 0);
	close_all(clients);
}

Test(api_poll, the_end_of_its_time_is_the_same_answer)
{
	int clients[TARGETS];
	begin_all(clients);
	http_stage_pass(WAIT_S - 1);
	for (size_t i = 0; i < TARGETS; i++) {
		cr_expect_str_eq(more(clients[i]), "", "%s", targets[i]);
	}
	http_stage_pass(2);
	for (size_t i = 0; i < TARGETS; i++) {
		const char *answer = more(clients[i]);
		cr_expect(has_status(answer, 304) && has(answer, APPLIED), "%s: %s", targets[i],
			answer);
	}
	cr_expect_eq(api_watchers(stage.api), 0);
	close_all(clients);
}

Test(api_poll, an_agent_that_hands_over_ends_all_of_them)
{
	int clients[TARGETS];
	begin_all(clients);
	api_end_polls(stage.api);
	cr_expect_eq(api_watchers(stage.api), 0);
	for (size_t i = 0; i < TARGETS; i++) {
		const char *answer = more(clients[i]);
		cr_expect(has_status(answer, 304) && has(answer, APPLIED), "%s: %s", targets[i],
			answer);
	}
	close_all(clients);
}

Test(api_poll, a_client_that_leaves_is_forgotten)
{
	int clients[TARGETS];
	begin_all(clients);
	close_all(clients);
	turn();
	cr_expect_eq(api_watchers(stage.api), 0);
	change();
	http_stage_pass(WAIT_S + 1);
	api_end_polls(stage.api);
}

Test(api_poll, time_alone_ends_no_poll_of_a_view)
{
	cr_assert_str_eq(poll_from(stage.client, "/v1/agent", "", WAIT_S), "");
	stage.uptime += 100;
	api_agent_changed(stage.api);
	cr_expect_str_eq(more(stage.client), "");
	stage.state = "stopping";
	cr_expect_str_eq(more(stage.client), "", "nobody has said that it changed");
	api_agent_changed(stage.api);
	cr_expect(has(more(stage.client), "stopping"));
}

Test(api_poll, an_answer_that_has_become_too_old_is_none)
{
	cache_set_options(stage.cache,
		&(struct cache_options){ .max_size_bytes = 1024 * 1024,
			.max_stale_ms = 10000,
			.release_rendering = api_release_rendering });
	memory_put(stage.registry, "/a", cache_stage_record("one"));
	cr_assert_str_eq(poll_from(stage.client, "/v1/resolve/a", "", WAIT_S), "");
	set_state(REGISTRY_AWAY);
	http_stage_pass(WAIT_S + 1);
	const char *answer = more(stage.client);
	cr_expect(has_status(answer, 504) && has(answer, "the registry has not answered"), "%s",
		answer);
	cr_expect(has(get(stage.client, "/metrics", ""), "result=\"error\"} 1\n"));
}

/* ---- how many there may be ---- */

Test(api_poll, streams_and_polls_are_counted_together)
{
	enum { OPEN = MAX_WATCHERS * 3 / 4 }; /* one client's share */
	int clients[OPEN + 1];
	memory_put(stage.registry, "/a", cache_stage_record("one"));
	for (int i = 0; i <= OPEN; i++) {
		clients[i] = http_stage_connect();
		if (i % 3 == 0) {
			cr_assert(has(get(clients[i], "/v1/watch/a", ""), "SUBSCRIBED"));
		} else {
			cr_assert_str_eq(
				poll_from(clients[i], i % 3 == 1 ? "/v1/agent" : "/v1/resolve/a",
					"", WAIT_S),
				"");
		}
	}
	const char *answer = poll_from(stage.client, "/v1/resolve/a", "", WAIT_S);
	cr_expect(has_status(answer, 503) && has(answer, "Retry-After: 1\r\n"), "%s", answer);
	answer = poll_from(stage.client, "/v1/agent", "", WAIT_S);
	cr_expect(has_status(answer, 503) && has(answer, "max_watchers"), "%s", answer);
	answer = get(stage.client, "/v1/watch/a", "");
	cr_expect(has_status(answer, 503) && has(answer, "LimitExceeded"), "%s", answer);
	close(clients[0]);
	turn();
	cr_expect_str_eq(poll_from(stage.client, "/v1/agent", "", WAIT_S), "");
	for (int i = 1; i <= OPEN; i++) {
		close(clients[i]);
	}
}

static const char *watch_remotely(int client)
{
	return http_stage_ask_remote(client, "GET /v1/watch/a HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n");
}

Test(api_poll, clients_over_tcp_have_a_quarter_of_the_watchers)
{
	enum { REMOTE = MAX_WATCHERS / 4, LOCAL = MAX_WATCHERS - REMOTE };
	int remote[REMOTE + 1];
	int local[LOCAL];
	memory_put(stage.registry, "/a", cache_stage_record("one"));
	(void)get(stage.client, "/v1/resolve/a", "");
	http_stage_open_tcp();
	for (int i = 0; i <= REMOTE; i++) {
		remote[i] = http_stage_connect_remote();
		const char *answer = watch_remotely(remote[i]);
		cr_expect(has_status(answer, i < REMOTE ? 200 : 503), "%d: %s", i, answer);
		cr_expect_eq(has(answer, "more than 2 watchers over TCP"), i == REMOTE);
	}
	cr_expect_eq(api_watchers(stage.api), REMOTE);
	int count = 0;
	for (; count < LOCAL; count++) {
		local[count] = http_stage_connect();
		if (!has_status(get(local[count], "/v1/watch/a", ""), 200)) {
			break;
		}
	}
	cr_expect_eq(count, LOCAL * 3 / 4, "one user leaves something for others: %d", count);
	close(local[count]);
	close(remote[0]);
	while (api_watchers(stage.api) == (size_t)(REMOTE + count)) {
		turn();
	}
	cr_expect(has_status(watch_remotely(remote[REMOTE]), 200), "there is room again");
	for (int i = 0; i < count; i++) {
		close(local[i]);
	}
	for (int i = 1; i <= REMOTE; i++) {
		close(remote[i]);
	}
	while (api_watchers(stage.api) > 0) {
		turn();
	}
	connect_again();
}
