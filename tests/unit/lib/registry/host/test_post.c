/* The host: backend: its questions, and the connection that they take. */
#include <errno.h>
#include <fcntl.h>

#include "tests/support/failing.h"
#include "tests/unit/lib/registry/host/host_stage.h"

/* A question that is not answered as it should be, and what comes of it. */
static void expect_after(const char *answer, enum registry_state state)
{
	struct answer got = { 0 };
	begin();
	registry_get(stage.registry, "/a", answer_take, &got);
	read_question();
	answer_question(answer);
	cr_expect_eq(stage.state, state, "%s: %s", answer, stage.why);
	cr_expect_eq(got.calls, state == REGISTRY_AWAY);
	answer_clear(&got);
	close_stage();
}

Test(registry_host_post, an_answer_to_a_question_says_yes_or_ends_the_stream)
{
	expect_after("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}", REGISTRY_CONNECTED);
	expect_after("HTTP/1.1 299 OK\r\nContent-Length: 0\r\n\r\n", REGISTRY_CONNECTED);
	expect_after("HTTP/1.1 200 OK\r\nContent-Le", REGISTRY_CONNECTED);
	expect_after("HTTP/1.1 300 x\r\nContent-Length: 0\r\n\r\n", REGISTRY_AWAY);
	expect_after("HTTP/1.1 404 x\r\nContent-Length: 0\r\n\r\n", REGISTRY_AWAY);
	expect_after("HTTP/1.1 204 No Content\r\n\r\nand more", REGISTRY_AWAY);
	expect_after("rubbish\r\n\r\n", REGISTRY_AWAY);
}

Test(registry_host_post, a_question_has_ten_seconds)
{
	struct answer answer = { 0 };
	begin();
	registry_get(stage.registry, "/a", answer_take, &answer);
	int64_t before_ms = clock_monotonic_ms();
	read_question();
	int64_t after_ms = clock_monotonic_ms();
	registry_dispatch(stage.registry, before_ms + 9999);
	cr_expect_eq(stage.state, REGISTRY_CONNECTED);
	registry_dispatch(stage.registry, after_ms + 10000);
	registry_dispatch(stage.registry, after_ms + 10000);
	cr_expect_eq(stage.state, REGISTRY_AWAY);
	answer_clear(&answer);
	close_stage();
}

static void hang_up(void)
{
	close(stage.post);
	stage.post = -1;
	dispatch();
}

Test(registry_host_post, a_connection_that_ends_between_questions_is_made_again)
{
	struct answer answer = { 0 };
	begin();
	hang_up();
	registry_get(stage.registry, "/a", answer_take, &answer);
	read_question();
	answer_question("HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n");
	hang_up();
	registry_get(stage.registry, "/b", answer_take, &answer);
	take_question();
	cr_expect(asks("\"path\":\"/b\""), "%s", stage.asked);
	cr_expect_eq(stage.state, REGISTRY_CONNECTED);
	send_text(stage.post, "HTTP/1.1 204 No Content\r\n\r\n");
	dispatch();
	dispatch();
	cr_expect_eq(stage.state, REGISTRY_AWAY, "nobody asked");
	answer_clear(&answer);
	close_stage();
}

Test(registry_host_post, a_connection_that_ends_within_a_question_ends_the_stream)
{
	struct answer answer = { 0 };
	begin();
	registry_get(stage.registry, "/a", answer_take, &answer);
	read_question();
	hang_up();
	cr_expect_eq(stage.state, REGISTRY_AWAY);
	answer_clear(&answer);
	close_stage();
}

Test(registry_host_post, an_unanswered_question_is_due_before_a_patient_request)
{
	struct answer answer = { 0 };
	stage.request_timeout_ms = 30000;
	begin();
	registry_get(stage.registry, "/a", answer_take, &answer);
	int64_t before_ms = clock_monotonic_ms();
	read_question();
	int64_t due_ms = registry_deadline_ms(stage.registry);
	cr_expect_geq(due_ms, before_ms + 10000);
	cr_expect_leq(due_ms, clock_monotonic_ms() + 10000);
	answer_question("HTTP/1.1 204 No Content\r\n\r\n");
	cr_expect_gt(registry_deadline_ms(stage.registry), before_ms + 20000);
	answer_clear(&answer);
	close_stage();
}

Test(registry_host_post, an_agent_that_keeps_no_connection_gets_another_one)
{
	struct answer answer = { 0 };
	begin();
	registry_get(stage.registry, "/a", answer_take, &answer);
	read_question();
	answer_question("HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n");
	char byte;
	cr_expect_eq(recv(stage.post, &byte, 1, MSG_DONTWAIT), 0, "it has left");
	close(stage.post);
	stage.post = -1;
	registry_get(stage.registry, "/b", answer_take, &answer);
	take_question();
	cr_expect(asks("\"path\":\"/b\""), "%s", stage.asked);
	answer_clear(&answer);
	close_stage();
}

Test(registry_host_post, an_answer_may_come_in_pieces)
{
	struct answer answer = { 0 };
	begin();
	registry_get(stage.registry, "/a", answer_take, &answer);
	read_question();
	answer_question("HTTP/1.1 200 OK\r\nContent-Le");
	registry_get(stage.registry, "/b", answer_take, &answer);
	struct pollfd readable = { .fd = stage.post, .events = POLLIN };
	dispatch();
	cr_expect_eq(poll(&readable, 1, 0), 0, "one question after another");
	answer_question("ngth: 2\r\n\r\n{");
	cr_expect_eq(poll(&readable, 1, 0), 0);
	answer_question("}");
	take_question();
	cr_expect(asks("\"path\":\"/b\""), "%s", stage.asked);
	cr_expect_eq(stage.state, REGISTRY_CONNECTED);
	answer_clear(&answer);
	close_stage();
}

Test(registry_host_post, answers_do_not_add_up)
{
	enum { BODY = 2000 };
	struct answer answer = { 0 };
	char text[BODY + 128];
	int head = snprintf(
		text, sizeof(text), "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n", BODY);
	memset(text + head, ' ', BODY);
	text[head + BODY] = '\0';
	begin();
	for (int i = 0; i < 50; i++) {
		registry_get(stage.registry, "/a", answer_take, &answer);
		read_question();
		answer_question(text);
		cr_assert_eq(stage.state, REGISTRY_CONNECTED, "answer %d: %s", i, stage.why);
	}
	answer_clear(&answer);
	close_stage();
}

/* A program may have closed its standard input. */
Test(registry_host_post, a_connection_may_have_any_descriptor)
{
	struct answer answer = { 0 };
	char byte;
	begin();
	hang_up();
	close(STDIN_FILENO);
	registry_get(stage.registry, "/a", answer_take, &answer);
	dispatch();
	cr_assert_neq(fcntl(STDIN_FILENO, F_GETFD), -1, "the connection has another one");
	read_question();
	answer_question("HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n");
	cr_expect_eq(stage.state, REGISTRY_CONNECTED);
	cr_expect_eq(recv(stage.post, &byte, 1, MSG_DONTWAIT), 0, "it has left");
	answer_clear(&answer);
	close_stage();
}

/* The reason of a refusal is what the host's agent says. */
Test(registry_host_post, a_refused_question_says_why)
{
	struct answer answer = { 0 };
	begin();
	registry_get(stage.registry, "/a", answer_take, &answer);
	read_question();
	answer_question("HTTP/1.1 403 x\r\nContent-Length: 31\r\n\r\n"
			"{\"detail\":\"not this container\"}");
	cr_expect_eq(stage.state, REGISTRY_AWAY);
	cr_expect(strstr(stage.why, "not this container") != NULL, "%s", stage.why);
	answer_clear(&answer);
	close_stage();
}

Test(registry_host_post, a_question_that_reaches_nobody_ends_the_stream)
{
	struct answer answer = { 0 };
	begin();
	hang_up();
	close(stage.listener);
	unlink(stage.address.sun_path);
	stage.listener = -1;
	registry_get(stage.registry, "/a", answer_take, &answer);
	dispatch();
	cr_expect_eq(stage.state, REGISTRY_AWAY);
	cr_expect_eq(answer.err.code, BERTH_REGISTRY_UNAVAILABLE);
	answer_clear(&answer);
	close_stage();
}

Test(registry_host_post, more_reads_than_a_question_holds_are_in_the_next_one)
{
	enum { READS = 800 };
	struct answer answer = { 0 };
	char path[160];
	size_t asked = 0;
	begin();
	for (int i = 0; i < READS; i++) {
		snprintf(path, sizeof(path), "/%050d", i);
		registry_get(stage.registry, path, answer_take, &answer);
	}
	for (int questions = 0; asked < READS; questions++) {
		cr_assert_lt(questions, 20);
		take_question();
		const char *body = strstr(stage.asked, "\r\n\r\n") + 4;
		cr_assert_leq(strlen(body), 60 * 1024);
		json_t *json = json_loads(body, 0, NULL);
		cr_assert_not_null(json);
		asked += json_array_size(json_object_get(json, "reads"));
		cr_assert(asked > 100);
		cr_assert(questions > 0 || asked < READS);
		json_decref(json);
	}
	cr_expect_eq(asked, READS);
	answer_clear(&answer);
	close_stage();
}

/* ---- calls that fail ---- */

static int open_and_close(void *context)
{
	const struct registry_options options = { .url = "host:/nowhere" };
	struct registry *registry = NULL;
	struct err err = ERR_INIT;
	(void)context;
	int code = registry_open(&registry, &options, &err);
	if (code == 0) {
		registry_dispatch(registry, clock_monotonic_ms());
		registry_close(registry);
	}
	return (code == 0) != (registry != NULL) || (code && !*err.msg) ? FAILING_WRONG : code;
}

Test(registry_host_post, a_backend_that_cannot_be_made_says_so)
{
	failing_check_memory("a registry", open_and_close, NULL);
	failing_check("a registry", "epoll", EMFILE, open_and_close, NULL);
}

enum { LESS = 0 }; /* the call does a part of its work */

/* Asks one question while one call fails; false when it was not needed. */
static bool ask_with(const char *kind, uint64_t number, int error, bool is_new)
{
	struct answer answer = { 0 };
	begin();
	if (is_new) {
		hang_up();
	}
	registry_get(stage.registry, "/a", answer_take, &answer);
	failing_arm(kind, number, error);
	dispatch();
	if (!is_new && stage.state == REGISTRY_CONNECTED) {
		failing_pause();
		send_text(stage.post, "HTTP/1.1 204 No Content\r\n\r\n");
		failing_resume();
		dispatch();
	}
	bool fired = failing_disarm();
	dispatch();
	bool goes_on = error == EINTR || error == EAGAIN || error == LESS;
	cr_expect_eq(stage.state, fired && !goes_on ? REGISTRY_AWAY : REGISTRY_CONNECTED,
		"%s %d: %s", kind, (int)number, stage.why);
	cr_expect_eq(answer.calls, fired && !goes_on);
	if (stage.state == REGISTRY_CONNECTED) {
		stage.post = stage.post < 0 ? accept(stage.listener, NULL, NULL) : stage.post;
		ssize_t got = recv(stage.post, stage.asked, sizeof(stage.asked) - 1, MSG_DONTWAIT);
		cr_expect_gt(got, 0, "%s %d: nothing is asked", kind, (int)number);
	}
	answer_clear(&answer);
	close_stage();
	return fired;
}

static void expect_each(const char *kind, int error, bool is_new)
{
	uint64_t number = 1;
	while (ask_with(kind, number, error, is_new)) {
		number++;
	}
	cr_expect_gt(number, 1, "%s", kind);
}

Test(registry_host_post, a_call_that_fails_ends_the_stream)
{
	expect_each("send", EPIPE, false);
	expect_each("receive", EIO, false);
	expect_each("receive", ECONNRESET, false);
	expect_each("epoll", ENOMEM, false);
	expect_each("epoll", ENOMEM, true);
	expect_each("socket", EMFILE, true);
	expect_each("connect", ECONNREFUSED, true);
}

Test(registry_host_post, a_call_that_has_not_done_all_is_made_again)
{
	expect_each("send", EINTR, false);
	expect_each("send", EAGAIN, false);
	expect_each("send", LESS, false);
	expect_each("receive", EINTR, false);
}

Test(registry_host_post, a_connection_that_breaks_in_the_middle_of_a_question_ends_the_stream)
{
	struct answer answer = { 0 };
	begin();
	registry_get(stage.registry, "/a", answer_take, &answer);
	failing_arm("send", 1, EAGAIN);
	dispatch();
	cr_assert(failing_disarm());
	failing_arm("send", 1, EPIPE);
	dispatch();
	cr_assert(failing_disarm());
	dispatch();
	cr_expect_eq(stage.state, REGISTRY_AWAY);
	cr_expect_eq(answer.err.code, BERTH_REGISTRY_UNAVAILABLE);
	answer_clear(&answer);
	close_stage();
}

Test(registry_host_post, without_memory_a_question_is_whole_or_the_stream_ends)
{
	bool failed = true;
	for (uint64_t number = 1; failed; number++) {
		struct answer answer = { 0 };
		begin();
		struct registry_watch *watch = registry_watch(
			stage.registry, "/w", REGISTRY_WATCH_DATA, answer_take, &answer);
		take_question();
		tell("{\"type\":\"READ\",\"id\":2,\"node\":null}");
		registry_get(stage.registry, "/a", answer_take, &answer);
		failing_arm("alloc", number, ENOMEM);
		registry_unwatch(watch);
		dispatch();
		failed = failing_disarm();
		ssize_t got = recv(stage.post, stage.asked, sizeof(stage.asked) - 1, MSG_DONTWAIT);
		cr_expect_eq(got > 0, stage.state == REGISTRY_CONNECTED, "without %d", (int)number);
		if (got > 0) {
			stage.asked[got] = '\0';
			const char *body = strstr(stage.asked, "\r\n\r\n");
			json_t *json = body ? json_loads(body + 4, 0, NULL) : NULL;
			cr_expect_eq(json_array_size(json_object_get(json, "reads")), 1);
			json_decref(json);
		}
		answer_clear(&answer);
		close_stage();
	}
}
