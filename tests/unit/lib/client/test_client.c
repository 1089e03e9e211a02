#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/base/array.h"
#include "lib/berth.h"
#include "lib/peer/stream.h"
#include "tests/support/scratch.h"

#define JSON(status, headers, body)                                                                \
	"HTTP/1.1 " status "\r\nContent-Type: application/json\r\n" headers                        \
	"Transfer-Encoding: chunked\r\n\r\n" body "0\r\n\r\n"
#define CHUNK_2(two) "2\r\n" two "\r\n"
#define STREAM "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
/* A stream with an empty picture, which promises a heartbeat each minute. */
#define SUBSCRIBED                                                                                 \
	STREAM "46\r\n67\n{\"type\":\"SUBSCRIBED\","                                               \
	       "\"heartbeat_interval_seconds\":60,\"snapshot\":{}}\r\n"

/* ---- a server that obeys the test ---- */

enum step_kind { END, ACCEPT, READ, SEND, HANG_UP };

struct step {
	enum step_kind kind;
	const char *text;
};

static struct {
	struct scratch_listener listener;
	pthread_t thread;
	const struct step *steps;
	char requests[8192]; /* all bytes that were read, for after the end */
} server;

static void read_request(int fd)
{
	size_t used = strlen(server.requests);
	size_t start = used;
	while (!strstr(server.requests + start, "\r\n\r\n") && used < sizeof(server.requests) - 1 &&
		read(fd, server.requests + used, 1) == 1) {
		used++;
	}
}

static void *serve(void *unused)
{
	int fd = -1;
	for (const struct step *step = server.steps; step->kind != END; step++) {
		switch (step->kind) {
		case ACCEPT:
			fd = accept(server.listener.fd, NULL, NULL);
			break;
		case READ:
			read_request(fd);
			break;
		case SEND:
			(void)!send(fd, step->text, strlen(step->text), MSG_NOSIGNAL);
			break;
		default:
			close(fd);
			fd = -1;
		}
	}
	if (fd >= 0) {
		char byte;
		(void)!read(fd, &byte, 1); /* until the client leaves */
		close(fd);
	}
	return unused;
}

static void server_start(const struct step *steps)
{
	scratch_listen(&server.listener);
	server.steps = steps;
	memset(server.requests, 0, sizeof(server.requests));
	cr_assert_eq(pthread_create(&server.thread, NULL, serve, NULL), 0);
}

static void server_stop(void)
{
	pthread_join(server.thread, NULL);
	scratch_listen_end(&server.listener);
}

static struct berth *open_client(int timeout_ms)
{
	struct berth *berth = NULL;
	struct berth_options options = { .timeout_ms = timeout_ms };
	cr_assert_eq(berth_open(&berth, server.listener.address.sun_path, &options, NULL), 0);
	return berth;
}

enum { PATIENT_MS = 60000 };

static int resolve(struct berth *berth, struct berth_failure *failure)
{
	struct berth_answer answer;
	int code = berth_resolve(berth, "/a", &answer, failure);
	if (code == 0) {
		berth_answer_finish(&answer);
	}
	return code;
}

TestSuite(client, .timeout = 120);

/* ---- requests ---- */

Test(client, a_request_says_what_it_wants_and_answers_say_how_old_they_are)
{
	static const struct step steps[] = { { ACCEPT, NULL }, { READ, NULL },
		{ SEND, JSON("200 OK", "Age: 42\r\nX-Cache: STALE\r\n", CHUNK_2("{}")) },
		{ END, NULL } };
	struct berth_answer answer;
	server_start(steps);
	struct berth *berth = open_client(PATIENT_MS);
	cr_assert_eq(berth_resolve(berth, "/users/joe", &answer, NULL), 0);
	cr_assert_str_eq(answer.json, "{}");
	cr_assert_eq(answer.len, 2);
	cr_assert_eq(answer.freshness.age_s, 42);
	cr_assert(answer.freshness.stale);
	berth_answer_finish(&answer);
	berth_close(berth);
	server_stop();
	cr_assert(strstr(server.requests, "GET /v1/resolve/users/joe HTTP/1.1\r\nHost: "));
}

Test(client, asks_again_when_the_kept_connection_was_closed)
{
	static const struct step steps[] = { { ACCEPT, NULL }, { READ, NULL },
		{ SEND, JSON("200 OK", "", CHUNK_2("{}")) }, { READ, NULL }, { HANG_UP, NULL },
		{ ACCEPT, NULL }, { READ, NULL }, { SEND, JSON("200 OK", "", CHUNK_2("{}")) },
		{ END, NULL } };
	server_start(steps);
	struct berth *berth = open_client(PATIENT_MS);
	cr_assert_eq(resolve(berth, NULL), 0);
	cr_assert_eq(resolve(berth, NULL), 0);
	berth_close(berth);
	server_stop();
}

Test(client, a_failure_has_the_freshness_of_its_answer)
{
	static const struct step steps[] = { { ACCEPT, NULL }, { READ, NULL },
		{ SEND, JSON("404 Not Found", "X-Cache: STALE\r\nAge: 7\r\n", CHUNK_2("{}")) },
		{ READ, NULL }, { HANG_UP, NULL }, { END, NULL } };
	server_start(steps);
	struct berth *berth = open_client(PATIENT_MS);
	cr_assert_not(berth_last_freshness(berth).stale);
	cr_assert_eq(resolve(berth, NULL), BERTH_PATH_NOT_FOUND);
	cr_assert(berth_last_freshness(berth).stale);
	cr_assert_eq(berth_last_freshness(berth).age_s, 7);
	cr_assert_eq(berth_drain(berth, "x", 0, NULL), BERTH_AGENT_UNAVAILABLE);
	cr_assert_not(berth_last_freshness(berth).stale, "without an answer");
	berth_close(berth);
	server_stop();
}

Test(client, does_not_send_twice_what_may_have_been_done)
{
	static const struct step steps[] = { { ACCEPT, NULL }, { READ, NULL },
		{ SEND, JSON("200 OK", "", CHUNK_2("{}")) }, { READ, NULL }, { HANG_UP, NULL },
		{ END, NULL } };
	struct berth_failure failure;
	server_start(steps);
	struct berth *berth = open_client(PATIENT_MS);
	cr_assert_eq(resolve(berth, NULL), 0);
	cr_assert_eq(berth_drain(berth, "x", 0, &failure), BERTH_AGENT_UNAVAILABLE);
	berth_close(berth);
	server_stop();
}

Test(client, errors_have_the_agents_name_and_words)
{
	static const struct step steps[] = { { ACCEPT, NULL }, { READ, NULL },
		{ SEND,
			"HTTP/1.1 404 Not Found\r\nContent-Length: 44\r\n\r\n"
			"{\"title\":\"NoRecord\",\"detail\":\"nothing here\"}" },
		{ END, NULL } };
	struct berth_failure failure;
	server_start(steps);
	struct berth *berth = open_client(PATIENT_MS);
	cr_assert_eq(resolve(berth, &failure), BERTH_NO_RECORD, "%s", failure.message);
	cr_assert_str_eq(failure.message, "nothing here");
	berth_close(berth);
	server_stop();
}

Test(client, gives_up_in_time)
{
	static const struct step steps[] = { { ACCEPT, NULL }, { READ, NULL }, { END, NULL } };
	struct berth_failure failure;
	server_start(steps);
	struct berth *berth = open_client(50);
	cr_assert_eq(resolve(berth, &failure), BERTH_TIMEOUT);
	berth_close(berth);
	server_stop();
}

Test(client, refuses_what_is_no_http)
{
	static const struct step steps[] = { { ACCEPT, NULL }, { READ, NULL },
		{ SEND, "220 mail.example.org\r\n\r\n" }, { END, NULL } };
	struct berth_failure failure;
	server_start(steps);
	struct berth *berth = open_client(PATIENT_MS);
	cr_assert_eq(resolve(berth, &failure), BERTH_FAILED);
	berth_close(berth);
	server_stop();
}

Test(client, without_an_agent_it_says_where_it_looked)
{
	struct berth *berth;
	struct berth_failure failure;
	cr_assert_eq(berth_open(&berth, "unix:/nonexistent/berth.sock", NULL, NULL), 0);
	cr_assert_eq(resolve(berth, &failure), BERTH_AGENT_UNAVAILABLE);
	cr_assert(strstr(failure.message, "/nonexistent/berth.sock"));
	cr_assert_eq(berth_exists(berth, "/a", NULL), BERTH_AGENT_UNAVAILABLE);
	cr_assert_eq(berth_resolve(berth, "/A", NULL, NULL), BERTH_INVALID_PATHNAME);
	struct berth_watch *watch = NULL;
	cr_assert_eq(
		berth_watch(berth, "/A", true, NULL, NULL, &watch, NULL), BERTH_INVALID_PATHNAME);
	cr_assert_null(watch);
	cr_assert_eq(berth_mknode(berth, "/a", true, NULL, &failure), BERTH_FAILED);
	cr_assert(strstr(failure.message, "is for a registry"), "%s", failure.message);
	berth_close(berth);
}

Test(client, an_agents_refusal_without_a_name_has_that_of_its_status)
{
	static const struct {
		const char *status;
		const char *body;
		int code;
		const char *message;
	} rows[] = {
		{ "403", "", BERTH_NO_PATH_PERMISSIONS, "HTTP status 403" },
		{ "404", "{}", BERTH_PATH_NOT_FOUND, "HTTP status 404" },
		{ "413", "{\"detail\":\"\"}", BERTH_LIMIT_EXCEEDED, "HTTP status 413" },
		{ "422", "{\"title\":\"Odd\"}", BERTH_LIMIT_EXCEEDED, "answered: Odd" },
		{ "503", "rubbish", BERTH_REGISTRY_UNAVAILABLE, "HTTP status 503" },
		{ "504", "{\"title\":\"\"}", BERTH_TIMEOUT, "HTTP status 504" },
		{ "500", "{\"title\":\"Failed\"}", BERTH_FAILED, "answered: Failed" },
		{ "304", "", BERTH_TIMEOUT, "nothing has changed" },
	};
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		char answer[256];
		const struct step steps[] = { { ACCEPT, NULL }, { READ, NULL }, { SEND, answer },
			{ END, NULL } };
		struct berth_failure failure;
		snprintf(answer, sizeof(answer), "HTTP/1.1 %s x\r\nContent-Length: %zu\r\n\r\n%s",
			rows[i].status, strlen(rows[i].body), rows[i].body);
		server_start(steps);
		struct berth *berth = open_client(PATIENT_MS);
		cr_expect_eq(resolve(berth, &failure), rows[i].code, "%s: %s", rows[i].status,
			failure.message);
		cr_expect(strstr(failure.message, rows[i].message), "%s", failure.message);
		berth_close(berth);
		server_stop();
	}
}

/* ---- what is kept ---- */

#define ENDPOINT                                                                                   \
	"[{\"path\":\"/a\",\"scope\":\"external\",\"api\":\"x\",\"protocol\":\"tcp\","             \
	"\"addressType\":\"inetaddress\",\"address\":{\"hostname\":\"::1\",\"port\":\"80\"}}]"

Test(client, a_lookup_is_kept_until_there_is_trouble)
{
	static const struct step steps[] = { { ACCEPT, NULL }, { READ, NULL },
		{ SEND, JSON("200 OK", "", "82\r\n" ENDPOINT "\r\n") }, { READ, NULL },
		{ SEND, "HTTP/1.1 503 x\r\nContent-Length: 0\r\n\r\n" }, { END, NULL } };
	struct berth_lookup *lookup;
	const struct berth_endpoints *found;
	struct berth_failure failure;
	server_start(steps);
	struct berth *berth = open_client(PATIENT_MS);
	cr_assert_eq(berth_lookup_create(&lookup, berth, "/a", NULL, NULL), 0);
	for (int i = 0; i < 3; i++) {
		cr_assert_eq(berth_lookup_get(lookup, &found, &failure), 0, "%s", failure.message);
		cr_assert_eq(found->count, 1);
		cr_assert_str_eq(found->items[0].address, "[::1]:80");
		cr_assert_str_eq(found->items[0].host, "::1");
		cr_assert_eq(found->items[0].port, 80);
		cr_assert_not(found->freshness.stale);
	}
	berth_lookup_trouble(lookup);
	cr_assert_eq(berth_lookup_get(lookup, &found, NULL), 0);
	cr_assert_eq(found->count, 1);
	cr_assert(found->freshness.stale);
	berth_lookup_free(lookup);
	berth_close(berth);
	server_stop();
	char *second = strstr(server.requests, "\r\n\r\n") + 4;
	cr_assert(strstr(second, "Cache-Control: no-cache\r\n"));
	cr_assert_not(strstr(second, "\r\n\r\n") == NULL);
}

/* ---- watches ---- */

static struct {
	char types[256];
	struct berth_watch *watch;
	bool unwatch;
} seen;

static void on_event(void *context, const struct berth_event *event)
{
	size_t used = strlen(seen.types);
	snprintf(
		seen.types + used, sizeof(seen.types) - used, "%s ", berth_event_name(event->type));
	cr_assert_eq(context, &seen);
	if (event->type == BERTH_EVENT_UPDATED) {
		cr_assert_str_eq(event->path, "/a");
		cr_assert_str_eq(event->record, "{\"x\":1}");
	}
	if (seen.unwatch) {
		berth_unwatch(seen.watch);
		seen.watch = NULL;
	}
}

static void watch_until(struct berth *berth, const char *types)
{
	/* A turn in which nothing may have come changes nothing. */
	for (int turn = 0; strcmp(seen.types, types) != 0 && seen.watch; turn++) {
		cr_assert_eq(berth_dispatch(berth, turn % 2 ? 0 : PATIENT_MS, NULL), 0);
		cr_assert_eq(strncmp(seen.types, types, strlen(seen.types)), 0, "%s", seen.types);
	}
}

Test(client, a_watch_subscribes_again_when_the_stream_breaks_or_falls_silent)
{
	static const struct step steps[] = { { ACCEPT, NULL }, { READ, NULL },
		/* Frames that are cut anywhere, and two in a chunk. */
		{ SEND, STREAM "3\r\n67\n\r\n" },
		{ SEND,
			"43\r\n{\"type\":\"SUBSCRIBED\","
			"\"heartbeat_interval_seconds\":60,\"snapshot\":{}}\r\n" },
		{ SEND,
			"45\r\n47\n{\"type\":\"UPDATED\",\"path\":\"/a\","
			"\"record\":{\"x\":1}}16\n{\"type\":\"STALE\"}\r\n"
			"4\r\n99\n{\r\n" }, /* and a part of a frame */
		{ HANG_UP, NULL }, { ACCEPT, NULL }, { READ, NULL },
		/* Promises a heartbeat every 20 ms and then says nothing. */
		{ SEND,
			STREAM "48\r\n69\n{\"type\":\"SUBSCRIBED\","
			       "\"heartbeat_interval_seconds\":0.02,\"snapshot\":{}}\r\n" },
		{ ACCEPT, NULL }, { READ, NULL }, { SEND, SUBSCRIBED }, { END, NULL } };
	server_start(steps);
	struct berth *berth = open_client(PATIENT_MS);
	cr_assert_eq(berth_watch(berth, "/a", true, on_event, &seen, &seen.watch, NULL), 0);
	watch_until(berth, "SUBSCRIBED UPDATED STALE LOST RESYNC LOST RESYNC ");
	cr_assert_eq(berth_watch_trouble(seen.watch, NULL), 0);
	berth_close(berth);
	server_stop();
	cr_assert(strstr(server.requests, "GET /v1/watch/a?recursive=yes HTTP/1.1\r\n"));
}

#define UNCONFIRMED                                                                                \
	"53\r\n80\n{\"type\":\"SUBSCRIBED\",\"heartbeat_interval_seconds\":60,"                    \
	"\"stale\":true,\"snapshot\":{}}\r\n"

/* Nobody may take the snapshot for true until the next packet comes. */
Test(client, a_snapshot_that_is_not_confirmed_is_stale_from_the_beginning)
{
	static const struct step steps[] = { { ACCEPT, NULL }, { READ, NULL },
		{ SEND, STREAM "24\r\n33\n{\"type\":\"HEARTBEAT\",\"loading\":12}\r\n" },
		{ SEND, UNCONFIRMED }, { END, NULL } };
	server_start(steps);
	struct berth *berth = open_client(PATIENT_MS);
	struct berth_failure failure;
	cr_assert_eq(berth_watch(berth, "/a", true, on_event, &seen, &seen.watch, NULL), 0);
	while (berth_watch_trouble(seen.watch, &failure) != BERTH_TIMEOUT && !*seen.types) {
		cr_assert_eq(berth_dispatch(berth, PATIENT_MS, NULL), 0);
	}
	watch_until(berth, "SUBSCRIBED STALE ");
	berth_close(berth);
	server_stop();
}

Test(client, the_agent_s_own_word_for_it_is_no_second_event)
{
	static const struct step steps[] = { { ACCEPT, NULL }, { READ, NULL },
		{ SEND, STREAM UNCONFIRMED },
		{ SEND,
			"39\r\n16\n{\"type\":\"STALE\"}"
			"16\n{\"type\":\"FRESH\"}16\n{\"type\":\"STALE\"}\r\n" },
		{ END, NULL } };
	server_start(steps);
	struct berth *berth = open_client(PATIENT_MS);
	cr_assert_eq(berth_watch(berth, "/a", true, on_event, &seen, &seen.watch, NULL), 0);
	watch_until(berth, "SUBSCRIBED STALE FRESH STALE ");
	berth_close(berth);
	server_stop();
}

Test(client, a_watch_may_end_in_its_callback)
{
	static const struct step steps[] = { { ACCEPT, NULL }, { READ, NULL }, { SEND, SUBSCRIBED },
		{ END, NULL } };
	server_start(steps);
	seen.unwatch = true;
	struct berth *berth = open_client(PATIENT_MS);
	cr_assert_eq(berth_watch(berth, "/a", false, on_event, &seen, &seen.watch, NULL), 0);
	watch_until(berth, "SUBSCRIBED ");
	cr_assert_null(seen.watch);
	server_stop(); /* waits for the client to leave */
	cr_assert_eq(berth_dispatch(berth, 0, NULL), 0);
	berth_close(berth);
}

/* For a program with a loop of its own, which waits for the descriptor alone. */
static void wait_for_descriptor(struct berth *berth, const char *types)
{
	struct pollfd poller = { .fd = berth_fd(berth), .events = POLLIN };
	while (strcmp(seen.types, types) != 0) {
		cr_assert_eq(poll(&poller, 1, PATIENT_MS), 1, "after %s", seen.types);
		cr_assert_eq(berth_dispatch(berth, 0, NULL), 0);
		cr_assert_eq(strncmp(seen.types, types, strlen(seen.types)), 0, "%s", seen.types);
	}
}

Test(client, the_descriptor_is_ready_for_each_step_of_a_watch_and_rests_in_between)
{
	static const struct step steps[] = { { ACCEPT, NULL }, { HANG_UP, NULL }, { ACCEPT, NULL },
		{ READ, NULL }, { SEND, SUBSCRIBED }, { END, NULL } };
	server_start(steps);
	struct berth *berth = open_client(PATIENT_MS);
	struct pollfd poller = { .fd = berth_fd(berth), .events = POLLIN };
	cr_assert_eq(poll(&poller, 1, 0), 0, "nothing is watched");
	cr_assert_eq(berth_watch(berth, "/a", false, on_event, &seen, &seen.watch, NULL), 0);
	wait_for_descriptor(berth, "LOST SUBSCRIBED ");
	while (poll(&poller, 1, 0) > 0) {
		cr_assert_eq(berth_dispatch(berth, 0, NULL), 0);
	}
	berth_unwatch(seen.watch);
	cr_assert_eq(poll(&poller, 1, 0), 0, "nothing is watched any more");
	berth_close(berth);
	server_stop();
}

Test(client, a_refused_watch_says_why_and_goes_on_trying)
{
	static const struct step steps[] = { { ACCEPT, NULL }, { READ, NULL },
		{ SEND,
			"HTTP/1.1 403 x\r\nContent-Length: 29\r\n\r\n"
			"{\"title\":\"NoPathPermissions\"}" },
		{ END, NULL } };
	struct berth_failure failure;
	server_start(steps);
	struct berth *berth = open_client(PATIENT_MS);
	cr_assert_eq(berth_watch(berth, "/a", false, on_event, &seen, &seen.watch, NULL), 0);
	watch_until(berth, "LOST ");
	cr_assert_eq(berth_watch_trouble(seen.watch, &failure), BERTH_NO_PATH_PERMISSIONS);
	berth_unwatch(seen.watch);
	berth_close(berth);
	server_stop();
}

Test(client, a_watch_that_was_lost_before_its_first_picture_is_subscribed_later)
{
	static const struct step steps[] = { { ACCEPT, NULL }, { HANG_UP, NULL }, { ACCEPT, NULL },
		{ READ, NULL }, { SEND, SUBSCRIBED }, { END, NULL } };
	server_start(steps);
	struct berth *berth = open_client(PATIENT_MS);
	cr_assert_eq(berth_watch(berth, "/a", false, on_event, &seen, &seen.watch, NULL), 0);
	watch_until(berth, "LOST SUBSCRIBED ");
	cr_assert_eq(berth_watch_trouble(seen.watch, NULL), 0);
	berth_close(berth);
	server_stop();
}

Test(client, a_stream_that_is_none_is_lost)
{
	static const char *const answers[] = {
		STREAM "5\r\nx{}{}\r\n",          /* no length */
		STREAM "b\r\n9999999999\n\r\n",   /* a length of too many digits */
		STREAM "a\r\n999999999\n\r\n",    /* a frame that nobody could hold */
		STREAM "3\r\n2\n7\r\n1\r\n7\r\n", /* no object */
		STREAM "4\r\n2\n{}\r\n",          /* no type */
		STREAM
		"2d\r\n42\n{\"type\":\"UPDATED\",\"path\":\"/\",\"sequence\":1}\r\n0\r\n\r\n",
		"HTTP/1.1 204 x\r\nContent-Length: 0\r\n\r\n",
	};
	for (size_t i = 0; i < ARRAY_LEN(answers); i++) {
		const struct step steps[] = { { ACCEPT, NULL }, { READ, NULL },
			{ SEND, answers[i] }, { END, NULL } };
		seen.types[0] = '\0';
		server_start(steps);
		struct berth *berth = open_client(PATIENT_MS);
		cr_assert_eq(
			berth_watch(berth, "/a", false, on_event, &seen, &seen.watch, NULL), 0);
		watch_until(berth, "LOST ");
		cr_expect_lt(berth_watch_trouble(seen.watch, NULL), 0, "%s", answers[i]);
		berth_close(berth);
		server_stop();
	}
}

Test(client, an_event_that_is_not_known_yet_is_passed_over)
{
	static const struct step steps[] = { { ACCEPT, NULL }, { READ, NULL }, { SEND, SUBSCRIBED },
		{ SEND,
			"31\r\n14\n{\"type\":\"NEW\"}16\n{\"type\":\"FRESH\"}"
			"10\n{\"type\":7}\r\n" },
		{ END, NULL } };
	server_start(steps);
	struct berth *berth = open_client(PATIENT_MS);
	cr_assert_eq(berth_watch(berth, "/a", false, on_event, &seen, &seen.watch, NULL), 0);
	watch_until(berth, "SUBSCRIBED FRESH LOST ");
	berth_close(berth);
	server_stop();
}
