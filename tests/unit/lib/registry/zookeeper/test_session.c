/* The state of the session, as the worker's reports and the passing of time make it. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "tests/support/zk_stage.h"

int clock_gettime(clockid_t clock, struct timespec *now)
{
	return zk_stage_clock(clock, now);
}

/* A quarter and a third of the session's timeout. */
enum { QUIET_MS = ZK_STAGE_TIMEOUT_MS / 4, PATIENCE_MS = ZK_STAGE_TIMEOUT_MS / 3 };

/* For each of three servers, in the first pass. */
enum { TRY_MS = ZK_STAGE_TIMEOUT_MS / 2 / 3 };

static int64_t due_in_ms(void)
{
	return registry_zk_ops.deadline_ms(zk_stage.backend) - zk_stage.now_ms;
}

static int64_t heard_ms(void)
{
	return registry_zk_ops.heard_ms(zk_stage.backend);
}

static bool is_state(const char *name)
{
	const char *last = zk_stage.states;
	for (const char *line; (line = strchr(last, '\n')) && line[1];) {
		last = line + 1;
	}
	return strncmp(last, name, strlen(name)) == 0 && last[strlen(name)] == ':';
}

static void report_search(const char *addresses)
{
	zk_stage_session(&(struct zk_session){
		.state = ZK_SESSION_CONNECTING, .server = "", .addresses = addresses });
}

static void report(enum zk_session_state state)
{
	zk_stage_session(&(struct zk_session){ .state = state, .server = "", .addresses = "" });
}

#define assert_state(name) cr_assert(is_state(name), "%s", zk_stage.states)
#define assert_words(text, words) cr_assert(strstr(text, words), "%s", text)

TestSuite(zk_session, .fini = zk_stage_detach);

Test(zk_session, is_as_the_server_decides)
{
	zk_stage_open((struct registry_options){ 0 });
	cr_assert_str_eq(zk_stage.states, "");
	cr_assert_str_eq(zk_stage.log, "");
	cr_assert_eq(zk_stage.workers, 1);
	cr_assert_eq(zk_stage.hello.session_id, 0);
	cr_assert_eq(zk_stage.hello.timeout_ms, ZK_STAGE_TIMEOUT_MS);
	cr_assert_eq(registry_zk_ops.session_timeout_ms(zk_stage.backend), ZK_STAGE_TIMEOUT_MS);
	cr_assert_eq(heard_ms(), INT64_MIN);
	cr_assert_str_eq(registry_zk_ops.session_name(zk_stage.backend), "");
	zk_stage_session(&(struct zk_session){ .state = ZK_SESSION_CONNECTED,
		.id = 0xabc,
		.timeout_ms = 40000,
		.server = "10.0.0.1:2181",
		.addresses = "10.0.0.1:2181" });
	cr_assert_str_eq(zk_stage.states, "connected: session 0xabc, timeout 40000 ms\n");
	cr_assert_eq(registry_zk_ops.session_timeout_ms(zk_stage.backend), 40000);
	cr_assert_str_eq(registry_zk_ops.session_name(zk_stage.backend), "0xabc");
	cr_assert_eq(heard_ms(), zk_stage.now_ms);
}

Test(zk_session, a_worker_that_connects_twice_is_replaced)
{
	zk_stage_open_connected();
	zk_stage_session(&(struct zk_session){
		.state = ZK_SESSION_CONNECTED, .id = 1, .server = "", .addresses = "" });
	cr_assert(strstr(zk_stage.log, "reports a second connection; starting another worker"),
		"%s", zk_stage.log);
	zk_stage_pass_ms(1000);
	cr_assert_eq(zk_stage.workers, 2);
}

/* ---- the contact with the server ---- */

Test(zk_session, a_quiet_link_carries_a_read)
{
	zk_stage_open_connected();
	int64_t begin_ms = zk_stage.now_ms;
	cr_assert_eq(due_in_ms(), QUIET_MS);
	zk_stage_pass_ms(QUIET_MS - 1);
	cr_assert_null(zk_stage_request());
	zk_stage_pass_ms(1);
	const struct zk_request *read = zk_stage_request();
	cr_assert_eq(read->operation, ZK_EXISTS);
	cr_assert_str_eq(read->path, "/");
	cr_assert_eq(read->tag, REGISTRY_ZK_TAG_CONTACT);
	cr_assert_eq(due_in_ms(), PATIENCE_MS);
	zk_stage_pass_ms(1000);
	cr_assert_eq(heard_ms(), begin_ms);
	zk_stage_answer(read, ZK_RC_NO_NODE);
	cr_assert_eq(heard_ms(), begin_ms + QUIET_MS, "it answers for the time of the question");
	cr_assert_eq(due_in_ms(), QUIET_MS - 1000);
	cr_assert_null(zk_stage_request());
	cr_assert_eq(zk_stage.workers, 1);
}

Test(zk_session, a_worker_without_an_answer_is_replaced_while_the_session_lives)
{
	zk_stage_open_connected();
	zk_stage_pass_ms(QUIET_MS);
	zk_stage_pass_ms(PATIENCE_MS - 1);
	cr_assert_eq(zk_stage.workers, 1);
	assert_state("connected");
	zk_stage_pass_ms(1);
	cr_assert_eq(zk_stage.workers, 2);
	assert_state("away");
	assert_words(zk_stage.log, "warn: ZooKeeper, or our worker, does not answer");
	cr_assert_eq(zk_stage.hello.session_id, ZK_STAGE_SESSION);
	cr_assert_eq(
		memcmp(zk_stage.hello.session_password, ZK_STAGE_PASSWORD, ZK_PASSWORD_BYTES), 0);
	zk_stage_connect();
	assert_state("connected");
}

Test(zk_session, an_old_answer_says_nothing_newer)
{
	struct registry_task tasks[2] = { { .operation = REGISTRY_OP_STAT, .path = "/a" },
		{ .operation = REGISTRY_OP_STAT, .path = "/b" } };
	uint32_t tags[2];
	zk_stage_open_connected();
	for (int i = 0; i < 2; i++) {
		zk_stage_pass_ms(100);
		zk_stage_submit(&tasks[i]);
		tags[i] = zk_stage_request()->tag;
	}
	int64_t second_ms = zk_stage.now_ms;
	zk_stage_result(&(struct zk_result){ .tag = tags[1] });
	cr_assert_eq(heard_ms(), second_ms);
	zk_stage_result(&(struct zk_result){ .tag = tags[0] });
	cr_assert_eq(heard_ms(), second_ms);
}

/* The server's answer to the connection's first question may have come long before the report. */
Test(zk_session, a_connection_proves_no_more_than_a_server_since_the_start_of_its_worker)
{
	zk_stage_open((struct registry_options){ 0 });
	int64_t started_ms = zk_stage.now_ms;
	zk_stage_spend_ms(4000);
	zk_stage_session(&(struct zk_session){ .state = ZK_SESSION_CONNECTED,
		.id = ZK_STAGE_SESSION,
		.timeout_ms = ZK_STAGE_TIMEOUT_MS,
		.server = "10.0.0.1:2181",
		.addresses = ZK_STAGE_ADDRESSES });
	cr_assert_eq(heard_ms(), started_ms);
	cr_assert_eq(due_in_ms(), PATIENCE_MS);
	zk_stage_lose_connection();
	zk_stage_pass_ms(ZK_STAGE_TIMEOUT_MS - 4000 - 1);
	assert_state("away");
	zk_stage_pass_ms(1);
	assert_state("lost");
}

/* ---- the worker listens for a frozen agent ---- */

static bool says_alive(void)
{
	char bytes[64];
	struct zk_frame frame;
	ssize_t len = recv(zk_stage.socket, bytes, sizeof(bytes), MSG_DONTWAIT);
	return len > 0 && zk_frame_next(&frame, bytes, (size_t)len) == len &&
		frame.type == ZK_FRAME_ALIVE;
}

Test(zk_session, a_worker_that_wants_words_gets_one_each_quarter_of_the_timeout)
{
	zk_stage_open((struct registry_options){ .ends_in_silence = true });
	cr_assert(zk_stage.hello.ends_in_silence);
	zk_stage_pass_ms(QUIET_MS - 1);
	cr_assert(!says_alive());
	cr_assert_eq(due_in_ms(), 1, "also while it looks for a server");
	zk_stage_pass_ms(1);
	cr_assert(says_alive());
	cr_assert_eq(due_in_ms(), QUIET_MS);
	zk_stage_connect();
	zk_stage_pass_ms(QUIET_MS);
	const struct zk_request *read = zk_stage_request();
	cr_assert_eq(read->operation, ZK_EXISTS, "the question is a word as well");
	zk_stage_pass_ms(QUIET_MS - 1);
	cr_assert(!says_alive());
	zk_stage_pass_ms(1);
	cr_assert(says_alive());
	cr_assert_eq(zk_stage.workers, 1);
}

/* ---- the connection is lost ---- */

Test(zk_session, is_presumed_over_a_timeout_after_the_server_was_heard)
{
	zk_stage_open_connected();
	zk_stage_pass_ms(5000);
	zk_stage_lose_connection();
	assert_words(zk_stage.states, "away: the connection is lost\n");
	cr_assert_eq(zk_stage.workers, 2, "another worker goes on with the session");
	cr_assert_eq(zk_stage.hello.session_id, ZK_STAGE_SESSION);
	cr_assert_str_eq(zk_stage.hello.addresses, "10.0.0.2:2181,10.0.0.3:2181,10.0.0.1:2181");
	cr_assert(!zk_stage.hello.look_up);
	zk_stage_pass_ms(ZK_STAGE_TIMEOUT_MS - 5000 - 1);
	assert_state("away");
	zk_stage_pass_ms(1);
	assert_state("lost");
	zk_stage_connect();
	assert_state("connected");
	zk_stage_pass_ms(QUIET_MS - 1);
	assert_state("connected");
}

/* It counts from the last sign of life, which no report of a search is. */
Test(zk_session, a_search_that_goes_on_gives_the_session_no_more_time)
{
	zk_stage_open_connected();
	zk_stage_lose_connection();
	report_search(ZK_STAGE_ADDRESSES);
	zk_stage_pass_ms(TRY_MS - 1);
	report_search(ZK_STAGE_ADDRESSES);
	cr_assert_eq(zk_stage.workers, 2);
	zk_stage_pass_ms(ZK_STAGE_TIMEOUT_MS - TRY_MS);
	assert_state("away");
	zk_stage_pass_ms(1);
	assert_state("lost");
}

Test(zk_session, the_reason_is_in_the_words_of_the_worker)
{
	zk_stage_open_connected();
	zk_stage_pass_ms(QUIET_MS);
	zk_stage_log(ZK_LOG_LIBRARY, "the cable is cut");
	cr_assert_eq(zk_stage.attempts, 0);
	zk_stage_answer(zk_stage_request(), ZK_RC_OK);
	zk_stage_lose_connection();
	assert_words(zk_stage.states, "away: the cable is cut\n");
	zk_stage_connect();
	zk_stage_lose_connection();
	assert_words(zk_stage.states, "away: the connection is lost\n");
}

/* ---- the session is over ---- */

static void open_with_session(void)
{
	json_t *session = json_pack("{s:s, s:s, s:s, s:s, s:i}", "backend", "zookeeper", "id",
		"0x77", "password", "00112233445566778899aabbccddeeff", "url",
		"zookeeper://one:2181,two:2181,three:2181/registry", "timeout_ms", 30000);
	zk_stage_open((struct registry_options){ .session = session });
	json_decref(session);
}

Test(zk_session, that_cannot_be_resumed_is_replaced_without_a_loss)
{
	open_with_session();
	cr_assert_eq(zk_stage.hello.session_id, 0x77);
	cr_assert_eq(memcmp(zk_stage.hello.session_password, "\x00\x11\x22\x33", 4), 0);
	report(ZK_SESSION_EXPIRED);
	assert_words(zk_stage.log, "warn: cannot go on: session 0x77 is over; making a new one\n");
	cr_assert_str_eq(zk_stage.states, "");
	cr_assert_eq(zk_stage.workers, 2);
	cr_assert_eq(zk_stage.hello.session_id, 0);
	zk_stage_connect();
	assert_state("connected");
}

/* ---- the credentials are refused ---- */

/* The time until the next attempt, which it lets pass. */
static int64_t wait_for_attempt(void)
{
	unsigned workers = zk_stage.workers;
	int64_t delay_ms = due_in_ms();
	cr_assert_eq(zk_stage.worker, 0);
	zk_stage_pass_ms(delay_ms - 1);
	cr_assert_eq(zk_stage.workers, workers);
	zk_stage_pass_ms(1);
	cr_assert_eq(zk_stage.workers, workers + 1);
	return delay_ms;
}

Test(zk_session, refused_credentials_are_tried_again_more_and_more_seldom)
{
	char words[128];
	zk_stage_open_connected();
	for (int64_t most_ms = 20000; most_ms < 1000000; most_ms *= 2) {
		int64_t bound_ms = most_ms < 300000 ? most_ms : 300000;
		zk_stage.log[0] = '\0';
		report(ZK_SESSION_AUTH_FAILED);
		assert_state("denied");
		int64_t delay_ms = wait_for_attempt();
		cr_assert_geq(delay_ms, bound_ms / 2);
		cr_assert_lt(delay_ms, bound_ms);
		snprintf(words, sizeof(words),
			"warn: the server refuses our credentials; the next attempt is in %d s, or "
			"at a reload\n",
			(int)((delay_ms + 999) / 1000));
		assert_words(zk_stage.log, words);
		assert_words(zk_stage.log, "info: the refused credentials are tried again\n");
	}
	cr_assert_null(strstr(zk_stage.states, "lost:"), "%s", zk_stage.states);
	const char *told = strstr(zk_stage.states, "denied:");
	cr_assert_null(strstr(told + 1, "denied:"), "%s", zk_stage.states);
}

Test(zk_session, credentials_are_accepted_when_the_server_answers_a_request)
{
	struct zk_session session = { .state = ZK_SESSION_CONNECTED,
		.id = ZK_STAGE_SESSION,
		.timeout_ms = ZK_STAGE_TIMEOUT_MS,
		.server = "",
		.addresses = "" };
	zk_stage_open((struct registry_options){ 0 });
	report(ZK_SESSION_AUTH_FAILED);
	wait_for_attempt();
	zk_stage.log[0] = '\0';
	zk_stage_kill_worker();
	while (zk_stage.worker == 0) {
		zk_stage_pass_ms(due_in_ms());
	}
	cr_assert_null(strstr(zk_stage.log, "tried again"), "once for each refusal");
	zk_stage_session(&session);
	assert_state("denied");
	const struct zk_request *sync = zk_stage_request();
	zk_stage_answer(sync, ZK_RC_CONNECTION_LOSS);
	assert_state("denied");
	zk_stage_answer(sync, ZK_RC_OK);
	assert_state("connected");
	/* The next refusal is a first one. */
	report(ZK_SESSION_AUTH_FAILED);
	cr_assert_lt(wait_for_attempt(), 20000);
}

/* ---- no server is found ---- */

/* The worker is given up in `ms`, and another one follows, after a rest. */
static void wait_for_successor(int64_t ms)
{
	unsigned workers = zk_stage.workers;
	zk_stage_pass_ms(ms - 1);
	cr_assert_eq(zk_stage.workers, workers);
	cr_assert_neq(zk_stage.worker, 0);
	zk_stage_pass_ms(1);
	while (zk_stage.worker == 0) {
		zk_stage_pass_ms(due_in_ms());
	}
	cr_assert_eq(zk_stage.workers, workers + 1);
}

Test(zk_session, each_server_has_its_turn_and_then_they_are_looked_up_again)
{
	static const char *const first[] = { "10.0.0.1:2181", "10.0.0.2:2181", "10.0.0.3:2181" };
	zk_stage_open((struct registry_options){ 0 });
	cr_assert_str_eq(zk_stage.hello.addresses, "");
	report_search(ZK_STAGE_ADDRESSES);
	for (unsigned i = 0; i < 7; i++) {
		char why[64];
		int64_t try_ms = TRY_MS << i / 3;
		wait_for_successor(try_ms < 40000 ? try_ms : 40000);
		cr_assert_eq(zk_stage.attempts, i + 1);
		snprintf(why, sizeof(why), "%s: no answer", first[i % 3]);
		cr_assert_str_eq(zk_stage.trouble, why);
		cr_assert_eq(strncmp(zk_stage.hello.addresses, first[(i + 1) % 3], 13), 0);
		cr_assert_eq(zk_stage.hello.look_up, i % 3 == 2);
		report_search("");
	}
	zk_stage_connect();
	zk_stage_pass_ms(1000);
	zk_stage_lose_connection();
	/* The passes begin anew. */
	for (unsigned i = 0; i < 3; i++) {
		cr_assert(!zk_stage.hello.look_up);
		report_search("");
		wait_for_successor(TRY_MS);
	}
	cr_assert(zk_stage.hello.look_up);
}
