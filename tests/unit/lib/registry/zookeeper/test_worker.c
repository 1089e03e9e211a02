/* LINK: lib/registry/zookeeper/worker/send.o lib/registry/zookeeper/worker/explain.o */
/* The worker's main thread: how it begins, what it passes on, and when it ends. */
#include "tests/unit/lib/registry/zookeeper/worker_stage.h"

TestSuite(worker, .init = make_page);

/* ---- a worker begins ---- */

Test(worker, old_addresses_are_better_than_none)
{
	struct zk_hello words = hello();
	words.addresses = "10.0.0.9:2181";
	words.look_up = true;
	page->failing_lookups = 1;
	begin(&words);
	cr_expect_str_eq(hear_log(ZK_LOG_OWN), "no name server");
	cr_expect_str_eq(hear_beginning().addresses, "10.0.0.9:2181");
	cr_expect_eq(page->lookups, 1);
	end();
}

Test(worker, without_an_address_it_looks_again_every_three_seconds)
{
	const struct zk_hello words = hello();
	page->failing_lookups = 2;
	page->time_flies = true;
	begin(&words);
	cr_expect_str_eq(hear_log(ZK_LOG_OWN), "no name server");
	cr_expect_str_eq(hear_log(ZK_LOG_OWN), "no name server");
	cr_expect_str_eq(hear_beginning().addresses, FOUND);
	cr_expect_eq(page->lookups, 3);
	cr_expect(page->pauses[1] == PAUSE_MS && page->pauses[2] == PAUSE_MS);
	end();
}

Test(worker, it_ends_while_it_looks_for_addresses)
{
	const struct zk_hello words = hello();
	struct buffer frame;
	page->failing_lookups = 1000;
	begin(&words);
	hear_log(ZK_LOG_OWN);
	buffer_init(&frame, ZK_FRAME_MAX_BYTES);
	cr_assert_eq(zk_alive_encode(&frame), 0);
	cr_assert_eq(send(agent, frame.data, 2, 0), 2);
	hear_log(ZK_LOG_OWN);
	buffer_consume(&frame, 2);
	say(&frame);
	hear_log(ZK_LOG_OWN);
	cr_expect_eq(page->lookups, 3);
	end();
}

Test(worker, there_is_no_cage_for_sasl)
{
	struct zk_hello words = hello();
	words.auth = "sasl";
	begin(&words);
	cr_expect_str_eq(hear_log(ZK_LOG_CAGE),
		"cage: none, because SASL mechanisms read files of their own");
	hear_session(ZK_SESSION_CONNECTING);
	cr_expect_eq(page->cages, 0);
	end();
}

/* ---- the session ---- */

static void ask_session(int state)
{
	char path[32];
	snprintf(path, sizeof(path), "/session/%d", state);
	request(path);
}

Test(worker, the_agent_hears_of_each_state_of_the_session)
{
	const struct zk_hello words = hello();
	begin(&words);
	hear_beginning();
	ask_session(ZOO_CONNECTED_STATE);
	struct zk_session session = hear_session(ZK_SESSION_CONNECTED);
	cr_expect_eq(session.id, 77);
	cr_expect_eq(memcmp(session.password, "0123456789abcde", ZK_PASSWORD_BYTES), 0);
	cr_expect_eq(session.timeout_ms, 40000);
	cr_expect_str_eq(session.server, "10.0.0.2:2181");
	cr_expect_str_eq(session.addresses, FOUND);
	hear();
	ask_session(ZOO_CONNECTING_STATE);
	session = hear_session(ZK_SESSION_CONNECTING);
	cr_expect_str_eq(session.addresses, "", "they are known");
	cr_expect_str_eq(session.server, "");
	cr_expect_eq(session.id, 0);
	hear();
	ask_session(ZOO_ASSOCIATING_STATE);
	hear_session(ZK_SESSION_CONNECTING);
	hear();
	ask_session(ZOO_EXPIRED_SESSION_STATE);
	hear_session(ZK_SESSION_EXPIRED);
	hear();
	ask_session(ZOO_AUTH_FAILED_STATE);
	hear_session(ZK_SESSION_AUTH_FAILED);
	hear();
	request("/event");
	hear_done("/event");
	page->has_server = false;
	ask_session(ZOO_CONNECTED_STATE);
	cr_expect_str_eq(hear_session(ZK_SESSION_CONNECTED).server, "");
	end();
}

/* ---- frames ---- */

Test(worker, each_request_is_passed_on_once)
{
	const struct zk_hello words = hello();
	struct buffer frames;
	begin(&words);
	hear_beginning();
	buffer_init(&frames, ZK_FRAME_MAX_BYTES);
	append_request(&frames, "/one");
	cr_assert_eq(zk_alive_encode(&frames), 0);
	append_request(&frames, "/two");
	append_request(&frames, "/three");
	cr_assert_eq(send(agent, frames.data, frames.len - 3, 0), (ssize_t)frames.len - 3);
	hear_done("/one");
	hear_done("/two");
	cr_expect_eq(page->requests, 2);
	buffer_consume(&frames, frames.len - 3);
	say(&frames);
	hear_done("/three");
	page->interruptions = 2;
	request("/four");
	hear_done("/four");
	cr_expect_eq(page->requests, 4);
	end();
}

Test(worker, close_ends_the_session_and_an_end_without_it_does_not)
{
	const struct zk_hello words = hello();
	begin(&words);
	hear_beginning();
	end();
	cr_expect_not(page->closed);
	begin(&words);
	close_session();
	cr_expect_eq(end_of(worker), 0);
	cr_expect(page->closed);
	cr_expect_eq(page->requests, 0);
	close(agent);
}

/* ---- silence ---- */

static int last_pause(void)
{
	return page->pauses[page->pause_count - 1];
}

Test(worker, an_agent_that_is_silent_for_a_session_is_left)
{
	struct zk_hello words = hello();
	words.ends_in_silence = true;
	page->time_flies = true;
	begin(&words);
	hear_beginning();
	cr_expect_eq(end_of(worker), 0);
	cr_expect_eq(last_pause(), 6000);
	cr_expect_not(page->closed, "the session is for the agent, if it wakes up");
	close(agent);
}

/* ---- the client library's log ---- */

Test(worker, twenty_lines_a_second_are_enough)
{
	const struct zk_hello words = hello();
	begin(&words);
	hear_beginning();
	request("/quiet");
	hear_done("/quiet");
	for (int second = 0; second < 2; second++) {
		request("/lines/15");
		for (int i = 0; i < 15; i++) {
			cr_expect_str_eq(hear_log(ZK_LOG_LIBRARY), "one line");
		}
		hear_done("/lines/15");
		request("/later/900");
		hear_done("/later/900");
		request("/lines/15");
		for (int i = 0; i < 5; i++) {
			cr_expect_str_eq(hear_log(ZK_LOG_LIBRARY), "one line");
		}
		hear_done("/lines/15");
		request("/later/100");
		hear_done("/later/100");
	}
	end();
}

/* ---- a login by SASL ---- */

static void begin_login(const char *credential, bool ends_in_silence)
{
	struct zk_hello words = hello();
	words.auth = "sasl";
	words.credential = credential;
	words.timeout_ms = 500;
	words.ends_in_silence = ends_in_silence;
	begin(&words);
	hear_log(ZK_LOG_CAGE);
	hear_session(ZK_SESSION_CONNECTING);
}

Test(worker, a_refused_login_is_reported_once)
{
	page->state = ZOO_AUTH_FAILED_STATE;
	page->time_flies = true;
	begin_login("joe:secret", false);
	cr_expect_str_eq(hear_log(ZK_LOG_OWN),
		"the server refuses the SASL login: look at the name and the password in "
		"auth_file, and at the server's users");
	hear_session(ZK_SESSION_AUTH_FAILED);
	for (int i = 0; i < 2000 && last_pause() != -1; i++) {
		usleep(1000);
	}
	cr_expect_eq(last_pause(), -1);
	request("/a");
	hear_done("/a");
	end();
}

Test(worker, a_refused_ticket_is_reported_as_such)
{
	page->state = ZOO_AUTH_FAILED_STATE;
	page->time_flies = true;
	begin_login("", false);
	cr_expect_str_eq(hear_log(ZK_LOG_OWN),
		"the server refuses the SASL login: look at the ticket of Kerberos (klist)");
	end();
}

Test(worker, it_looks_for_a_refusal_until_there_is_a_session)
{
	page->time_flies = true;
	begin_login("joe:secret", false);
	while (page->pause_count < 5) {
		usleep(1000);
	}
	cr_expect_eq(page->pauses[2], 200);
	cr_expect_eq(page->pauses[4], 200);
	page->time_flies = false;
	ask_session(ZOO_CONNECTED_STATE);
	hear_session(ZK_SESSION_CONNECTED);
	hear();
	page->time_flies = true;
	usleep(20000);
	request("/a");
	hear_done("/a");
	for (int i = 0; i < 2000 && last_pause() != -1; i++) {
		usleep(1000);
	}
	cr_expect_eq(last_pause(), -1);
	end();
}
