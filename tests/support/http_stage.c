#include "tests/support/http_stage.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "tests/support/shifted_clock.h"

enum { TURNS = 8, PATIENCE_MS = 60000, ANSWER_BYTES = 1024 * 1024 };

struct http_stage http_stage;

static char folder[SCRATCH_PATH];
static int log_fd = -1;

/* libev's wall clock. */
int gettimeofday(struct timeval *restrict now, void *restrict zone)
{
	struct timespec precise;
	int ret = clock_gettime(CLOCK_REALTIME, &precise);
	(void)zone;
	now->tv_sec = precise.tv_sec;
	now->tv_usec = (suseconds_t)(precise.tv_nsec / 1000);
	return ret;
}

/* ---- the server ---- */

static void on_request(void *context, struct http_request *request)
{
	(void)context;
	http_stage.request = request;
	http_stage.requests++;
	http_stage.handle(request);
}

static bool wants_body(void *context, const struct http_request *request)
{
	(void)context;
	(void)request;
	return http_stage.wants_body;
}

static void on_pinned_closed(void *context, uint64_t connection)
{
	(void)context;
	http_stage.pinned = connection;
}

static void open_server(void)
{
	struct err err = ERR_INIT;
	int code = http_open(&http_stage.http, http_stage.loop, &http_stage.options, &err);
	cr_assert_eq(code, 0, "%s", err.msg);
	http_stage_turn();
}

void http_stage_begin(void)
{
	signal(SIGPIPE, SIG_IGN);
	log_fd = memfd_create("log", MFD_CLOEXEC);
	dup2(log_fd, STDERR_FILENO);
	scratch_folder(folder);
	snprintf(http_stage.path, sizeof(http_stage.path), "%s/socket", folder);
	http_stage.loop = ev_loop_new(EVFLAG_AUTO);
	http_stage.handle = http_stage_hello;
	http_stage.wants_body = true;
	http_stage.options = (struct http_options){ .socket_path = http_stage.path,
		.socket_mode = 0600,
		.socket_group_id = (unsigned)-1,
		.socket_fd = -1,
		.listen_fd = -1,
		.max_connections = 40,
		.idle_timeout_ms = 60000,
		.on_request = on_request,
		.wants_body = wants_body,
		.on_pinned_closed = on_pinned_closed };
	open_server();
}

void http_stage_end(void)
{
	http_close(http_stage.http);
	ev_loop_destroy(http_stage.loop);
	cr_assert_eq(rmdir(folder), 0, "something is left behind");
}

void http_stage_open_again(void)
{
	http_close(http_stage.http);
	open_server();
}

void http_stage_open_tcp(void)
{
	http_stage.options.listen = "127.0.0.1:0";
	http_stage_open_again();
}

void http_stage_answer(struct http_request *request, int status, const char *text)
{
	struct http_response *response = http_response_create("text/plain", text, strlen(text));
	http_answer(request, status, response);
	http_response_free(response);
}

void http_stage_hello(struct http_request *request)
{
	http_stage_answer(request, 200, "hello\n");
}

void http_stage_keep(struct http_request *request)
{
	http_on_closed(request, http_stage_on_closed, NULL);
}

void http_stage_on_closed(void *context)
{
	(void)context;
	http_stage.closed++;
}

void http_stage_turn(void)
{
	for (int i = 0; i < TURNS; i++) {
		ev_run(http_stage.loop, EVRUN_NOWAIT);
	}
}

void http_stage_pass(int seconds)
{
	clock_shift_ms += INT64_C(1000) * seconds;
	http_stage_turn();
}

static unsigned pending;

static void count_pending(struct ev_loop *loop)
{
	pending += ev_pending_count(loop);
	ev_invoke_pending(loop);
}

bool http_stage_is_at_rest(void)
{
	pending = 0;
	ev_set_invoke_pending_cb(http_stage.loop, count_pending);
	ev_run(http_stage.loop, EVRUN_NOWAIT);
	ev_set_invoke_pending_cb(http_stage.loop, ev_invoke_pending);
	return pending == 0;
}

struct connection *http_stage_connection(size_t number)
{
	struct list *at = http_stage.http->connections.next;
	for (size_t i = 0; i < number; i++) {
		at = at->next;
	}
	return LIST_ITEM(at, struct connection, link);
}

/* ---- clients ---- */

int http_stage_knock(void)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	strcpy(address.sun_path, http_stage.path);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	cr_assert_eq(connect(fd, (const struct sockaddr *)&address, sizeof(address)), 0, "%s",
		strerror(errno));
	return fd;
}

int http_stage_connect(void)
{
	int fd = http_stage_knock();
	http_stage_turn();
	return fd;
}

static bool is_readable(int fd, int timeout_ms)
{
	struct pollfd poller = { .fd = fd, .events = POLLIN };
	return poll(&poller, 1, timeout_ms) == 1;
}

int http_stage_connect_remote(void)
{
	struct sockaddr_in address;
	socklen_t len = sizeof(address);
	size_t before = http_connections(http_stage.http);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	cr_assert_eq(
		getsockname(http_listen_fd(http_stage.http), (struct sockaddr *)&address, &len), 0);
	cr_assert_eq(connect(fd, (const struct sockaddr *)&address, len), 0);
	for (int i = 0; i < PATIENCE_MS && http_connections(http_stage.http) == before; i++) {
		http_stage_turn();
		poll(NULL, 0, 1);
	}
	return fd;
}

size_t http_stage_send_bytes(int fd, const char *bytes, size_t len)
{
	size_t sent = 0;
	for (ssize_t part = 1; part > 0 && sent < len;) {
		part = write(fd, bytes + sent, len - sent); /* a test may replace send() */
		sent += part > 0 ? (size_t)part : 0;
		http_stage_turn();
	}
	return sent;
}

void http_stage_send(int fd, const char *text)
{
	cr_assert_eq(http_stage_send_bytes(fd, text, strlen(text)), strlen(text));
}

/* Takes lines "Date: Sun, 06 Nov 1994 08:49:37 GMT" out. */
static void drop_dates(char *text)
{
	static const char name[] = "\r\nDate: ";
	for (char *at; (at = strstr(text, name));) {
		char *end = strstr(at + 2, "\r\n");
		cr_assert(end && end - at == HTTP_DATE_BYTES && memcmp(end - 4, " GMT", 4) == 0);
		memmove(at, end, strlen(end) + 1);
	}
}

const char *http_stage_receive(int fd)
{
	static char answer[ANSWER_BYTES];
	size_t len = 0;
	for (ssize_t part = 1; part > 0 && len < sizeof(answer) - 1;) {
		part = recv(fd, answer + len, sizeof(answer) - 1 - len, MSG_DONTWAIT);
		len += part > 0 ? (size_t)part : 0;
		http_stage_turn();
	}
	answer[len] = '\0';
	drop_dates(answer);
	return answer;
}

const char *http_stage_ask(int fd, const char *text)
{
	http_stage_send(fd, text);
	return http_stage_receive(fd);
}

const char *http_stage_ask_remote(int fd, const char *text)
{
	http_stage_send(fd, text);
	for (int i = 0; i < PATIENCE_MS && !is_readable(fd, 1); i++) {
		http_stage_turn();
	}
	return http_stage_receive(fd);
}

bool http_stage_has_ended(int fd)
{
	char byte;
	http_stage_turn();
	return recv(fd, &byte, 1, MSG_DONTWAIT | MSG_PEEK) == 0;
}

bool http_stage_has_closed(int fd)
{
	struct pollfd poller = { .fd = fd };
	http_stage_turn();
	return poll(&poller, 1, 0) == 1 && poller.revents & (POLLHUP | POLLERR);
}

size_t http_stage_logged(const char *text)
{
	static char log[64 * 1024];
	ssize_t len = pread(log_fd, log, sizeof(log) - 1, 0);
	size_t count = 0;
	log[len > 0 ? len : 0] = '\0';
	for (const char *at = log; (at = strstr(at, text)); at++) {
		count++;
	}
	return count;
}
