/*
 * Requests to an agent. The test is the agent: each connection is a pair of sockets, and the next
 * answer is sent as soon as a request is complete.
 */
#include "lib/base/array.h"
#include "lib/peer/client.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "tests/support/descriptors.h"
#include "tests/support/staged.h"

#define OK_HEAD "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
#define OK OK_HEAD "Content-Length: 2\r\n\r\n{}"

enum { REQUEST_BYTES = 8192 };

/* ---- the agent ---- */

struct step {
	const char *answer; /* "" for none */
	enum { STAY, END, CLOSE } then;
};

static struct {
	const struct step *steps;
	int step_count;
	int requests;    /* so far */
	int connections; /* likewise */
	int fd;          /* its end of the last one; -1: none */
	char request[REQUEST_BYTES];
	size_t request_len, sent_len; /* so far; of the last one */
	/* Errors of the next calls, one after another; 0 ends them. */
	const int *connect_errors, *send_errors, *recv_errors, *poll_errors;
	int polls;
	size_t most_sent, most_read; /* bytes that one call takes; 0: all */
	char path[sizeof((struct sockaddr_un *)NULL)->sun_path + 1];
} agent = { .fd = -1 };

/* 0, or the next error. */
static int next_error(const int **errors)
{
	if (!*errors || !**errors) {
		return 0;
	}
	errno = *(*errors)++;
	return -1;
}

static void close_agent(void)
{
	if (agent.fd >= 0) {
		close(agent.fd);
		agent.fd = -1;
	}
}

int connect(int fd, __CONST_SOCKADDR_ARG address, socklen_t len)
{
	int ends[2];
	const struct sockaddr_un *path = (const void *)address.__sockaddr__;
	if (next_error(&agent.connect_errors)) {
		return -1;
	}
	snprintf(agent.path, sizeof(agent.path), "%.*s",
		(int)(len - offsetof(struct sockaddr_un, sun_path)), path->sun_path);
	close_agent();
	cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends), 0);
	cr_assert_eq(dup3(ends[0], fd, O_CLOEXEC), fd);
	close(ends[0]);
	agent.fd = ends[1];
	agent.connections++;
	agent.request_len = 0;
	return 0;
}

/* The request has all of its head and of its body. */
static bool is_complete(void)
{
	const char *end = strstr(agent.request, "\r\n\r\n");
	const char *length = strstr(agent.request, "Content-Length: ");
	size_t body = length ? strtoul(length + 16, NULL, 10) : 0;
	return end && agent.request_len >= (size_t)(end + 4 - agent.request) + body;
}

static void answer(void)
{
	const struct step *step = agent.requests < agent.step_count ? &agent.steps[agent.requests]
								    : NULL;
	agent.requests++;
	agent.sent_len = agent.request_len;
	agent.request_len = 0;
	if (step) {
		cr_assert_eq(sendto(agent.fd, step->answer, strlen(step->answer), 0, NULL, 0),
			(ssize_t)strlen(step->answer));
		if (step->then == END) {
			shutdown(agent.fd, SHUT_WR);
		}
		if (step->then == CLOSE) {
			char rest[REQUEST_BYTES];
			(void)!read(agent.fd, rest, sizeof(rest));
			close_agent();
		}
	}
}

ssize_t send(int fd, const void *bytes, size_t len, int flags)
{
	if (next_error(&agent.send_errors)) {
		return -1;
	}
	len = agent.most_sent && len > agent.most_sent ? agent.most_sent : len;
	ssize_t sent = sendto(fd, bytes, len, flags, NULL, 0);
	if (sent > 0 && agent.request_len + (size_t)sent < sizeof(agent.request)) {
		memcpy(agent.request + agent.request_len, bytes, (size_t)sent);
		agent.request_len += (size_t)sent;
		agent.request[agent.request_len] = '\0';
		if (is_complete()) {
			answer();
		}
	}
	return sent;
}

ssize_t recv(int fd, void *bytes, size_t len, int flags)
{
	len = agent.most_read && len > agent.most_read ? agent.most_read : len;
	return next_error(&agent.recv_errors) ? -1 : recvfrom(fd, bytes, len, flags, NULL, NULL);
}

int poll(struct pollfd *files, nfds_t count, int timeout_ms)
{
	agent.polls++;
	return next_error(&agent.poll_errors)
		? -1
		: ppoll(files, count,
			  &(struct timespec){ timeout_ms / 1000, timeout_ms % 1000 * 1000000 },
			  NULL);
}

#ifdef __GLIBC__
/* In its place with _FORTIFY_SOURCE. */
int __poll_chk(struct pollfd *files, nfds_t count, int timeout_ms, size_t size);

int __poll_chk(struct pollfd *files, nfds_t count, int timeout_ms, size_t size)
{
	(void)size;
	return poll(files, count, timeout_ms);
}
#endif

/* ---- the stage ---- */

struct stage {
	struct client *client;
	struct client_response response;
	struct buffer problem;
	struct err err;
	int descriptors;
};

static struct stage *begin(struct stage *stage)
{
	stage->descriptors = descriptors_count();
	buffer_init(&stage->problem, 4096);
	agent.polls = 0; /* those of the tests around it */
	cr_assert_eq(client_create(&stage->client, "/run/agent.sock", &stage->err), 0);
	return stage;
}

static void end(struct stage *stage)
{
	client_free(stage->client);
	client_free(NULL);
	close_agent();
	buffer_finish(&stage->problem);
	cr_expect_eq(descriptors_count(), stage->descriptors);
}

#define CLIENT_TEST(name)                                                                          \
	STAGED_TEST(peer_client, name, struct stage *, stage,                                      \
		begin(&(struct stage){ .client = NULL }), end)

#define STAYS(text)                                                                                \
	{                                                                                          \
		text, STAY                                                                         \
	}
#define CLOSES(text)                                                                               \
	{                                                                                          \
		text, CLOSE                                                                        \
	}
#define ANSWER(...)                                                                                \
	do {                                                                                       \
		static const struct step steps[] = { __VA_ARGS__ };                                \
		agent.steps = steps;                                                               \
		agent.step_count = ARRAY_LEN(steps);                                               \
		agent.requests = 0;                                                                \
	} while (0)

static int call_for(struct stage *stage, const struct client_request *request)
{
	err_clear(&stage->err);
	buffer_clear(&stage->problem);
	int code = client_call(
		stage->client, request, 60000, &stage->response, &stage->problem, &stage->err);
	cr_expect_eq(code, stage->err.code);
	if (code == 0) {
		client_response_finish(&stage->response);
	}
	return code;
}

static int call(struct stage *stage, const char *method)
{
	return call_for(stage, &(struct client_request){ .method = method, .target = "/v1/x" });
}

/* A second request on a connection that is kept. */
static int call_again(struct stage *stage, const char *method)
{
	cr_expect_eq(call(stage, "GET"), 0, "%s", stage->err.msg);
	cr_expect_eq(agent.connections, 1);
	return call(stage, method);
}

static void expect_message(const struct stage *stage, const char *text)
{
	cr_expect(strstr(stage->err.msg, text), "%s", stage->err.msg);
}

/* ---- requests ---- */

CLIENT_TEST(a_request_has_the_fields_that_it_needs)
{
	static const struct {
		struct client_request request;
		const char *text;
	} rows[] = {
		{ { .method = "GET", .target = "/a" },
			"GET /a HTTP/1.1\r\nHost: berth\r\nAccept: application/json\r\n\r\n" },
		{ { .method = "GET", .target = "/a", .accept = "text/plain", .no_cache = true },
			"GET /a HTTP/1.1\r\nHost: berth\r\nAccept: text/plain\r\n"
			"Cache-Control: no-cache\r\n\r\n" },
		{ { .method = "GET", .target = "/a", .tag = "\"7\"", .wait_s = 30, .shared = true },
			"GET /a HTTP/1.1\r\nHost: berth\r\nAccept: application/json\r\n"
			"If-None-Match: \"7\"\r\nPrefer: wait=30\r\nPrefer: shared\r\n\r\n" },
		{ { .method = "POST", .target = "/a" },
			"POST /a HTTP/1.1\r\nHost: berth\r\nAccept: application/json\r\n"
			"Content-Length: 0\r\n\r\n" },
		{ { .method = "PUT", .target = "/a", .body = "[1]" },
			"PUT /a HTTP/1.1\r\nHost: berth\r\nAccept: application/json\r\n"
			"Content-Type: application/json\r\nContent-Length: 3\r\n\r\n[1]" },
	};
	ANSWER(STAYS(OK), STAYS(OK), STAYS(OK), STAYS(OK), STAYS(OK));
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		cr_expect_eq(call_for(stage, &rows[i].request), 0, "%s", stage->err.msg);
		cr_expect_str_eq(agent.request, rows[i].text);
	}
	cr_expect_eq(agent.connections, 1, "it is kept");
	cr_expect_str_eq(agent.path, "/run/agent.sock");
	cr_expect_str_eq(client_socket_path(stage->client), "/run/agent.sock");
}

CLIENT_TEST(the_path_of_a_socket_has_a_bound)
{
	char path[300];
	struct client *client = NULL;
	memset(path, 'p', sizeof(path));
	path[108] = '\0';
	cr_expect_eq(client_create(&client, path, &stage->err), BERTH_LIMIT_EXCEEDED);
	expect_message(stage, "the path of a socket has at most 107 bytes");
	cr_expect_null(client);
	err_clear(&stage->err);
	path[107] = '\0';
	cr_assert_eq(client_create(&client, path, &stage->err), 0);
	ANSWER(STAYS(OK));
	cr_expect_eq(client_call(client, &(struct client_request){ .method = "GET", .target = "/" },
			     60000, &stage->response, NULL, &stage->err),
		0);
	client_response_finish(&stage->response);
	cr_expect_str_eq(agent.path, path);
	client_free(client);
	/* Cut, not written behind its place. */
	memset(path, 'p', sizeof(path) - 1);
	path[sizeof(path) - 1] = '\0';
	int fd = client_connect(path, 0, &stage->err);
	cr_expect_geq(fd, 0);
	cr_expect_eq(strlen(agent.path), 107);
	cr_expect(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	close(fd);
}

/* ---- answers ---- */

CLIENT_TEST(an_error_has_a_code_a_message_and_the_document)
{
	ANSWER(STAYS("HTTP/1.1 404 Not Found\r\nAge: 3\r\nContent-Length: 41\r\n\r\n"
		     "{\"title\":\"PathNotFound\",\"detail\":\"no /a\"}"),
		STAYS("HTTP/1.1 304 Not Modified\r\n\r\n"),
		STAYS("HTTP/1.1 300 Choices\r\nContent-Length: 0\r\n\r\n"), STAYS(OK));
	cr_expect_eq(call(stage, "GET"), BERTH_PATH_NOT_FOUND);
	cr_expect_str_eq(stage->err.msg, "no /a");
	cr_expect_eq(client_freshness(stage->client).age_s, 3);
	cr_expect_str_eq(
		buffer_text(&stage->problem), "{\"title\":\"PathNotFound\",\"detail\":\"no /a\"}");
	cr_expect_eq(call(stage, "GET"), BERTH_TIMEOUT);
	cr_expect_str_eq(stage->err.msg, "nothing has changed");
	cr_expect_eq(stage->problem.len, 0);
	cr_expect_eq(call(stage, "GET"), BERTH_FAILED);
	cr_expect_eq(call(stage, "GET"), 0);
	cr_expect_eq(agent.connections, 1, "an error is an answer");
}

/* ---- connections that end ---- */

/* Nothing was sent on it yet, so an order goes out on the new one. */
CLIENT_TEST(an_idle_connection_that_is_closed_is_replaced)
{
	static const char *const methods[] = { "GET", "POST" };
	for (int i = 0; i < 2; i++) {
		ANSWER(CLOSES(OK), STAYS(OK), STAYS(OK));
		cr_expect_eq(call(stage, "GET"), 0);
		int before = agent.connections;
		cr_expect_eq(call(stage, methods[i]), 0, "%s", stage->err.msg);
		cr_expect_eq(agent.connections, before + 1);
		cr_expect_eq(agent.requests, 2);
		/* Bytes that belong to no request. */
		cr_assert_eq(sendto(agent.fd, "x", 1, 0, NULL, 0), 1);
		cr_expect_eq(call(stage, methods[i]), 0, "%s", stage->err.msg);
		cr_expect_eq(agent.connections, before + 2);
		close_agent();
	}
}

/* Each on a kept connection, where another attempt would be possible. */
CLIENT_TEST(an_answer_that_has_begun_is_not_asked_for_again)
{
	static const int broken[] = { EAGAIN, ENOBUFS, 0 };
	ANSWER(STAYS(OK), CLOSES("H"), STAYS(OK));
	cr_expect_eq(call_again(stage, "GET"), BERTH_AGENT_UNAVAILABLE);
	cr_expect_eq(agent.requests, 2);
	agent.connections = 0;
	ANSWER(STAYS(OK), CLOSES("nonsense\r\n\r\n"), STAYS(OK));
	cr_expect_neq(call_again(stage, "GET"), 0);
	cr_expect_eq(agent.requests, 2);
	agent.connections = 0;
	ANSWER(STAYS(OK), STAYS(OK), STAYS(OK));
	cr_expect_eq(call(stage, "GET"), 0);
	agent.recv_errors = broken; /* the first is of the look at an idle connection */
	cr_expect_eq(call(stage, "GET"), BERTH_FAILED);
	expect_message(stage, "cannot read the agent's answer: ");
	cr_expect_eq(agent.requests, 2);
	cr_expect_eq(call(stage, "GET"), 0);
	cr_expect_eq(agent.connections, 2, "the broken one is not used");
}

CLIENT_TEST(a_request_that_is_not_sent_is_tried_again_on_another_connection)
{
	static const int broken[] = { EPIPE, 0 };
	static const int broken_twice[] = { EPIPE, EPIPE, 0 };
	ANSWER(STAYS(OK), STAYS(OK), STAYS(OK));
	cr_expect_eq(call(stage, "GET"), 0);
	agent.send_errors = broken;
	cr_expect_eq(call(stage, "POST"), 0, "%s", stage->err.msg);
	cr_expect_eq(agent.connections, 2);
	agent.send_errors = broken_twice;
	cr_expect_eq(call(stage, "GET"), BERTH_AGENT_UNAVAILABLE);
	expect_message(stage, "the agent at /run/agent.sock broke the connection: ");
	cr_expect_eq(agent.connections, 3);
	agent.send_errors = broken;
	cr_expect_eq(call(stage, "GET"), BERTH_AGENT_UNAVAILABLE, "the connection is new");
	cr_expect_eq(agent.connections, 4);
}

/* ---- time ---- */

static int call_within(struct stage *stage, int timeout_ms, const char *tag, unsigned wait_s)
{
	const struct client_request request = {
		.method = "GET", .target = "/", .tag = tag, .wait_s = wait_s
	};
	err_clear(&stage->err);
	int code = client_call(
		stage->client, &request, timeout_ms, &stage->response, NULL, &stage->err);
	if (code == 0) {
		client_response_finish(&stage->response);
	}
	return code;
}

CLIENT_TEST(an_agent_that_does_not_answer_is_not_waited_for)
{
	static const int full[] = { EAGAIN, 0 };
	ANSWER(STAYS(""), STAYS(OK));
	cr_expect_eq(call_within(stage, 1, NULL, 0), BERTH_TIMEOUT);
	expect_message(stage, "the agent at /run/agent.sock did not answer in time");
	cr_expect_eq(call_within(stage, 60000, NULL, 0), 0);
	cr_expect_eq(agent.connections, 2, "a late answer is of no other request");
	agent.send_errors = full;
	cr_expect_eq(call_within(stage, 0, NULL, 0), BERTH_TIMEOUT);
}

CLIENT_TEST(a_wait_for_a_change_comes_on_top)
{
	static const int not_yet[] = { EAGAIN, 0 };
	ANSWER(STAYS(OK), STAYS(OK));
	agent.recv_errors = not_yet;
	cr_expect_eq(call_within(stage, 0, "\"1\"", 60), 0, "%s", stage->err.msg);
	cr_expect_eq(agent.polls, 1);
}

/* ---- an agent that cannot be reached ---- */

CLIENT_TEST(a_user_that_may_not_connect_learns_why)
{
	static const int errors[][2] = { { EACCES, 0 }, { EPERM, 0 } };
	for (int i = 0; i < 2; i++) {
		agent.connect_errors = errors[i];
		cr_expect_eq(call(stage, "GET"), BERTH_NO_PATH_PERMISSIONS);
		expect_message(stage, "cannot reach the agent at /run/agent.sock: ");
		expect_message(stage, "socket_mode and socket_group");
	}
}

CLIENT_TEST(an_agent_that_is_not_there_is_unavailable)
{
	static const int errors[] = { ENOENT, 0 };
	agent.connect_errors = errors;
	cr_expect_eq(call(stage, "GET"), BERTH_AGENT_UNAVAILABLE);
	expect_message(stage, "cannot reach the agent at /run/agent.sock: ");
	expect_message(stage, strerror(ENOENT));
	cr_expect_eq(agent.requests, 0);
	struct rlimit limit;
	cr_assert_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
	const struct rlimit none = { 0, limit.rlim_max };
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
	int code = call(stage, "GET");
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
	cr_expect_eq(code, BERTH_FAILED);
	expect_message(stage, "cannot make a socket: ");
}

CLIENT_TEST(a_place_in_the_queue_is_waited_for_until_the_deadline)
{
	static const int full[] = { EAGAIN, EAGAIN, 0 };
	ANSWER(STAYS(OK));
	agent.connect_errors = full;
	cr_expect_eq(call(stage, "GET"), 0, "%s", stage->err.msg);
	cr_expect_eq(agent.polls, 2);
	agent.connect_errors = full;
	cr_expect_eq(client_connect("/run/agent.sock", 0, &stage->err), BERTH_AGENT_UNAVAILABLE);
	expect_message(stage, strerror(EAGAIN));
	cr_expect_eq(agent.polls, 2);
}
