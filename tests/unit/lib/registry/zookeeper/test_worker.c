/* LINK: lib/registry/zookeeper/worker/send.o lib/registry/zookeeper/worker/explain.o */
/* The worker's main thread: how it begins, what it passes on, and when it ends. */
#include "tests/unit/lib/registry/zookeeper/worker_stage.h"

TestSuite(worker, .init = make_page);

/* ---- a worker begins ---- */

static int end_of_main(int argc, const char *first)
{
	char word[16] = "";
	char *words[] = { (char[]){ "berth-zookeeper" }, word, word, NULL };
	snprintf(word, sizeof(word), "%s", first);
	char said[256] = "";
	int ends[2];
	cr_assert_eq(pipe(ends), 0);
	pid_t child = fork();
	if (child == 0) {
		alarm(5);
		dup2(ends[1], STDERR_FILENO);
		_exit(zk_worker_main(argc, words));
	}
	close(ends[1]);
	(void)!read(ends[0], said, sizeof(said) - 1);
	close(ends[0]);
	cr_expect_str_eq(said, "berth-zookeeper: started by berthd and the like, not by hand\n");
	return end_of(child);
}

Test(worker, nobody_starts_it_by_hand)
{
	cr_expect_eq(end_of_main(1, ""), 2);
	cr_expect_eq(end_of_main(2, "2"), 2);
	cr_expect_eq(end_of_main(2, "--help"), 2);
	cr_expect_eq(end_of_main(3, "9"), 2);
}

Test(worker, it_is_alone_with_its_socket)
{
	const struct zk_hello words = hello();
	begin(&words);
	hear_beginning();
	request("/a");
	hear_done("/a");
	cr_expect(page->is_alone);
	cr_expect_eq(page->open_fds, 1U << WORKER_FD | 7, "%x", page->open_fds);
	end();
}

static void check_at(int fd)
{
	const struct zk_hello words = hello();
	struct buffer frame;
	page->open_fds = 0;
	begin_at(fd);
	buffer_init(&frame, ZK_FRAME_MAX_BYTES);
	cr_assert_eq(zk_hello_encode(&frame, &words), 0);
	say(&frame);
	hear_beginning();
	request("/a");
	hear_done("/a");
	cr_expect_eq(page->open_fds, 1U << fd | 7, "%x", page->open_fds);
	end();
}

Test(worker, its_socket_may_be_the_first_descriptor)
{
	check_at(3);
	check_at(4);
}

Test(worker, all_words_of_the_cage_are_said)
{
	const struct zk_hello words = hello();
	page->has_long_cage = true;
	begin(&words);
	cr_expect_eq(strlen(hear_log(ZK_LOG_CAGE)), strlen("cage: ") + SANDBOX_WORDS_BYTES - 1);
	end();
}

Test(worker, the_first_one_looks_its_servers_up)
{
	struct zk_hello words = hello();
	words.tls = "/ca.pem";
	begin(&words);
	const struct zk_session session = hear_beginning();
	cr_expect_str_eq(session.addresses, FOUND);
	request("/hello");
	cr_expect_str_eq(hear_log(ZK_LOG_OWN), "zk1:2181,zk2:2181  6000");
	hear_done("/hello");
	cr_expect_eq(page->lookups, 1);
	cr_expect_str_eq(page->servers, "zk1:2181,zk2:2181");
	cr_expect_str_eq(page->hosts, FOUND);
	cr_expect_eq(page->cages, 1);
	cr_expect_str_eq(page->certificates, "/ca.pem");
	cr_expect_str_eq(page->caged_servers, FOUND);
	cr_expect_eq(page->log_level, ZOO_LOG_LEVEL_WARN);
	cr_expect(page->in_order, "the order is drawn already");
	end();
}

Test(worker, a_later_one_takes_the_addresses_of_the_one_before)
{
	struct zk_hello words = hello();
	words.addresses = "10.0.0.9:2181";
	begin(&words);
	cr_expect_str_eq(hear_beginning().addresses, "10.0.0.9:2181");
	request("/a");
	hear_done("/a");
	cr_expect_eq(page->lookups, 0);
	cr_expect_str_eq(page->hosts, "10.0.0.9:2181");
	end();
}

Test(worker, a_later_one_looks_them_up_when_the_agent_wants_that)
{
	struct zk_hello words = hello();
	words.addresses = "10.0.0.9:2181";
	words.look_up = true;
	begin(&words);
	cr_expect_str_eq(hear_beginning().addresses, FOUND);
	end();
}

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

Test(worker, it_ends_when_the_agent_closes_while_it_looks_for_addresses)
{
	const struct zk_hello words = hello();
	page->failing_lookups = 1000;
	begin(&words);
	hear_log(ZK_LOG_OWN);
	close_session();
	cr_expect_eq(end_of(worker), 0);
	cr_expect_eq(page->lookups, 1);
	close(agent);
}

/* A name server may be away for long. */
Test(worker, it_sees_that_the_agent_has_closed_already)
{
	const struct zk_hello words = hello();
	struct buffer frames;
	page->failing_lookups = 1000;
	page->time_flies = true;
	begin_at(WORKER_FD);
	buffer_init(&frames, ZK_FRAME_MAX_BYTES);
	cr_assert_eq(zk_hello_encode(&frames, &words), 0);
	cr_assert_eq(zk_close_encode(&frames), 0);
	say(&frames);
	cr_expect_eq(end_of(worker), 0);
	cr_expect_eq(page->lookups, 1);
	close(agent);
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

Test(worker, a_client_library_that_does_not_start_ends_it)
{
	const struct zk_hello words = hello();
	page->refuses_start = true;
	begin(&words);
	hear_beginning();
	cr_expect_str_eq(hear_log(ZK_LOG_OWN), "it does not start");
	cr_expect_eq(end_of(worker), 1);
	close(agent);
}

Test(worker, a_hello_may_come_in_pieces)
{
	struct zk_hello words = hello();
	struct buffer frame;
	char *large = malloc(200 * 1024);
	memset(large, 's', 200 * 1024 - 1);
	large[200 * 1024 - 1] = '\0';
	words.servers = large;
	page->interruptions = 2;
	begin_at(WORKER_FD);
	buffer_init(&frame, ZK_FRAME_MAX_BYTES);
	cr_assert_eq(zk_hello_encode(&frame, &words), 0);
	append_request(&frame, "/behind");
	cr_assert_eq(send(agent, frame.data, 1, 0), 1);
	for (int i = 0; i < 2000 && page->pause_count < 4; i++) {
		usleep(1000); /* until it waits for more */
	}
	buffer_consume(&frame, 1);
	while (frame.len > 0) {
		ssize_t n = send(agent, frame.data, frame.len, MSG_NOSIGNAL);
		cr_assert_gt(n, 0);
		buffer_consume(&frame, (size_t)n);
	}
	buffer_finish(&frame);
	hear_beginning();
	hear_done("/behind");
	free(large);
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

Test(worker, a_frame_may_be_as_large_as_frames_are)
{
	const struct zk_hello words = hello();
	struct zk_request large = { .operation = ZK_SET, .path = "/large", .data = "" };
	struct buffer frame;
	begin(&words);
	hear_beginning();
	buffer_init(&frame, 2 * ZK_FRAME_MAX_BYTES);
	cr_assert_eq(zk_request_encode(&frame, &large), 0);
	large.len = ZK_FRAME_MAX_BYTES + 4 - frame.len;
	large.data = calloc(1, large.len);
	buffer_clear(&frame);
	cr_assert_eq(zk_request_encode(&frame, &large), 0);
	for (size_t sent = 0; sent < frame.len;) {
		ssize_t n = send(agent, frame.data + sent, frame.len - sent, MSG_NOSIGNAL);
		cr_assert_gt(n, 0);
		sent += (size_t)n;
	}
	hear_done("/large");
	buffer_finish(&frame);
	free((char *)(uintptr_t)large.data);
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

static int end_after(const void *bytes, size_t len, bool greets)
{
	const struct zk_hello words = hello();
	if (greets) {
		begin(&words);
	} else {
		begin_at(WORKER_FD);
	}
	if (greets) {
		hear();
	}
	cr_assert_eq(send(agent, bytes, len, MSG_NOSIGNAL), (ssize_t)len);
	int code = end_of(worker);
	close(agent);
	return code;
}

Test(worker, bytes_that_no_agent_sends_end_it)
{
	static const char no_frame[5] = { 127, 127, 127, 127, 1 };
	static const char no_request[6] = { 0, 0, 0, 2, ZK_FRAME_REQUEST, 'x' };
	static const char no_hello[6] = { 0, 0, 0, 2, ZK_FRAME_HELLO, 'x' };
	cr_expect_eq(end_after(no_frame, sizeof(no_frame), false), 1000 + SIGABRT);
	cr_expect_eq(end_after(no_hello, sizeof(no_hello), false), 1000 + SIGABRT);
	cr_expect_eq(end_after(no_frame, sizeof(no_frame), true), 1000 + SIGABRT);
	cr_expect_eq(end_after(no_request, sizeof(no_request), true), 1000 + SIGABRT);
	page->failing_lookups = 1000;
	page->time_flies = true;
	cr_expect_eq(end_after(no_frame, sizeof(no_frame), true), 1000 + SIGABRT);
}

/* ---- silence ---- */

static int last_pause(void)
{
	return page->pauses[page->pause_count - 1];
}

Test(worker, an_agent_may_be_silent_for_ever_unless_it_says_otherwise)
{
	struct zk_hello words = hello();
	begin(&words);
	hear_beginning();
	ask_session(ZOO_CONNECTED_STATE);
	hear_session(ZK_SESSION_CONNECTED);
	hear();
	request("/a");
	hear_done("/a");
	for (int i = 0; i < page->pause_count; i++) {
		cr_expect_eq(page->pauses[i], -1, "%d: %d", i, page->pauses[i]);
	}
	end();
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

Test(worker, the_server_decides_how_long_a_session_is)
{
	struct zk_hello words = hello();
	words.ends_in_silence = true;
	begin(&words);
	hear_beginning();
	ask_session(ZOO_CONNECTED_STATE);
	hear_session(ZK_SESSION_CONNECTED);
	page->time_flies = true;
	hear();
	request("/a");
	cr_expect_eq(end_of(worker), 0);
	cr_expect_eq(last_pause(), 40000);
	close(agent);
}

Test(worker, a_session_of_no_length_is_no_bound)
{
	struct zk_hello words = hello();
	words.ends_in_silence = true;
	words.timeout_ms = 0;
	begin(&words);
	hear_beginning();
	request("/a");
	hear_done("/a");
	cr_expect_eq(page->pauses[1], -1);
	end();
}

/* ---- the client library's log ---- */

Test(worker, the_client_librarys_words_reach_the_agent)
{
	const struct zk_hello words = hello();
	begin(&words);
	hear_beginning();
	request("/lines/1");
	cr_expect_str_eq(hear_log(ZK_LOG_LIBRARY), "one line");
	hear_done("/lines/1");
	request("/quiet");
	hear_done("/quiet");
	request("/tls");
	cr_expect_str_eq(hear_log(ZK_LOG_LIBRARY), "tls_ca /ca.pem cannot be used: no such file");
	hear_done("/tls");
	request("/long");
	cr_expect_eq(strlen(hear_log(ZK_LOG_LIBRARY)), 511);
	end();
}

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

Test(worker, the_silence_of_an_agent_counts_during_a_login_too)
{
	page->time_flies = true;
	begin_login("joe:secret", true);
	cr_expect_eq(end_of(worker), 0);
	cr_assert_eq(page->pause_count, 5);
	cr_expect_eq(page->pauses[1], 200);
	cr_expect_eq(page->pauses[2], 200);
	cr_expect_eq(page->pauses[3], 100);
	cr_expect_eq(page->pauses[4], 0);
	close(agent);
}
