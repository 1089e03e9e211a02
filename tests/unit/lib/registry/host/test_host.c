/* The host: backend against a server that obeys the test. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "lib/base/clock.h"
#include "lib/registry/registry.h"
#include "tests/support/registry_client.h"
#include "tests/support/scratch.h"

static struct {
	char folder[SCRATCH_PATH];
	struct sockaddr_un address;
	int listener;
	int stream;
	int post;
	char asked[65536]; /* the last question */
	struct registry *registry;
	enum registry_state state;
	char why[512];
	char *container; /* as JSON text; "-" for no word */
} stage;

static void on_state(void *context, enum registry_state state, const char *why)
{
	(void)context;
	stage.state = state;
	snprintf(stage.why, sizeof(stage.why), "%s", why);
}

static void on_container(void *context, const json_t *container)
{
	(void)context;
	free(stage.container);
	stage.container = container ? json_dumps(container, JSON_COMPACT) : strdup("-");
}

static void dispatch(void)
{
	registry_dispatch(stage.registry, clock_monotonic_ms());
}

static void open_stage(void)
{
	char url[SCRATCH_PATH + 8];
	struct err err = ERR_INIT;
	scratch_folder(stage.folder);
	snprintf(url, sizeof(url), "host:%s", stage.folder);
	stage.address.sun_family = AF_UNIX;
	snprintf(stage.address.sun_path, sizeof(stage.address.sun_path), "%s/berth.sock",
		stage.folder);
	stage.listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	cr_assert_eq(bind(stage.listener, (const struct sockaddr *)&stage.address,
			     sizeof(stage.address)),
		0);
	cr_assert_eq(listen(stage.listener, 5), 0);
	stage.stream = stage.post = -1;
	const struct registry_options options = {
		.url = url, .on_state = on_state, .on_container = on_container
	};
	cr_assert_eq(registry_open(&stage.registry, &options, &err), 0, "%s", err.msg);
}

static void close_stage(void)
{
	registry_close(stage.registry);
	int fds[] = { stage.stream, stage.post, stage.listener };
	for (size_t i = 0; i < 3; i++) {
		if (fds[i] >= 0) {
			close(fds[i]);
		}
	}
	unlink(stage.address.sun_path);
	rmdir(stage.folder);
	free(stage.container);
	stage.container = NULL;
}

static void send_text(int fd, const char *text)
{
	cr_assert_eq(send(fd, text, strlen(text), MSG_NOSIGNAL), (ssize_t)strlen(text));
}

/* One event; the registry takes it. */
static void tell(const char *event)
{
	char frame[8192];
	char chunk[8300];
	snprintf(frame, sizeof(frame), "%zu\n%s", strlen(event), event);
	snprintf(chunk, sizeof(chunk), "%zx\r\n%s\r\n", strlen(frame), frame);
	send_text(stage.stream, chunk);
	dispatch();
}

static void subscribe_as(const char *event)
{
	char request[1024] = "";
	dispatch();
	stage.stream = accept(stage.listener, NULL, NULL);
	cr_assert_gt(recv(stage.stream, request, sizeof(request) - 1, 0), 0);
	cr_assert(strstr(request, "GET /v1/follow HTTP/1.1\r\n") == request, "%s", request);
	send_text(stage.stream, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
	tell(event);
}

#define SUBSCRIBED                                                                                 \
	"{\"type\":\"SUBSCRIBED\",\"heartbeat_interval_seconds\":60,\"stream_id\":\"a1\","         \
	"\"session_timeout_ms\":9000,\"connected\":true,\"container\":{\"name\":\"web-1\"}}"

static void read_question(void)
{
	size_t len = 0;
	dispatch();
	if (stage.post < 0) {
		stage.post = accept(stage.listener, NULL, NULL);
	}
	struct pollfd readable = { .fd = stage.post, .events = POLLIN };
	memset(stage.asked, 0, sizeof(stage.asked));
	while (poll(&readable, 1, 0) == 1) {
		ssize_t got = recv(stage.post, stage.asked + len, sizeof(stage.asked) - 1 - len, 0);
		cr_assert_gt(got, 0);
		len += (size_t)got;
	}
	cr_assert_gt(len, 0, "nothing is asked");
	cr_assert(strstr(stage.asked, "POST /v1/follow/a1 HTTP/1.1\r\n") == stage.asked, "%s",
		stage.asked);
}

static void answer_question(const char *answer)
{
	send_text(stage.post, answer);
	dispatch();
}

static void take_question(void)
{
	read_question();
	answer_question("HTTP/1.1 204 No Content\r\n\r\n");
}

static bool asks(const char *text)
{
	return strstr(stage.asked, text) != NULL;
}

/* A stage whose stream flows, and which knows when the registry was heard: long ago. */
static void begin(void)
{
	open_stage();
	subscribe_as(SUBSCRIBED);
	cr_assert_eq(stage.state, REGISTRY_CONNECTED);
	take_question();
	cr_assert(asks("\"confirms\":[{\"id\":1,\"max_age_ms\":3000}]"), "%s", stage.asked);
	tell("{\"type\":\"CONFIRMED\",\"id\":1}");
}

#define STAT "\"created_ms\":7,\"modified_ms\":8,\"node_id\":9,\"version\":3,\"size\":21"
#define RECORD "{\\\"type\\\":\\\"JSONServiceRecord\\\"}"

Test(registry_host, a_node_is_asked_for_and_answered)
{
	struct answer answer = { 0 };
	begin();
	registry_get(stage.registry, "/a/b", answer_take, &answer);
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

static int code_of_read(const char *rest)
{
	struct answer answer = { 0 };
	char event[1024];
	begin();
	registry_get(stage.registry, "/a", answer_take, &answer);
	take_question();
	snprintf(event, sizeof(event), "{\"type\":\"READ\",\"id\":2%s}", rest);
	tell(event);
	cr_assert_eq(answer.calls, 1);
	int code = answer.err.code;
	answer_clear(&answer);
	close_stage();
	return code;
}

Test(registry_host, answers_that_hold_no_node)
{
	cr_assert_eq(code_of_read(",\"node\":null"), BERTH_PATH_NOT_FOUND);
	cr_assert_eq(code_of_read(",\"error\":\"LimitExceeded\",\"why\":\"too many\""),
		BERTH_LIMIT_EXCEEDED);
	cr_assert_eq(code_of_read(",\"error\":\"of a later version\""), BERTH_FAILED);
	cr_assert_eq(code_of_read(",\"node\":[]"), BERTH_FAILED);
	cr_assert_eq(code_of_read(""), BERTH_FAILED);
	cr_assert_eq(code_of_read(",\"node\":{}"), 0);
}

Test(registry_host, a_list_has_names_and_foreign_ones)
{
	struct answer answer = { 0 };
	begin();
	registry_list(stage.registry, "/a", answer_take, &answer);
	take_question();
	cr_assert(asks("\"list\":true"));
	tell("{\"type\":\"READ\",\"id\":2,\"node\":{" STAT ",\"names\":[\"c\",\"b\",7,\"\"],"
	     "\"foreign\":[\"%41%20x\",\"%\"]}}");
	cr_assert_eq(answer.calls, 1);
	cr_assert_eq(answer.children_count, 2);
	cr_assert_str_eq(answer.children[0], "/a/b");
	cr_assert_eq(answer.stat.foreign, 2);
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
	for (size_t i = 0; i < sizeof(events) / sizeof(events[0]); i++) {
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

Test(registry_host, an_answer_to_a_question_says_yes_or_ends_the_stream)
{
	expect_after("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}", REGISTRY_CONNECTED);
	expect_after("HTTP/1.1 299 OK\r\nContent-Length: 0\r\n\r\n", REGISTRY_CONNECTED);
	expect_after("HTTP/1.1 200 OK\r\nContent-Le", REGISTRY_CONNECTED);
	expect_after("HTTP/1.1 300 x\r\nContent-Length: 0\r\n\r\n", REGISTRY_AWAY);
	expect_after("HTTP/1.1 404 x\r\nContent-Length: 0\r\n\r\n", REGISTRY_AWAY);
	expect_after("HTTP/1.1 204 No Content\r\n\r\nand more", REGISTRY_AWAY);
	expect_after("rubbish\r\n\r\n", REGISTRY_AWAY);
}

Test(registry_host, a_question_has_ten_seconds)
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

Test(registry_host, a_connection_that_ends_between_questions_is_made_again)
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

Test(registry_host, a_connection_that_ends_within_a_question_ends_the_stream)
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

Test(registry_host, events_that_make_no_sense)
{
	struct answer answer = { 0 };
	begin();
	registry_get(stage.registry, "/a", answer_take, &answer);
	take_question();
	tell("{\"type\":\"READ\",\"id\":77,\"node\":null}");
	tell("{\"type\":\"READ\",\"id\":-2,\"node\":null}");
	tell("{\"type\":\"READ\",\"id\":\"2\",\"node\":null}");
	tell("{\"type\":\"CHANGED\"}");
	tell("{\"type\":\"CHANGED\",\"path\":\"../..\"}");
	tell("{\"type\":\"CONFIRMED\",\"id\":2,\"heard_ms\":-5}");
	tell("{\"type\":\"CONFIRMED\",\"id\":0,\"heard_ms\":5}");
	tell("{\"type\":\"OF A LATER VERSION\"}");
	cr_assert_eq(answer.calls, 0);
	cr_assert_eq(stage.state, REGISTRY_CONNECTED);
	cr_assert_eq(registry_heard_ms(stage.registry, clock_monotonic_ms()), INT64_MIN);
	tell("{\"type\":\"READ\",\"id\":2,\"node\":null}");
	cr_assert_eq(answer.err.code, BERTH_PATH_NOT_FOUND);
	answer_clear(&answer);
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
	options.url = "host:/0123456789012345678901234567890123456789012345678901234567890123456789"
		      "0123456789012345678901234567890123456789";
	err_clear(&err);
	cr_assert_neq(registry_options_check(&options, &option, &err), 0);
	cr_assert(strstr(err.msg, "too long for a socket") != NULL, "%s", err.msg);
}
